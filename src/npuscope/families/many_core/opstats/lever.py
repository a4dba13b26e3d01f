"""Levers: what a change of program or machine would bring."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct

from npuscope.shown import counted, significant


class LeverKind(StrEnum):
    """What a lever changes, in words."""

    KEEP = "constants kept in VTCM"
    JOIN = "ops joined, no barriers between them"
    INTEGERS = "8-bit integers instead of half floats"
    BATCH = "times the batch"
    SMALLER = "in a batch"
    CORES = "cores"
    QUEUE = "inferences in flight"


class Lever(Struct, frozen=True):
    """`gain` is how many times more inferences a second the device makes with it."""

    kind: LeverKind
    gain: float
    ms: float  # of one run
    bound: bool = False  # the gain is what it could be at most
    obstacle: str = ""  # why it cannot be had
    most: float | None = None  # the gain if engines overlap as well as they can
    batch: int = 1  # times the inferences of a run; in a run where they are fewer
    cores: int = 0  # of each copy of the program
    copies: int = 1
    in_flight: int = 1

    @property
    def name(self) -> str:
        if self.kind is LeverKind.BATCH:
            return f"{self.batch} {self.kind.value}"
        if self.kind is LeverKind.SMALLER:
            return f"only {self.batch} {self.kind.value}"
        if self.kind is LeverKind.QUEUE:
            return f"{self.in_flight} {self.kind.value} (-S {self.in_flight})"
        if self.kind is LeverKind.CORES:
            each = counted(self.cores, "core")
            return f"{self.copies} activations on {each} each" if self.copies > 1 else each
        return self.kind.value

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        names = ("name", "gain", "ms", "bound", "obstacle", "most")
        return {name: getattr(self, name) for name in names}

    @property
    def sentence(self) -> str:
        gain = f"{self.name}: {self.factor} throughput, {significant(self.ms, 4)} ms per run"
        return f"{gain}, but {self.obstacle}" if self.obstacle else gain

    @property
    def factor(self) -> str:
        """The gain as it is printed."""
        if self.most is not None:
            return f"{self.gain:.2f} to {self.most:.2f}x"
        return f"{'up to ' if self.bound else ''}{self.gain:.2f}x"


LEAST_GAIN = 0.02  # a smaller one is not worth a change


def helpful(levers: Iterable[Lever]) -> tuple[Lever, ...]:
    """Those that help, the best first; those that cannot be had last."""
    rest = [lever for lever in levers if lever.gain > 1 + LEAST_GAIN]
    return tuple(sorted(rest, key=lambda lever: (bool(lever.obstacle), -lever.gain, lever.name)))
