"""An explanation as a value: the verdict on a run of any family, its findings, what to change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from msgspec import field

from npuscope.advice.changes import Change, Editing, best_changes
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.profiling.model import Profile
from npuscope.program.model import Program
from npuscope.rulebook.finding import Finding, Findings, Severity, worst_first
from npuscope.shown import Rows, ShownRecord, counted
from npuscope.structs import Apart


class Built(Protocol):
    """What was compiled (api.Build); the network may be unknown."""

    @property
    def graph(self) -> Graph | None: ...
    @property
    def machine(self) -> Machine: ...
    @property
    def program(self) -> Program: ...


class Explanation(ShownRecord, Apart, frozen=True):
    """A verdict with its findings, of a run on a machine of any family."""

    apart = ("build",)

    verdict: str
    profile: Profile
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    tried: tuple[Change, ...] = ()  # with their timed gains, the best first
    build: Built | None = None  # what was explained
    editing: Editing | None = None  # None where the source is no model file
    lines: tuple[str, ...] = ()  # of what was explained, in the words of another family
    about: dict[str, Any] = field(default_factory=dict)  # the same as keys of --json

    @property
    def has_problems(self) -> bool:
        return any(finding.is_problem for finding in self.findings)

    def told(self) -> str:
        return self.verdict

    def table(self) -> Rows:
        """One row per finding."""
        return Findings(self.findings).table()


def explanation(
    answer: str,
    profile: Profile,
    findings: Iterable[Finding],
    lines: tuple[str, ...] = (),
    about: dict[str, Any] | None = None,
) -> Explanation:
    """Of a family that knows its findings; gains are those that they bring along."""
    worst = worst_first(findings, profile.total_ms)
    changes = best_changes(worst, profile.total_ms)
    sentence = verdict_of(answer, worst)
    return Explanation(sentence, profile, changes, worst, lines=lines, about=about or {})


def verdict_of(answer: str, findings: tuple[Finding, ...]) -> str:
    """An answer with the number of findings behind it."""
    if not findings:
        return f"nothing to change: {answer}, and no rule found anything"
    names = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
    counts = {name: sum(f.severity is s for f in findings) for s, name in names.items()}
    numbers = ", ".join(counted(n, name) for name, n in counts.items() if n)
    return f"{answer}; {numbers}"
