"""Expected texts live in tests/golden; NPUSCOPE_UPDATE_GOLDEN=1 writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path(__file__).parent / "golden"


def check_golden(name: str, text: str) -> None:
    path = _FOLDER / name
    if os.environ.get("NPUSCOPE_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
