"""What a field of a machine's records says of its key, beside its type: the values that it may
have, and what changing it asks for."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeVar

from npuscope.plain_data import Range

T = TypeVar("T")


class KeyEffect(Enum):
    """A key that the compiler and the simulator both read counts as mapping."""

    TIMING = "timing"  # a compiled Program stays as it is and is timed anew
    MAPPING = "mapping"  # the compiler reads it: another value asks for another Program


Timed = Annotated[T, KeyEffect.TIMING]
Mapped = Annotated[T, KeyEffect.MAPPING]


Count = Annotated[int, Range(0, 1 << 16)]
Some = Annotated[int, Range(1, 1 << 16)]  # a count of what must be there
Elements = Annotated[int, Range(1, 1 << 32)]
Bytes = Annotated[int, Range(1, 1 << 40)]
Room = Annotated[int, Range(0, 1 << 40)]  # bytes that may be none
Cycles = Annotated[float, Range(0, 1e9)]
Mhz = Annotated[float, Range(0.001, 1e6)]
Score = Annotated[int, Range(-(1 << 31), 1 << 31)]  # the compiler's own rank
Rate = Annotated[float, Range(1e-6, 1e6)]
Milliwatts = Annotated[float, Range(0, 1e6)]
Micros = Annotated[float, Range(0, 1e7)]
