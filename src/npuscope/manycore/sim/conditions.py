"""What differs from one inference to the next: clock, skew, spread, doorbells; all by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import numpy as np

from npuscope.manycore.sim.clock import CoreClock
from npuscope.manycore.sim.plan import Plan

INPUT_PORT, OUTPUT_PORT = 100, 101


@dataclass(frozen=True, slots=True)
class Conditions:
    """Of one inference. Ticks count from its begin."""

    clocks: tuple[CoreClock, ...]  # by device
    skew: tuple[tuple[int, ...], ...]  # by device and core
    work: list[float]  # by task: how much more or less than its cost
    share: list[float]  # by record: how much of the op's work its thread has
    end_ticks: list[float]  # by task, of the pseudo-op that ends an inference
    rings: Mapping[int, int]  # by host port


def conditions_of(plan: Plan, seed: int, pattern: int, rings: Mapping[int, int]) -> Conditions:
    """The same seed and pattern give the same inference."""
    random = np.random.default_rng([seed, pattern])
    tasks = len(plan.tasks)
    stats = plan.costs.machine.stats
    skew = random.integers(0, stats.start_skew_ticks + 1, (plan.devices, plan.cores))
    low, high = stats.end_ticks
    return Conditions(
        tuple(_clock(plan, seed, pattern, device) for device in range(plan.devices)),
        tuple(tuple(int(ticks) for ticks in cores) for cores in skew),
        (1 + stats.end_spread * (random.random(tasks) - 0.5)).tolist(),
        _shares(plan, random),
        random.uniform(low, high, tasks).tolist(),
        rings,
    )


def _clock(plan: Plan, seed: int, pattern: int, device: int) -> CoreClock:
    costs = plan.costs
    random = Random(f"{seed} {pattern} {device}")
    return CoreClock(costs.steps_hz, costs.step_ticks, random)


def _shares(plan: Plan, random: np.random.Generator) -> list[float]:
    """Threads of a group end apart; the slowest has the whole time of the op."""
    shares = 1 - plan.costs.machine.stats.end_spread * random.random(plan.rows)
    first = np.array([task.row for task in plan.tasks], np.int64)
    count = np.array([task.rows for task in plan.tasks], np.int64)
    slowest = first + (random.random(len(first)) * count).astype(np.int64)
    shares[slowest] = 1.0
    result: list[float] = shares.tolist()
    return result
