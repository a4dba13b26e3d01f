"""Finding: what a rule has to say about an op, an epoch or the whole network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from npuscope.rulebook.fixes import Fix as Fix
from npuscope.rulebook.fixes import Value as Value
from npuscope.shown import Rows, Shown, counted
from npuscope.whole_file import write_whole


class Severity(StrEnum):
    ERROR = "error"  # the network does not run, or its results are wrong
    WARNING = "warning"  # work leaves the NPU, or a known hazard is met
    INFO = "info"  # slower or larger than it needs to be

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Confidence(StrEnum):
    VERIFIED = "verified"  # seen on hardware, or checked by us
    DOCUMENTED = "documented"
    REPORTED = "reported"  # one public source says so


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Shown):
    """What a rule has to say: evidence, cause, and the fixes with their predicted gain.

    `epoch` is None for findings about the model file or the whole run.

    `evidence` always has `value` and `limit`; `ops` are source ops, `since` and `until`
    generations, empty where there is no bound.
    """

    rule: str
    severity: Severity
    title: str
    epoch: int | None
    ops: tuple[str, ...]
    evidence: Mapping[str, Value]
    cause: str
    fixes: tuple[Fix, ...]
    confidence: Confidence
    since: str
    until: str
    docs: str

    @property
    def gain_ms(self) -> float | None:
        """What the best of the fixes is predicted to save."""
        return max((f.gain_ms for f in self.fixes if f.gain_ms is not None), default=None)

    @property
    def is_problem(self) -> bool:
        """Worth a failing exit code, where one was asked for."""
        return self.severity is not Severity.INFO

    def told(self) -> str:
        where = f" at {', '.join(self.ops)}" if self.ops else ""
        return f"{self.rule} {self.severity.value}: {self.title}{where}"

    def table(self) -> Rows:
        gain, fixes = self.gain_ms, [fix.title for fix in self.fixes]
        return [
            {
                "rule": self.rule,
                "severity": self.severity.value,
                "title": self.title,
                "epoch": self.epoch,
                "ops": list(self.ops),
                "cause": self.cause,
                "fixes": fixes,
                "gain_ms": gain,
            }
        ]

    def save(self, path: str | Path) -> None:
        """As JSON; `npuscope.load` gives it back among Findings."""
        Findings((self,)).save(path)


class Findings(tuple["Finding", ...], Shown):
    """Findings in their order, shown and saved as one."""

    __slots__ = ()
    __repr__ = Shown.__repr__

    def told(self) -> str:
        problems = sum(finding.is_problem for finding in self)
        return f"{counted(len(self), 'finding')}, errors or warnings: {problems}"

    def table(self) -> Rows:
        """A row a finding."""
        return [row for finding in self for row in finding.table()]

    def save(self, path: str | Path) -> None:
        """As JSON; `npuscope.load` reads them again."""
        from npuscope.rulebook.saved import findings_to_json

        write_whole(path, findings_to_json(self))


@dataclass(frozen=True, slots=True)
class Hit:
    """What a rule function reports; the rule's record makes it a Finding.

    `fixes` holds the parameters of its fixes and `gains` their predicted gains, by fix id.
    """

    ops: tuple[str, ...]
    value: Value
    limit: Value = None
    evidence: Mapping[str, Value] = field(default_factory=dict)
    fixes: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    gains: Mapping[str, float | None] = field(default_factory=dict)
    epoch: int | None = None
    severity: Severity | None = None


def gravest_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By severity alone: nothing ran that could tell a gain."""
    return tuple(sorted(findings, key=lambda finding: finding.severity.rank))


def worst_first(finding: Finding) -> tuple[float, int, float]:
    """Sort key: what pays most, then what hurts most, then the order of execution."""
    gain = finding.gain_ms or 0.0
    place = finding.epoch if finding.epoch is not None else float("inf")
    return -gain, finding.severity.rank, place
