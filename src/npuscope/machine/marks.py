"""What a field of a machine's records states besides its type: the allowed values, and whether a
change means a new timing or a new compilation."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeVar

from npuscope.plain_data import Range

T = TypeVar("T")


class KeyEffect(Enum):
    """What a key affects; one that compiler and simulator both read is a mapping key."""

    TIMING = "timing"  # a compiled Program stays valid and is timed again
    MAPPING = "mapping"  # the compiler reads it: another value needs another Program


Timed = Annotated[T, KeyEffect.TIMING]
Mapped = Annotated[T, KeyEffect.MAPPING]


Count = Annotated[int, Range(0, 1 << 16)]
Some = Annotated[int, Range(1, 1 << 16)]  # a count of at least one
Elements = Annotated[int, Range(1, 1 << 32)]
Bytes = Annotated[int, Range(1, 1 << 40)]
Room = Annotated[int, Range(0, 1 << 40)]  # bytes, 0 allowed
Cycles = Annotated[float, Range(0, 1e9)]
Mhz = Annotated[float, Range(0.001, 1e6)]
Score = Annotated[int, Range(-(1 << 31), 1 << 31)]  # rank used by the compiler
Rate = Annotated[float, Range(1e-6, 1e6)]
Milliwatts = Annotated[float, Range(0, 1e6)]
Micros = Annotated[float, Range(0, 1e7)]
