"""Predictions against a table of published measurements, beside two naive predictors.

    python benchmarks/accuracy.py --models DIR --table published_latency.csv \\
        --version 4.0.0 2.2.0 --write-docs docs/accuracy.md

Every row of the table with one of the versions is predicted with the epoch controller, MCU at 800
and NPU at 1000 MHz. A row that cannot be predicted is listed with the reason. The table's columns:
file, family, graph, stedgeai, inference_ms, internal_ram_kib, external_ram_kib, weights_flash_kib.
The page takes the prose of docs/accuracy.md; what is between its marks is written anew.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np

from npuscope.compiler.pipeline import compile_graph
from npuscope.errors import NpuscopeError
from npuscope.files.load import load_model
from npuscope.graph.model import Graph
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine
from npuscope.ops.table import total_macs
from npuscope.profiling.model import MemoryUse
from npuscope.profiling.run import estimate
from npuscope.text import safe_terminal

Row = dict[str, Any]
Cells = tuple[object, ...]

# Version of the vendor's tools -> generation of their compiler.
GENERATIONS = {"2.0.0": "2.2", "2.2.0": "2.2", "3.0.0": "3.0", "4.0.0": "4.0"}
CLOCKS = {"clocks.mcu_mhz": 800, "clocks.npu_mhz": 1000}
PEAK_MACS_PER_CYCLE = 4 * 72  # four convolution units, 8-bit features and weights
SIZES = ("internal_ram_kib", "external_ram_kib", "weights_flash_kib")
PREDICTORS = {
    "npuscope": "ms",
    "roofline": "roofline_ms",
    "linear, family left out": "linear_ms",
    "linear, in sample": "linear_in_sample_ms",
}
COLUMNS = {
    "network": "{file}",
    "ms": "{ms:.2f}",
    "published": "{published_ms:.2f}",
    "error": "{error:+.1%}",
    "interval": "{interval_ms[0]:.2f} to {interval_ms[1]:.2f}",
    "inside": "{inside}",
    **{name: f"{{{name}:.0f}} / {{published_{name}}}" for name in SIZES},
}
PAGE = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
MARKS = ("<!-- figures -->", "<!-- /figures -->")

# Why a family is further off than this: tool versions, start of the file name, cause.
LARGE_ERROR = 0.08
CAUSES = (
    ("3.0.0 4.0.0", "st_yolo_x", "measured on a newer export of the file"),
    ("2.2.0 3.0.0 4.0.0", "deeplab_v3", "external RAM (the 416 network)"),
)


def main() -> None:
    options = _arguments()
    try:
        found = {version: measure(version, options) for version in options.version}
    except (NpuscopeError, OSError) as error:
        sys.exit(str(error))
    # Not on the page: seconds differ from run to run.
    print("\n".join(_sections(found, COLUMNS | {"seconds": "{seconds:.2f}"})))
    seconds = [row["seconds"] for rows in found.values() for row in _done(rows)]
    print(f"\nread, compiled and estimated in at most {max(seconds, default=0):.2f} s")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.write_docs:
        options.write_docs.write_text(_page(found), encoding="utf-8")


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
    unknown = set(options.version) - set(GENERATIONS)
    if unknown and not options.generation:
        parser.error(f"no generation is known for {', '.join(unknown)}: give --generation")
    return options


# Rows: what was published, what is predicted.


def measure(version: str, options: argparse.Namespace) -> list[Row]:
    generation = options.generation or GENERATIONS[version]
    machine = load_machine(generation=generation, epoch_controller=True, overrides=CLOCKS)
    with options.table.open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if line.get("stedgeai") == version]
    rows = [_row(line, options.models, machine) for line in lines]
    _add_linear_fit(_done(rows))
    return rows


def _done(rows: list[Row]) -> list[Row]:
    return [row for row in rows if "skipped" not in row]


def _row(line: dict[str, str], models: Path, machine: Machine) -> Row:
    row: Row = {key: line.get(key) or "?" for key in ("file", "family", "graph", "stedgeai")}
    try:
        row |= {f"published_{n}": float(line[n]) if line.get(n) else None for n in SIZES}
        row["published_ms"] = float(line["inference_ms"])
        return row | _predicted(models / row["file"], machine, row["published_ms"])
    except Exception as error:  # one bad row must not hide the others
        reason = getattr(error, "message", f"{type(error).__name__}: {error}")
        return row | {"skipped": reason.replace(f"{models}/", "")}


def _predicted(path: Path, machine: Machine, published_ms: float) -> Row:
    started = perf_counter()
    graph = load_model(path)
    found = estimate(compile_graph(graph, machine), machine, graph)
    seconds = perf_counter() - started
    low, high = found.interval_ms
    return _sizes(found.memory) | {
        "ms": found.total_ms,
        "interval_ms": (low, high),
        "half_width": (high - low) / 2 / found.total_ms,
        "inside": low <= published_ms <= high,
        "error": found.total_ms / published_ms - 1,
        "roofline_ms": _roofline_ms(graph, machine),
        "features": _features(graph),
        "seconds": seconds,
    }


def _sizes(use: MemoryUse) -> Row:
    sizes = use.internal_ram_bytes, use.external_ram_bytes, use.weights_bytes
    return {name: size / 1024 for name, size in zip(SIZES, sizes, strict=True)}


# Naive predictors.


def _features(graph: Graph) -> list[int]:
    """MACs, bytes of parameters, bytes of all activations, ops."""
    used = [graph.tensor(name) for name in {n for op in graph.ops for n in op.inputs if n}]
    made = [graph.tensor(name) for op in graph.ops for name in op.outputs]
    parameter_bytes = sum(tensor.size_bytes for tensor in used if tensor.is_constant)
    return [total_macs(graph), parameter_bytes, sum(t.size_bytes for t in made), len(graph.ops)]


def _roofline_ms(graph: Graph, machine: Machine) -> float:
    """The larger of all MACs at the peak rate and all parameters at flash bandwidth."""
    macs, parameter_bytes, *_ = _features(graph)
    flash_cycles = parameter_bytes * machine.cycles_per_byte(machine.memory("octoFlash").path)
    return max(macs / PEAK_MACS_PER_CYCLE, flash_cycles) / machine.clocks.npu_mhz / 1000


def _add_linear_fit(rows: list[Row]) -> None:
    for row in rows:
        # Families, not rows, are left out: variants of one network would give each other away.
        others = [other for other in rows if other["family"] != row["family"]]
        row["linear_ms"] = _linear_ms(row, others)
        row["linear_in_sample_ms"] = _linear_ms(row, rows)


def _linear_ms(row: Row, known: list[Row]) -> float | None:
    """Least squares of relative errors: of milliseconds, the slow networks would decide alone."""
    if not known:
        return None
    scaled = np.array([np.array(r["features"]) / r["published_ms"] for r in known])
    weights = np.linalg.lstsq(scaled, np.ones(len(known)), rcond=None)[0]
    return float(weights @ row["features"])


# Text: Markdown that a terminal shows well too.


def _page(found: dict[str, list[Row]]) -> str:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    return "\n".join([before + MARKS[0], *_sections(found, COLUMNS), MARKS[1] + after])


def _sections(found: dict[str, list[Row]], columns: dict[str, str]) -> Iterator[str]:
    for version, rows in found.items():
        done = _done(rows)
        yield f"\n## Published with {version}\n\n{len(done)} of {len(rows)} rows are predicted."
        skipped = [(row["file"], row["skipped"]) for row in rows if "skipped" in row]
        yield from _table(("not predicted", "reason"), skipped) if skipped else ()
        heads = ("rows", "n", *PREDICTORS, "bias", "in interval", "half-width")
        yield from _table(heads, (_latency_cells(*group) for group in _groups(done).items()))
        heads = ("size", "exact", "mean / median", "bias")
        yield from _table(heads, (_size_cells(name, done) for name in SIZES))
        heads = ("graph", "n", "mean / median", "bias")
        yield from _table(heads, (cells[:-1] for cells in _by("graph", done)))
        heads = ("family", "n", "mean / median", "bias", f"cause above {LARGE_ERROR:.0%}")
        yield from _table(heads, _by("family", done))
        cells = (tuple(form.format(**row) for form in columns.values()) for row in done)
        yield from _table(tuple(columns), cells)


def _table(heads: tuple[str, ...], rows: Iterable[Cells]) -> list[str]:
    texts = [[safe_terminal(str(cell)).replace("|", "/") for cell in row] for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    padded = [[f"{cell:{w}}" for cell, w in zip(row, widths, strict=True)] for row in texts]
    lines = [f"| {' | '.join(row)} |" for row in padded]
    return ["", lines[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *lines[1:]]


def _groups(rows: list[Row]) -> dict[str, list[Row]]:
    inside = [row for row in rows if not row["published_external_ram_kib"]]
    outside = [row for row in rows if row["published_external_ram_kib"]]
    groups = {"all": rows, "without external RAM": inside, "with external RAM": outside}
    fewer = {name: [r for r in some if "yolo_x" not in r["file"]] for name, some in groups.items()}
    groups |= {f"{name}, not yolo_x": some for name, some in fewer.items()}
    return {name: some for name, some in groups.items() if some}


def _latency_cells(name: str, rows: list[Row]) -> Cells:
    errors = [_errors(rows, key, "published_ms") for key in PREDICTORS.values()]
    inside = f"{mean(row['inside'] for row in rows):.0%}"
    half_width = f"±{median(row['half_width'] for row in rows):.1%}"
    return name, len(rows), *map(_spread, errors), _bias(errors[0]), inside, half_width


def _errors(rows: list[Row], key: str, published: str) -> list[float]:
    return [r[key] / r[published] - 1 for r in rows if r[published] and r[key] is not None]


def _size_cells(name: str, rows: list[Row]) -> Cells:
    published = f"published_{name}"
    known = [row for row in rows if row[published] is not None]
    exact = sum(abs(row[name] - row[published]) < 0.01 for row in known)  # the table's rounding
    errors = _errors(known, name, published)
    return name, f"{exact} of {len(known)}", _spread(errors), _bias(errors)


def _by(key: str, rows: list[Row]) -> Iterator[Cells]:
    for value in sorted({row[key] for row in rows}):
        some = [row for row in rows if row[key] == value]
        errors = [row["error"] for row in some]
        yield value, len(some), _spread(errors), _bias(errors), _cause(some)


def _cause(rows: list[Row]) -> str:
    if mean(abs(row["error"]) for row in rows) <= LARGE_ERROR:
        return ""
    version, file = rows[0]["stedgeai"], rows[0]["file"]
    found = (
        text for known, start, text in CAUSES if version in known.split() and file.startswith(start)
    )
    return next(found, "not known")


def _spread(errors: list[float]) -> str:
    sizes = [abs(error) for error in errors]
    return f"{mean(sizes):.1%} / {median(sizes):.1%}" if sizes else "-"


def _bias(errors: list[float]) -> str:
    return f"{mean(errors):+.1%}" if errors else "-"


if __name__ == "__main__":
    main()
