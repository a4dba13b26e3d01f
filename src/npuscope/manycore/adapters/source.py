"""A file to be recognised and read: its first bytes, its size, and what goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from npuscope.bounded_file import Kind, read_bytes, read_head
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

    def read(self, kind: Kind) -> bytes:
        """The whole file, where it is not larger than such a file can be."""
        return read_bytes(self.path, kind)


def open_source(path: str | Path) -> Source:
    path = Path(path)
    return Source(path, read_head(path, HEAD_BYTES), path.stat().st_size)
