"""One network on several machines, or several on one, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npuscope.advice.compare.machines import MachineRow, MachineTable, ModelTable
from npuscope.report.figures import DASH, ms, shorten_end
from npuscope.report.row_columns import row_cells
from npuscope.text import safe_terminal

_TEXT = 60  # characters of a reason or a change
_FIGURES = ("ms", "range", "RAM", "flash", "off NPU")
HEADS = ("machine", *_FIGURES, "main limit", "best change")


def table_json(table: MachineTable) -> dict[str, Any]:
    return {"schema": "npuscope/machine-table/1", "model": table.model, "machines": table.table()}


def table_text(table: MachineTable) -> str:
    rows = [HEADS, *(cells(row, _TEXT) for row in table.rows)]
    return "\n".join([answer(table), "", *_aligned(rows)]) + "\n"


def answer(table: MachineTable) -> str:
    best, name = table.fastest, safe_terminal(table.model)
    if best is None or best.total_ms is None:
        return f"{name}: its time is not known on any of these machines"
    return f"{name}: fastest on {best.machine}, {ms(best.total_ms)} ms (predicted)"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = (zip(row, wide, strict=True) for row in rows)
    return ["  ".join(f"{cell:<{width}}" for cell, width in row).rstrip() for row in cells]


def models_json(table: ModelTable) -> dict[str, Any]:
    schema = "npuscope/estimate-table/1"
    return {"schema": schema, "machine": table.machine, "models": table.table()}


def models_text(table: ModelTable) -> str:
    timed = [row for row in table.rows if row.total_ms is not None]
    said = f"{len(timed)} of {len(table.rows)} timed on {table.machine} (predicted)"
    if timed:
        total = sum(row.total_ms or 0.0 for row in timed)
        said += f", {ms(total)} ms for one inference of each"
    rows = [("model", *_FIGURES, ""), *(_model_cells(row) for row in table.rows)]
    return "\n".join([said, "", *_aligned(rows)]) + "\n"


def _model_cells(row: MachineRow) -> tuple[str, ...]:
    return (_short(row.model), *cells(row, _TEXT)[1 : len(_FIGURES) + 1], _short(row.error))


def cells(row: MachineRow, most: int) -> tuple[str, ...]:
    """As in HEADS, with so many characters of a reason or a change."""
    if row.error:
        return (row.machine, *(DASH for _ in _FIGURES), _short(row.error, most), "")
    bound = "at most " if row.is_bound else ""
    gain = f"{bound}-{ms(row.gain_ms)} ms: " if row.gain_ms else ""
    return (
        row.machine,
        *row_cells(row, _FIGURES),
        _short(row.reason, most) or DASH,
        f"{gain}{_short(row.change, most)}" if row.change else DASH,
    )


def _short(text: str, most: int = _TEXT) -> str:
    return shorten_end(safe_terminal(text), most)
