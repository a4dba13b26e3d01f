"""One network on several machines of any family, or several networks on one: what each would give,
and what holds it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from npuscope.errors import NpuscopeError, UsageError
from npuscope.families.interface import Family
from npuscope.families.registry import families, family_for, family_of
from npuscope.options.rows import BUILDING
from npuscope.profiling.model import UNKNOWN_MEMORY, Profile
from npuscope.shown import Rows, ShownRecord, counted


class MachineRow(Struct, frozen=True):
    """What is not known is None; `error` says why a machine has no figures."""

    machine: str
    family: str
    total_ms: float | None = None
    interval_ms: tuple[float, float | None] | None = None
    ram_bytes: int | None = None
    flash_bytes: int | None = None
    off_npu: int | None = None  # parts on the CPU or in library calls
    reason: str = ""  # the gravest finding
    change: str = ""  # what pays most
    gain_ms: float | None = None
    is_bound: bool = False  # the gain is at most this
    error: str = ""
    model: str = ""  # where there are several


class ModelTable(ShownRecord, frozen=True):
    """Several networks, or programs and runs of them, on one machine."""

    TEXT = "npuscope.report.machine_table:models_text"
    JSON = "npuscope.report.machine_table:models_json"

    machine: str
    rows: tuple[MachineRow, ...]  # as they were named

    @property
    def has_failed(self) -> bool:
        return any(row.error for row in self.rows)

    def told(self) -> str:
        return f"{counted(len(self.rows), 'network')} on {self.machine}"

    def table(self) -> Rows:
        """One row per network."""
        return [asdict(row) for row in self.rows]


class MachineTable(ShownRecord, frozen=True):
    TEXT = "npuscope.report.machine_table:table_text"
    JSON = "npuscope.report.machine_table:table_json"

    model: str
    rows: tuple[MachineRow, ...]  # as they were named

    @property
    def fastest(self) -> MachineRow | None:
        timed = [row for row in self.rows if row.total_ms is not None]
        return min(timed, key=lambda row: row.total_ms or 0.0, default=None)

    def told(self) -> str:
        return f"{self.model} on {counted(len(self.rows), 'machine')}"

    def table(self) -> Rows:
        """One row per machine."""
        return [asdict(row) for row in self.rows]


def on_machines(
    source: Any, names: Iterable[str], options: Mapping[str, Any], model: str
) -> MachineTable:
    """Options that a family does not know are not for its machines."""
    every = [name for family in families() for name in family.machines()]
    unknown = [name for name in names if name not in every]
    if unknown:
        raise UsageError(
            f"unknown machine '{unknown[0]}'", where="--machines", hint=f"known: {', '.join(every)}"
        )
    return MachineTable(model, tuple(_row(family_of(n), n, source, options) for n in names))


def of_models(sources: Iterable[str], options: Mapping[str, Any]) -> ModelTable:
    """Fit and speed alone: reasons and changes take time of their own."""
    rows, machine = [], str(options.get("machine") or "")
    for source in sources:
        family = family_for(source, options)
        try:
            profile = family.estimate(source, family.understood(options, BUILDING))
        except NpuscopeError as error:
            rows.append(MachineRow(machine, family.name, error=error.message, model=source))
            continue
        off = profile.counts.get("SW", 0) + profile.counts.get("HYBRID", 0)
        total = None if profile.is_mostly_unknown else profile.total_ms
        figures = (total, profile.interval_ms, *_memory(profile), off)
        rows.append(MachineRow(machine, family.name, *figures, model=source))
    return ModelTable(machine, tuple(rows))


def _row(family: Family, name: str, source: Any, options: Mapping[str, Any]) -> MachineRow:
    own = family.understood(options, BUILDING)
    try:
        explanation = family.explain(source, {**own, "machine": name, "trials": True})
        profile, best = explanation.profile, next(iter(explanation.changes), None)
        return MachineRow(
            name,
            family.name,
            None if profile.is_mostly_unknown else profile.total_ms,
            profile.interval_ms,
            *_memory(profile),
            profile.counts.get("SW", 0) + profile.counts.get("HYBRID", 0),
            explanation.findings[0].title if explanation.findings else "",
            best.fix.title if best else "",
            best.gain_ms if best else None,
            best is not None and not best.gain.is_timed,
        )
    except NpuscopeError as error:
        return MachineRow(name, family.name, error=error.message)


def _memory(profile: Profile) -> tuple[int | None, int | None]:
    """RAM and flash; weights lie in flash, or in what takes its place."""
    memory = profile.memory
    if memory == UNKNOWN_MEMORY:
        return None, None
    return memory.internal_ram_bytes + memory.external_ram_bytes, memory.weights_bytes
