"""Foreign names on a terminal."""

from __future__ import annotations

import pytest

from npuscope.text import safe_terminal


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("model/conv_1:0 größe", "model/conv_1:0 größe"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\r\nb\tc\x00", r"a\r\nb\tc\x00"),
        ("right\u202eleft", r"right\u202eleft"),
        ("\ud800", r"\ud800"),
    ],
)
def test_safe_terminal(name: str, shown: str) -> None:
    assert safe_terminal(name) == shown
