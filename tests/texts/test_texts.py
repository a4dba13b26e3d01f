"""What every verb prints, word for word: see `script`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from texts.script import FOLDER, HIDDEN, renewed, texts


@pytest.mark.parametrize("path", texts(), ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_text(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, HIDDEN, None)
    text = path.read_text(encoding="utf-8")
    assert text.splitlines() == renewed(text).splitlines()
