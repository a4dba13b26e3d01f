"""Why a many-core inference is slow and what to change: of a model, or of buffers of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from npuscope.advice.explanation import Explanation, explanation
from npuscope.families.many_core.inference import CoreInference
from npuscope.families.many_core.report.estimate import core_json
from npuscope.families.many_core.report.runs import read_core_run, result_findings
from npuscope.families.many_core.rules import FAMILY, core_lints
from npuscope.profiling.model import Profile
from npuscope.shown import counted, significant
from npuscope.text import safe_terminal


def explain_model(profile: Profile) -> Explanation:
    """A network that was compiled and simulated; its levers were tried."""
    run: CoreInference = profile.payload
    build = run.build
    findings = (*run.findings, *core_lints(build.graph, build.machine))
    report = core_json(profile, run)
    about = {key: report[key] for key in ("model", "machine", "interval_ms", "engines")}
    lines = (
        *_path(dict(run.tables.path)),
        f"model    {safe_terminal(build.file)}",
        *_notes(profile.notes),
    )
    answer = f"{significant(profile.total_ms, 4)} ms, {run.tables.verdict.sentence}"
    return explanation(answer, profile, findings, lines, about)


def explain_run(path: Path) -> Explanation:
    """Buffers, or what `opstats --json` wrote of them; the first speaks for the run."""
    profile = read_core_run(path)
    first = profile.payload["buffers"][0]
    verdict, cores = first["verdict"], len(first["cores"])
    about = {
        "model": {"file": path.name},
        "machine": {"name": profile.machine.name, "family": FAMILY, "cores": cores},
        "engines": dict(verdict["shares"]),
    }
    name = safe_terminal(str(first["name"]))
    lines = (
        *_path(first.get("path") or {}),
        f"run      {name}, inference {int(first['inference'])}, {counted(cores, 'core')}",
        *_notes(profile.notes),
    )
    sentence = safe_terminal(str(verdict.get("sentence") or verdict["bound"]))
    answer = f"{significant(profile.total_ms, 4)} ms, {sentence}"
    return explanation(answer, profile, result_findings(path, first), lines, about)


def _path(shares: dict[str, float]) -> Iterator[str]:
    parts = [f"{safe_terminal(str(name))} {100 * share:.0f} %" for name, share in shares.items()]
    if parts:
        yield f"path     {', '.join(parts)}"


def _notes(notes: Iterable[str]) -> Iterator[str]:
    return (f"note     {safe_terminal(note)}" for note in notes)
