"""One network on several machines, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npuscope.advice.compare.machines import MachineRow, MachineTable
from npuscope.report.figures import DASH, ms, shorten_end, size
from npuscope.text import safe_terminal

_TEXT = 60  # characters of a reason or a change
_HEADS = ("machine", "ms", "range", "RAM", "flash", "off NPU", "main limit", "best change")


def table_json(table: MachineTable) -> dict[str, Any]:
    return {"schema": "npuscope/machine-table/1", "model": table.model, "machines": table.table()}


def table_text(table: MachineTable) -> str:
    return "\n".join([_answer(table), "", *_lines([_HEADS, *map(_cells, table.rows)])]) + "\n"


def _answer(table: MachineTable) -> str:
    best = table.fastest
    name = safe_terminal(table.model)
    if best is None or best.total_ms is None:
        return f"{name}: its time is not known on any of these machines"
    return f"{name}: fastest on {best.machine}, {ms(best.total_ms)} ms (predicted)"


def _cells(row: MachineRow) -> tuple[str, ...]:
    if row.error:
        return (row.machine, DASH, DASH, DASH, DASH, DASH, _short(row.error), "")
    low, high = row.interval_ms or (None, None)
    most = "at most " if row.is_bound else ""
    gain = f"{most}-{ms(row.gain_ms)} ms: " if row.gain_ms else ""
    return (
        row.machine,
        "not known" if row.total_ms is None else ms(row.total_ms),
        DASH if low is None or high is None else f"{ms(low)} to {ms(high)}",
        *(DASH if value is None else size(value) for value in (row.ram_bytes, row.flash_bytes)),
        DASH if row.off_npu is None else str(row.off_npu),
        _short(row.reason) or DASH,
        f"{gain}{_short(row.change)}" if row.change else DASH,
    )


def _short(text: str) -> str:
    return shorten_end(safe_terminal(text), _TEXT)


def _lines(rows: list[tuple[str, ...]]) -> Iterator[str]:
    wide = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, wide, strict=True)).rstrip()
