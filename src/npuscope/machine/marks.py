"""What a field of a machine's records says of its key, beside its type: the values that it may
have, and what changing it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, TypeVar

T = TypeVar("T")


class KeyEffect(Enum):
    """A key that the compiler and the simulator both read counts as mapping."""

    TIMING = "timing"  # a compiled Program stays as it is and is timed anew
    MAPPING = "mapping"  # the compiler reads it: another value asks for another Program


Timed = Annotated[T, KeyEffect.TIMING]
Mapped = Annotated[T, KeyEffect.MAPPING]


@dataclass(frozen=True, slots=True)
class Range:
    """Values from `low` to `high`. The high ends are far beyond any hardware, and low enough that
    nothing computed from several of them overflows or takes for ever."""

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
