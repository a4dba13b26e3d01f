"""Why a many-core inference is slow and what to change: of a model, or of buffers of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from npuscope.advice.explain import Change, Explained, best_changes
from npuscope.bounded_file import RESULT, parse_json, read_bytes, read_head
from npuscope.errors import FileError, NpuscopeError
from npuscope.lean_dataclass import dataclass
from npuscope.many_core.buffer_format import MAGIC
from npuscope.many_core.family import FAMILY, CoreTimed
from npuscope.many_core.opstats.model import Opstats
from npuscope.many_core.rules import core_findings, core_lints
from npuscope.report.core_runs import decoded_tables
from npuscope.report.findings import (
    EXPLAIN_SCHEMA,
    change_json,
    change_lines,
    finding_lines,
)
from npuscope.rulebook.finding import (
    Finding,
    Severity,
    finding_from_json,
    finding_json,
    worst_first,
)
from npuscope.shown import counted
from npuscope.text import safe_terminal


@dataclass(frozen=True, slots=True, repr=False)
class CoreExplanation(Explained):
    """As Explanation is for the first family; `about` are lines and keys of what was explained."""

    TEXT = "npuscope.report.core_explain:core_explain_text"
    JSON = "npuscope.report.core_explain:core_explain_json"

    verdict: str
    total_ms: float
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    lines: tuple[str, ...]
    about: dict[str, Any]


def explain_model(timed: CoreTimed) -> CoreExplanation:
    """A network that was compiled and simulated; its levers were tried."""
    built = timed.built
    tables = timed.tables
    found = worst_first((*timed.findings, *core_lints(built.graph, built.machine)))
    report = FAMILY.report(timed).json
    about = {key: report[key] for key in ("model", "machine", "interval_ms", "engines", "notes")}
    cores = f"{built.program.layout.cores} of {built.machine.cores.count} cores"
    lines = (
        f"model    {safe_terminal(built.file)}",
        f"machine  {built.machine.name}, {cores}",
        *_notes(built.program.layout.notes),
    )
    sentence = tables.verdict.sentence
    return _explained(sentence, timed.total_ms, found, (*_path(tables), *lines), about)


def explain_run(source: str | Path) -> CoreExplanation:
    """Buffers, or what `opstats --json` wrote of them; the first speaks for the run."""
    path = Path(source)
    if path.is_dir() or read_head(path, len(MAGIC)) == MAGIC:
        tables = decoded_tables(path)
        return _of_tables(path.name, tables[0])
    try:
        return _of_result(path, parse_json(read_bytes(path, RESULT)))
    except NpuscopeError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise FileError(
            f"is not a whole result of opstats: {error}", where=safe_terminal(str(path))
        ) from None


def _of_tables(name: str, tables: Opstats) -> CoreExplanation:
    machine = tables.capacity.machine if tables.capacity else ""
    cores = counted(len(tables.cores), "core")
    about = _about(name, machine, len(tables.cores), dict(tables.verdict.shares), tables.notes)
    place = safe_terminal(tables.name)
    lines = (f"run      {place}, inference {tables.inference}, {cores}", *_notes(tables.notes))
    ms, found = tables.totals.seconds * 1e3, core_findings(tables)
    return _explained(tables.verdict.sentence, ms, found, (*_path(tables), *lines), about)


def _about(name: str, machine: str, cores: int, shares: Any, notes: Any) -> dict[str, Any]:
    where = {"name": machine, "family": FAMILY.name, "cores": cores}
    return {"model": {"file": name}, "machine": where, "engines": shares, "notes": list(notes)}


def _of_result(path: Path, result: dict[str, Any]) -> CoreExplanation:
    first = result["buffers"][0]
    place = f"{path}: $.buffers[0].findings"
    found = [
        finding_from_json(row, f"{place}[{n}]") for n, row in enumerate(first.get("findings", ()))
    ]
    cores, shares = len(first["cores"]), dict(first["verdict"]["shares"])
    about = _about(path.name, str(first.get("machine") or ""), cores, shares, first["notes"])
    name = safe_terminal(str(first["name"]))
    told = f"run      {name}, inference {int(first['inference'])}, {counted(cores, 'core')}"
    lines = (told, *_notes(map(str, first["notes"])))
    sentence = str(first["verdict"].get("sentence") or first["verdict"]["bound"])
    ms = float(first["totals"]["seconds"]) * 1e3
    return _explained(safe_terminal(sentence), ms, tuple(found), lines, about)


def _notes(notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"note     {safe_terminal(note)}" for note in notes)


def _path(tables: Opstats) -> tuple[str, ...]:
    told = ", ".join(f"{name} {100 * share:.0f} %" for name, share in tables.path)
    return (f"path     {told}",) if told else ()


def _explained(
    sentence: str,
    ms: float,
    findings: tuple[Finding, ...],
    lines: tuple[str, ...],
    about: dict[str, Any],
) -> CoreExplanation:
    names = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
    counts = [(sum(f.severity is one for f in findings), name) for one, name in names.items()]
    told = ", ".join(counted(number, name) for number, name in counts if number)
    verdict = f"{ms:.4g} ms, {sentence}; {told or 'no rule found anything'}"
    return CoreExplanation(verdict, ms, best_changes(findings, ms), findings, lines, about)


def core_explain_text(found: CoreExplanation, *, every: bool = False) -> str:
    lines = [found.verdict, *change_lines(found.changes), *found.lines]
    return "\n".join([*lines, "", *finding_lines(found.findings, every=every)]).rstrip() + "\n"


def core_explain_json(found: CoreExplanation) -> dict[str, Any]:
    return {
        "schema": EXPLAIN_SCHEMA,
        "verdict": found.verdict,
        "total_ms": round(found.total_ms, 6),
        **found.about,
        "changes": [change_json(change) for change in found.changes],
        "findings": [finding_json(finding) for finding in found.findings],
    }
