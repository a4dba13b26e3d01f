"""A file to be recognised and read: its first bytes, its size, and what goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from npuscope.errors import FileError
from npuscope.text import safe_terminal

# Enough for a magic number, a title or the first events.
HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Companions:
    """Other files that an adapter may need, as the user named them."""

    qpc: Path | None = None  # program that the buffer belongs to
    layout: Path | None = None  # of a raw buffer that does not explain itself
    descriptors: Path | None = None  # protobuf FileDescriptorSet
    ignore_uuid: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    path: Path
    head: bytes
    size: int

    @property
    def place(self) -> str:
        return safe_terminal(str(self.path))

    def read(self, limit: int) -> bytes:
        """The whole file, where it is not larger than such a file can be."""
        if self.size > limit:
            raise FileError(
                f"{self.size} bytes, more than the {limit} that are read of such a file",
                where=self.place,
            )
        return read_bytes(self.path, limit)


def open_source(path: str | Path) -> Source:
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        size = path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error
    return Source(path, head, size)


def read_bytes(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(data) > limit:
        raise FileError(f"more than {limit} bytes", where=safe_terminal(str(path)))
    return data


def _unreadable(path: Path, error: OSError) -> FileError:
    reason = error.strerror or type(error).__name__
    return FileError(f"cannot be read: {reason}", where=safe_terminal(str(path)))
