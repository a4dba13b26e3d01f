"""The rows of a sweep as a table: JSON, CSV, Parquet. One line a run, one column a figure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from npuscope.advice.sweep.summary import Summary
from npuscope.errors import UsageError
from npuscope.text import csv_cell

Row = dict[str, Any]
SCHEMA = "npuscope/sweep/1"
_WHOLE = ("optimization",)  # numbers, also where no run has one
_ERROR = ("kind", "message", "where", "hint")


def sweep_json(rows: Sequence[Row], store: Path) -> dict[str, Any]:
    """What every answer about a sweep has."""
    done = sum(row["status"] == "ok" for row in rows)
    return {
        "schema": SCHEMA,
        "runs": len(rows),
        "done": done,
        "failed": len(rows) - done,
        "store": str(store),
    }


def report_json(summary: Summary, store: Path) -> dict[str, Any]:
    """Runs are named by their keys, which are those of the rows."""
    return {
        **sweep_json(summary.rows, store),
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
    found = pyarrow.table(
        {name: _typed(name, [row.get(name) for row in table]) for name in columns}
    )
    out = io.BytesIO()
    parquet.write_table(found, out, compression="zstd")
    return out.getvalue()


def need_pyarrow() -> None:
    """Said before the work, not after it."""
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
    clean = [_encodable(value) for value in values]
    return pyarrow.array(clean)


def _encodable(value: Any) -> Any:
    """File names may hold bytes that are no text."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value
