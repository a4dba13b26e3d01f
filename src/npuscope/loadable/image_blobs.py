"""Epoch-controller blobs inside the bytes of an image."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from npuscope.errors import FileError
from npuscope.loadable.codes import WORD_BYTES
from npuscope.program.ec_blob.binary import CONTAINERS, EcBinary, read_binary
from npuscope.program.ec_blob.instructions import HEADER_WORDS, MAGIC, Label

_MAGICS = re.compile(b"|".join(re.escape(struct.pack("<I", m)) for m in (MAGIC, *CONTAINERS)))
# A loader linked into the image holds the numbers too; more than a few such are somebody's joke.
_MOST_FALSE = 64
_MOST_BYTES = 4 << 20  # the largest blob seen has 0.2 MB


@dataclass(frozen=True, slots=True)
class FoundBlob:
    """`offset` counts from the start of its file; `container` is None for a plain blob."""

    offset: int
    size_bytes: int
    epochs: tuple[int, ...]
    container: int | None
    relocations: tuple[str, ...]


def find_blobs(data: bytes, start: int = 0) -> tuple[FoundBlob, ...]:
    """All blobs from byte `start` on. The magic number alone does not make one."""
    found: list[FoundBlob] = []
    false = 0
    hit = _MAGICS.search(data, start)
    while hit and false < _MOST_FALSE:
        at = hit.start()
        blob = _blob_at(data, at) if at % WORD_BYTES == 0 else None
        if blob:
            found.append(blob)
        else:
            false += 1
        hit = _MAGICS.search(data, at + (blob.size_bytes if blob else 1))
    return tuple(found)


def _blob_at(data: bytes, at: int) -> FoundBlob | None:
    size = _size(data, at)
    if not size or size > _MOST_BYTES or at + size > len(data):
        return None
    try:
        binary = read_binary(data[at : at + size])
    except FileError:
        return None
    return _described(binary, at, size)


def _size(data: bytes, at: int) -> int:
    """Bytes up to the end of the code; 0 where no code is announced."""
    if _word(data, at) == MAGIC:
        return (HEADER_WORDS + _word(data, at + WORD_BYTES)) * WORD_BYTES
    # The blob's offset is the last word of a container's header, whose length its kind tells.
    words = 3 if _word(data, at) == min(CONTAINERS) else 4
    blob = _word(data, at + words * WORD_BYTES)
    if _word(data, at + blob) != MAGIC:
        return 0
    return blob + _size(data, at + blob)


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + WORD_BYTES], "little")


def _described(binary: EcBinary, at: int, size: int) -> FoundBlob | None:
    """Code that does nothing is the number alone."""
    if not binary.instructions:
        return None
    labels = tuple(i.number for i in binary.instructions if isinstance(i, Label))
    names = tuple(row.identifier for row in binary.relocations)
    return FoundBlob(at, size, labels, binary.container, names)
