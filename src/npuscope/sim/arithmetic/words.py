"""What travels on a link: frames of words, and how a consumer reads them.

A unit is a generator. It asks for input with `Take` and gives each frame of output as an array.
Words are the raw value in 32 bits; sign and width are the consumer's business.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npuscope.errors import TargetError
from npuscope.program.units import Decun, Streng, Unit

Words = NDArray[np.int32]
Wide = NDArray[np.int64]  # intermediates of a unit; 64 bits hold every one of them

# A whole frame as the producer made it, for units without a geometry of their own.
ANY_FRAME = 0


@dataclass(frozen=True, slots=True)
class Take:
    """A unit's wish: so many words from one of its ports."""

    port: int
    words: int


Stream = Generator[Take | Words, Words, None]

_NARROW = {(1, False): np.int8, (2, False): np.int16, (1, True): np.uint8, (2, True): np.uint16}


def extend(words: Words, nbytes: int, unsigned: bool = False) -> np.ndarray:
    """The low `nbytes` of each word, sign- or zero-extended."""
    if nbytes >= 4:
        return words
    if nbytes == 3:
        return words & 0xFFFFFF if unsigned else (words << 8) >> 8
    return words.astype(_NARROW[nbytes, unsigned])


def unpack(words: Words, nbytes: int) -> NDArray[np.uint8]:
    """The low `nbytes` of each word as a row of bytes, lowest first."""
    return words.astype("<i4").view(np.uint8).reshape(-1, 4)[:, :nbytes]


def word_bytes(source: Unit) -> int:
    """Bytes that a unit puts into one word of its output link."""
    if isinstance(source, Streng):
        return source.element_bytes
    return 1 if isinstance(source, Decun) else source.outbytes_o


def refuse_fields(unit: Unit, *names: str) -> None:
    """Stop on a set field whose effect on values nobody has seen."""
    for name in names:
        if getattr(unit, name):
            raise TargetError(
                f"not executed: semantics of {unit.unit} {name} {getattr(unit, name)} "
                "are not known",
                where=f"{unit.unit} {unit.id}",
            )


def refuse_operation(unit: Unit, operation: str) -> TargetError:
    return TargetError(
        f"not executed: semantics of {unit.unit} {operation} are not known",
        where=f"{unit.unit} {unit.id}",
    )
