"""Whether a file was made for Ethos-U, by its bytes: quick, for every model is asked."""

from __future__ import annotations

from pathlib import Path

from npuscope.bounded_file import MODEL, read_bytes, read_head

TFLITE, EXECUTORCH = b"TFL3", b"ET"
_OPERATOR, _DELEGATE = b"ethos-u", b"vela_bin_stream\0"


def is_executorch(head: bytes) -> bool:
    return head[4:6] == EXECUTORCH


def program_in(path: Path) -> Path | None:
    """The file itself, or the one program in a folder, as `compile -o` writes it."""
    if path.is_dir():
        files = [file for file in path.glob("*_vela.tflite") if is_program(file)]
        return files[0] if len(files) == 1 else None
    return path if is_program(path) else None


def is_program(path: Path) -> bool:
    if not path.is_file():
        return False
    head = read_head(path, 8)
    if is_executorch(head):
        return _DELEGATE in read_bytes(path, MODEL)
    if head[4:] != TFLITE:
        return False
    data = read_bytes(path, MODEL)
    from npuscope.files.tflite.file import custom_operators
    from npuscope.files.tflite.flat_table import WILD_OFFSET

    try:
        return _OPERATOR in custom_operators(data)
    except WILD_OFFSET:  # whose file it was can still be told
        return _OPERATOR in data
