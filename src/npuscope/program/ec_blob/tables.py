"""Coefficients between a unit's own memory and buffers of a Program.

An arithmetic unit holds 512 entries of A, B and C; an activation unit its two tables. On the
device they have no address, so lifted ones get a pool of their own, and lowered ones are taken
from the Program's constants.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct, field

from npuscope.errors import FileError, TargetError
from npuscope.program.model import Buffer, Pool
from npuscope.program.units import Ref

COEFFICIENT_POOL = "coefficients"
# No memory of the device starts here, and no pool file names it.
_POOL_ADDRESS = 0x0
_ALIGN = 16
# Far above what one blob can load; a small hostile blob could ask for very much.
_MAX_BYTES = 1 << 24

Words = Mapping[int, int]  # words of a unit's memory, by index


class Tables(Struct):
    """Collects what blobs load into units. Equal bytes are kept once."""

    constants: dict[str, np.ndarray] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    size_bytes: int = 0
    _known: dict[tuple[str, bytes], Ref] = field(default_factory=dict)

    def keep(self, name: str, values: np.ndarray) -> Ref:
        """A place for the values, under this name if they are new."""
        key = (values.dtype.str, values.tobytes())
        if key not in self._known:
            if self.size_bytes + values.nbytes > _MAX_BYTES:
                raise FileError(f"more than {_MAX_BYTES} bytes of coefficients")
            self.constants[name] = values
            self.buffers.append(
                Buffer(
                    name,
                    values.nbytes,
                    values.shape,
                    values.dtype.itemsize * 8,
                    values.shape[-1],
                    pool=COEFFICIENT_POOL,
                    offset=self.size_bytes,
                    last=1 << 15,
                    is_param=True,
                    signed=values.dtype.kind == "i",
                    coefficients=True,
                )
            )
            self.size_bytes += -(-values.nbytes // _ALIGN) * _ALIGN
            self._known[key] = Ref(name)
        return self._known[key]

    def pool(self) -> Pool:
        return Pool(
            COEFFICIENT_POOL,
            _POOL_ADDRESS,
            self.size_bytes,
            byte_width=8,
            freq_ratio=1.0,
            writable=False,
            used_bytes=self.size_bytes,
        )


class Vectors(Struct, frozen=True):
    """Entries of an arithmetic unit's memory, 16 bits each."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray

    @property
    def pairs(self) -> np.ndarray:
        """{B,C} as one number of 32 bits."""
        high = self.b.astype(np.int32) << 16
        return (high | self.c.astype(np.int32) & 0xFFFF).astype("<i4")


def lift_vectors(words: Words, length: int) -> Vectors:
    """Entry i is two words: A low and B high, then C. What was never written is 0."""
    first = np.array([words.get(2 * i, 0) for i in range(length)], np.uint32)
    second = np.array([words.get(2 * i + 1, 0) for i in range(length)], np.uint32)
    return Vectors(_short(first), _short(first >> 16), _short(second))


def lower_vectors(vectors: Vectors) -> list[int]:
    rows = zip(vectors.a, vectors.b, vectors.c, strict=True)
    return [
        word
        for a, b, c in rows
        for word in (int(a) & 0xFFFF | (int(b) & 0xFFFF) << 16, int(c) & 0xFFFF)
    ]


def _short(words: np.ndarray) -> np.ndarray:
    return (words & 0xFFFF).astype(np.uint16).view("<i2")


def constant(constants: Mapping[str, np.ndarray], place: Ref, size_bytes: int) -> bytes:
    """Bytes of a Program's constant that the blob has to carry."""
    data = constants.get(place.buffer)
    raw = b"" if data is None else np.ascontiguousarray(data).tobytes()
    part = raw[place.offset : place.offset + size_bytes]
    if place.offset < 0 or len(part) < size_bytes:
        raise TargetError(
            f"coefficients '{place.buffer}' do not have {size_bytes} bytes at {place.offset}",
            hint="a program without its constants cannot become a blob",
        )
    return part
