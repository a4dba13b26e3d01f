"""The figures that a gate knows by name, and limits as people write them."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from npuscope.errors import UsageError
from npuscope.profiling.model import UNKNOWN_MEMORY, Profile
from npuscope.rulebook.finding import Finding, Severity

Figures = Mapping[str, float]

_KINDS = ("HW", "SW", "HYBRID", "blobs")
_BYTES = {"": 1, "B": 1, "kB": 1000, "MB": 10**6, "GB": 10**9}
_BYTES |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MILLISECONDS = {"": 1.0, "ms": 1.0, "us": 1e-3, "s": 1e3}
_LIMIT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([a-zA-Z]{0,3})", re.ASCII)
_FINDINGS = "findings."


@dataclass(frozen=True, slots=True)
class Limit:
    """`most` tells whether the value is the most or the least that may be."""

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
    timed = name.endswith("_ms") or name.startswith(_FINDINGS)
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
    """(number, size of its unit); the number is nan where the text is none."""
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
