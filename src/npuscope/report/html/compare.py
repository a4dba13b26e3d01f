"""What the page shows of a comparison: both sides, where the time went, then row by row."""

from __future__ import annotations

from itertools import islice
from typing import Any

from npuscope.advice.compare.model import Comparison, Move, Row, Side
from npuscope.advice.compare.run import PLACES
from npuscope.report.compare import answer
from npuscope.report.fidelity import fidelity_lines
from npuscope.report.figures import (
    count,
    how_sure,
    is_predicted,
    label,
    machine_words,
    ms,
    size,
    source_of,
)
from npuscope.report.html.page import page
from npuscope.version import __version__

_KINDS = {"HW": "on the NPU", "SW": "on the CPU", "HYBRID": "library calls"}
_MOST_ROWS = 2000  # in the page; --json has all


def compare_page(found: Comparison) -> str:
    """The HTML file of `npuscope compare`."""
    return page(compare_data(found))


def compare_data(found: Comparison) -> dict[str, Any]:
    changed = found.changed
    same = len(found.rows) - len(changed)
    left_out = len(changed) - _MOST_ROWS
    return {
        "view": "compare",
        "version": __version__,
        "title": f"{found.a.name} and {found.b.name}" if _differ(found) else found.a.name,
        "answer": answer(found),
        "sides": [side_data("A", found.a), side_data("B", found.b)],
        "delta_ms": found.delta_ms,
        "causes": [[kind.value, spent, rows] for kind, spent, rows in found.by_cause],
        "moves": [_move(move) for move in islice(found.moves, _MOST_ROWS)],
        "pools": _pools(found),
        "rows": [_row(row) for row in islice(changed, _MOST_ROWS)],
        "same_rows": same,
        "more_rows": max(0, left_out),
        "fidelity": fidelity_lines(found.fidelity, True) if found.fidelity else [],
        "notes": list(found.notes),
        "facts": _facts(found),
    }


def _differ(found: Comparison) -> bool:
    return found.a.name != found.b.name


def side_data(letter: str, side: Side) -> dict[str, Any]:
    """One card: figures, time by work, and all epochs as a strip."""
    profile = side.profile
    memory = profile.memory
    rows = [
        ("Inference", f"{ms(profile.total_ms)} ms"),
        ("Epochs", count(len(profile.epochs))),
        *((_KINDS.get(kind, kind), count(n)) for kind, n in profile.counts.items() if n),
    ]
    if memory.pools:
        rows += [
            ("Internal RAM", size(memory.internal_ram_bytes)),
            ("External RAM", size(memory.external_ram_bytes)),
            ("Weights", size(memory.weights_bytes)),
        ]
    return {
        "letter": letter,
        "name": side.name,
        "machine": machine_words(profile),
        "source": label(source_of(profile)),
        "sure": how_sure(profile),
        "total_ms": profile.total_ms,
        "time": [[name, value] for name, value in profile.time.by_work],
        "figures": [list(row) for row in rows],
        "starts": _starts(side),
    }


def _starts(side: Side) -> list[list[Any]]:
    """Epochs in their order, for the two timelines: [first, kind, ms, from]."""
    return [
        [epoch.first, epoch.kind.value, epoch.ms, ", ".join(epoch.origin[:3])]
        for epoch in side.profile.epochs
    ]


def _move(move: Move) -> list[str]:
    why = f"{move.rule}: {move.reason}" if move.rule else ""
    return [move.op, PLACES[move.a], PLACES[move.b], why]


def _pools(found: Comparison) -> list[list[Any]]:
    """Pools whose use changed; unknown memory of a measured run does not count as a change."""
    if not (found.a.profile.memory.pools and found.b.profile.memory.pools):
        return []
    return [[p.name, p.a_bytes, p.b_bytes] for p in found.pools if p.a_bytes != p.b_bytes]


def _row(row: Row) -> dict[str, Any]:
    return {
        "ops": list(row.ops or row.operators)[:12],
        "a": row.a_ms,
        "b": row.b_ms,
        "a_kinds": sorted({epoch.kind.value for epoch in row.a}),
        "b_kinds": sorted({epoch.kind.value for epoch in row.b}),
        "causes": [[cause.kind.value, cause.text, cause.ms] for cause in row.causes],
    }


def _facts(found: Comparison) -> list[list[str]]:
    rows = []
    for letter, side in (("A", found.a), ("B", found.b)):
        profile = side.profile
        known = profile.model_error if is_predicted(source_of(profile)) else ""
        error = f"; known error {known}" if known else ""
        rows.append([letter, f"{side.name}: {label(source_of(profile))}{error}"])
    return rows
