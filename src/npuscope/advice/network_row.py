"""The figures of one network with one set-up on one machine: a row of every table of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from npuscope.profiling.model import UNKNOWN_MEMORY, Profile


class NetworkRow(Struct, frozen=True, kw_only=True):
    """What is not known is None; so is the upper end of a range where the cost of an op is not
    known. `figure` is what a metric says of the answers."""

    model: str = ""
    machine: str = ""
    total_ms: float | None = None
    interval_ms: tuple[float, float | None] | None = None
    internal_ram_bytes: int | None = None
    external_ram_bytes: int | None = None
    weights_bytes: int | None = None  # they lie in flash, or in what takes its place
    off_npu: int | None = None  # parts on the CPU or in library calls
    figure: float | None = None

    @property
    def ram_bytes(self) -> int | None:
        if self.internal_ram_bytes is None or self.external_ram_bytes is None:
            return None
        return self.internal_ram_bytes + self.external_ram_bytes


def profile_figures(profile: Profile) -> dict[str, Any]:
    """Fields of a NetworkRow, of a run that was predicted or measured."""
    memory = profile.memory
    sizes = ("internal_ram_bytes", "external_ram_bytes", "weights_bytes")
    return {
        "total_ms": None if profile.is_mostly_unknown else profile.total_ms,
        "interval_ms": profile.interval_ms,
        **{name: getattr(memory, name) for name in sizes if memory != UNKNOWN_MEMORY},
        "off_npu": profile.counts.get("SW", 0) + profile.counts.get("HYBRID", 0),
    }


def stored_figures(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a row of a sweep's store, which an older version may have written."""
    sizes = ("internal_ram_bytes", "external_ram_bytes", "weights_bytes")
    return {
        "machine": row["machine"],
        "total_ms": row["total_ms"],
        "interval_ms": (row["low_ms"], row["high_ms"]),
        **{name: row[name] for name in sizes},
        "off_npu": row.get("epochs_sw", 0) + row.get("epochs_hybrid", 0),
    }


def stored_row(row: Mapping[str, Any]) -> NetworkRow:
    return NetworkRow(model=row["model"], **stored_figures(row))
