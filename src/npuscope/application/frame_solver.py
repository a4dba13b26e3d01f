"""The order of a frame's steps by OR-tools' CP-SAT, where threads leave a choice."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from npuscope.application import solver as placing
from npuscope.application.request import Application
from npuscope.application.schedule import Cost, Job, Slot, waits_for

NAME = "CP-SAT"
_TICKS = 1_000  # a millisecond
_SECONDS = 1.0
_MOST = 300  # jobs; more take longer than a better order is worth


class Order(Struct, frozen=True):
    slots: tuple[Slot, ...]
    latency_ms: float
    bound_ms: float


def solved(
    application: Application, costs: Mapping[str, Cost], jobs: Sequence[Job], latest_ms: float
) -> Order | None:
    """The shortest frame found; None where the solver is missing or finds nothing."""
    if not placing.is_there() or len(jobs) > _MOST:
        return None
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    horizon = math.ceil(latest_ms * _TICKS) + 2 * len(jobs)
    starts = [model.new_int_var(0, horizon, "") for _ in jobs]
    span = model.new_int_var(0, horizon * 2, "")
    spans: defaultdict[str, list[Any]] = defaultdict(list)
    for place, ((step, _), waits) in enumerate(
        zip(jobs, waits_for(application, jobs), strict=True)
    ):
        cost = costs[step.name]
        # Whole ticks around each part: rounded to the nearest, neighbours would overlap.
        for unit, low, high in cost.busy:
            at = math.floor(low * _TICKS)
            size = math.ceil(high * _TICKS) - at
            spans[unit].append(model.new_fixed_size_interval_var(starts[place] + at, size, ""))
        for other in waits:
            length = math.ceil(costs[jobs[other][0].name].ms * _TICKS)
            model.add(starts[place] >= starts[other] + length)
        model.add(span >= starts[place] + math.ceil(cost.ms * _TICKS))
    for intervals in spans.values():
        model.add_no_overlap(intervals)
    model.minimize(span)
    search = cp_model.CpSolver()
    search.parameters.max_time_in_seconds = _SECONDS
    search.parameters.num_workers = 1
    search.parameters.random_seed = 0
    if search.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    slots = tuple(
        _slot(job, costs[job[0].name], search.value(start) / _TICKS)
        for job, start in zip(jobs, starts, strict=True)
    )
    latency = max(slot.end_ms for slot in slots)
    # Each of the jobs in a row may have been rounded up by one.
    bound = (search.best_objective_bound - len(jobs)) / _TICKS
    return Order(slots, latency, bound)


def _slot(job: Job, cost: Cost, start: float) -> Slot:
    busy = tuple((unit, start + low, start + high) for unit, low, high in cost.busy)
    return Slot(job[0].name, cost.busy[0][0], 0, job[1], start, start + cost.ms, busy)
