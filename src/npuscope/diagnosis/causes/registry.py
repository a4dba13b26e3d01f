"""Causes by id: a function each that gives its faults, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum

from msgspec import Struct

from npuscope.diagnosis.fault import BoardFault
from npuscope.diagnosis.scene import BoardScene


class FaultPlace(Enum):
    """Where it is that the board departs from the simulation."""

    WEIGHTS = "weights"
    INPUT = "input"
    MEMORY = "memory"
    PROGRAM = "program"
    OUTPUT = "output"


class FaultCause(Struct, frozen=True):
    """`title` completes "it looks as if ...". `often`: how many of 63 public cases had it, the
    order among causes that the evidence cannot tell apart. `near` gives faults closer to one that
    came near, for causes with an axis."""

    id: str
    kind: FaultPlace
    title: str
    remedy: str
    often: int
    faults: Callable[[BoardScene], Iterator[BoardFault]]
    near: Callable[[BoardScene, float, float], Iterator[BoardFault]] | None = None


CAUSES: dict[str, FaultCause] = {}
Faults = Callable[[BoardScene], Iterator[BoardFault]]


def cause(
    id_: str,
    kind: FaultPlace,
    remedy: str,
    often: int = 0,
    near: Callable[[BoardScene, float, float], Iterator[BoardFault]] | None = None,
    title: str = "",
) -> Callable[[Faults], Faults]:
    """Decorator: the docstring is the title, where there is no other."""

    def register(faults: Faults) -> Faults:
        words = title or (faults.__doc__ or "").strip().rstrip(".")
        CAUSES[id_] = FaultCause(id_, kind, words, remedy, often, faults, near)
        return faults

    return register


def all_causes() -> tuple[FaultCause, ...]:
    """Those that public cases show most often come first."""
    from npuscope.diagnosis.causes import (  # noqa: F401
        colours,
        inputs,
        memory,
        old_inputs,
        outputs,
        programs,
        weights,
    )

    return tuple(sorted(CAUSES.values(), key=lambda cause: -cause.often))
