"""Runs of many cores side by side, and against limits: from opstats results or raw buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.bounded_file import RESULT, parse_json, read_bytes, read_head
from npuscope.errors import FileError, UsageError
from npuscope.lean_dataclass import dataclass
from npuscope.many_core.buffer_format import MAGIC
from npuscope.many_core.container import FILE_NAME
from npuscope.many_core.opstats.model import Opstats
from npuscope.many_core.records import UTIMER_HZ
from npuscope.report.opstats_json import opstats_json
from npuscope.report.opstats_work import OpstatsRequest, work
from npuscope.rulebook.finding import Severity
from npuscope.shown import Rows, Shown, counted
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.many_core.family import CoreTimed

_SHOWN = 20
_MS = 1e3 / UTIMER_HZ
# Figures of which more is better; of the others less is.
_HIGHER = ("inferences_per_s",)


@dataclass(frozen=True, slots=True)
class CoreRun:
    """The mean of the buffers of a run. Ops are those of all cores together, by label."""

    name: str
    figures: dict[str, float]
    ops: dict[str, float]  # ms
    bound: str


def read_core_run(source: str | Path) -> CoreRun:
    path = Path(source)
    if path.is_dir() or read_head(path, len(MAGIC)) == MAGIC:
        return _run(path, opstats_json(decoded_tables(path)))
    try:
        return _run(path, parse_json(read_bytes(path, RESULT)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(
            f"is not a whole result of opstats: {error}", where=safe_terminal(str(path))
        ) from None


def decoded_tables(path: Path) -> list[Opstats]:
    """Raw buffers are read with the program that wrote them, which lies near them."""
    folder = path if path.is_dir() else path.parent
    near = (folder, folder.parent, folder.parent / "binaries")
    qpc = next((place / FILE_NAME for place in near if (place / FILE_NAME).is_file()), None)
    if qpc is None:
        raise UsageError(
            "stats buffers are read with the program that wrote them",
            where=safe_terminal(str(path)),
            hint=f"put its {FILE_NAME} beside them, or give what `npuscope opstats --json` wrote",
        )
    found = work(OpstatsRequest.to_read(qpc, path))
    if found.damaged:
        raise FileError("; ".join(found.damaged), where=safe_terminal(str(path)))
    return found.tables


def _run(path: Path, result: Mapping[str, Any]) -> CoreRun:
    buffers, totals = result["buffers"], result["totals"]
    number = max(len(buffers), 1)
    figures = {
        "total_ms": totals["ucycles_mean"] * _MS,
        "inferences_per_s": totals["inferences_per_s_mean"],
    }
    traffic = [one["totals"]["ddr_bytes"] for one in buffers]
    if traffic and None not in traffic:
        figures["ddr_bytes"] = sum(traffic) / number
    for name, share in (buffers[0]["verdict"]["shares"] if buffers else {}).items():
        figures[f"{name.lower()}_share"] = share
    if buffers and "findings" in buffers[0]:
        told = [row["severity"] for row in buffers[0]["findings"]]
        figures |= {f"findings.{severity}": told.count(severity) for severity in Severity}
    ops = {str(row["details"]): row["ucycles"] * _MS / number for row in result["ops"]}
    bound = buffers[0]["verdict"]["bound"] if buffers else ""
    return CoreRun(path.name, {key: float(value) for key, value in figures.items()}, ops, bound)


# --- Two runs ---


@dataclass(frozen=True, slots=True, repr=False)
class CoreComparison(Shown):
    TEXT = "npuscope.report.core_runs:core_compare_text"
    JSON = "npuscope.report.core_runs:core_compare_json"

    a: CoreRun
    b: CoreRun

    def told(self) -> str:
        return compare_lines(self.a, self.b)[0]

    def table(self) -> Rows:
        """One row per op."""
        return op_changes(self.a, self.b)


def compare_lines(a: CoreRun, b: CoreRun) -> list[str]:
    """The first line is the answer; then ops that changed most."""
    first, second = a.figures["total_ms"], b.figures["total_ms"]
    share = (second / first - 1) * 100 if first else 0.0
    lines = [
        f"{first:.4g} -> {second:.4g} ms ({share:+.1f} %)",
        f"A        {safe_terminal(a.name)}, bound by {a.bound}",
        f"B        {safe_terminal(b.name)}, bound by {b.bound}",
        "",
        f"{'A ms':>12}{'B ms':>12}{'change':>12}  op, all cores",
    ]
    changed = [row for row in op_changes(a, b) if row["change_ms"]]
    for row in changed[:_SHOWN]:
        times = f"{row['a_ms']:>12.4f}{row['b_ms']:>12.4f}{row['change_ms']:>+12.4f}"
        lines.append(f"{times}  {safe_terminal(str(row['details']))}")
    return lines if changed else [*lines[:3], "no op changed"]


def op_changes(a: CoreRun, b: CoreRun) -> list[dict[str, Any]]:
    """By label, the largest change first."""
    rows: list[dict[str, Any]] = []
    for details in {**a.ops, **b.ops}:
        before, after = a.ops.get(details, 0.0), b.ops.get(details, 0.0)
        change = after - before
        rows.append({"details": details, "a_ms": before, "b_ms": after, "change_ms": change})
    return sorted(rows, key=lambda row: (-abs(row["change_ms"]), row["details"]))


def core_compare_text(found: CoreComparison) -> str:
    return "\n".join(compare_lines(found.a, found.b))


def core_compare_json(found: CoreComparison) -> dict[str, Any]:
    a, b = found.a, found.b
    return {
        "schema": "npuscope/manycore-compare/1",
        "a": {"name": a.name, "bound": a.bound, **a.figures},
        "b": {"name": b.name, "bound": b.bound, **b.figures},
        "ops": op_changes(a, b),
    }


# --- One run against limits ---


@dataclass(frozen=True, slots=True)
class CoreCheck:
    name: str
    value: float
    limit: float
    most: bool  # the limit is an upper one

    @property
    def passed(self) -> bool:
        return self.value <= self.limit if self.most else self.value >= self.limit

    @property
    def line(self) -> str:
        word, sign = ("passed" if self.passed else "FAILED"), ("<=" if self.most else ">=")
        return f"{word}   {self.name} {self.value:.6g} {sign} {self.limit:.6g}"


@dataclass(frozen=True, slots=True, repr=False)
class CoreGate(Shown):
    TEXT = "npuscope.report.core_runs:core_gate_text"
    JSON = "npuscope.report.core_runs:core_gate_json"

    run: CoreRun
    checks: tuple[CoreCheck, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def figures(self) -> dict[str, float]:
        return self.run.figures

    def told(self) -> str:
        failed = sum(not check.passed for check in self.checks)
        return f"{counted(len(self.checks), 'check')}, {failed} failed"

    def table(self) -> Rows:
        """One row per check."""
        return [{**asdict(check), "passed": check.passed} for check in self.checks]


def model_run(timed: CoreTimed) -> CoreRun:
    """A network that was compiled and simulated, as a run with the same figures."""
    tables = timed.tables
    severities = [finding.severity for finding in timed.findings]
    figures: dict[str, float] = {
        "total_ms": timed.total_ms,
        "inferences_per_s": timed.inferences_per_s,
        "ddr_bytes": float(tables.ddr_bytes or 0),
        **{f"{name.lower()}_share": share for name, share in tables.verdict.shares},
        **{f"findings.{severity}": severities.count(severity) for severity in Severity},
    }
    return CoreRun(timed.built.file, figures, {}, tables.verdict.bound.name)


def gate_core_run(
    run: CoreRun,
    most: Mapping[str, float | str] | None,
    least: Mapping[str, float | str] | None,
    baseline: str | Path | None,
    tolerance: float,
) -> CoreGate:
    """A run against limits by the names of its figures, and against another run."""
    before = None if baseline is None else read_core_run(baseline)
    upper, lower = _numbers(most, "--max"), _numbers(least, "--min")
    return CoreGate(run, core_checks(run, upper, lower, before, tolerance))


def _numbers(table: Mapping[str, float | str] | None, where: str) -> dict[str, float]:
    try:
        return {name: float(value) for name, value in (table or {}).items()}
    except ValueError as error:
        raise UsageError(f"expected a number: {safe_terminal(str(error))}", where=where) from None


def core_checks(
    run: CoreRun,
    most: Mapping[str, float],
    least: Mapping[str, float],
    baseline: CoreRun | None,
    tolerance: float,
) -> tuple[CoreCheck, ...]:
    """Limits by name, and figures of a baseline that may get worse by a share."""
    for name in (*most, *least):
        if name not in run.figures:
            raise UsageError(
                f"unknown figure '{safe_terminal(name)}'",
                where="--max, --min",
                hint=f"known for this run: {', '.join(run.figures)}",
            )
    found = [CoreCheck(name, run.figures[name], limit, True) for name, limit in most.items()]
    found += [CoreCheck(name, run.figures[name], limit, False) for name, limit in least.items()]
    before = baseline.figures if baseline is not None else {}
    for name in ("total_ms", "inferences_per_s", "ddr_bytes"):
        if name in before and name in run.figures:
            upper = name not in _HIGHER
            limit = before[name] * (1 + tolerance if upper else 1 - tolerance)
            found.append(CoreCheck(name, run.figures[name], limit, upper))
    return tuple(found)


def core_gate_text(found: CoreGate) -> str:
    checks = found.checks
    failed = sum(not check.passed for check in checks)
    answer = (
        f"{failed} of {len(checks)} checks failed" if failed else f"{len(checks)} checks passed"
    )
    answer = f"{answer}: {safe_terminal(found.run.name)}"
    return "\n".join([answer, *(check.line for check in checks)])


def core_gate_json(found: CoreGate) -> dict[str, Any]:
    return {
        "schema": "npuscope/manycore-gate/1",
        "name": found.run.name,
        "passed": found.passed,
        "checks": found.table(),
        "figures": found.figures,
    }
