"""What the page shows of a sweep: latency against RAM with its front, best runs, failures."""

from __future__ import annotations

from itertools import islice
from typing import Any

from npuscope.advice.network_row import stored_row
from npuscope.advice.sweep.runs import configuration_name, machines_of
from npuscope.advice.sweep.summary import Summary, short_names
from npuscope.profiling.ranges import coverage_of_all
from npuscope.report.figures import DASH, count, ms, size
from npuscope.report.html.cloud import EXTERNAL, INTERNAL, MS, WEIGHTS, CloudPoint, cloud
from npuscope.report.html.page import page
from npuscope.report.row_columns import extent
from npuscope.report.sweep import best_cells, outcome
from npuscope.shown import counted
from npuscope.version import __version__

Row = dict[str, Any]
# Columns that may tell runs of one model apart, with their names on the page.
_AXES = {
    "pools": "pools",
    "generation": "generation",
    "machine": "machine",
    "clocks": "clocks",
    "epoch_controller": "epoch controller",
    "optimization": "optimization",
    "set": "what-if",
    "input_data_type": "input type",
    "output_data_type": "output type",
}
_MEASURES = (MS, INTERNAL, EXTERNAL, WEIGHTS)
_MOST_POINTS = 20_000  # drawn; more make the page slow
_MOST_FAILURES = 500  # listed; the store holds all


def sweep_page(summary: Summary, store: str) -> str:
    """The HTML file of `npuscope sweep report`."""
    models = [model.name for model in summary.models]
    names = short_names(models)
    axes = [name for name in _AXES if len({str(row[name]) for row in summary.rows}) > 1]
    more = {
        "points are left out of the plot": len(summary.done) - _MOST_POINTS,
        "failures are left out": len(summary.failures) - _MOST_FAILURES,
    }
    return page(
        {
            "view": "sweep",
            "version": __version__,
            "title": store,
            "answer": outcome(summary),
            "sure": f"predicted; {coverage_of_all()}",
            "machine": machines_of(summary.rows),
            "figures": _figures(summary),
            "cloud": cloud(
                "Latency against RAM",
                "Each run once. The line is the front of what is shown: no other point is faster "
                "and needs less internal RAM. A ring marks runs that use external RAM too.",
                _MEASURES,
                [
                    CloudPoint(
                        configuration_name(row),
                        (
                            row["total_ms"],
                            row["internal_ram_bytes"],
                            row["external_ram_bytes"],
                            row["weights_bytes"],
                        ),
                        tuple(str(row[axis]) for axis in axes),
                        models.index(row["model"]),
                        row["external_ram_bytes"] > 0,
                        f"range {extent(stored_row(row))} ms",
                    )
                    for row in islice(summary.done, _MOST_POINTS)
                ],
                x=1,
                y=0,
                models=[names[model] for model in models],
                axes=[_AXES[name] for name in axes],
            ),
            "best": [_best(names[model.name], model.best, model.runs) for model in summary.models],
            "fronts": [
                _on_front(names[model.name], row)
                for model in summary.models
                if len(model.front) > 1
                for row in model.front
            ],
            "configurations": [
                [
                    one.name,
                    one.done,
                    one.failed,
                    (f"{one.against_best:.3f}" if one.against_best else DASH),
                ]
                for one in summary.configurations
            ],
            "failures": [_failure(row, names) for row in islice(summary.failures, _MOST_FAILURES)],
            "facts": _facts(summary),
            "notes": [f"{number} more {what}" for what, number in more.items() if number > 0],
        }
    )


def _figures(summary: Summary) -> list[dict[str, str]]:
    rows = [
        ("Runs", count(len(summary.rows)), counted(len(summary.configurations), "configuration")),
        ("Models", count(len(summary.models)), "by the name of their file"),
        ("Failed", count(len(summary.failures)), "listed below" if summary.failures else ""),
        ("On the front", count(len(summary.front)), "no other run is faster and smaller"),
    ]
    fastest = min(summary.done, key=lambda row: row["total_ms"], default=None)
    if fastest:
        rows.append(
            (
                "Fastest",
                f"{ms(fastest['total_ms'])} ms",
                short_names([fastest["model"]])[fastest["model"]],
            )
        )
    names = ("name", "value", "detail", "source")
    source = "read from the store"
    return [dict(zip(names, (*row, source), strict=True)) for row in rows]


def _best(name: str, row: Row | None, runs: int) -> list[str]:
    if row is None:
        return [name, DASH, "", "", "", "", f"all {runs} runs failed"]
    return [
        name,
        *best_cells(row),
        configuration_name(row),
    ]


def _on_front(name: str, row: Row) -> list[str]:
    internal, external = row["internal_ram_bytes"], row["external_ram_bytes"]
    return [name, ms(row["total_ms"]), size(internal), size(external), configuration_name(row)]


def _failure(row: Row, names: dict[str, str]) -> list[str]:
    error = row["error"]
    return [names[row["model"]], configuration_name(row), error["message"], error["hint"]]


def _facts(summary: Summary) -> list[list[str]]:
    versions = ", ".join(sorted({row["version"] for row in summary.rows}))
    pairs = {(row["mcu_mhz"], row["npu_mhz"]) for row in summary.rows}
    clocks = sorted(pair for pair in pairs if None not in pair)
    seconds = sum(row["seconds"] for row in summary.rows)
    return [
        ["Times", f"predicted; {coverage_of_all()}"],
        ["RAM", "internal RAM is the sum of the bank marks, as the vendor's compiler reports it"],
        ["npuscope", versions],
        ["Clocks", "; ".join(f"MCU {mcu:g} MHz, NPU {npu:g} MHz" for mcu, npu in clocks) or DASH],
        ["Work", f"{seconds:.1f} s over all runs"],
    ]
