"""Compare two runs: match by source op, find the cause of every row, add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from npuscope.advice.compare.core_causes import core_causes, fusion_text
from npuscope.advice.compare.half import Half, half
from npuscope.advice.compare.matching import (
    has_common_name,
    has_common_op,
    match,
    moves_between,
    moves_of,
)
from npuscope.advice.compare.measured import (
    MachineStep,
    as_noise,
    clock_cause,
    clocks_of,
    counted_times,
    in_noise,
    is_same_program,
    machine_steps,
    noise_ms,
    prediction_cause,
    start_cause,
    start_cycles,
)
from npuscope.advice.compare.model import (
    LEAST_MS,
    Cause,
    CauseKind,
    ComparedRow,
    Comparison,
    Move,
    PoolChange,
    Side,
)
from npuscope.advice.compare.numbering import renumbered, under_names_of
from npuscope.advice.compare.times import Times, epoch_timer, summed
from npuscope.families.registry import family_of
from npuscope.program.model import EpochKind
from npuscope.structs import replace

# --- The parts of a row's difference, each with its cause ---

PLACES = {EpochKind.HW: "NPU", EpochKind.SW: "CPU", EpochKind.HYBRID: "library call"}


def program_causes(a: Half, b: Half, moves: tuple[Move, ...]) -> Iterator[Cause]:
    """What differs between two programs on the same machine."""
    software = b.times.software_ms - a.times.software_ms
    if moves and not (a.hardware and b.hardware):
        yield Cause(CauseKind.MOVED, move_text(moves), b.times.total_ms - a.times.total_ms)
        return
    if abs(software) >= LEAST_MS:
        yield _software_cause(a, b, moves, software)
    if abs(b.times.control_ms - a.times.control_ms) >= LEAST_MS:
        yield _control_cause(a, b)
    for cause in core_causes(a, b):
        moved_here = moves and not cause.is_known and cause.ms * software < 0
        yield Cause(CauseKind.MOVED, move_text(moves), cause.ms) if moved_here else cause


def move_text(moves: tuple[Move, ...]) -> str:
    first = moves[0]
    others = f" and {len(moves) - 1} more" if len(moves) > 1 else ""
    why = f" ({first.rule}: {first.reason})" if first.rule else ""
    return f"{first.op}{others}: {PLACES[first.a]} -> {PLACES[first.b]}{why}"


def _software_cause(a: Half, b: Half, moves: tuple[Move, ...], ms: float) -> Cause:
    if moves:
        return Cause(CauseKind.MOVED, move_text(moves), ms)
    if a.kernels != b.kernels:
        text = f"{_counted(a.kernels)} -> {_counted(b.kernels)}"
        return Cause(CauseKind.KERNEL, text, ms)
    if (b.moved_bytes - a.moved_bytes) * ms > 0:
        text = f"the kernel touches {a.moved_bytes:,} -> {b.moved_bytes:,} bytes"
        return Cause(CauseKind.SHAPE, text, ms)
    return Cause(CauseKind.UNEXPLAINED, "the same kernels took a different time", ms)


def _counted(kernels: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in kernels.items()) or "no kernel"


def _control_cause(a: Half, b: Half) -> Cause:
    """Who starts the epochs; how many there are; what has to be programmed for each."""
    ms = b.times.control_ms - a.times.control_ms
    ways = [_way(part) for part in (a, b)]
    if ways[0] != ways[1] and all(ways):
        return Cause(CauseKind.CONTROL, f"epochs started by {ways[0]} -> by {ways[1]}", ms)
    more = len(b.hardware) - len(a.hardware)
    if more * ms > 0:
        return Cause(CauseKind.FUSION, fusion_text(a, b), ms)
    units = [sum(sum(epoch.units.values()) for epoch in part.hardware) for part in (a, b)]
    if (units[1] - units[0]) * ms > 0:
        return Cause(CauseKind.CONTROL, f"{units[0]} -> {units[1]} units to program", ms)
    ends = [sum(bool(e.counters.pre_cycles) for e in part.hardware) for part in (a, b)]
    if (ends[1] - ends[0]) * ms > 0:
        return Cause(CauseKind.CONTROL, f"{ends[0]} -> {ends[1]} blobs begin here", ms)
    ends = [sum(bool(e.counters.post_cycles) for e in part.hardware) for part in (a, b)]
    if (ends[1] - ends[0]) * ms > 0:
        return Cause(CauseKind.CONTROL, f"{ends[0]} -> {ends[1]} blobs end here", ms)
    before = [sum(e.counters.pre_cycles for e in part.hardware) for part in (a, b)]
    if _way(a) == "the CPU" and (before[1] - before[0]) * ms > 0:
        text = f"{before[0]:,.0f} -> {before[1]:,.0f} MCU cycles to set up coefficients"
        return Cause(CauseKind.CONTROL, text, ms)
    return Cause(CauseKind.UNEXPLAINED, "control of the same epochs took a different time", ms)


def _way(part: Half) -> str:
    blobs = [epoch.blob is not None for epoch in part.hardware]
    if not blobs:
        return ""
    return "the epoch controller" if all(blobs) else "both" if any(blobs) else "the CPU"


def settled(causes: Iterable[Cause], delta_ms: float) -> tuple[Cause, ...]:
    """One cause per kind, the largest first; what they leave over stays without a cause."""
    by_kind: dict[CauseKind, Cause] = {}
    for cause in causes:
        other = by_kind.get(cause.kind)
        # The text of the largest part stands for the kind.
        text = other.text if other and abs(other.ms) >= abs(cause.ms) else cause.text
        by_kind[cause.kind] = Cause(cause.kind, text, cause.ms + (other.ms if other else 0.0))
    rest = delta_ms - sum(cause.ms for cause in by_kind.values())
    if abs(rest) >= LEAST_MS:
        other = by_kind.get(CauseKind.UNEXPLAINED)
        text = other.text if other else "no compared value explains it"
        total = rest + (other.ms if other else 0.0)
        by_kind[CauseKind.UNEXPLAINED] = Cause(CauseKind.UNEXPLAINED, text, total)
    large = (cause for cause in by_kind.values() if abs(cause.ms) >= LEAST_MS)
    return tuple(sorted(large, key=lambda cause: -abs(cause.ms)))


_Explain = Callable[[ComparedRow, tuple[Move, ...]], Iterator[Cause]]


def compare(a: Side, b: Side, noise_share: float = 0.0, *, same_model: bool = False) -> Comparison:
    """What changed from A to B, by source op."""
    md5 = a.profile.model.md5
    same_model = same_model or (bool(md5) and md5 == b.profile.model.md5)
    b = b if same_model else under_names_of(a, b)
    matched = match(a.profile.epochs, b.profile.epochs, same_model)
    banded = [replace(row, noise_ms=noise_ms(row, a, b, noise_share)) for row in matched]
    moves = moves_between(a, b)
    explain = _explainer(a, b, matched)
    rows = [_explained(row, moves_of(row, moves), explain) for row in banded]
    if not same_model:
        layers = _layers(a, b)
        rows = [_of_two_networks(row, layers) for row in rows]
    rows.sort(key=lambda row: -abs(row.delta_ms))
    by_name = has_common_name(a.profile.epochs, b.profile.epochs)
    notes = tuple(_notes(a, b, matched, by_name))
    return Comparison(a, b, tuple(rows), moves, _pools(a, b), notes, by_name)


def _explained(row: ComparedRow, moves: tuple[Move, ...], explain: _Explain) -> ComparedRow:
    if in_noise(row):
        return as_noise(row)
    if not row.is_changed:
        return row
    return replace(row, causes=settled(explain(row, moves), row.delta_ms))


def _of_two_networks(row: ComparedRow, layers: _Layers) -> ComparedRow:
    """What no setting explains is what the networks do not share, where the op of the row makes
    something else in the other network."""
    if all(cause.is_known for cause in row.causes):
        return row
    names = [name for epoch in (*row.a, *row.b) for name in epoch.origin]
    ends = [{k: shape for n in names for k, shape in own.get(n, {}).items()} for own in layers]
    pairs = [(k, shape, ends[1][k]) for k, shape in ends[0].items() if k in ends[1]]
    other = next((pair for pair in pairs if pair[1] != pair[2]), None)
    if other is None:
        return row
    sizes = " -> ".join("x".join(map(str, shape)) for shape in other[1:])
    text = f"two networks: {other[0]} makes {sizes}"
    causes = (
        cause if cause.is_known else replace(cause, kind=CauseKind.NETWORK, text=text)
        for cause in row.causes
    )
    return replace(row, causes=tuple(causes))


_Layers = tuple[dict[str, dict[str, tuple[int, ...]]], ...]


def _layers(a: Side, b: Side) -> _Layers:
    """By source op what the ops of each network make, by kind; under the names that A has."""
    if a.graph is None or b.graph is None:
        return ({}, {})
    renamed = renumbered(a.graph, b.graph)
    made: _Layers = ({}, {})
    for graph, own, names in ((a.graph, made[0], {}), (b.graph, made[1], renamed)):
        for op in graph.ops:
            for name in op.origin:
                shape = graph.output_tensor(op).shape
                own.setdefault(names.get(name, name), {}).setdefault(op.kind, shape)
    return made


def _explainer(a: Side, b: Side, rows: tuple[ComparedRow, ...]) -> _Explain:
    if not has_common_op(rows):
        return _strangers
    if a.profile.family or b.profile.family:
        return _by_family(a, b) or _other_machines(a, b)
    inner = _by_timing(a, b) if a.is_timed and b.is_timed else _by_counters(a, b)

    def explain(row: ComparedRow, moves: tuple[Move, ...]) -> Iterator[Cause]:
        return inner(row, moves) if row.a and row.b else iter([_one_sided(row)])

    return explain


def _strangers(row: ComparedRow, moves: tuple[Move, ...]) -> Iterator[Cause]:
    """That an op is new says something only where others are not."""
    yield Cause(CauseKind.UNEXPLAINED, "the two sides have no source op in common", row.delta_ms)


def _by_family(a: Side, b: Side) -> _Explain | None:
    """The family of both knows what its runs are made of."""
    if a.profile.family != b.profile.family:
        return None
    causes = family_of(a.profile.machine.name).causes(a.profile, b.profile)
    if causes is None:
        return None

    def explain(row: ComparedRow, moves: tuple[Move, ...]) -> Iterator[Cause]:
        if moves:
            yield Cause(CauseKind.MOVED, move_text(moves), row.delta_ms)
        elif row.a and row.b:
            yield from causes(row.a, row.b)
        else:
            yield _one_sided(row)

    return explain


def _other_machines(a: Side, b: Side) -> _Explain:
    """Families have no counters in common: what is known is the machine, and who has the op."""
    names = [side.profile.machine.name for side in (a, b)]

    def explain(row: ComparedRow, moves: tuple[Move, ...]) -> Iterator[Cause]:
        if not (row.a and row.b):
            yield _one_sided(row)
        elif names[0] != names[1]:
            yield Cause(CauseKind.MACHINE, f"{names[0]} -> {names[1]}", row.delta_ms)

    return explain


def _one_sided(row: ComparedRow) -> Cause:
    kind = CauseKind.ADDED if row.b else CauseKind.REMOVED
    return Cause(kind, f"only {'B' if row.b else 'A'} has epochs for it", row.delta_ms)


class _Stage(Struct, frozen=True):
    """Times of A's epochs after one more step towards B's machine."""

    step: MachineStep
    times: tuple[Times, ...]


def _by_timing(a: Side, b: Side) -> _Explain:
    """Both programs are known: A's is timed on B's machine, step by step."""
    assert a.program and b.program and a.machine and b.machine  # is_timed
    timer = a.timer or epoch_timer(a.program, a.machine)
    first = timer.times(a.machine)
    # The machine first: what is left then is the difference of two programs on one machine.
    steps = machine_steps(a.machine, b.machine)
    stages = [_Stage(step, timer.times(step.machine)) for step in steps]
    last = stages[-1].times if stages else first
    of_b = (b.timer or epoch_timer(b.program, b.machine)).times(b.machine)

    def explain(row: ComparedRow, moves: tuple[Move, ...]) -> Iterator[Cause]:
        before = _sum(first, row)
        for stage in stages:
            after = _sum(stage.times, row)
            yield Cause(stage.step.kind, stage.step.text, after.total_ms - before.total_ms)
            before = after
        old = half(a, row.a, [last[epoch.index] for epoch in row.a])
        new = half(b, row.b, [of_b[epoch.index] for epoch in row.b])
        yield from program_causes(old, new, moves)

    return explain


def _sum(times: tuple[Times, ...], row: ComparedRow) -> Times:
    return summed(times[epoch.index] for epoch in row.a)


def _by_counters(a: Side, b: Side) -> _Explain:
    """A side was measured, or its program is not known: what was counted has to do."""
    clocks = clocks_of(b.profile)
    starts = start_cycles(a, b)

    def explain(row: ComparedRow, moves: tuple[Move, ...]) -> Iterator[Cause]:
        causes = (*clock_cause(row, a, b), *start_cause(row, a, b))
        yield from causes
        rest = row.delta_ms - sum(cause.ms for cause in causes)
        predicted = prediction_cause(row, a, b, rest)
        if predicted is not None:
            yield predicted
        elif not is_same_program(a, b):
            old = [counted_times([epoch], clocks, *starts) for epoch in row.a]
            new = [counted_times([epoch], clocks, starts[1], starts[1]) for epoch in row.b]
            yield from program_causes(half(a, row.a, old), half(b, row.b, new), moves)

    return explain


def _pools(a: Side, b: Side) -> tuple[PoolChange, ...]:
    x = {pool.name: pool for pool in a.profile.memory.pools}
    y = {pool.name: pool for pool in b.profile.memory.pools}
    rows = (PoolChange(name, x.get(name), y.get(name)) for name in {**x, **y})
    return tuple(row for row in rows if row.a_bytes or row.b_bytes)


def _notes(a: Side, b: Side, rows: tuple[ComparedRow, ...], by_name: bool) -> Iterator[str]:
    x, y = a.profile.model, b.profile.model
    if not has_common_op(rows):
        yield "the two sides have no source op in common: are they the same network?"
    elif not by_name:
        yield "the sides name ops differently: epochs that do the same work are matched, in order"
    if x.md5 and y.md5 and x.md5 != y.md5:
        yield (
            "the model files differ: ops are matched by their names, those without a name by what "
            "they make"
        )
    if is_same_program(a, b):
        yield "both ran the same program"
    if a.profile.family or b.profile.family:
        yield "engines work in parallel: the times of ops do not add up to the total"
    for name, side in (("A", a), ("B", b)):
        yield from (f"{name}: {note}" for note in side.profile.notes)
        if side.profile.is_lower_bound:
            kinds = ", ".join(dict.fromkeys(side.profile.unknown_ops))
            yield f"{name} is a lower bound: {kinds} of unknown cost on the CPU"
        epochs = side.program.executed if side.program else ()
        if any(epoch.groups is None for epoch in epochs):
            yield f"{name} has no unit registers: its times are less precise than the other's"
        if side.is_measured and all(epoch.spread.n < 2 for epoch in side.profile.epochs):
            yield f"{name} was measured once: its noise is unknown"
