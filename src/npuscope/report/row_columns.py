"""Columns of the tables of several networks, set-ups or machines; a word means one thing in all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npuscope.advice.network_row import NetworkRow
from npuscope.report.figures import DASH, ms, size


def extent(row: NetworkRow) -> str:
    """The range of a prediction; it is open above where the cost of an op is not known."""
    if row.interval_ms is None:
        return DASH
    low, high = row.interval_ms
    return f"at least {ms(low)}" if high is None else f"{ms(low)} to {ms(high)}"


def _bytes(value: int | None) -> str:
    return DASH if value is None else size(value)


COLUMNS: dict[str, Callable[[NetworkRow], str]] = {
    "ms": lambda row: "not known" if row.total_ms is None else ms(row.total_ms),
    "range": extent,
    "RAM": lambda row: _bytes(row.ram_bytes),
    "internal": lambda row: _bytes(row.internal_ram_bytes),
    "external": lambda row: _bytes(row.external_ram_bytes),
    "flash": lambda row: _bytes(row.weights_bytes),
    "off NPU": lambda row: DASH if row.off_npu is None else str(row.off_npu),
    "metric": lambda row: DASH if row.figure is None else f"{row.figure:.4g}",
}


def row_cells(row: NetworkRow, heads: Sequence[str]) -> list[str]:
    return [COLUMNS[head](row) for head in heads]
