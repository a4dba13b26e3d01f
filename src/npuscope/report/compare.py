"""A comparison as text and as JSON: the answer, both sides, where the time went, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor
from typing import Any

from msgspec.structs import asdict

from npuscope.advice.compare.model import LEAST_MS, Cause, CauseKind, ComparedRow, Comparison, Side
from npuscope.advice.compare.run import PLACES
from npuscope.report.fidelity import fidelity_json, fidelity_lines
from npuscope.report.figures import (
    label_with_range,
    machine_words,
    ms,
    percent,
    shorten,
    shorten_end,
    size,
)
from npuscope.report.json_report import identity_json
from npuscope.report.profile import names
from npuscope.text import safe_terminal

# --- JSON ---

COMPARE_SCHEMA = "npuscope/compare/1"


def compare_json(comparison: Comparison) -> dict[str, Any]:
    """The object of `npuscope compare --json`."""
    fidelity = {"fidelity": fidelity_json(comparison.fidelity)} if comparison.fidelity else {}
    return {
        "schema": COMPARE_SCHEMA,
        **fidelity,
        "a": _side(comparison.a),
        "b": _side(comparison.b),
        "delta_ms": _ms(comparison.delta_ms),
        "changed_ms": _ms(comparison.changed_ms),
        "unexplained_ms": _ms(comparison.unexplained_ms),
        "explained_share": round(comparison.explained_share, 6),
        "by_cause": [
            {"kind": kind.value, "ms": _ms(ms), "rows": rows}
            for kind, ms, rows in comparison.by_cause
        ],
        "moved": [
            {**asdict(move), "a": move.a.value, "b": move.b.value} for move in comparison.moves
        ],
        "memory": [
            {"pool": pool.name, "a_bytes": pool.a_bytes, "b_bytes": pool.b_bytes}
            for pool in comparison.pools
        ],
        "rows": [row_json(row) for row in comparison.rows],
        "notes": list(comparison.notes),
    }


def _side(side: Side) -> dict[str, Any]:
    profile = side.profile
    return {
        "source": side.name,
        **identity_json(profile),
        "total_ms": _ms(profile.total_ms),
        "time": {name: _ms(value) for name, value in asdict(profile.time).items()},
        "counts": dict(profile.counts),
    }


def row_json(row: ComparedRow) -> dict[str, Any]:
    """`cause` is null where nothing changed, and where the change is not explained."""
    first = row.cause
    return {
        "ops": list(row.ops),
        "operators": list(row.operators),
        "a_ms": _ms(row.a_ms),
        "b_ms": _ms(row.b_ms),
        "delta_ms": _ms(row.delta_ms),
        "cause": _cause(first) if first is not None and first.is_known else None,
        "causes": [_cause(cause) for cause in row.causes],
        "noise": first is not None and first.kind is CauseKind.NOISE,
        "noise_ms": _ms(row.noise_ms),
        "a_epochs": [epoch.name for epoch in row.a],
        "b_epochs": [epoch.name for epoch in row.b],
        "a_kinds": sorted({epoch.kind.value for epoch in row.a}),
        "b_kinds": sorted({epoch.kind.value for epoch in row.b}),
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {"kind": cause.kind.value, "text": cause.text, "ms": _ms(cause.ms)}


def _ms(value: float) -> float:
    """Finer than a nanosecond, so that rows still add up to the total."""
    return round(value, 9)


# --- Text: the answer, both sides, where the time went, then row by row ---

_SHOWN = 15  # rows; --verbose shows all
_MOVES = 8  # ops that moved; --verbose shows all
_FROM = 40  # characters of the source ops
_WHY = 96  # characters of the cause
_NOT_FOLLOWED = "not known: the sides have no op name in common"
_LEAST_PART = 0.1  # of a row: smaller parts are in the JSON
_LEAST_ROW = 0.005  # of all differences: smaller rows are left to --verbose


def compare_text(comparison: Comparison, *, every: bool = False) -> str:
    fidelity = [*fidelity_lines(comparison.fidelity, every), ""] if comparison.fidelity else []
    a, b = comparison.a.profile, comparison.b.profile
    kinds = [*a.counts, *(name for name in b.counts if name not in a.counts)]
    counts = [f"{name} {_change(a.counts.get(name, 0), b.counts.get(name, 0))}" for name in kinds]
    lines = [
        *fidelity,
        answer(comparison),
        _side_line("A", comparison.a),
        _side_line("B", comparison.b),
        *(f"note     {safe_terminal(note)}" for note in comparison.notes),
        "",
        *_cause_lines(comparison),
        "",
        f"Epochs   {_change(a.epoch_count, b.epoch_count)}: {', '.join(counts)}",
        *_memory_lines(comparison),
        *_move_lines(comparison, every),
        "",
        *_row_lines(comparison, every),
    ]
    return "\n".join(lines) + "\n"


def answer(comparison: Comparison) -> str:
    """The first line: the whole answer in one sentence."""
    before, after = comparison.a.profile.total_ms, comparison.b.profile.total_ms
    if not comparison.changed:
        moved = f", though {len(comparison.moves)} ops moved" if comparison.moves else ""
        return f"no difference: both take {ms(after)} ms{moved}"
    way = "faster" if comparison.delta_ms < 0 else "slower"
    share = f" ({100 * comparison.delta_ms / before:+.1f}%)" if before else ""
    change = f"B is {ms(abs(comparison.delta_ms))} ms {way}: {ms(before)} -> {ms(after)} ms{share}"
    if abs(comparison.delta_ms) < LEAST_MS:
        change = f"B takes as long as A, {ms(after)} ms, but spends the time differently"
    # Causes are known of epochs; other families have none.
    if comparison.a.profile.family or comparison.b.profile.family:
        return change
    if comparison.unexplained_ms < LEAST_MS:
        return f"{change}; every difference has a cause"
    # Rounded down: 100 % is said only where it is so.
    percents = floor(1000 * comparison.explained_share) / 10
    return f"{change}; {percents:g}% of the differences have a cause"


def _side_line(letter: str, side: Side) -> str:
    machine, sure = machine_words(side.profile), label_with_range(side.profile)
    return f"{letter}        {safe_terminal(side.name)}: {machine} ({sure})"


def _cause_lines(comparison: Comparison) -> list[str]:
    if not comparison.changed:
        return ["No row changed its time."]
    lines = [f"{'Where the time went':<22} {'ms':>9} {'rows':>6}"]
    for kind, spent, rows in comparison.by_cause:
        lines.append(f"  {kind.value:<20} {_signed(spent):>9} {rows:>6}")
    return [*lines, f"  {'B - A':<20} {_signed(comparison.delta_ms):>9} {len(comparison.rows):>6}"]


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{ms(abs(value))}"


def _change(before: int, after: int) -> str:
    return str(before) if before == after else f"{before} -> {after}"


def _memory_lines(comparison: Comparison) -> list[str]:
    """Pools whose use changed; unknown memory of a measured run does not count as a change."""
    if not (comparison.a.profile.memory.pools and comparison.b.profile.memory.pools):
        return []
    changed = [pool for pool in comparison.pools if pool.a_bytes != pool.b_bytes]
    if not changed:
        return ["Memory   the same in every pool"]
    parts = (
        f"{safe_terminal(pool.name)} {size(pool.a_bytes)} -> {size(pool.b_bytes)}"
        for pool in changed
    )
    return [f"Memory   {', '.join(parts)}"]


def _move_lines(comparison: Comparison, every: bool) -> Iterator[str]:
    moves = comparison.moves
    if not moves:
        none = "nothing between NPU and CPU" if comparison.has_common_names else _NOT_FOLLOWED
        yield f"Moved    {none}"
        return
    yield f"Moved    {len(moves)} ops between NPU, library calls and CPU:"
    for move in moves if every else moves[:_MOVES]:
        why = f"  {move.rule}: {move.reason}" if move.rule else ""
        way = f"{PLACES[move.a]} -> {PLACES[move.b]}"
        text = shorten_end(safe_terminal(f"{way}{why}"), _WHY)
        yield f"  {shorten(safe_terminal(move.op), _FROM):<{_FROM}}  {text}"
    if len(moves) > _MOVES and not every:
        yield f"  and {len(moves) - _MOVES} more (--verbose)"


def _row_lines(comparison: Comparison, every: bool) -> Iterator[str]:
    rows = comparison.changed
    if not rows:
        return
    yield f"Differences by source op: {len(rows)} of {len(comparison.rows)} rows, the largest first"
    heading = f"{'delta':>8} {'A ms':>8} {'B ms':>8} {'share':>6}  {'cause':<16} {'from':<{_FROM}}"
    yield f"{heading}  why"
    least = 0.0 if every else _LEAST_ROW * comparison.changed_ms
    large = [row for row in rows if abs(row.delta_ms) >= least]
    largest = large if every else large[:_SHOWN]
    for row in largest:
        yield from row_lines(row, comparison.changed_ms)
    rest = rows[len(largest) :]
    if rest:
        sum_ms = sum(row.delta_ms for row in rest)
        rows_word = "row" if len(rest) == 1 else "rows"
        yield f"and {len(rest)} more {rows_word}, {_signed(sum_ms)} ms together (--verbose)"


def row_lines(row: ComparedRow, changed_ms: float) -> Iterator[str]:
    """One line per row; its other large causes follow, indented."""
    first, *others = row.causes or (Cause(CauseKind.UNEXPLAINED, "", row.delta_ms),)
    share = percent(abs(row.delta_ms), changed_ms)
    source = shorten(names(row.ops or row.operators), _FROM)
    yield (
        f"{_signed(row.delta_ms):>8} {ms(row.a_ms):>8} {ms(row.b_ms):>8} {share:>6}  "
        f"{first.kind.value:<16} {source:<{_FROM}}  {_why(first)}"
    ).rstrip()
    for cause in others:
        if abs(cause.ms) >= _LEAST_PART * abs(row.delta_ms):
            yield f"{_signed(cause.ms):>8} {'of it':>24}  {cause.kind.value:<16} {_why(cause)}"


def _why(cause: Cause) -> str:
    return shorten_end(safe_terminal(cause.text), _WHY)
