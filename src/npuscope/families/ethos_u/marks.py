"""Whether a file was made for Ethos-U, by its bytes: quick, for every model is asked."""

from __future__ import annotations

from pathlib import Path

from npuscope.bounded_file import MODEL, read_bytes, read_head

TFLITE = b"TFL3"
_OPERATOR = b"ethos-u\0"


def is_vela_file(path: Path) -> bool:
    if not path.is_file() or read_head(path, 8)[4:] != TFLITE:
        return False
    return _OPERATOR in read_bytes(path, MODEL)
