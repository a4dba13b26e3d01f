"""Limits on a run: each check with its value, its limit, and whether it holds."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor
from pathlib import Path
from typing import Any

from npuscope.advice.compare.model import Comparison, Side
from npuscope.advice.compare.run import compare
from npuscope.advice.compare.sides import GATE_SCHEMA, open_side, read_result, result_schema
from npuscope.building import Options, Source
from npuscope.errors import FileError, UsageError
from npuscope.lean_dataclass import dataclass, replace
from npuscope.profiling.model import UNKNOWN_MEMORY, Profile
from npuscope.rulebook.finding import Finding, Severity
from npuscope.shown import Rows, Shown, counted
from npuscope.text import safe_terminal

# --- Figures by name, and limits as people write them ---

Figures = Mapping[str, float]

_KINDS = ("HW", "SW", "HYBRID", "blobs")
_BYTES = {"": 1, "B": 1, "kB": 1000, "MB": 10**6, "GB": 10**9}
_BYTES |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MILLISECONDS = {"": 1.0, "ms": 1.0, "us": 1e-3, "s": 1e3}
_LIMIT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([a-zA-Z]{0,3})", re.ASCII)
_FINDINGS = "findings."


@dataclass(frozen=True, slots=True)
class Limit:
    """`most`: the value is an upper limit, else a lower one."""

    name: str
    value: float
    most: bool = True


def figures(profile: Profile, findings: Iterable[Finding] | None = None) -> dict[str, float]:
    """All that is known of a run; findings only where they were looked for."""
    time, memory = profile.time, profile.memory
    found: dict[str, float] = {
        "total_ms": profile.total_ms,
        "inferences_per_s": profile.inferences_per_s,
        "npu_core_ms": time.npu_core_ms,
        "control_ms": time.control_ms,
        "software_ms": time.software_ms,
        "hybrid_ms": time.hybrid_ms,
        "epochs": len(profile.epochs),
        **{name: profile.counts.get(name, 0) for name in _KINDS},
        **profile.figures,
    }
    if memory != UNKNOWN_MEMORY:
        found["internal_ram_bytes"] = memory.internal_ram_bytes
        found["external_ram_bytes"] = memory.external_ram_bytes
        found["weights_bytes"] = memory.weights_bytes
        found |= {pool.name: pool.used_bytes for pool in memory.pools}
    if findings is not None:
        told = [finding.severity for finding in findings]
        found |= {f"{_FINDINGS}{severity}": told.count(severity) for severity in Severity}
    return found


def needs_findings(*tables: Mapping[str, float | str] | None) -> bool:
    """Whether a limit is on their number; looking for them takes longer than the rest."""
    return any(name.startswith(_FINDINGS) for table in tables for name in table or ())


def parse_limits(
    most: Mapping[str, float | str] | None,
    least: Mapping[str, float | str] | None,
    known: Figures,
) -> tuple[Limit, ...]:
    tables = ((most, True), (least, False))
    return tuple(
        _limit(name, value, is_most, known)
        for table, is_most in tables
        for name, value in (table or {}).items()
    )


def is_bytes(name: str, known: Figures) -> bool:
    """Memories, by their own name or by the sum they belong to."""
    plain = {"total_ms", "inferences_per_s", "epochs", *_KINDS}
    timed = name.endswith(("_ms", "_share")) or name.startswith(_FINDINGS)
    return name in known and name not in plain and not timed


def _limit(name: str, value: float | str, most: bool, known: Figures) -> Limit:
    """A limit on a figure that exists, in the figure's own unit."""
    where = "--max" if most else "--min"
    if name not in known:
        raise UsageError(f"unknown figure '{name}'", where=where, hint=_near(name, known))
    units = _units(name, known)
    number, scale = _number(value, units)
    if not 0 <= number < math.inf:
        shown = ", ".join(unit for unit in units if unit)
        hint = f"a number, or one with {shown}" if shown else "a plain number"
        raise UsageError(f"cannot read the limit '{value}' of {name}", where=where, hint=hint)
    return Limit(name, number * scale, most)


def _units(name: str, known: Figures) -> Mapping[str, float]:
    if is_bytes(name, known):
        return _BYTES
    return _MILLISECONDS if name.endswith("_ms") else {"": 1}


def _number(value: float | str, units: Mapping[str, float]) -> tuple[float, float]:
    """(number, size of its unit); the number is nan where the text is not a number."""
    if not isinstance(value, str):
        return float(value), 1.0
    found = _LIMIT.fullmatch(value.strip())
    folded = {unit.lower(): size for unit, size in units.items()}
    if found is None or found[2].lower() not in folded:
        return math.nan, 1.0
    return float(found[1]), folded[found[2].lower()]


def _near(name: str, known: Figures) -> str:
    folded = {key.lower(): key for key in known}
    near = [folded[hit] for hit in difflib.get_close_matches(name.lower(), folded, n=3)]
    return f"did you mean {' or '.join(near)}?" if near else f"figures: {', '.join(known)}"


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


@dataclass(frozen=True, slots=True)
class Baseline:
    """`side` is None where only figures were kept."""

    name: str
    figures: Figures
    md5: str
    generation: str
    side: Side | None = None


def read_baseline(source: Source, options: Options) -> Baseline:
    if isinstance(source, str | Path) and result_schema(source) == GATE_SCHEMA:
        return _from_gate(Path(source))
    if isinstance(source, str | Path) and not _exists(source):
        raise FileError("there is no such baseline", where=str(source), hint=_HINT)
    side = open_side(source, options)
    profile = side.profile
    known = figures(profile)
    return Baseline(side.name, known, profile.model.md5, profile.machine.generation, side)


def _exists(source: str | Path) -> bool:
    return Path(str(source).removeprefix("log:")).exists()


def _from_gate(path: Path) -> Baseline:
    data, where = read_result(path), safe_terminal(str(path))
    found = data.get("figures")
    if not isinstance(found, dict) or not found:
        raise FileError("expected an object of figures", where=f"{where}: $.figures", hint=_HINT)
    for name, value in found.items():
        if not _is_figure(value):
            place = f"{where}: $.figures.{safe_terminal(name)}"
            raise FileError("expected a number of 0 or more", where=place, hint=_HINT)
    md5, generation = _text(data, "model", "md5"), _text(data, "machine", "generation")
    return Baseline(safe_terminal(path.name), found, md5, generation)


def _is_figure(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0


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


@dataclass(frozen=True, slots=True)
class Check:
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
    known = figures(side.profile, findings)
    checks = [_limited(limit, known) for limit in limits]
    notes: list[str] = list(_bounds(side))
    comparison = None
    if baseline is not None:
        noise = _noise_ms(side) + (_noise_ms(baseline.side) if baseline.side else 0.0)
        checks += _held(known, baseline, tolerance, noise)
        notes += _notes(side, known, baseline)
        comparison = compare(baseline.side, side) if baseline.side else None
    told = tuple(findings or ())
    if side.profile.is_lower_bound:
        checks = [replace(check, open=_is_open(check)) for check in checks]
    return Gate(side, tuple(checks), known, baseline, comparison, told, tuple(notes))


def _bounds(side: Side) -> Iterator[str]:
    unknown = side.profile.unknown_ops
    if unknown:
        kinds = ", ".join(dict.fromkeys(unknown))
        yield f"times are lower bounds, so no limit on them can pass: {kinds} of unknown cost"


def _is_open(check: Check) -> bool:
    """An upper limit on a time of which a part is not known, or a lower one on the rate."""
    return check.name in (_SPEED if check.kind == "min" else _TIMES)


def _limited(limit: Limit, known: Figures) -> Check:
    kind = "max" if limit.most else "min"
    value = known[limit.name]
    return Check(limit.name, kind, value, limit.value, is_bytes(limit.name, known))


def _held(known: Figures, baseline: Baseline, tolerance: float, noise: float) -> Iterator[Check]:
    for name in _names_held(known):
        if name not in known or name not in baseline.figures:
            continue
        before = baseline.figures[name]
        # Counts and bytes do not vary from run to run.
        band = noise if name == "total_ms" else 0.0
        limit = before * (1 + tolerance) + band
        # 3 % of two epochs is no epoch: a share must not allow a whole one.
        if name in _COUNTED:
            limit = floor(limit)
        size = is_bytes(name, known)
        yield Check(name, "baseline", known[name], limit, size, before, band)


def _names_held(known: Figures) -> tuple[str, ...]:
    """Those of all families, and the bytes that only one counts."""
    own = (name for name in known if name.endswith("_bytes") and name not in _HELD)
    return (*_HELD, *own)


def _noise_ms(side: Side) -> float:
    """How far a measured total may lie from another one by chance."""
    if not side.is_measured:
        return 0.0
    return sum(epoch.spread.max - epoch.spread.min for epoch in side.profile.epochs)


def _notes(side: Side, known: Figures, baseline: Baseline) -> Iterator[str]:
    model, machine = side.profile.model, side.profile.machine
    if baseline.md5 and model.md5 and baseline.md5 != model.md5:
        yield "the baseline belongs to another model file (its fingerprint differs)"
    if baseline.generation and machine.generation and baseline.generation != machine.generation:
        yield f"the baseline has generation {baseline.generation}, this run {machine.generation}"
    missing = [name for name in _HELD if name not in known or name not in baseline.figures]
    if missing:
        yield f"not compared, not known for both sides: {', '.join(missing)}"
