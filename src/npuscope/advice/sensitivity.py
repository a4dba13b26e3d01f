"""Which resource is the bottleneck: every timing key improved a little, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from npuscope.building import Build
from npuscope.machine.keys import Key, machine_keys, with_value
from npuscope.machine.marks import Effect
from npuscope.machine.model import Machine
from npuscope.profiling.run import retimer

STEP = 0.1
_NOISE = 1e-9  # of the total: rounding of sums, not a saving


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What a better value of one key saves."""

    key: str
    value: float
    better: float
    saved_ms: float


def sensitivity(made: Build) -> tuple[Sensitivity, ...]:
    """Keys that save time when they are a tenth better; the largest saving first.

    Better is lower for costs and higher for clocks and widths, so both ways are tried.
    """
    timer = retimer(made.program, made.machine, made.graph)
    now_ms = timer.estimate(made.machine).total_ms
    found = []
    for key, better in _trials(made.machine):
        saved_ms = now_ms - timer.estimate(with_value(made.machine, key, better)).total_ms
        if saved_ms > now_ms * _NOISE:
            found.append(Sensitivity(key.name, key.value, better, saved_ms))
    return tuple(sorted(found, key=lambda row: -row.saved_ms))


def _trials(machine: Machine) -> Iterator[tuple[Key, float]]:
    for key in machine_keys(machine).values():
        if key.effect is Effect.TIMING and key.kind is float and key.value:
            yield key, key.value * (1 - STEP)
            yield key, key.value * (1 + STEP)
