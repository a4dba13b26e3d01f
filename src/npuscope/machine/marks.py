"""What a field of a machine's records states besides its type: the allowed values, and whether a
change means a new timing or a new compilation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, TypeVar

T = TypeVar("T")


class KeyEffect(Enum):
    """What a key affects; one that compiler and simulator both read is a mapping key."""

    TIMING = "timing"  # a compiled Program stays valid and is timed again
    MAPPING = "mapping"  # the compiler reads it: another value needs another Program


Timed = Annotated[T, KeyEffect.TIMING]
Mapped = Annotated[T, KeyEffect.MAPPING]


@dataclass(frozen=True, slots=True)
class Range:
    """Values from `low` to `high`. The upper limits are far beyond any hardware, and low enough
    that nothing computed from several of them overflows or takes forever."""

    low: float
    high: float

    def fault(self, value: float) -> str:
        """What is wrong with a value; "" where nothing is."""
        if self.low <= value <= self.high:
            return ""
        if value <= 0 < self.low:
            return f"must be above 0, found {_shown(value)}"
        if value < 0 == self.low:
            return f"must not be negative, found {_shown(value)}"
        word, limit = ("least", self.low) if value < self.low else ("most", self.high)
        return f"must be at {word} {_shown(limit)}, found {_shown(value)}"


def _shown(value: float) -> str:
    try:
        return f"{value:,}" if isinstance(value, int) and abs(value) < 1 << 64 else f"{value:g}"
    except OverflowError:
        return "a number of more than 300 digits"


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
