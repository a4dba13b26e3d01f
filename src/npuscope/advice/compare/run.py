"""Compare two runs: match by source op, find the cause of every row, add up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from npuscope.advice.compare.causes import program_causes, settled
from npuscope.advice.compare.half import half
from npuscope.advice.compare.machine_steps import Step, machine_steps
from npuscope.advice.compare.matching import has_common_name, has_common_op, match
from npuscope.advice.compare.measured import (
    as_noise,
    clock_cause,
    clocks_of,
    counted_times,
    in_noise,
    is_same_program,
    noise_ms,
    prediction_cause,
    start_cause,
    start_cycles,
)
from npuscope.advice.compare.model import (
    Cause,
    CauseKind,
    Comparison,
    Move,
    PoolChange,
    Row,
    Side,
)
from npuscope.advice.compare.moves import moves_between, moves_of
from npuscope.advice.compare.timed import Times, epoch_times, summed

_Explain = Callable[[Row, tuple[Move, ...]], Iterator[Cause]]


def compare(a: Side, b: Side, noise_share: float = 0.0) -> Comparison:
    """What changed from A to B, by source op."""
    matched = match(a.profile.epochs, b.profile.epochs, _is_same_model(a, b))
    banded = [replace(row, noise_ms=noise_ms(row, a, b, noise_share)) for row in matched]
    moves = moves_between(a, b)
    explain = _explainer(a, b, matched)
    rows = [_explained(row, moves_of(row, moves), explain) for row in banded]
    rows.sort(key=lambda row: -abs(row.delta_ms))
    named = has_common_name(a.profile.epochs, b.profile.epochs)
    notes = tuple(_notes(a, b, matched, named))
    return Comparison(a, b, tuple(rows), moves, _pools(a, b), notes, named)


def _explained(row: Row, moves: tuple[Move, ...], explain: _Explain) -> Row:
    if in_noise(row):
        return as_noise(row)
    if not row.is_changed:
        return row
    return replace(row, causes=settled(explain(row, moves), row.delta_ms))


def _explainer(a: Side, b: Side, rows: tuple[Row, ...]) -> _Explain:
    if not has_common_op(rows):
        return _strangers
    inner = _by_timing(a, b) if a.is_timed and b.is_timed else _by_counters(a, b)

    def explain(row: Row, moves: tuple[Move, ...]) -> Iterator[Cause]:
        return inner(row, moves) if row.a and row.b else iter([_one_sided(row)])

    return explain


def _strangers(row: Row, moves: tuple[Move, ...]) -> Iterator[Cause]:
    """That an op is new says something only where others are not."""
    yield Cause(CauseKind.UNEXPLAINED, "no source op is common to both sides", row.delta_ms)


def _one_sided(row: Row) -> Cause:
    kind = CauseKind.ADDED if row.b else CauseKind.REMOVED
    return Cause(kind, f"only {'B' if row.b else 'A'} has epochs for it", row.delta_ms)


@dataclass(frozen=True, slots=True)
class _Stage:
    """Times of A's epochs after one more step towards B's machine."""

    step: Step
    times: tuple[Times, ...]


def _by_timing(a: Side, b: Side) -> _Explain:
    """Both programs are known: A's is timed on B's machine, step by step."""
    assert a.program and b.program and a.machine and b.machine  # is_timed
    first = epoch_times(a.program, a.machine)
    steps = machine_steps(a.machine, b.machine)
    stages = [_Stage(step, epoch_times(a.program, step.machine)) for step in steps]
    last = stages[-1].times if stages else first
    of_b = epoch_times(b.program, b.machine)

    def explain(row: Row, moves: tuple[Move, ...]) -> Iterator[Cause]:
        before = _sum(first, row)
        for stage in stages:
            after = _sum(stage.times, row)
            yield Cause(stage.step.kind, stage.step.text, after.total_ms - before.total_ms)
            before = after
        old = half(a, row.a, [last[epoch.index] for epoch in row.a])
        new = half(b, row.b, [of_b[epoch.index] for epoch in row.b])
        yield from program_causes(old, new, moves)

    return explain


def _sum(times: tuple[Times, ...], row: Row) -> Times:
    return summed(times[epoch.index] for epoch in row.a)


def _by_counters(a: Side, b: Side) -> _Explain:
    """A side was measured, or its program is not known: what was counted has to do."""
    clocks = clocks_of(b.profile)
    starts = start_cycles(a, b)

    def explain(row: Row, moves: tuple[Move, ...]) -> Iterator[Cause]:
        found = (*clock_cause(row, a, b), *start_cause(row, a, b))
        yield from found
        rest = row.delta_ms - sum(cause.ms for cause in found)
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


def _is_same_model(a: Side, b: Side) -> bool:
    x, y = a.profile.model.md5, b.profile.model.md5
    return bool(x) and x == y


def _notes(a: Side, b: Side, rows: tuple[Row, ...], named: bool) -> Iterator[str]:
    x, y = a.profile.model, b.profile.model
    if not has_common_op(rows):
        yield "no source op is common to both: are they of one network?"
    elif not named:
        yield "the sides name ops differently: epochs of the same work are matched, in order"
    if x.md5 and y.md5 and x.md5 != y.md5:
        yield "the model files differ: ops are matched by their names alone"
    if is_same_program(a, b):
        yield "both ran the same program"
    for name, side in (("A", a), ("B", b)):
        yield from (f"{name}: {note}" for note in side.profile.notes)
        if _lacks_registers(side):
            yield f"{name} has no unit registers: its times are coarser than the other's"
        if side.is_measured and all(epoch.spread.n < 2 for epoch in side.profile.epochs):
            yield f"{name} was measured once: its noise is not known"


def _lacks_registers(side: Side) -> bool:
    epochs = side.program.executed if side.program else ()
    return any(epoch.groups is None for epoch in epochs)
