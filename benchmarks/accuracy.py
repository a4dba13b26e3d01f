"""Predictions against a table of published measurements, families left out, beside naive ones.

    python benchmarks/accuracy.py --models DIR --table published_latency.csv \\
        --version 4.0.0 3.0.0 2.2.0 --write-docs docs/accuracy.md

Every row of the table with one of the versions is predicted with the epoch controller, MCU at 800
and NPU at 1000 MHz. A row that cannot be predicted is listed with the reason. The table's columns:
file, family, graph, stedgeai, inference_ms, internal_ram_kib, external_ram_kib, weights_flash_kib.
Rows whose graph begins with `unseen` take part in no fit but that of external RAM, for which the
other ones are too few. `--intervals` shows by kind of network how often the interval of
profiling/interval.py held, each family left out in turn.
The page takes the prose of docs/accuracy.md; what is between its marks is written anew.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np

from npuscope.compiler.pipeline import compile_graph
from npuscope.errors import NpuscopeError
from npuscope.files.load import load_model
from npuscope.graph.model import Graph, Op
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine
from npuscope.machine.set_keys import machine_keys, with_overrides
from npuscope.ops.images import Coordinates, ResizeAttrs, ResizeMode
from npuscope.ops.table import total_macs
from npuscope.profiling import interval
from npuscope.profiling.facts import SIZE_ERRORS
from npuscope.profiling.model import MemoryUse
from npuscope.profiling.run import Retimer, retimer
from npuscope.structs import replace
from npuscope.text import safe_terminal

Row = dict[str, Any]
Cells = tuple[object, ...]
Keys = tuple[tuple[str, ...], ...]

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
    "left out": "{left_out_error:+.1%}",
    "interval": "{interval_ms[0]:.2f} to {interval_ms[1]:.2f}",
    "inside": "{inside}",
    **{name: f"{{{name}:.0f}} / {{published_{name}}}" for name in SIZES},
}
PAGE = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
MARKS = ("<!-- figures -->", "<!-- /figures -->")

# Constants that were fitted on published latencies: with a family left out they are fitted again,
# each times one of the factors. Keys of a line stand for one cost.
FACTORS = (0.6, 0.75, 0.85, 0.93, 1.0, 1.07, 1.15, 1.3, 1.6)
_MOVES = ("Concat", "Slice", "Pad", "SpaceToDepth")
FITTED = (
    ("generation.control.controller_cycles",),
    ("timing.side_share",),
    ("timing.accumulation_turn_cycles",),
    ("timing.second_vector_cycles",),
    ("timing.vector_frame_cycles",),
    ("timing.pair_cycles",),
    ("timing.product_cycles",),
    ("timing.wide_word_cycles",),
    ("paths.noc.access",),
    ("software.Resize.per_element",),
    ("software.Resize.per_pixel",),
    ("software.TransposeByCpu.per_element",),
    ("software.SoftmaxRows.per_element",),
    tuple(f"software.{name}.per_element" for name in _MOVES),
)
# What boards and the machine allow: no fit leaves it. Softmax of many rows took 40 and 65 cycles
# in two board runs; chains beside the longest one hold it up by no more than all that they read.
RANGES = {"software.SoftmaxRows.per_element": (40.0, 65.0), "timing.side_share": (0.0, 1.0)}
# The same for external RAM, on all families that use it.
FITTED_OUTSIDE = (("timing.external_read_ns",), ("timing.external_write_ns",))
SWEEPS = 2
# Measured on a newer export than the file at hand, in which every nearest Resize is a bilinear one:
# a public build of 4.0.1 of the 320 network shows it, and that the rest is equal (docs, cause D).
BILINEAR_EXPORTS = (("3.0.0 4.0.0", "st_yolo_x"),)

# Why a family is further off than this: tool versions, start of the file name, cause.
LARGE_ERROR = 0.08
CAUSES = (("2.2.0 3.0.0 4.0.0", "deeplab_v3", "external RAM (the 416 network)"),)


def main() -> None:
    options = _arguments()
    try:
        machines = {version: _machine(version, options) for version in options.version}
        found = {version: measure(version, options, machines[version]) for version in machines}
        everything = [row for rows in found.values() for row in _done(rows)]
        outside = _outside_effects(everything, machines)
        for version, rows in found.items():
            _add_left_out(_done(rows), machines[version], outside)
    except (NpuscopeError, OSError) as error:
        sys.exit(str(error))
    # Not on the page: seconds differ from run to run.
    print("\n".join(_sections(found, COLUMNS | {"seconds": "{seconds:.2f}"})))
    seconds = [row["seconds"] for rows in found.values() for row in _done(rows)]
    print(f"\nread, compiled and estimated in at most {max(seconds, default=0):.2f} s")
    if options.intervals:
        print("\n".join(_interval_sections([r for rows in found.values() for r in _done(rows)])))
    if options.json:
        plain = {version: [_plain(row) for row in rows] for version, rows in found.items()}
        options.json.write_text(json.dumps(plain, indent=1) + "\n")
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
    parser.add_argument(
        "--intervals", action="store_true", help="hold the interval against left-out rows"
    )
    parser.add_argument("--json", type=Path, help="file to write all rows to")
    parser.add_argument("--write-docs", type=Path, help="Markdown page to write")
    options = parser.parse_args()
    unknown = set(options.version) - set(GENERATIONS)
    if unknown and not options.generation:
        parser.error(f"no generation is known for {', '.join(unknown)}: give --generation")
    return options


# Rows: what was published, what is predicted.


def _machine(version: str, options: argparse.Namespace) -> Machine:
    generation = options.generation or GENERATIONS[version]
    return load_machine(generation=generation, epoch_controller=True, overrides=CLOCKS)


def measure(version: str, options: argparse.Namespace, machine: Machine) -> list[Row]:
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
        graph = as_measured(row, load_model(models / row["file"]))
        return row | _predicted(graph, machine, row["published_ms"])
    except Exception as error:  # one bad row must not hide the others
        reason = getattr(error, "message", f"{type(error).__name__}: {error}")
        return row | {"skipped": reason.replace(f"{models}/", "")}


def as_measured(row: Row, graph: Graph) -> Graph:
    """The network of the row: the file's, with bilinear Resizes where it was exported anew."""
    exported = any(
        row["stedgeai"] in versions.split() and row["file"].startswith(start)
        for versions, start in BILINEAR_EXPORTS
    )
    measured = graph.copy()
    measured.ops = [_bilinear(op) if exported else op for op in graph.ops]
    return measured


def _bilinear(op: Op) -> Op:
    if not isinstance(op.attrs, ResizeAttrs):
        return op
    attrs = replace(op.attrs, mode=ResizeMode.LINEAR, coordinates=Coordinates.HALF_PIXEL)
    return op.replace(attrs=attrs)


def _predicted(graph: Graph, machine: Machine, published_ms: float) -> Row:
    started = perf_counter()
    timer = retimer(compile_graph(graph, machine), machine, graph)
    found = timer.estimate(machine)
    seconds = perf_counter() - started
    low, high = found.interval_ms
    return _sizes(found.memory) | {
        "retimer": timer,
        "contents": interval.contents(timer.facts, found.epochs, machine, found.total_ms),
        "ms": found.total_ms,
        "interval_ms": (low, high),
        "half_width": (high - low) / 2 / found.total_ms,
        "inside": low <= published_ms <= high,
        "error": found.total_ms / published_ms - 1,
        "roofline_ms": _roofline_ms(graph, machine),
        "features": _features(graph),
        "seconds": seconds,
    }


def _plain(row: Row) -> Row:
    """What of a row a JSON file can hold."""
    return {key: value for key, value in row.items() if key not in ("retimer", "contents")}


def _is_unseen(row: Row) -> bool:
    return str(row["graph"]).startswith("unseen")


def _sizes(use: MemoryUse) -> Row:
    sizes = use.internal_ram_bytes, use.external_ram_bytes, use.weights_bytes
    return {name: size / 1024 for name, size in zip(SIZES, sizes, strict=True)}


# Families left out: constants fitted on the others, widths of the interval too.


Effects = list[tuple[Row, np.ndarray]]


def _outside_effects(rows: list[Row], machines: dict[str, Machine]) -> Effects:
    """What the constants of external RAM do to the networks that use it, of all versions."""
    using = [row for row in rows if row["published_external_ram_kib"]]
    return [
        (row, _effects(row["retimer"], machines[row["stedgeai"]], FITTED_OUTSIDE)) for row in using
    ]


def _add_left_out(rows: list[Row], machine: Machine, outside: Effects) -> None:
    """The prediction with constants that the row's family took no part in."""
    known = [row for row in rows if not _is_unseen(row)]
    inside = [(row, _effects(row["retimer"], machine, FITTED)) for row in known]
    for family in sorted({row["family"] for row in rows}):
        own = [row for row in rows if row["family"] == family]
        fitted = _without(own, inside, FITTED, _without(own, outside, FITTED_OUTSIDE, machine))
        for row in own:
            found = row["retimer"].estimate(fitted)
            low, high = found.interval_ms
            row["left_out_ms"] = found.total_ms
            row["left_out_error"] = found.total_ms / row["published_ms"] - 1
            row["left_out_inside"] = low <= row["published_ms"] <= high


def _without(own: list[Row], effects: Effects, keys: Keys, machine: Machine) -> Machine:
    """The machine with constants fitted on the other families.

    Other versions may call a family by another name: its files leave as well.
    """
    families = {row["family"] for row in own}
    files = {row["file"] for row in own}
    others = [
        (row, effect)
        for row, effect in effects
        if row["family"] not in families and row["file"] not in files
    ]
    if not others or len(others) == len(effects):
        return machine
    chosen = _refitted([row for row, _ in others], [effect for _, effect in others])
    return _scaled(machine, chosen, keys)


def _effects(timer: Retimer, machine: Machine, keys: Keys) -> np.ndarray:
    """Milliseconds that each factor of each constant adds, and at the end the plain total."""
    plain = timer.estimate(machine).total_ms
    rows = [
        [timer.estimate(_scaled(machine, {n: f}, keys)).total_ms - plain for f in FACTORS]
        for n in range(len(keys))
    ]
    return np.array([*rows, [plain] * len(FACTORS)])


def _scaled(machine: Machine, factors: dict[int, float], keys: Keys) -> Machine:
    values = machine_keys(machine)
    chosen = ((key, f) for n, f in factors.items() for key in keys[n] if f != 1.0)
    changes = {key: _in_range(key, values[key].value * f) for key, f in chosen}
    return with_overrides(machine, changes)


def _in_range(key: str, value: float) -> float:
    low, high = RANGES.get(key, (value, value))
    return min(max(value, low), high)


def _refitted(rows: list[Row], effects: list[np.ndarray]) -> dict[int, float]:
    """Coordinate descent from the shipped constants; their effects are taken to add up."""
    table = np.stack(effects)  # row, constant, factor
    constants = table.shape[1] - 1
    published = np.array([row["published_ms"] for row in rows])
    weights = _family_weights(rows)
    chosen = [FACTORS.index(1.0)] * constants
    for _ in range(SWEEPS):
        for n in range(constants):
            rest = table[:, -1, 0] + sum(
                table[:, other, chosen[other]] for other in range(constants) if other != n
            )
            totals = np.maximum(rest[:, None] + table[:, n, :], 1e-9)
            losses = weights @ np.abs(np.log(totals / published[:, None]))
            best = int(np.argmin(losses))
            # A constant that no row feels keeps its value.
            chosen[n] = best if losses[best] < losses[chosen[n]] - 1e-9 else chosen[n]
    return {n: FACTORS[index] for n, index in enumerate(chosen)}


def _family_weights(rows: list[Row]) -> np.ndarray:
    """Each family counts once, however many rows it has."""
    count = Counter(row["family"] for row in rows)
    return np.array([1 / count[row["family"]] / len(count) for row in rows])


# Of what a large part of the time is: the interval is wide for it.
KINDS = {
    "external RAM": lambda of: of.external + of.external_calls,
    "unmeasured kernels": lambda of: of.unmeasured,
    "kernels in pieces": lambda of: of.pieces,
    "CPU": lambda of: of.cpu,
    "no convolution": lambda of: of.combining,
}
LARGE_PART = {"CPU": 0.10, "no convolution": 0.15}
OTHER_PART = 0.05
CLASSES = ("plain", *KINDS)


def _kinds(of: interval.Contents) -> set[str]:
    """A row counts in each class of which it has much; "plain" if there is none."""
    large = {name for name, part in KINDS.items() if part(of) > LARGE_PART.get(name, OTHER_PART)}
    return large or {"plain"}


def _interval_sections(rows: list[Row]) -> Iterator[str]:
    """By class: how often left-out predictions and sizes were inside, and which side was missed."""
    yield "\n## What the ranges hold, families left out"
    heads = ("much of the time", "rows", "holds", "too fast", "too slow", "mean width")
    classes = {name: [row for row in rows if name in _kinds(row["contents"])] for name in CLASSES}
    filled = {name: some for name, some in {"all": rows, **classes}.items() if some}
    yield from _table(heads, (_interval_cells(*one) for one in filled.items()))
    heads = ("size", "version", "stated", "rows", "holds", "exact")
    yield from _table(heads, _size_range_rows(rows))


def _interval_cells(name: str, own: list[Row]) -> Cells:
    out = [row for row in own if not row["left_out_inside"]]
    late = sum(row["left_out_ms"] < row["published_ms"] for row in out)
    widths = np.array([interval.sides(row["contents"]) for row in own])
    faster, slower = widths.mean(axis=0)
    holds = f"{1 - len(out) / len(own):.0%}"
    return name, len(own), holds, late, len(out) - late, f"-{faster:.0%} to +{slower:.0%}"


def _size_range_rows(rows: list[Row]) -> Iterator[Cells]:
    for name, (less, more) in SIZE_ERRORS.items():
        key = "weights_flash_kib" if name == "weights" else "internal_ram_kib"
        known = [row for row in rows if row[f"published_{key}"] is not None and _is_of(row, name)]
        for version in dict.fromkeys(row["stedgeai"] for row in known):
            own = [row for row in known if row["stedgeai"] == version]
            ratios = [row[f"published_{key}"] / row[key] - 1 for row in own]
            holds = mean(-less <= ratio <= more for ratio in ratios)
            exact = sum(_is_exact(row, key) for row in own)
            yield name, version, f"-{less:.0%} to +{more:.0%}", len(own), f"{holds:.0%}", exact


def _is_of(row: Row, name: str) -> bool:
    return name == "weights" or bool(row["external_ram_kib"]) == name.endswith("external RAM")


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
    known = [row for row in rows if not _is_unseen(row)]
    for row in rows:
        others = [other for other in known if other["family"] != row["family"]]
        row["linear_ms"] = _linear_ms(row, others)
        row["linear_in_sample_ms"] = _linear_ms(row, known)


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
    everything = [row for rows in found.values() for row in _done(rows)]
    parts = [*_sections(found, COLUMNS), *_interval_sections(everything)]
    return "\n".join([before + MARKS[0], *parts, MARKS[1] + after])


def _sections(found: dict[str, list[Row]], columns: dict[str, str]) -> Iterator[str]:
    for version, rows in found.items():
        done = _done(rows)
        yield f"\n## Published with {version}\n\n{len(done)} of {len(rows)} rows are predicted."
        skipped = [(row["file"], row["skipped"]) for row in rows if "skipped" in row]
        yield from _table(("not predicted", "reason"), skipped) if skipped else ()
        yield "\n### Families left out"
        heads = ("rows", "families", "by family", "linear", "n", "by row", "bias", "in interval")
        yield from _table(heads, _left_out_rows(done))
        known = [row for row in done if not _is_unseen(row)]
        yield "\n### In sample"
        heads = ("rows", "n", *PREDICTORS, "bias", "in interval", "half-width")
        yield from _table(heads, (_latency_cells(*group) for group in _groups(known).items()))
        heads = ("size", "exact", "mean / median", "bias")
        yield from _table(heads, (_size_cells(name, known) for name in SIZES))
        heads = ("graph", "n", "mean / median", "bias")
        yield from _table(heads, (cells[:-1] for cells in _by("graph", known)))
        heads = ("family", "n", "mean / median", "bias", f"cause above {LARGE_ERROR:.0%}")
        yield from _table(heads, _by("family", known))
        yield "\n### All rows"
        cells = (tuple(form.format(**row) for form in columns.values()) for row in done)
        yield from _table(tuple(columns), cells)


def _left_out_rows(rows: list[Row]) -> Iterator[Cells]:
    for name, unseen in (("known networks", False), ("networks kept apart", True)):
        some = [row for row in rows if _is_unseen(row) is unseen]
        inside = [row for row in some if not row["published_external_ram_kib"]]
        outside = [row for row in some if row["published_external_ram_kib"]]
        groups = {name: some, f"{name}, internal RAM": inside, f"{name}, external RAM": outside}
        yield from (_left_out_cells(*group) for group in groups.items() if group[1])


def _left_out_cells(name: str, rows: list[Row]) -> Cells:
    families = sorted({row["family"] for row in rows})
    errors = [row["left_out_error"] for row in rows]
    linear = [r["linear_ms"] / r["published_ms"] - 1 for r in rows if r["linear_ms"] is not None]
    held = [_of_family(rows, family, "left_out_inside") for family in families]
    by_family = [_of_family(rows, family, "left_out_error") for family in families]
    return (
        name,
        len(families),
        _spread(by_family),
        _spread(linear),
        len(rows),
        _spread(errors),
        _bias(errors),
        f"{mean(held):.0%}",
    )


def _of_family(rows: list[Row], family: str, key: str) -> float:
    return mean(abs(row[key]) for row in rows if row["family"] == family)


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
    exact = sum(_is_exact(row, name) for row in known)
    errors = _errors(known, name, published)
    return name, f"{exact} of {len(known)}", _spread(errors), _bias(errors)


def _is_exact(row: Row, name: str) -> bool:
    return abs(row[name] - row[f"published_{name}"]) < 0.01  # the table's rounding


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
