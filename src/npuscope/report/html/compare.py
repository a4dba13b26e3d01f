"""What the page shows of a comparison: both sides, where the time went, then row by row; or one
network on several machines."""

from __future__ import annotations

from itertools import islice
from typing import Any

from npuscope.advice.compare.machines import MachineTable
from npuscope.advice.compare.model import Comparison, Side
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
from npuscope.report.machine_table import HEADS, cells
from npuscope.report.machine_table import answer as machines_answer
from npuscope.version import __version__

_KINDS = {"HW": "on the NPU", "SW": "on the CPU", "HYBRID": "library calls"}
_MOST_ROWS = 2000  # in the page; --json has all
_SENTENCE = 240  # characters of a reason; a cell may take several lines


def compare_page(comparison: Comparison) -> str:
    """The HTML file of `npuscope compare`."""
    return page(compare_data(comparison))


def compare_data(comparison: Comparison) -> dict[str, Any]:
    changed = comparison.changed
    same = len(comparison.rows) - len(changed)
    left_out = len(changed) - _MOST_ROWS
    # Unknown memory of a measured run does not count as a change.
    sized = comparison.a.profile.memory.pools and comparison.b.profile.memory.pools
    pools = comparison.pools if sized else ()
    return {
        "view": "compare",
        "version": __version__,
        "title": " and ".join(dict.fromkeys((comparison.a.name, comparison.b.name))),
        "answer": answer(comparison),
        "machine": _machines(comparison),
        "sides": [side_data("A", comparison.a), side_data("B", comparison.b)],
        "delta_ms": comparison.delta_ms,
        "causes": [[kind.value, spent, rows] for kind, spent, rows in comparison.by_cause],
        "moves": [
            [
                move.op,
                PLACES[move.a],
                PLACES[move.b],
                f"{move.rule}: {move.reason}" if move.rule else "",
            ]
            for move in islice(comparison.moves, _MOST_ROWS)
        ],
        "pools": [[p.name, p.a_bytes, p.b_bytes] for p in pools if p.a_bytes != p.b_bytes],
        "rows": [
            {
                "ops": list(row.ops or row.operators)[:12],
                "a": row.a_ms,
                "b": row.b_ms,
                "a_kinds": sorted({epoch.kind.value for epoch in row.a}),
                "b_kinds": sorted({epoch.kind.value for epoch in row.b}),
                "causes": [[cause.kind.value, cause.text, cause.ms] for cause in row.causes],
            }
            for row in islice(changed, _MOST_ROWS)
        ],
        "same_rows": same,
        "more_rows": max(0, left_out),
        "fidelity": fidelity_lines(comparison.fidelity, True) if comparison.fidelity else [],
        "notes": list(comparison.notes),
        "facts": _facts(comparison),
    }


def _machines(comparison: Comparison) -> str:
    sides = (("A", comparison.a.profile), ("B", comparison.b.profile))
    words = {letter: machine_words(profile) for letter, profile in sides}
    if words["A"] == words["B"]:
        return words["A"]
    return "; ".join(f"{letter}: {text}" for letter, text in words.items())


def machines_page(table: MachineTable) -> str:
    """The HTML file of `npuscope compare --machines`."""
    families = {row.machine: row.family for row in table.rows}
    return page(
        {
            "view": "machines",
            "version": __version__,
            "title": table.model,
            "answer": machines_answer(table),
            "heads": list(HEADS),
            "machines": [
                {"cells": list(cells(row, _SENTENCE)), "ms": row.total_ms, "range": row.interval_ms}
                for row in table.rows
            ],
            "facts": [["Times", "predicted"], *([n, f"family {f}"] for n, f in families.items())],
            "notes": [],
        }
    )


def side_data(letter: str, side: Side) -> dict[str, Any]:
    """One card: figures, time by work, and all epochs as a strip."""
    profile = side.profile
    memory = profile.memory
    rows = [
        ("Inference", f"{ms(profile.total_ms)} ms"),
        ("Epochs", count(profile.epoch_count)),
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
        # Epochs in their order, for the two timelines: [first, kind, ms, from].
        "starts": [
            [epoch.first, epoch.kind.value, epoch.ms, ", ".join(epoch.origin[:3])]
            for epoch in side.profile.epochs
        ],
    }


def _facts(comparison: Comparison) -> list[list[str]]:
    rows = []
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        profile = side.profile
        model_error = profile.model_error if is_predicted(source_of(profile)) else ""
        error = f"; known error {model_error}" if model_error else ""
        rows.append([letter, f"{side.name}: {label(source_of(profile))}{error}"])
    return rows
