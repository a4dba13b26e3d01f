"""What differs from one inference to the next: clock, skew, spread, doorbells; all by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np
from msgspec import Struct

from npuscope.errors import TargetError
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.families.many_core.sim.plan import CardPlan
from npuscope.structs import replace

# --- The cores' clock: cycles over timer ticks, in steps of constant frequency ---

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
                hint="a size in the program or a rate of the machine is far out of range",
            )
        while len(self._rates) <= step:
            self._before.append(self._before[-1] + self._rates[-1] * self._step_ticks)
            place = self._place + self._random.randint(-1, 1)
            self._place = min(max(place, 0), len(self._steps) - 1)
            self._rates.append(self._steps[self._place])


INPUT_PORT, OUTPUT_PORT = 100, 101


class Conditions(Struct, frozen=True):
    """Of one inference. Ticks count from its begin."""

    clocks: tuple[CoreClock, ...]  # by device
    skew: tuple[tuple[int, ...], ...]  # by device and core
    work: list[float]  # by task: how much more or less than its cost
    share: list[float]  # by record: how much of the op's work its thread has
    end_ticks: list[float]  # by task, of the pseudo-op that ends an inference
    rings: Mapping[int, int]  # by host port


def conditions_of(plan: CardPlan, seed: int, pattern: int, rings: Mapping[int, int]) -> Conditions:
    """The same seed and pattern give the same inference."""
    random = np.random.default_rng([seed, pattern])
    tasks = len(plan.tasks)
    stats = plan.costs.machine.stats
    skew = random.integers(0, stats.start_skew_ticks + 1, (plan.devices, plan.cores))
    low, high = stats.end_ticks
    # Copies of a network on one device have one clock.
    costs, copies = plan.costs, plan.costs.copies
    own = [
        CoreClock(costs.steps_hz, costs.step_ticks, Random(f"{seed} {pattern} {device}"))
        for device in range(plan.devices // copies)
    ]
    return Conditions(
        tuple(clock for clock in own for _ in range(copies)),
        tuple(tuple(int(ticks) for ticks in cores) for cores in skew),
        (1 + stats.end_spread * (random.random(tasks) - 0.5)).tolist(),
        _shares(plan, random),
        (plan.costs.pace * random.uniform(low, high, tasks)).tolist(),
        rings,
    )


def steady_conditions(plan: CardPlan) -> Conditions:
    """The clock stays as the machine states it, and the host is never waited for."""
    clock = CoreClock([plan.costs.machine.core_hz], plan.costs.step_ticks, Random(0))
    return replace(conditions_of(plan, 0, 0, {}), clocks=(clock,) * plan.devices)


def _shares(plan: CardPlan, random: np.random.Generator) -> list[float]:
    """Threads of a group end apart; the slowest has the whole time of the op."""
    shares = 1 - plan.costs.machine.stats.end_spread * random.random(plan.rows)
    first = np.array([task.row for task in plan.tasks], np.int64)
    count = np.array([task.rows for task in plan.tasks], np.int64)
    slowest = first + (random.random(len(first)) * count).astype(np.int64)
    shares[slowest] = 1.0
    result: list[float] = shares.tolist()
    return result


# --- Options and result of a run ---


class RunOptions(Struct, frozen=True):
    """Samples are inferences whose records are kept: from an iteration on, after a delay."""

    iterations: int = 1
    samples: int = 1
    start_iteration: int = 0
    start_delay_ms: float = 0.0
    seed: int = 0
    stats_overhead: bool = False
    devices: tuple[int, ...] = ()  # numbers of the devices; from 0 on where none are given
    collect: bool = True  # device records, not only what the host sees
    activations: int = 1  # copies of the network, each on its own cores
    time_us: float | None = None  # run until then instead of a number of iterations
    set_size: int | None = None  # inferences that may wait; None: as the machine says
    program: int = 0  # in the names of files


class Iteration(Struct, frozen=True):
    """One inference as the host sees it, in ticks of the common timer."""

    number: int
    enqueued: float
    submitted: float
    input_begin: float
    doorbell: float
    device_start: int
    device_end: int
    output_begin: float
    output_end: float
    answered: float  # the host takes up the interrupt
    completed: float
    input_wait: float
    output_wait: float
    queued: int  # inferences before it that had not completed

    @property
    def exec_us(self) -> float:
        return to_us(self.device_end - self.device_start)

    @property
    def input_wait_us(self) -> float:
        return to_us(self.input_wait)

    @property
    def output_wait_us(self) -> float:
        return to_us(self.output_wait)


class RunResult(Struct, frozen=True):
    """`stats` has one value per device and sample, `sampled` the iterations they belong to."""

    iterations: tuple[Iteration, ...]
    sampled: tuple[int, ...]
    stats: tuple[Stats, ...]
    utc_ns: int  # of timer tick 0
    notes: tuple[str, ...] = ()

    @property
    def total_us(self) -> float:
        """From the first request to the last answer."""
        return to_us(self.iterations[-1].completed - self.iterations[0].enqueued)


def to_us(ticks: float) -> float:
    return ticks * 1e6 / UTIMER_HZ


def to_ticks(us: float) -> float:
    return us * UTIMER_HZ / 1e6
