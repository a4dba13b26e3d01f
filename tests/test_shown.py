"""What a noun must say of itself to be shown at all."""

from __future__ import annotations

import pytest

from npuscope.shown import Shown, significant


class Silent(Shown):
    pass


class Telling(Shown):
    def told(self) -> str:
        return "one\nline"


def test_a_value_that_tells_nothing_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="told"):
        Silent()  # type: ignore[abstract]


def test_what_is_told_is_shown_on_one_line() -> None:
    assert repr(Telling()) == "<Telling one\\nline>"
    assert Telling().table() == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.05714, "0.0571"), (3.2913, "3.29"), (983.4, "983"), (19784.3, "19,784"), (0.0, "0")],
)
def test_digits_that_matter_never_become_a_power_of_ten(value: float, text: str) -> None:
    assert significant(value, 3) == text
