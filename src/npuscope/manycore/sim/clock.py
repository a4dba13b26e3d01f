"""The cores' clock: cycles over ticks of the common timer, in steps of constant frequency."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from npuscope.errors import TargetError
from npuscope.manycore.records import UTIMER_HZ

# Ten minutes at 2 ms a step: whoever asks for more has a damaged program.
_MOST_STEPS = 300_000


class CoreClock:
    """One clock for the cores of a device; it moves to a neighbouring step now and then."""

    def __init__(self, steps_hz: Sequence[float], step_ticks: float, random: Random) -> None:
        self._steps = [hz / UTIMER_HZ for hz in sorted(steps_hz)]
        self._step_ticks = step_ticks
        self._random = random
        self._place = random.randrange(len(self._steps))
        self._rates = [self._steps[self._place]]
        self._before = [0.0]  # cycles up to the begin of each step

    def cycles_at(self, tick: float) -> float:
        """Cycles since tick 0."""
        step = self._step_of(tick)
        return self._before[step] + (tick - step * self._step_ticks) * self._rates[step]

    def after(self, tick: float, cycles: float) -> float:
        """The tick at which that many cycles have passed since another."""
        step = self._step_of(tick)
        while True:
            end = (step + 1) * self._step_ticks
            possible = (end - tick) * self._rates[step]
            if cycles <= possible:
                return tick + cycles / self._rates[step]
            cycles -= possible
            tick, step = end, step + 1
            self._grow(step)

    def _step_of(self, tick: float) -> int:
        step = int(tick / self._step_ticks)
        self._grow(step)
        return step

    def _grow(self, step: int) -> None:
        if step > _MOST_STEPS:
            raise TargetError(
                f"one inference takes more than {_MOST_STEPS:,} steps of the core's clock",
                where="machine",
                hint="sizes in the program, or rates of the machine, are out of all proportion",
            )
        while len(self._rates) <= step:
            self._before.append(self._before[-1] + self._rates[-1] * self._step_ticks)
            self._place = min(max(self._place + self._random.randint(-1, 1), 0), self._last)
            self._rates.append(self._steps[self._place])

    @property
    def _last(self) -> int:
        return len(self._steps) - 1
