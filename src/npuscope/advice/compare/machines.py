"""One network on several machines of any family, or several networks on one: what each would give,
and what holds it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from npuscope.advice.network_row import NetworkRow, profile_figures
from npuscope.errors import NpuscopeError, UsageError
from npuscope.families.interface import Family
from npuscope.families.registry import families, family_for, family_of
from npuscope.options.kinds import DEFAULT_MACHINE
from npuscope.options.rows import BUILDING
from npuscope.rulebook.finding import main_limit
from npuscope.shown import Rows, ShownRecord, counted


class MachineRow(NetworkRow, frozen=True, kw_only=True):
    """`error` says why a machine has no figures; there is a model where there are several."""

    family: str
    reason: str = ""  # the gravest finding
    change: str = ""  # what pays most
    gain_ms: float | None = None
    is_bound: bool = False  # the gain is at most this
    error: str = ""

    def columns(self) -> dict[str, Any]:
        sizes = {"ram_bytes": self.ram_bytes, "flash_bytes": self.weights_bytes}
        return asdict(self) | sizes


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
        return [row.columns() for row in self.rows]


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
        return [row.columns() for row in self.rows]


def on_machines(
    source: Any, names: Sequence[str], options: Mapping[str, Any], model: str
) -> MachineTable:
    """Options that a family does not know are not for its machines."""
    every = [name for family in families() for name in family.machines()]
    unknown = [name for name in names if name not in every]
    if unknown:
        raise UsageError(
            f"unknown machine '{unknown[0]}'", where="--machines", hint=f"known: {', '.join(every)}"
        )
    if options.get("machine"):
        raise UsageError("cannot be given with --machines", where="--machine")
    for name in names:  # a file that was compiled for one of them is none of the others'
        family_for(source, {"machine": name})
    named = {family.name: family for family in map(family_of, names)}.values()
    taken = [family.understood(options, BUILDING) for family in named]
    idle = {name: options[name] for name in options if not any(name in one for one in taken)}
    next(iter(named)).check(idle, BUILDING)
    return MachineTable(model, tuple(_row(family_of(n), n, source, options) for n in names))


def of_models(sources: Iterable[str], options: Mapping[str, Any]) -> ModelTable:
    """Fit and speed alone: reasons and changes take time of their own."""
    rows, machine = [], str(options.get("machine") or DEFAULT_MACHINE)
    for source in sources:
        family = family_of(machine)
        try:
            family = family_for(source, options)
            profile = family.estimate(source, family.understood(options, BUILDING))
        except UsageError:
            raise
        except NpuscopeError as error:
            figures: dict[str, Any] = {"error": error.message}
        else:
            figures = profile_figures(profile)
        rows.append(MachineRow(machine=machine, family=family.name, model=source, **figures))
    return ModelTable(machine, tuple(rows))


def _row(family: Family, name: str, source: Any, options: Mapping[str, Any]) -> MachineRow:
    own = family.understood(options, BUILDING)
    try:
        explanation = family.explain(source, {**own, "machine": name, "trials": True})
        best = next(iter(explanation.changes), None)
        limit = main_limit(explanation.findings)
        return MachineRow(
            machine=name,
            family=family.name,
            **profile_figures(explanation.profile),
            reason=limit.title if limit else "",
            change=best.fix.title if best else "",
            gain_ms=best.gain_ms if best else None,
            is_bound=best is not None and not best.gain.is_timed,
        )
    except NpuscopeError as error:
        return MachineRow(machine=name, family=family.name, error=error.message)
