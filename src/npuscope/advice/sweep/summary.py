"""What the rows of a sweep say together: best runs, fronts, what choices cost, failures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from npuscope.advice.sweep.pool import Row
from npuscope.advice.sweep.runs import configuration_name
from npuscope.shown import Rows, ShownRecord, counted


class ModelSummary(Struct, frozen=True):
    """One model over all its runs; no best where all failed."""

    name: str
    runs: int
    failed: int
    best: Row | None
    front: tuple[Row, ...]


class ConfigurationSummary(Struct, frozen=True):
    """One combination of choices over all models.

    `against_best` is the geometric mean of its latency against the best of each model.
    """

    name: str
    done: int
    failed: int
    against_best: float | None


class Summary(ShownRecord, frozen=True):
    rows: tuple[Row, ...]
    models: tuple[ModelSummary, ...]
    configurations: tuple[ConfigurationSummary, ...]
    front: tuple[Row, ...]  # over all models

    @property
    def done(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row["status"] == "ok")

    @property
    def failures(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row["status"] != "ok")

    def told(self) -> str:
        runs, models = counted(len(self.rows), "run"), counted(len(self.models), "model")
        return f"{runs} of {models}, {len(self.failures)} failed"

    def table(self) -> Rows:
        """One row per run."""
        return [dict(row) for row in self.rows]


def summarise(rows: Sequence[Row]) -> Summary:
    """The fastest model first; models without a successful run come last."""
    by_model = _grouped(rows, [row["model"] for row in rows])
    models = []
    for name, group in by_model.items():
        finished = [row for row in group if row["status"] == "ok"]
        fastest, failed = min(finished, key=_rank, default=None), len(group) - len(finished)
        models.append(ModelSummary(name, len(group), failed, fastest, front_of(finished)))
    models.sort(key=lambda one: (one.best["total_ms"] if one.best else math.inf, one.name))
    best = {one.name: one.best["total_ms"] for one in models if one.best}
    by_choice = _grouped(rows, [configuration_name(row) for row in rows])
    configurations = []
    for name, group in by_choice.items():
        finished = [row for row in group if row["status"] == "ok"]
        ratios = [row["total_ms"] / best[row["model"]] for row in finished if best[row["model"]]]
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else None
        failed = len(group) - len(finished)
        configurations.append(ConfigurationSummary(name, len(finished), failed, mean))
    configurations.sort(key=lambda one: (one.against_best or math.inf, one.name))
    return Summary(tuple(rows), tuple(models), tuple(configurations), front_of(rows))


def front_of(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Runs that no other beats in both latency and internal RAM, the smallest RAM first."""
    finished = [row for row in rows if row["status"] == "ok"]
    finished.sort(key=lambda row: (row["internal_ram_bytes"], *_rank(row)))
    front: list[Row] = []
    for row in finished:
        if not front or row["total_ms"] < front[-1]["total_ms"]:
            front.append(row)
    return tuple(front)


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """File names without their folders, as long as they stay different."""
    unique = list(dict.fromkeys(labels))
    names = [label.rpartition("/")[2] for label in unique]
    return dict(zip(unique, names if len(set(names)) == len(names) else unique, strict=True))


def _grouped(rows: Sequence[Row], names: Sequence[str]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row, name in zip(rows, names, strict=True):
        groups.setdefault(name, []).append(row)
    return groups


def _rank(row: Row) -> tuple[float, int, int, str, str]:
    """Of equally fast runs the one with less memory wins, then the first by name."""
    memory = (row["internal_ram_bytes"], row["external_ram_bytes"])
    return row["total_ms"], *memory, configuration_name(row), row["key"]
