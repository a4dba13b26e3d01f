"""The figures of one network with one set-up on one machine: a row of every table of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from npuscope.profiling.model import UNKNOWN_MEMORY, Profile

if TYPE_CHECKING:
    from npuscope.profiling.facts import ProgramFacts
    from npuscope.profiling.run import RunTimes


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


_SIZES = ("internal_ram_bytes", "external_ram_bytes", "weights_bytes")


def profile_figures(profile: Profile) -> dict[str, Any]:
    """Fields of a NetworkRow, of a run that was predicted or measured."""
    memory = profile.memory
    return {
        "total_ms": None if profile.is_mostly_unknown else profile.total_ms,
        "interval_ms": profile.interval_ms,
        **{name: getattr(memory, name) for name in _SIZES if memory != UNKNOWN_MEMORY},
        "off_npu": profile.counts.get("SW", 0) + profile.counts.get("HYBRID", 0),
    }


# --- The same in a sweep's store: plain columns, written by a worker ---


def stored_times(times: Profile | RunTimes) -> dict[str, Any]:
    """The columns that `stored_figures` reads the time and its range from."""
    low, high = times.interval_ms
    return {"total_ms": times.total_ms, "low_ms": low, "high_ms": high}


def stored_sizes(facts: Profile | ProgramFacts) -> dict[str, Any]:
    return {name: getattr(facts.memory, name) for name in _SIZES}


def stored_counts(facts: Profile | ProgramFacts) -> dict[str, Any]:
    """Epochs by kind."""
    return {f"epochs_{kind.lower()}": number for kind, number in facts.counts.items()}


def stored_figures(row: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a NetworkRow, of a row which an older version may have written."""
    return {
        "machine": row["machine"],
        "total_ms": row["total_ms"],
        "interval_ms": (row["low_ms"], row["high_ms"]),
        **{name: row[name] for name in _SIZES},
        "off_npu": row.get("epochs_sw", 0) + row.get("epochs_hybrid", 0),
    }


def stored_row(row: Mapping[str, Any]) -> NetworkRow:
    return NetworkRow(model=row["model"], **stored_figures(row))
