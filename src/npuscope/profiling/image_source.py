"""What `run` is given: an image with its parameters beside it, or a build to package; and how."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from npuscope.boards.emulated.boot import Mode, Placed
from npuscope.boards.emulated.memory import FLASH_BYTES
from npuscope.bounded_file import LOADABLE, read_bytes
from npuscope.errors import FileError, UsageError
from npuscope.loadable.build import package
from npuscope.loadable.codes import PackageOptions
from npuscope.loadable.layout import Header
from npuscope.option_rows import DEFAULT_ADDRESS
from npuscope.text import safe_terminal

DEFAULT_IMAGE = "build/network_rel.bin"
MODES = ("copy", "xip", "no-flash", "no-run", "max-speed")
_CPU = "cortex-m33"  # of the emulated board


def parse_modes(text: str) -> set[str]:
    words = {word.strip() for word in text.split(",") if word.strip()}
    unknown = sorted(words - set(MODES))
    if unknown:
        raise UsageError(
            f"unknown mode '{safe_terminal(unknown[0])}'",
            where="--mode",
            hint=f"known: {', '.join(MODES)}",
        )
    if {"copy", "xip"} <= words:
        raise UsageError("an image is copied or executed in place, not both", where="--mode")
    return words


def parse_addresses(text: str) -> tuple[int, int]:
    parts = [part.strip() for part in text.split(",")]
    defaults = DEFAULT_ADDRESS.split(",")
    try:
        found = [int(part, 0) for part in (*parts, *defaults[len(parts) :])]
    except ValueError:
        found = []
    if len(found) != 2 or not all(0 <= value < 1 << 32 for value in found):
        raise UsageError(
            f"expected NET[,PARAMS], found '{safe_terminal(text)}'",
            where="--address",
            hint=f"such as {DEFAULT_ADDRESS}",
        )
    return found[0], found[1]


def place(source: Path, modes: set[str], addresses: tuple[int, int]) -> Placed:
    image, params = open_image(source)
    mode = (Mode.XIP if "xip" in modes else Mode.COPY) | Mode.CLEAR
    return Placed(image, params, *addresses, mode)


def open_image(source: Path) -> tuple[bytes, bytes | None]:
    """An image with its parameters beside it, or a build folder, packaged for the board."""
    if source.is_dir():
        files = list(package(source, PackageOptions(cpu=_CPU)).files.values())
        return files[0], files[1] if len(files) > 1 else None
    image, beside = _bytes(source), parameters_beside(source)
    # Beside a whole image the file is an older one.
    is_split = len(image) >= Header.BYTES and not Header.unpack(image).params_offset
    return image, _bytes(beside) if is_split and beside.is_file() else None


def parameters_beside(source: Path) -> Path:
    return source.with_name(f"{source.stem}_params{source.suffix}")


def _bytes(path: Path) -> bytes:
    hint = "`npuscope package DIR` makes it (for the emulated board with --cpu cortex-m33)"
    data = read_bytes(path, LOADABLE, hint=hint)
    if len(data) > FLASH_BYTES:
        raise FileError(
            f"has {len(data):,} bytes, the board's flash {FLASH_BYTES:,}",
            where=safe_terminal(str(path)),
        )
    return data


@contextmanager
def named(source: Path) -> Iterator[None]:
    """What is wrong in a file is told with the file's name."""
    try:
        yield
    except FileError as error:
        name = safe_terminal(str(source))
        where = f"{name}, {error.where}" if error.where else name
        raise FileError(error.message, where=where, hint=error.hint) from None
