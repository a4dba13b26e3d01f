"""Limits on a run: each check with its value, its limit, and whether it holds."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.advice.compare.model import Comparison, Side
from npuscope.advice.compare.run import compare
from npuscope.advice.compare.sides import GATE_SCHEMA, open_side, read_result, result_schema
from npuscope.building import Options, Source
from npuscope.errors import FileError, UsageError
from npuscope.profiling.model import UNKNOWN_MEMORY, Profile
from npuscope.rulebook.finding import Finding, Severity
from npuscope.shown import Rows, ShownRecord, counted
from npuscope.structs import replace
from npuscope.text import safe_terminal

# --- Figures by name, and limits as people write them ---

Figures = Mapping[str, float]

_KINDS = ("HW", "SW", "HYBRID", "blobs")
_BYTES = {"": 1, "B": 1, "kB": 1000, "MB": 10**6, "GB": 10**9}
_BYTES |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MILLISECONDS = {"": 1.0, "ms": 1.0, "us": 1e-3, "s": 1e3}
_LIMIT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([a-zA-Z]{0,3})", re.ASCII)
_FINDINGS = "findings."
STOPS = "compiler_stops"  # rules by which the vendor's compiler makes no program of the model


class Limit(Struct, frozen=True):
    """`most`: the value is an upper limit, else a lower one."""

    name: str
    value: float
    most: bool = True


def figures(profile: Profile, findings: Iterable[Finding] | None = None) -> dict[str, float]:
    """All that is known of a run; findings only where they were looked for."""
    time, memory = profile.time, profile.memory
    values: dict[str, float] = {
        "total_ms": profile.total_ms,
        "inferences_per_s": profile.inferences_per_s,
        "npu_core_ms": time.npu_core_ms,
        "control_ms": time.control_ms,
        "software_ms": time.software_ms,
        "hybrid_ms": time.hybrid_ms,
        "epochs": profile.epoch_count,
        **{name: profile.counts.get(name, 0) for name in _KINDS},
        STOPS: len(profile.stops),
        **profile.figures,
    }
    if memory != UNKNOWN_MEMORY:
        values["internal_ram_bytes"] = memory.internal_ram_bytes
        values["external_ram_bytes"] = memory.external_ram_bytes
        values["weights_bytes"] = memory.weights_bytes
        values |= {pool.name: pool.used_bytes for pool in memory.pools}
    if findings is not None:
        severities = [finding.severity for finding in findings]
        values |= {f"{_FINDINGS}{severity}": severities.count(severity) for severity in Severity}
    return values


def needs_findings(*tables: Mapping[str, float | str] | None) -> bool:
    """Whether a limit is on their number; looking for them takes longer than the rest."""
    return any(name.startswith(_FINDINGS) for table in tables for name in table or ())


def parse_limits(
    most: Mapping[str, float | str] | None,
    least: Mapping[str, float | str] | None,
    values: Figures,
) -> tuple[Limit, ...]:
    tables = ((most, True), (least, False))
    return tuple(
        _limit(name, value, is_most, values)
        for table, is_most in tables
        for name, value in (table or {}).items()
    )


# How figures end that are no memories: times, shares, and counts of a family's own.
_OTHER_UNITS = ("_ms", "_share", "_cycles", "_operators", "_streams")


def is_bytes(name: str, values: Figures) -> bool:
    """Memories, by their own name or by the sum they belong to."""
    plain = {"total_ms", "inferences_per_s", "epochs", *_KINDS}
    other = name.endswith(_OTHER_UNITS) or name.startswith(_FINDINGS) or name == STOPS
    return name in values and name not in plain and not other


def _limit(name: str, value: float | str, most: bool, values: Figures) -> Limit:
    """A limit on a figure that exists, in the figure's own unit."""
    where = "--max" if most else "--min"
    if name not in values:
        folded = {key.lower(): key for key in values}
        near = [folded[hit] for hit in difflib.get_close_matches(name.lower(), folded, n=3)]
        hint = f"did you mean {' or '.join(near)}?" if near else f"figures: {', '.join(values)}"
        raise UsageError(f"unknown figure '{name}'", where=where, hint=hint)
    units = _MILLISECONDS if name.endswith("_ms") else {"": 1}
    if is_bytes(name, values):
        units = _BYTES
    number, scale = _number(value, units)
    if not 0 <= number < math.inf:
        spellings = ", ".join(unit for unit in units if unit)
        hint = f"a number, or one with {spellings}" if spellings else "a plain number"
        raise UsageError(f"cannot read the limit '{value}' of {name}", where=where, hint=hint)
    return Limit(name, number * scale, most)


def _number(value: float | str, units: Mapping[str, float]) -> tuple[float, float]:
    """(number, size of its unit); the number is nan where the text is not a number."""
    if not isinstance(value, str):
        return float(value), 1.0
    match = _LIMIT.fullmatch(value.strip())
    folded = {unit.lower(): size for unit, size in units.items()}
    if match is None or match[2].lower() not in folded:
        return math.nan, 1.0
    return float(match[1]), folded[match[2].lower()]


def parse_share(text: str, where: str) -> float:
    """`3%` or `0.03`."""
    plain = text.strip()
    try:
        value = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value < 10:
        raise UsageError(f"expected a share such as 3% or 0.03, found '{text}'", where=where)
    return value


# --- Baselines: an earlier result, a saved profile, or another source ---

_HINT = "`npuscope estimate SOURCE --json FILE` writes one"


class Baseline(Struct, frozen=True):
    """`side` is None where only figures were kept."""

    name: str
    figures: Figures
    md5: str
    generation: str
    side: Side | None = None


def read_baseline(source: Source, options: Options) -> Baseline:
    if isinstance(source, str | Path) and result_schema(source) == GATE_SCHEMA:
        return _from_gate(Path(source))
    if isinstance(source, str | Path) and not Path(str(source).removeprefix("log:")).exists():
        raise FileError("no such baseline", where=str(source), hint=_HINT)
    side = open_side(source, options)
    profile = side.profile
    values = figures(profile)
    return Baseline(side.name, values, profile.model.md5, profile.machine.generation, side)


def _from_gate(path: Path) -> Baseline:
    data, where = read_result(path), safe_terminal(str(path))
    values = data.get("figures")
    if not isinstance(values, dict) or not values:
        raise FileError("expected an object of figures", where=f"{where}: $.figures", hint=_HINT)
    for name, value in values.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value < 0:
            place = f"{where}: $.figures.{safe_terminal(name)}"
            raise FileError("expected a number of 0 or more", where=place, hint=_HINT)
    md5, generation = _text(data, "model", "md5"), _text(data, "machine", "generation")
    return Baseline(safe_terminal(path.name), values, md5, generation)


def _text(data: dict[str, Any], part: str, key: str) -> str:
    inner = data.get(part)
    value = inner.get(key) if isinstance(inner, dict) else None
    return value if isinstance(value, str) else ""


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
# Figures that grow, and the one that falls, with the cost of an op that is not known.
_TIMES = ("total_ms", "software_ms")
_SPEED = ("inferences_per_s",)
# A limit that is met to the last digit is met; a baseline has the digits that results keep.
_ROUNDING = 1e-9
_KEPT = 0.5e-6


class Check(Struct, frozen=True):
    """`kind` is max, min or baseline; `baseline` and `noise` are 0 where there is none.

    A check is `open` where its figure is only a bound: what is not known cannot pass.
    """

    name: str
    kind: str
    value: float
    limit: float
    is_bytes: bool = False
    baseline: float = 0.0
    noise: float = 0.0
    open: bool = False

    @property
    def passed(self) -> bool:
        if self.open:
            return False
        slack = _ROUNDING * max(1.0, abs(self.limit))
        slack += _KEPT if self.kind == "baseline" else 0.0
        if self.kind == "min":
            return self.value >= self.limit - slack
        return self.value <= self.limit + slack


class Gate(ShownRecord, frozen=True):
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
        """One row per check."""
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
    values = figures(side.profile, findings)
    checks = [_limited(limit, values) for limit in limits]
    if side.profile.stops and not any(limit.name == STOPS for limit in limits):
        checks.insert(0, _limited(Limit(STOPS, 0), values))
    notes = [f"the vendor's compiler stops: {s.title} ({s.rule})" for s in side.profile.stops]
    if unknown := side.profile.unknown_ops:
        kinds = ", ".join(dict.fromkeys(unknown))
        notes.append(
            f"times are lower bounds, so no limit on them can pass: {kinds} of unknown cost"
        )
    comparison = None
    if baseline is not None:
        noise = _noise_ms(side) + (_noise_ms(baseline.side) if baseline.side else 0.0)
        checks += _held(values, baseline, tolerance, noise)
        notes += _notes(side, values, baseline)
        comparison = compare(baseline.side, side) if baseline.side else None
    reasons = tuple(findings or ())
    if side.profile.is_lower_bound:
        # Open: an upper limit on a time of which a part is not known, a lower one on the rate.
        checks = [
            replace(check, open=check.name in (_SPEED if check.kind == "min" else _TIMES))
            for check in checks
        ]
    return Gate(side, tuple(checks), values, baseline, comparison, reasons, tuple(notes))


def _limited(limit: Limit, values: Figures) -> Check:
    kind = "max" if limit.most else "min"
    value = values[limit.name]
    return Check(limit.name, kind, value, limit.value, is_bytes(limit.name, values))


def _held(values: Figures, baseline: Baseline, tolerance: float, noise: float) -> Iterator[Check]:
    # Those of all families, and the bytes that only one counts.
    own = (name for name in values if name.endswith("_bytes") and name not in _HELD)
    for name in (*_HELD, *own):
        if name not in values or name not in baseline.figures:
            continue
        before = baseline.figures[name]
        # Counts and bytes do not vary from run to run.
        band = noise if name == "total_ms" else 0.0
        limit = before * (1 + tolerance) + band
        # 3 % of two epochs is no epoch: a share must not allow a whole one.
        if name in _COUNTED:
            limit = floor(limit)
        size = is_bytes(name, values)
        yield Check(name, "baseline", values[name], limit, size, before, band)


def _noise_ms(side: Side) -> float:
    """How far a measured total may lie from another one by chance."""
    if not side.is_measured:
        return 0.0
    return sum(epoch.spread.max - epoch.spread.min for epoch in side.profile.epochs)


def _notes(side: Side, values: Figures, baseline: Baseline) -> Iterator[str]:
    model, machine = side.profile.model, side.profile.machine
    if baseline.md5 and model.md5 and baseline.md5 != model.md5:
        yield "the baseline belongs to another model file (its fingerprint differs)"
    if baseline.generation and machine.generation and baseline.generation != machine.generation:
        yield f"the baseline has generation {baseline.generation}, this run {machine.generation}"
    missing = [name for name in _HELD if name not in values or name not in baseline.figures]
    if missing:
        yield f"not compared (unknown on one side): {', '.join(missing)}"
