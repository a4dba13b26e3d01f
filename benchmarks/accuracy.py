"""Predictions against a table of published measurements, beside two naive predictors.

    python benchmarks/accuracy.py --models DIR --table published_latency.csv \\
        --version 4.0.0 2.2.0 --write-docs docs/accuracy.md

Every row of the table with one of the versions is predicted with the epoch controller, MCU at 800
and NPU at 1000 MHz. A row that cannot be predicted is listed with the reason. The table's columns:
file, family, graph, stedgeai, inference_ms, internal_ram_kib, external_ram_kib, weights_flash_kib.
The page keeps the prose of docs/accuracy.md; only the figures between its marks are written anew.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np

from npuscope.compiler.pipeline import compile_graph
from npuscope.errors import NpuscopeError
from npuscope.graph.load import load_model
from npuscope.graph.model import Graph
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine
from npuscope.profile.model import Profile
from npuscope.profile.run import estimate
from npuscope.text import safe_terminal

Row = dict[str, Any]

# Version of the vendor's tools -> generation of their compiler.
GENERATIONS = {"2.0.0": "2.2", "2.2.0": "2.2", "3.0.0": "3.0", "4.0.0": "4.0"}
CLOCKS = {"clocks.mcu_mhz": 800, "clocks.npu_mhz": 1000}
PEAK_MACS_PER_CYCLE = 4 * 72  # four convolution units, 8-bit features and weights
QUANTITIES = ("internal", "external", "weights")
PREDICTORS = {
    "npuscope": "ms",
    "roofline": "roofline_ms",
    "linear fit, family left out": "linear_ms",
    "linear fit, in sample": "linear_in_sample_ms",
}
LARGE_ERROR = 0.08
PAGE = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
MARKS = ("<!-- figures -->", "<!-- /figures -->")

# Why families are far off, by tool version and start of the file name, where that is known.
CAUSES = {
    ("4.0.0", "st_yolo_x"): "the published file is a newer export than the one predicted",
    ("4.0.0", "deeplab_v3"): "external RAM, in the 416 network",
    ("2.2.0", "deeplab_v3"): "external RAM, in the 416 network",
    ("2.2.0", "st_efficientnet"): "products with a vector: twice as slow before 4.0 on the board",
    ("3.0.0", "st_efficientnet"): "products with a vector: twice as slow before 4.0 on the board",
}


def main() -> int:
    options = _arguments()
    lines = _table_of(options.table)
    try:
        found = {version: measure(lines, version, options) for version in options.version}
    except NpuscopeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print("\n".join(line for item in found.items() for line in section(*item, COLUMNS)))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.write_docs:
        options.write_docs.write_text(_page(found), encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, required=True, help="folder of model files")
    parser.add_argument("--table", type=Path, required=True, help="CSV of published figures")
    parser.add_argument("--version", nargs="+", default=["4.0.0"], help="tool versions to predict")
    parser.add_argument("--generation", help="compiler generation, otherwise by tool version")
    parser.add_argument("--json", type=Path, help="file to write all rows to")
    parser.add_argument("--write-docs", type=Path, help="Markdown page to write")
    options = parser.parse_args()
    unknown = [version for version in options.version if version not in GENERATIONS]
    if unknown and not options.generation:
        parser.error(f"no generation is known for {', '.join(unknown)}: give --generation")
    return options


def _table_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# Rows: what was published, what is predicted.


def measure(lines: list[dict[str, str]], version: str, options: argparse.Namespace) -> list[Row]:
    generation = options.generation or GENERATIONS[version]
    machine = load_machine(generation=generation, epoch_controller=True, overrides=CLOCKS)
    chosen = [line for line in lines if line.get("stedgeai") == version]
    rows = [_row(line, options.models, machine) for line in chosen]
    _add_linear_fit([row for row in rows if "skipped" not in row])
    return rows


def _row(line: dict[str, str], models: Path, machine: Machine) -> Row:
    file = line.get("file") or ""
    row: Row = {"network": Path(file).stem, "file": file, "version": line["stedgeai"]}
    row |= {key: line.get(key) or "?" for key in ("family", "graph")}
    try:
        row |= _published(line)
        return row | _predicted(row, models / file, machine)
    except NpuscopeError as error:
        return row | {"skipped": error.message}
    except Exception as error:  # one bad row must not hide the others
        return row | {"skipped": f"{type(error).__name__}: {error}".replace(str(models), "")}


def _published(line: dict[str, str]) -> Row:
    published_ms = _number(line.get("inference_ms"))
    if not published_ms:
        raise NpuscopeError("the table has no latency for it")
    columns = ("internal_ram_kib", "external_ram_kib", "weights_flash_kib")
    sizes = {f"published_{q}": _number(line.get(c)) for q, c in zip(QUANTITIES, columns)}
    return {"published_ms": published_ms} | sizes


def _number(text: str | None) -> float | None:
    return float(text) if text else None


def _predicted(row: Row, path: Path, machine: Machine) -> Row:
    started = perf_counter()
    graph = load_model(path)
    read = perf_counter()
    program = compile_graph(graph, machine)
    compiled = perf_counter()
    found = estimate(program, machine, graph)
    times = {"read_s": read - started, "compile_s": compiled - read}
    times["estimate_s"] = perf_counter() - compiled
    naive = {"features": _features(graph), "roofline_ms": _roofline_ms(graph, machine)}
    return _latency(row, found) | _sizes(row, found) | naive | times


def _latency(row: Row, found: Profile) -> Row:
    low, high = found.interval_ms
    return {
        "ms": found.total_ms,
        "error": found.total_ms / row["published_ms"] - 1,
        "interval_ms": [low, high],
        "half_width": (high - low) / 2 / found.total_ms,
        "inside": low <= row["published_ms"] <= high,
    }


def _sizes(row: Row, found: Profile) -> Row:
    memory = found.memory
    sizes = memory.internal_ram_bytes, memory.external_ram_bytes, memory.weights_bytes
    return {name: size / 1024 for name, size in zip(QUANTITIES, sizes, strict=True)}


# Naive predictors.


def _features(graph: Graph) -> list[int]:
    used = {name for op in graph.ops for name in op.inputs if name}
    constants = [graph.tensor(name) for name in used if graph.tensor(name).is_constant]
    made = [graph.tensor(name) for op in graph.ops for name in op.outputs]
    sizes = [sum(tensor.size_bytes for tensor in tensors) for tensors in (constants, made)]
    return [graph.macs(), *sizes, len(graph.ops)]


def _roofline_ms(graph: Graph, machine: Machine) -> float:
    """The larger of all MACs at the peak rate and all parameters at flash bandwidth."""
    macs, parameter_bytes, *_ = _features(graph)
    flash = machine.cycles_per_byte(machine.memory("octoFlash").path)
    cycles = max(macs / PEAK_MACS_PER_CYCLE, parameter_bytes * flash)
    return cycles / machine.clocks.npu_mhz / 1000


def _add_linear_fit(rows: list[Row]) -> None:
    """A row's own family has no part in its linear_ms; nothing is left out in sample."""
    for row in rows:
        others = [other for other in rows if other["family"] != row["family"]]
        row["linear_ms"] = _linear_ms(row, others)
        row["linear_in_sample_ms"] = _linear_ms(row, rows)


def _linear_ms(row: Row, known: list[Row]) -> float | None:
    """Least squares of relative errors: those of milliseconds would see the slow networks only."""
    if len(known) < len(row["features"]):
        return None
    scaled = np.array([np.array(r["features"]) / r["published_ms"] for r in known])
    weights = np.linalg.lstsq(scaled, np.ones(len(known)), rcond=None)[0]
    return float(weights @ row["features"])


# Text: Markdown that a terminal shows well too.


def _page(found: dict[str, list[Row]]) -> str:
    """Without the column of seconds: it would differ at every run."""
    before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
    lines = [line for item in found.items() for line in section(*item, COLUMNS[:-1])]
    return "\n".join([before + MARKS[0], *lines, MARKS[1] + rest.split(MARKS[1])[1]])


def section(version: str, rows: list[Row], columns: tuple[Column, ...]) -> list[str]:
    done = [row for row in rows if "skipped" not in row]
    skipped = [row for row in rows if "skipped" in row]
    return [
        f"\n## Tool version {version}\n\n{len(done)} of {len(rows)} rows are predicted.",
        *(f"* `{row['network']}`: {row['skipped']}" for row in skipped),
        *_table("Latency", ("rows", "n", "bias", *PREDICTORS), _latency_lines(done)),
        *_table("Interval", ("rows", "n", "inside", "median half-width"), _interval_lines(done)),
        *_table("Memory", ("size", "n", "exact", "median", "mean", "largest"), _size_lines(done)),
        *_table("By graph", ("graph", "n", "mean / median", "bias"), _by_graph(done)),
        *_table("By family", ("family", "n", "mean / median", "bias", "cause"), _by_family(done)),
        *_table("By network", [head for head, _ in columns], _by_network(done, columns)),
        *(_times(done) if columns is COLUMNS else ()),
    ]
