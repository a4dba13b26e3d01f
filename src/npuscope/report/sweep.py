"""A sweep as text and as a table (JSON, CSV, Parquet): one line per run, one column per figure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.advice.network_row import stored_row
from npuscope.advice.sweep.drive import Sweep
from npuscope.advice.sweep.runs import configuration_name
from npuscope.advice.sweep.summary import ModelSummary, Summary, short_names
from npuscope.errors import UsageError
from npuscope.profiling.ranges import coverage_of_all
from npuscope.report.figures import DASH, ms, shorten, shorten_end, size
from npuscope.report.row_columns import row_cells
from npuscope.shown import counted
from npuscope.text import csv_cell, safe_terminal

# --- Tables: JSON, CSV, Parquet ---

Row = dict[str, Any]
SCHEMA = "npuscope/sweep/1"
_WHOLE = ("optimization",)  # numbers, also where no run has one
_ERROR = ("kind", "message", "where", "hint")


class StoreReport(Struct, frozen=True):
    """What the runs of a store say."""

    TEXT = "npuscope.report.sweep:store_text"
    JSON = "npuscope.report.sweep:store_json"

    summary: Summary
    store: str


def store_text(report: StoreReport) -> str:
    return report_text(report.summary, report.store)


def store_json(report: StoreReport) -> dict[str, Any]:
    return report_json(report.summary, Path(report.store))


def sweep_json(sweep: Sweep) -> dict[str, Any]:
    return counts_json(sweep.rows, sweep.store) | {"new": sweep.new}


def counts_json(rows: Sequence[Row], store: Path) -> dict[str, Any]:
    """What every answer about a sweep has."""
    finished = sum(row["status"] == "ok" for row in rows)
    return {
        "schema": SCHEMA,
        "runs": len(rows),
        "done": finished,
        "failed": len(rows) - finished,
        "store": str(store),
    }


def report_json(summary: Summary, store: Path) -> dict[str, Any]:
    """Runs are named by their keys, which are those of the rows."""
    return {
        **counts_json(summary.rows, store),
        "models": [
            {
                "name": model.name,
                "runs": model.runs,
                "failed": model.failed,
                "best": model.best["key"] if model.best else None,
                "front": [row["key"] for row in model.front],
            }
            for model in summary.models
        ],
        "configurations": [
            {
                "name": one.name,
                "done": one.done,
                "failed": one.failed,
                "against_best": one.against_best,
            }
            for one in summary.configurations
        ],
        "front": [row["key"] for row in summary.front],
        "rows": list(summary.rows),
    }


def flat(row: Row) -> Row:
    """Only single values: tables have no nested cells."""
    plain = {key: value for key, value in row.items() if key not in ("schema", "error")}
    plain["shapes"] = json.dumps(row["shapes"]) if row["shapes"] else ""
    plain["notes"] = "; ".join(row.get("notes", []))
    error = row.get("error") or {}
    return plain | {f"error_{name}": error.get(name) for name in _ERROR}


def _columns(rows: Iterable[Row]) -> list[str]:
    """All columns that any run has, in the order of a row; errors come last."""
    # Failed runs have fewer columns, and rows of other versions may have more.
    names = dict.fromkeys(key for row in rows for key in row)
    return sorted(names, key=lambda name: name.startswith("error_"))


def sweep_csv(rows: Sequence[Row]) -> str:
    table = [flat(row) for row in rows]
    columns = _columns(table)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in table)
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str):
        return csv_cell(value)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value


def sweep_parquet(rows: Sequence[Row]) -> bytes:
    """The same columns with their types; needs pyarrow."""
    need_pyarrow()
    import pyarrow
    from pyarrow import parquet

    table = [flat(row) for row in rows]
    columns = _columns(table)
    columns_table = pyarrow.table(
        {name: _typed(name, [row.get(name) for row in table]) for name in columns}
    )
    out = io.BytesIO()
    parquet.write_table(columns_table, out, compression="zstd")
    return out.getvalue()


def need_pyarrow() -> None:
    """Checked before the work starts, not after it."""
    if find_spec("pyarrow") is None:
        raise UsageError(
            "Parquet needs the package pyarrow",
            where="--parquet",
            hint="pip install 'npuscope[sweep]'",
        )


def _typed(name: str, values: list[Any]) -> Any:
    """A column; one without any value is text, for a type of nothing suits few readers."""
    import pyarrow

    if name in _WHOLE:
        return pyarrow.array(values, pyarrow.int64())
    if all(value is None for value in values):
        return pyarrow.array(values, pyarrow.string())
    if any(isinstance(value, float) for value in values):
        return pyarrow.array(values, pyarrow.float64())
    # File names may hold bytes that are not text.
    clean = [
        (value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value)
        for value in values
    ]
    return pyarrow.array(clean)


# --- Text: counts, the best run of every model, fronts, failures ---

TextRow = dict[str, Any]
_MOST_FAILURES = 20  # kinds of failures; the store holds all
_MODEL_WIDTH = 48
BEST = ("ms", "range", "internal", "external", "flash")
_WIDTHS = (8, 17, 11, 11, 11)


def sweep_text(sweep: Sweep) -> str:
    """The answer of `npuscope sweep`: counts, and what failed."""
    before = sweep.runs - sweep.new
    lines = [
        f"{counted(sweep.runs, 'run')}: {sweep.done} done, {sweep.failed} failed; "
        f"{sweep.new} new, in {sweep.seconds:.1f} s",
        f"store    {safe_terminal(str(sweep.store))}",
    ]
    if before:
        lines.append(f"before   {counted(before, 'run')} found in the store and not repeated")
    if sweep.same:
        same = counted(sweep.same, "combination")
        lines.append(f"same     {same} left out, equal to another run")
    lines += failure_lines([row for row in sweep.rows if row["status"] != "ok"])
    return "\n".join([*lines, f"next     npuscope sweep report {safe_terminal(str(sweep.store))}"])


def report_text(summary: Summary, store: str) -> str:
    """The answer of `npuscope sweep report`."""
    names = ShortNames(summary.rows)
    lines = [
        answer(summary),
        f"store    {safe_terminal(store)}",
        f"times    predicted, each with its range; {coverage_of_all()}",
        "",
        *_best_lines(summary.models, names),
        "",
        *_configuration_lines(summary),
        "",
        *_front_lines(summary, names),
    ]
    failures = failure_lines(summary.failures)
    return "\n".join([*lines, *([""] if failures else []), *failures]) + "\n"


def answer(summary: Summary) -> str:
    return f"{outcome(summary)}; {len(summary.front)} on the front of latency and RAM"


def outcome(summary: Summary) -> str:
    models, choices = len(summary.models), len(summary.configurations)
    return (
        f"{counted(len(summary.rows), 'run')} of {counted(models, 'model')} in "
        f"{counted(choices, 'configuration')}: {len(summary.done)} done, "
        f"{len(summary.failures)} failed"
    )


class ShortNames:
    """How models are called: without folders where possible, cut where too long."""

    def __init__(self, rows: Iterable[TextRow]) -> None:
        self._names = short_names(row["model"] for row in rows)
        longest = max(map(len, self._names.values()), default=0)
        self.width = min(_MODEL_WIDTH, max(5, longest))

    def __getitem__(self, label: str) -> str:
        """The end of a path says more than its start."""
        name = safe_terminal(self._names[label])
        return name if len(name) <= self.width else f"...{name[3 - self.width :]}"


def _best_lines(models: Iterable[ModelSummary], names: ShortNames) -> list[str]:
    heading = f"  {'model':<{names.width}} {_aligned(BEST)}  with"
    lines = (_best_line(model, names) for model in models)
    return ["Best run of every model, the fastest first", heading, *lines]


def best_cells(row: Row) -> list[str]:
    """The columns BEST of a run."""
    return row_cells(stored_row(row), BEST)


def _aligned(cells: Iterable[str]) -> str:
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))


def _best_line(model: ModelSummary, names: ShortNames) -> str:
    row = model.best
    name = f"  {names[model.name]:<{names.width}}"
    if row is None:
        return f"{name} {DASH:>8}  all {model.runs} runs failed"
    return (
        f"{name} {_aligned(best_cells(row))}  {shorten(safe_terminal(configuration_name(row)), 60)}"
    )


def _configuration_lines(summary: Summary) -> list[str]:
    width = max((len(one.name) for one in summary.configurations), default=0)
    width = min(60, max(13, width))
    lines = [
        "Configurations; `to best` is the mean latency against the best run of the same model",
        f"  {'configuration':<{width}} {'done':>6} {'failed':>7} {'to best':>8}",
    ]
    for one in summary.configurations:
        ratio = f"{one.against_best:.3f}x" if one.against_best else DASH
        name = shorten(safe_terminal(one.name), width)
        lines.append(f"  {name:<{width}} {one.done:>6} {one.failed:>7} {ratio:>8}")
    return lines


def _front_lines(summary: Summary, names: ShortNames) -> list[str]:
    """The front over all models, then models whose own front offers a choice."""
    lines = ["Front: runs that no other beats in both latency and internal RAM"]
    lines += [f"  {_point(row)}  {names[row['model']]}" for row in summary.front]
    choices = [model for model in summary.models if len(model.front) > 1]
    if choices:
        lines += ["", "Models with a choice: less RAM or less time"]
    for model in choices:
        lines.append(f"  {names[model.name]}")
        lines += [
            f"    {_point(row)}  {shorten(safe_terminal(configuration_name(row)), 60)}"
            for row in model.front
        ]
    return lines


def _point(row: TextRow) -> str:
    return f"{size(row['internal_ram_bytes']):>11} {ms(row['total_ms']):>9} ms"


def failure_lines(rows: Sequence[TextRow]) -> list[str]:
    """Every failure with its run; those of one model that say the same share a line."""
    groups: dict[tuple[str, str], list[TextRow]] = {}
    for row in rows:
        groups.setdefault((row["model"], row["error"]["message"]), []).append(row)
    if not groups:
        return []
    names = ShortNames(rows)
    lines = [f"failed   {counted(sum(map(len, groups.values())), 'run')}"]
    for (model, message), failures in list(groups.items())[:_MOST_FAILURES]:
        lines.append(f"  {names[model]}: {shorten_end(safe_terminal(message), 150)}")
        choices = "; ".join(configuration_name(row) for row in failures)
        lines.append(f"    with {shorten_end(safe_terminal(choices), 150)}")
    rest = len(groups) - _MOST_FAILURES
    return [*lines, f"  and {rest} more kinds"] if rest > 0 else lines
