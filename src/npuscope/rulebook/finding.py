"""Finding: what a rule reports about an op, an epoch or the whole network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from npuscope.bounded_file import RESULT, parse_json, read_bytes, read_head
from npuscope.errors import FileError
from npuscope.rulebook.fix import Fix as Fix
from npuscope.rulebook.fix import FunctionEffect, Gain, GainBasis
from npuscope.rulebook.fix import Value as Value
from npuscope.rulebook.training import training
from npuscope.shown import Rows, Shown, ShownRecord, counted
from npuscope.whole_file import write_whole


class Severity(StrEnum):
    ERROR = "error"  # the vendor's compiler stops, or its results are wrong
    WARNING = "warning"  # work runs off the NPU, or a known problem may occur
    INFO = "info"  # slower or larger than necessary

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Confidence(StrEnum):
    VERIFIED = "verified"  # seen on hardware, or checked by us
    DOCUMENTED = "documented"
    REPORTED = "reported"  # one public source says so


class Finding(ShownRecord, frozen=True):
    """What a rule reports: evidence, cause, and the fixes with their predicted gain.

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
        """What the best of the fixes saves, or may save at most."""
        return max((f.gain_ms for f in self.fixes if f.gain_ms is not None), default=None)

    @property
    def time_ms(self) -> float:
        """What the work that the finding speaks of takes; 0 where that is not said."""
        time = self.evidence.get("ms")
        return float(time) if isinstance(time, int | float) else 0.0

    @property
    def leaves_npu(self) -> bool:
        """True for findings about ops that do not run on the NPU: they list their epochs."""
        epochs = self.evidence.get("epochs")
        return isinstance(epochs, list) and bool(epochs)

    @property
    def cost_ms(self) -> float:
        """What the ops take off the NPU; 0 for findings about something else."""
        return self.time_ms if self.leaves_npu else 0.0

    @property
    def stake_ms(self) -> float:
        """What decides the order: the predicted gain, or the time where no gain is known."""
        return self.time_ms if self.gain_ms is None else self.gain_ms

    @property
    def pattern(self) -> tuple[str, str]:
        """Findings of one cause: a rule, and the op where the rule is about ops of any kind."""
        return self.rule, str(self.evidence.get("op", ""))

    @property
    def is_problem(self) -> bool:
        """True for findings that may set a failing exit code."""
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
        """One row per finding."""
        return [row for finding in self for row in finding.table()]

    def save(self, path: str | Path) -> None:
        """As JSON; `npuscope.load` reads them again."""

        write_whole(path, findings_to_json(self))


class Hit(Struct, frozen=True):
    """What a rule function reports; the rule's record makes it a Finding.

    `fixes` holds the parameters of its fixes and `gains` what they save, by fix id; `unfit` are
    fixes of the rule that are not true here.
    """

    ops: tuple[str, ...]
    value: Value
    limit: Value = None
    evidence: Mapping[str, Value] = field(default_factory=dict)
    fixes: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    gains: Mapping[str, Gain] = field(default_factory=dict)
    epoch: int | None = None
    severity: Severity | None = None
    unfit: tuple[str, ...] = ()


def gravest_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By severity only: without a run no gain is known."""
    return tuple(sorted(findings, key=lambda finding: finding.severity.rank))


NEGLIGIBLE = 0.01  # of the time: nobody came for less


def worst_first(findings: Iterable[Finding], total_ms: float) -> tuple[Finding, ...]:
    """Causes in the order in which a reader asks: what leaves the NPU, errors (the first line names
    those that stop the compiler), what else costs time. A cause that costs a negligible part of
    `total_ms` stands after those that do not. Within a rank causes are sorted by what all their
    findings have at stake, then by severity and order of execution; within a cause likewise."""

    def worst_cause(group: Sequence[Finding]) -> tuple[int, float, int, float]:
        stake = sum(finding.stake_ms for finding in group)
        return _rank(group, stake, total_ms), -stake, *_worst(group[0])[1:]

    alike = (sorted(group, key=_worst) for group in causes_of(findings))
    return tuple(finding for group in sorted(alike, key=worst_cause) for finding in group)


def causes_of(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings of one cause together."""
    causes: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        causes.setdefault(finding.pattern, []).append(finding)
    return list(causes.values())


def _rank(group: Sequence[Finding], stake_ms: float, total_ms: float) -> int:
    least = NEGLIGIBLE * total_ms
    away = any(finding.leaves_npu for finding in group)
    unknown = any(finding.evidence.get("ms_known") is False for finding in group)
    if away and (unknown or sum(finding.cost_ms for finding in group) >= least):
        return 0
    if group[0].severity is Severity.ERROR:
        return 1
    return 2 if stake_ms >= least and not away else 3 if away else 4


def main_limit(findings: Iterable[Finding]) -> Finding | None:
    """The finding that answers what holds a network back: what stops the compiler, else that of
    the cause with the largest share of the time, else the first."""
    groups = causes_of(findings)
    errors = [group[0] for group in groups if group[0].severity is Severity.ERROR]
    if errors or not groups:
        return errors[0] if errors else None
    return max(groups, key=lambda group: sum(finding.time_ms for finding in group))[0]


def _worst(finding: Finding) -> tuple[float, int, float]:
    place = finding.epoch if finding.epoch is not None else float("inf")
    return -finding.stake_ms, finding.severity.rank, place


# --- Findings as a file: the objects of `explain --json` ---

SCHEMA = "npuscope/findings/1"
_HEAD_BYTES = 256
_TEXTS = ("rule", "title", "cause", "since", "until", "docs")


def finding_json(finding: Finding) -> dict[str, Any]:
    """One finding as the JSON object that other programs rely on."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "title": finding.title,
        "epoch": finding.epoch,
        "ops": list(finding.ops),
        "evidence": dict(finding.evidence),
        "cause": finding.cause,
        "fixes": [fix_json(fix) for fix in finding.fixes],
        "confidence": finding.confidence.value,
        "since": finding.since,
        "until": finding.until,
        "docs": finding.docs,
    }


def fix_json(fix: Fix) -> dict[str, Any]:
    return {
        "id": fix.id,
        "title": fix.title,
        "parameters": dict(fix.parameters),
        "automatic": fix.automatic,
        "function": fix.function.value,
        **gain_json(fix.gain),
        "training": training(fix.id, fix.parameters),
    }


def gain_json(gain: Gain) -> dict[str, Any]:
    """Milliseconds, whether they were timed or are a bound, and the work that moves elsewhere."""
    return {
        "gain_ms": None if gain.ms is None else round(gain.ms, 6),
        "gain_basis": gain.basis.value,
        "moves": gain.elsewhere,
    }


def findings_to_json(findings: Iterable[Finding]) -> bytes:
    record = {"schema": SCHEMA, "findings": [finding_json(finding) for finding in findings]}
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace")


def are_saved_findings(path: Path) -> bool:
    return f'"schema": "{SCHEMA}"'.encode() in read_head(path, _HEAD_BYTES)


def read_findings(path: Path) -> Findings:
    """What was saved; an error names the finding."""
    try:
        rows = parse_json(read_bytes(path, RESULT))["findings"]
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"holds no findings: {error}", where=str(path)) from None
    if not isinstance(rows, list):
        raise FileError("expected a list", where=f"{path}: $.findings")
    return Findings(
        finding_from_json(row, f"{path}: $.findings[{i}]") for i, row in enumerate(rows)
    )


def finding_from_json(row: Any, where: str) -> Finding:
    """The reverse of `finding_json`; an error names the place."""
    try:
        if not all(isinstance(row[key], str) for key in _TEXTS):
            raise ValueError("expected strings")
        if row["epoch"] is not None and type(row["epoch"]) is not int:
            raise ValueError("expected a whole number as the epoch")
        return Finding(
            rule=row["rule"],
            severity=Severity(row["severity"]),
            title=row["title"],
            epoch=row["epoch"],
            ops=tuple(map(str, row["ops"])),
            evidence=dict(row["evidence"]),
            cause=row["cause"],
            fixes=tuple(_fix(fix) for fix in row["fixes"]),
            confidence=Confidence(row["confidence"]),
            since=row["since"],
            until=row["until"],
            docs=row["docs"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"is not a finding: {error}", where=where) from None


def _fix(row: Any) -> Fix:
    """Results of older versions know neither the effect on the function nor the basis of a gain."""
    value, automatic = row["gain_ms"], bool(row["automatic"])
    usual = FunctionEffect.EXACT if automatic else FunctionEffect.CHANGED
    basis = GainBasis.NONE if value is None else GainBasis.BOUND
    gain = Gain(
        None if value is None else float(value),
        GainBasis(row.get("gain_basis", basis)),
        str(row.get("moves", "")),
    )
    function = FunctionEffect(row.get("function", usual))
    return Fix(str(row["id"]), str(row["title"]), dict(row["parameters"]), function, gain)
