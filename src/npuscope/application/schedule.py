"""The frame over time: which step runs when on NPU, CPU and the others, the worst frame, and how
many frames a second."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from npuscope.application.request import Application, NetworkUse, Step, UserWork
from npuscope.profiling.model import Profile
from npuscope.program.model import EpochKind

NPU, CPU = "NPU", "CPU"
_STEADY = 24  # frames after which the pattern repeats, where steps of frames overlap
_MOST_JOBS = 4_000


class Cost(Struct, frozen=True):
    """A step's time, at most `worst_ms`; `busy` are parts of it on units, from its start."""

    ms: float
    worst_ms: float
    busy: tuple[tuple[str, float, float], ...]
    source: str  # who says so


class Slot(Struct, frozen=True):
    """One run of a step."""

    step: str
    unit: str
    frame: int
    run: int
    start_ms: float
    end_ms: float
    busy: tuple[tuple[str, float, float], ...] = ()


class FrameKind(Struct, frozen=True):
    """A kind of frame with so many runs of its loops: its steps over time."""

    mode: str
    slots: tuple[Slot, ...]
    latency_ms: float
    worst_ms: float
    bound_ms: float  # no order of these steps takes less
    solver: str


class Schedule(Struct, frozen=True):
    """Latency is from the frame's first step to its last; `interval_ms` from frame to frame."""

    frames: tuple[FrameKind, ...]
    latency_ms: float
    worst_ms: float
    least_ms: float
    interval_ms: float
    fps: float
    loads: tuple[tuple[str, float], ...]  # ms of the worst frame, by unit
    steady: tuple[Slot, ...]

    @property
    def jitter_ms(self) -> float:
        return self.latency_ms - self.least_ms


def network_cost(use: NetworkUse, profile: Profile) -> Cost:
    """A measured time is preferred; the CPU is busy in software epochs, in the same shares."""
    predicted = profile.total_ms
    high = profile.interval_ms[1] if profile.interval_ms[1] is not None else math.inf
    total = predicted if use.measured_ms is None else use.measured_ms
    scale = total / predicted if predicted else 1.0
    busy: list[tuple[str, float, float]] = [(NPU, 0.0, total)]
    at = 0.0
    for epoch in profile.epochs:
        if epoch.kind is EpochKind.SW:
            start, end = at * scale, (at + epoch.ms) * scale
            if len(busy) > 1 and busy[-1][2] >= start - 1e-9:
                busy[-1] = (CPU, busy[-1][1], end)
            else:
                busy.append((CPU, start, end))
        at += epoch.ms
    source = "predicted" if use.measured_ms is None else "measured"
    worst = max(high, total) if use.measured_ms is None else total
    return Cost(total, worst if math.isfinite(worst) else total, tuple(busy), source)


def work_cost(work: UserWork) -> Cost:
    busy = ((work.unit.value, 0.0, work.ms),)
    return Cost(work.ms, max(work.ms, work.worst_ms or 0.0), busy, "stated")


def schedule(application: Application, costs: Mapping[str, Cost]) -> Schedule:
    """All kinds of frames, each with the most and with no runs of its loops."""
    frames = tuple(_frame(application, costs, mode) for mode in application.modes)
    least = min(
        _length(application, costs, _jobs(application, mode, 0, frame))
        for mode in application.modes
        for frame in range(_period(application))
    )
    worst = max(frames, key=lambda frame: frame.latency_ms)
    steady, interval = _steady(application, costs, worst.mode)
    camera = 1000 / application.fps
    interval = max(interval, camera)
    loads: dict[str, float] = {}
    for slot in worst.slots:
        for unit, start, end in slot.busy:
            loads[unit] = loads.get(unit, 0.0) + end - start
    return Schedule(
        frames,
        worst.latency_ms,
        max(frame.worst_ms for frame in frames),
        least,
        interval,
        1000 / interval,
        tuple(loads.items()),
        steady,
    )


Job = tuple[Step, int]


def _period(application: Application) -> int:
    """Frames after which the steps that do not run in each of them come together again."""
    return min(100, math.lcm(*(step.every for step in application.steps)))


def _jobs(application: Application, mode: str, runs: int | None, frame: int = 0) -> list[Job]:
    """Steps of a frame in order, those of a loop turn by turn; `runs` of loops, else the most."""
    jobs: list[Job] = []
    steps = [step for step in application.steps if frame % step.every == 0]
    place = 0
    while place < len(steps):
        loop = steps[place].repeat
        end = place + 1
        while loop and end < len(steps) and steps[end].repeat == loop:
            end += 1
        turns = (application.loops[loop].most if runs is None else runs) if loop else 1
        for turn in range(turns):
            jobs += [(s, turn) for s in steps[place:end] if not s.when or mode in s.when]
        place = end
    return jobs[:_MOST_JOBS]


def _frame(application: Application, costs: Mapping[str, Cost], mode: str) -> FrameKind:
    jobs = _jobs(application, mode, None)
    slots = tuple(_listed(application, costs, jobs, 0.0, {}))
    latency = max((slot.end_ms for slot in slots), default=0.0)
    late: dict[str, Cost] = {}
    for name, cost in costs.items():
        scale = cost.worst_ms / cost.ms if cost.ms else 1.0
        busy = tuple((unit, start * scale, end * scale) for unit, start, end in cost.busy)
        late[name] = Cost(cost.worst_ms, cost.worst_ms, busy, cost.source)
    worst = _length(application, late, jobs)
    bound = _bound(application, costs, jobs)
    solver = "in order"
    if application.threads and latency > bound + 1e-6:
        from npuscope.application import frame_solver

        better = frame_solver.solved(application, costs, jobs, latency)
        if better is not None:
            bound = max(bound, better.bound_ms)
            solver = frame_solver.NAME
            if better.latency_ms < latency - 1e-6:
                slots, latency = better.slots, better.latency_ms
    return FrameKind(mode, slots, latency, max(worst, latency), min(bound, latency), solver)


def _length(application: Application, costs: Mapping[str, Cost], jobs: Sequence[Job]) -> float:
    slots = _listed(application, costs, jobs, 0.0, {})
    return max((slot.end_ms for slot in slots), default=0.0)


def waits_for(application: Application, jobs: Sequence[Job]) -> list[list[int]]:
    """For each job those that must have ended. Without threads: the one before. With them: what
    `after` names, else the step before in the same turn; and the input buffer must be free."""
    if not application.threads:
        return [[place - 1] if place else [] for place in range(len(jobs))]
    result: list[list[int]] = []
    depth = {use.name: use.input_buffers for use in application.networks}
    for place, (step, turn) in enumerate(jobs):
        before = [j for j in range(place) if jobs[j][1] == turn or jobs[j][0].repeat != step.repeat]
        names = step.after or tuple(jobs[j][0].name for j in before[-1:])
        result.append([other for other in before if jobs[other][0].name in names])
        # What fills the input of a network again waits until that has read it.
        after = next((j for j in range(place + 1, len(jobs)) if isinstance(jobs[j][0], NetworkUse)
            and jobs[j][1] == turn), None)  # fmt: skip
        if step.repeat and after is not None and isinstance(step, UserWork):
            network = jobs[after][0]
            free = turn - depth[network.name]
            result[-1] += [
                other for other in range(place)
                if jobs[other][0].name == network.name and jobs[other][1] == free
            ]  # fmt: skip
    return result


def _listed(
    application: Application,
    costs: Mapping[str, Cost],
    jobs: Sequence[Job],
    release_ms: float,
    units: dict[str, list[tuple[float, float]]],
    frame: int = 0,
) -> Iterator[Slot]:
    """Each job as early as those before it and its units allow."""
    waits = waits_for(application, jobs)
    ends: list[float] = []
    for place, (step, turn) in enumerate(jobs):
        cost = costs[step.name]
        ready = max((ends[other] for other in waits[place]), default=release_ms)
        start = _earliest(ready, cost, units)
        for unit, low, high in cost.busy:
            units.setdefault(unit, []).append((start + low, start + high))
        ends.append(start + cost.ms)
        unit = cost.busy[0][0]
        busy = tuple((name, start + low, start + high) for name, low, high in cost.busy)
        yield Slot(step.name, unit, frame, turn, start, start + cost.ms, busy)


def _earliest(ready: float, cost: Cost, units: dict[str, list[tuple[float, float]]]) -> float:
    start = ready
    moved = True
    while moved:
        moved = False
        for unit, low, high in cost.busy:
            for begin, end in sorted(units.get(unit, ())):
                if begin < start + high - 1e-9 and end > start + low + 1e-9:
                    start, moved = end - low, True
    return start


def _bound(application: Application, costs: Mapping[str, Cost], jobs: Sequence[Job]) -> float:
    """The longest chain of jobs that wait for one another, and the busiest unit."""
    ends: list[float] = []
    loads: dict[str, float] = {}
    for (step, _), waits in zip(jobs, waits_for(application, jobs), strict=True):
        cost = costs[step.name]
        ends.append(max((ends[other] for other in waits), default=0.0) + cost.ms)
        for unit, low, high in cost.busy:
            loads[unit] = loads.get(unit, 0.0) + high - low
    return max((*ends, *loads.values()), default=0.0)


def _steady(
    application: Application, costs: Mapping[str, Cost], mode: str
) -> tuple[tuple[Slot, ...], float]:
    """Frames one behind the other: without threads the next begins when one is done, with them
    when its first step finds its unit free. Out: their slots, and the mean interval."""
    count = max(_period(application) * 2, _STEADY if application.threads else 2)
    count = min(count, max(2, _MOST_JOBS // max(1, len(application.steps))))
    units: dict[str, list[tuple[float, float]]] = {}
    slots: list[Slot] = []
    ends_ms: list[float] = []
    release = 0.0
    camera = 1000 / application.fps
    for frame in range(count):
        jobs = _jobs(application, mode, None, frame)
        ready = release if application.threads else max(release, ends_ms[-1] if ends_ms else 0.0)
        row = list(_listed(application, costs, jobs, ready, units, frame))
        slots += row
        ends_ms.append(max((slot.end_ms for slot in row), default=ready))
        first = row[0].end_ms if row and application.threads else ends_ms[-1]
        release = first
        if ends_ms[-1] <= (frame + 1) * camera:  # the camera's next frame is still to come
            release = max(first, (frame + 1) * camera)
        units = {u: [s for s in spans if s[1] > ready] for u, spans in units.items()}
    half = count // 2
    interval = (ends_ms[-1] - ends_ms[half - 1]) / (count - half)
    return tuple(slots[:_MOST_JOBS]), interval
