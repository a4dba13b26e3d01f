"""Limits on a run: each check with its value, its limit, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor

from npuscope.advice.compare.model import Comparison, Side
from npuscope.advice.compare.run import compare
from npuscope.advice.gate_baseline import Baseline
from npuscope.advice.gate_figures import Figures, Limit, figures, is_bytes
from npuscope.rulebook.finding import Finding
from npuscope.shown import Rows, Shown, counted

# What must not get worse than it was; all of these are better when smaller.
_HELD = (
    "total_ms",
    "SW",
    "HYBRID",
    "internal_ram_bytes",
    "external_ram_bytes",
    "weights_bytes",
)
_COUNTED = ("SW", "HYBRID")
# A limit that is met to the last digit is met.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Check:
    """`kind` is max, min or baseline; `baseline` and `noise` are 0 where there is none."""

    name: str
    kind: str
    value: float
    limit: float
    is_bytes: bool = False
    baseline: float = 0.0
    noise: float = 0.0

    @property
    def passed(self) -> bool:
        slack = _ROUNDING * max(1.0, abs(self.limit))
        if self.kind == "min":
            return self.value >= self.limit - slack
        return self.value <= self.limit + slack


@dataclass(frozen=True, slots=True, repr=False)
class Gate(Shown):
    side: Side
    checks: tuple[Check, ...]
    figures: Figures
    baseline: Baseline | None = None
    comparison: Comparison | None = None  # with the baseline, where that has epochs
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed)

    def told(self) -> str:
        failed = sum(not check.passed for check in self.checks)
        return f"{counted(len(self.checks), 'check')}, {failed} failed"

    def table(self) -> Rows:
        """A row a check."""
        return [
            {
                "check": check.name,
                "kind": check.kind,
                "value": check.value,
                "limit": check.limit,
                "passed": check.passed,
            }
            for check in self.checks
        ]


def gate(
    side: Side,
    limits: Sequence[Limit],
    baseline: Baseline | None = None,
    tolerance: float = 0.0,
    findings: Sequence[Finding] | None = None,
) -> Gate:
    known = figures(side.profile, findings)
    checks = [_limited(limit, known) for limit in limits]
    notes: list[str] = []
    comparison = None
    if baseline is not None:
        noise = _noise_ms(side) + (_noise_ms(baseline.side) if baseline.side else 0.0)
        checks += _held(known, baseline, tolerance, noise)
        notes += _notes(side, known, baseline)
        comparison = compare(baseline.side, side) if baseline.side else None
    told = tuple(findings or ())
    return Gate(side, tuple(checks), known, baseline, comparison, told, tuple(notes))


def _limited(limit: Limit, known: Figures) -> Check:
    kind = "max" if limit.most else "min"
    value = known[limit.name]
    return Check(limit.name, kind, value, limit.value, is_bytes(limit.name, known))


def _held(known: Figures, baseline: Baseline, tolerance: float, noise: float) -> Iterator[Check]:
    for name in _HELD:
        if name not in known or name not in baseline.figures:
            continue
        before = baseline.figures[name]
        band = noise if name == "total_ms" else 0.0
        limit = before * (1 + tolerance) + band
        if name in _COUNTED:
            limit = floor(limit)
        size = is_bytes(name, known)
        yield Check(name, "baseline", known[name], limit, size, before, band)


def _noise_ms(side: Side) -> float:
    """How far a measured total may lie from another one by chance."""
    if not side.is_measured:
        return 0.0
    return sum(epoch.spread.max - epoch.spread.min for epoch in side.profile.epochs)


def _notes(side: Side, known: Figures, baseline: Baseline) -> Iterator[str]:
    model, machine = side.profile.model, side.profile.machine
    if baseline.md5 and model.md5 and baseline.md5 != model.md5:
        yield "the baseline is of another model file (its fingerprint differs)"
    if baseline.generation and machine.generation and baseline.generation != machine.generation:
        yield f"the baseline is of generation {baseline.generation}, this is {machine.generation}"
    missing = [name for name in _HELD if name not in known or name not in baseline.figures]
    if missing:
        yield f"not compared, one of the two does not know: {', '.join(missing)}"
