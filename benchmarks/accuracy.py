"""Predictions against published measurements, families left out, beside naive ones.

    python -m benchmarks accuracy --fetch
    python -m benchmarks accuracy --models DIR --write-docs docs/accuracy.md
    python -m benchmarks accuracy --models DIR --write-ranges

The figures are the tables of benchmarks/published: `latency.csv` has what the vendor publishes, by
version of its tools, `boards.csv` what others measured, with the options that tell how, and
`models.csv` the files, with their sha256 and where the public ones are. `--fetch` brings those into
the folder of `--models`, build/models by default, and writes the page anew; a folder that
is filled by other means does as well. A row whose file is missing or has another sha256 is listed
as not predicted, and so is one that cannot be predicted.

"Predicted" is what `npuscope estimate` says with the row's options, and nothing else. Where the
published latency is known to belong to another export of the network, the prediction for that
export has a column of its own; it decides no error, no coverage and no range.

`--write-ranges` computes the ranges that npuscope prints anew (src/npuscope/profiling/ranges.json)
from the errors of families left out; run it after a law has changed, and then `--write-docs`.
Rows whose graph begins with `unseen` take part in no fit but that of external RAM, for which the
other ones are too few. The page takes the prose of docs/accuracy.md; what is between its marks is
written anew.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any, cast

import msgspec
import numpy as np
from moved import options_of

from npuscope.building import Options, build
from npuscope.compiler.pipeline import compile_graph
from npuscope.errors import NpuscopeError
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.machine.set_keys import machine_keys, with_overrides
from npuscope.ops.images import Coordinates, ResizeAttrs, ResizeMode
from npuscope.ops.table import total_macs
from npuscope.profiling import interval, ranges
from npuscope.profiling.model import MemoryUse
from npuscope.profiling.run import Retimer, retimer
from npuscope.program.units import Convacc
from npuscope.structs import replace
from npuscope.text import safe_terminal

Row = dict[str, Any]
Cells = tuple[object, ...]
Keys = tuple[tuple[str, ...], ...]

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = Path(__file__).resolve().parent / "published"
# Version of the vendor's tools -> generation of their compiler.
CLOCKS = {"clocks.mcu_mhz": 800, "clocks.npu_mhz": 1000}
GENERATIONS = {"2.0.0": "2.2", "2.2.0": "2.2", "3.0.0": "3.0", "4.0.0": "4.0"}
VERSIONS = ("4.0.0", "3.0.0", "2.2.0")
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
    "other export": "{other_export}",
    **{name: f"{{{name}:.0f}} / {{published_{name}}}" for name in SIZES},
}
PAGE = ROOT / "docs" / "accuracy.md"
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
SWEEPS = 2
# Why a family is further off than this: tool versions, start of the file name, cause.
LARGE_ERROR = 0.08
CAUSES = (("2.2.0 3.0.0 4.0.0", "deeplab_v3", "external RAM (the 416 network)"),)


def main() -> None:
    options = _arguments()
    try:
        if options.fetch:
            fetch(options.models)
        found = measured(options)
    except (NpuscopeError, OSError) as error:
        sys.exit(str(error))
    if options.write_ranges:
        write_ranges(everything(found))
    # Not on the page: seconds differ from run to run.
    print("\n".join(_sections(found, COLUMNS | {"seconds": "{seconds:.2f}"})))
    seconds = [row["seconds"] for row in everything(found)]
    print(f"\nread, compiled and estimated in at most {max(seconds, default=0):.2f} s")
    if options.intervals:
        print("\n".join(_interval_sections(everything(found))))
    if options.json:
        plain = {name: [_plain(row) for row in rows] for name, rows in found.items()}
        options.json.write_text(json.dumps(plain, indent=1) + "\n")
    if options.write_docs or options.fetch:
        (options.write_docs or PAGE).write_text(_page(found), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models", type=Path, default=ROOT / "build" / "models", help="folder of model files"
    )
    parser.add_argument(
        "--fetch", action="store_true", help="bring the public files, write the page"
    )
    parser.add_argument(
        "--table", type=Path, default=PUBLISHED / "latency.csv", help="CSV of published figures"
    )
    parser.add_argument(
        "--boards", type=Path, help="CSV of others' measurements; beside a table of yours none"
    )
    parser.add_argument(
        "--version", nargs="+", default=list(VERSIONS), help="of the vendor's tools"
    )
    parser.add_argument("--generation", help="compiler generation, otherwise by tool version")
    parser.add_argument(
        "--intervals", action="store_true", help="hold the interval against left-out rows"
    )
    parser.add_argument(
        "--write-ranges", action="store_true", help="calibrate the ranges that npuscope prints"
    )
    parser.add_argument("--json", type=Path, help="file to write all rows to")
    parser.add_argument("--write-docs", type=Path, help="Markdown page to write")
    options = parser.parse_args()
    unknown = set(options.version) - set(GENERATIONS)
    if unknown and not options.generation:
        parser.error(f"no generation is known for {', '.join(unknown)}: give --generation")
    return options


# Files: where the public ones are, and which bytes they must have.


def fetch(folder: Path, table: Path = PUBLISHED / "models.csv") -> None:
    """Bring every public file of the table into the folder; each is checked by its sha256."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = _lines(table)
    for line in lines:
        path = folder / line["file"]
        if not line["url"] or _is_the_file(path, line):
            continue
        print(f"{line['file']} from {line['url']}", file=sys.stderr)
        try:
            with urllib.request.urlopen(line["url"], timeout=60) as answer:
                data = answer.read(int(line["size_bytes"]) + 1)
        except OSError as error:  # the rows of the other files are worth having
            print(f"  not fetched: {error}", file=sys.stderr)
            continue
        if hashlib.sha256(data).hexdigest() != line["sha256"]:
            print("  not kept: its sha256 is not that of the table", file=sys.stderr)
            continue
        path.write_bytes(data)
    missing = [line["file"] for line in lines if not _is_the_file(folder / line["file"], line)]
    print(f"{len(lines) - len(missing)} of {len(lines)} files at hand", file=sys.stderr)


def _is_the_file(path: Path, line: dict[str, str]) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == line["sha256"]


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# Rows: what was published, what is predicted.

Found = dict[str, list[Row]]  # rows by version of the vendor's tools, or by set of measurements


def measured(options: argparse.Namespace) -> Found:
    """All rows, predicted as they are and with their family left out."""
    lines = _lines(options.table)
    found: Found = {}
    for version in options.version:
        generation = options.generation or GENERATIONS[version]
        mine = [line for line in lines if line.get("stedgeai") == version]
        found[version] = [_row(line, options.models, f"--generation {generation}") for line in mine]
    boards = options.boards
    if not boards and options.table == PUBLISHED / "latency.csv":
        boards = PUBLISHED / "boards.csv"
    for line in _lines(boards) if boards else ():
        if line["stedgeai"] in options.version:
            row = _row(line, options.models, line["options"])
            found.setdefault(line["set"], []).append(row)
    for rows in found.values():
        _add_linear_fit(_done(rows))
    done = everything(found)
    outside = _outside_effects([row for row in done if "set" not in row])
    for version in options.version:
        _add_left_out([row for row in done if row["stedgeai"] == version], outside)
    return found


def everything(found: Found) -> list[Row]:
    return [row for rows in found.values() for row in _done(rows)]


def _done(rows: list[Row]) -> list[Row]:
    return [row for row in rows if "skipped" not in row]


def _row(line: dict[str, str], models: Path, way: str) -> Row:
    row: Row = {key: line.get(key) or "?" for key in ("file", "family", "graph", "stedgeai")}
    row |= {"set": line["set"]} if line.get("set") else {}
    row["options"] = way
    try:
        row |= {f"published_{n}": float(line[n]) if line.get(n) else None for n in SIZES}
        row["published_ms"] = float(line["inference_ms"])
        known = [one for one in _known_files() if one["file"] == row["file"]]
        path = models / row["file"]
        if known and path.exists() and not _is_the_file(path, known[0]):
            return row | {
                "skipped": "another file of this name: its sha256 is not that of the table"
            }
        return row | _predicted(path, row)
    except Exception as error:  # one bad row must not hide the others
        reason = getattr(error, "message", f"{type(error).__name__}: {error}")
        return row | {"skipped": reason.replace(f"{models}/", "")}


@lru_cache(maxsize=1)
def _known_files() -> list[dict[str, str]]:
    return _lines(PUBLISHED / "models.csv")


def as_measured(row: Row, graph: Graph) -> Graph:
    """The network of the row as it was measured, which may be another export than the file."""
    if not _is_other_export(row):
        return graph
    measured = graph.copy()
    measured.ops = [_bilinear(op) for op in graph.ops]
    return measured


def _is_other_export(row: Row) -> bool:
    """Does models.csv say that what was measured with this version is another export?"""
    known = [line for line in _known_files() if line["file"] == row["file"]]
    return any(row["stedgeai"] in line["other_export"].split() for line in known)


def _bilinear(op: Op) -> Op:
    if not isinstance(op.attrs, ResizeAttrs):
        return op
    attrs = replace(op.attrs, mode=ResizeMode.LINEAR, coordinates=Coordinates.HALF_PIXEL)
    return op.replace(attrs=attrs)


def _predicted(path: Path, row: Row) -> Row:
    """What the command line says, and what the other predictors do."""
    started = perf_counter()
    made = build(path, cast(Options, options_of(row["options"])))
    assert made.graph is not None
    timer = retimer(made.program, made.machine, made.graph)
    found = timer.estimate(made.machine)
    seconds = perf_counter() - started
    low, high = found.interval_ms
    published_ms = row["published_ms"]
    assert high is not None
    new: Row = {"other_export": "", "fit_timer": timer}
    if _is_other_export(row):
        graph = as_measured(row, made.graph)
        other = retimer(compile_graph(graph, made.machine), made.machine, graph)
        ms = other.estimate(made.machine).total_ms
        # Constants are fitted on what was measured.
        new = {
            "other_export": f"{ms:.2f} ({ms / published_ms - 1:+.1%})",
            "other_export_ms": ms,
            "fit_timer": other,
        }
    return (
        _sizes(found.memory)
        | new
        | {
            "retimer": timer,
            "machine": made.machine,
            "clocks": _clocks(made.machine),
            "facts": timer.facts,
            "contents": interval.contents(timer.facts, found.epochs, made.machine, found.total_ms),
            "ms": found.total_ms,
            "interval_ms": (low, high),
            "half_width": (high - low) / 2 / found.total_ms,
            "inside": low <= published_ms <= high,
            "error": found.total_ms / published_ms - 1,
            "roofline_ms": _roofline_ms(made.graph, made.machine),
            "features": _features(made.graph),
            "seconds": seconds,
        }
    )


def _clocks(machine: Machine) -> str:
    return f"{machine.clocks.mcu_mhz:g}/{machine.clocks.npu_mhz:g}"


def _plain(row: Row) -> Row:
    """What of a row a JSON file can hold."""
    left = ("retimer", "fit_timer", "contents", "machine", "facts")
    shares = {"contents": msgspec.to_builtins(row["contents"])} if "contents" in row else {}
    return {key: value for key, value in row.items() if key not in left} | shares


def _is_unseen(row: Row) -> bool:
    return str(row["graph"]).startswith("unseen")


def _sizes(use: MemoryUse) -> Row:
    sizes = use.internal_ram_bytes, use.external_ram_bytes, use.weights_bytes
    return {name: size / 1024 for name, size in zip(SIZES, sizes, strict=True)}


# Families left out: constants fitted on the others, widths of the interval too.


Effects = list[tuple[Row, np.ndarray]]


def _outside_keys(machine: Machine) -> Keys:
    """What an access to external RAM costs: fitted on all families that use it, in all versions."""
    start, ends = "timing.external_", ("_ns", "_cycles")
    return tuple(
        (key,) for key in machine_keys(machine) if key.startswith(start) and key.endswith(ends)
    )


def _outside_effects(rows: list[Row]) -> Effects:
    """What the constants of external RAM do to the networks that use it, of all versions."""
    using = [row for row in rows if row["published_external_ram_kib"]]
    return [
        (row, _effects(row["fit_timer"], row["machine"], _outside_keys(row["machine"])))
        for row in using
    ]


def _add_left_out(rows: list[Row], outside: Effects) -> None:
    """The prediction with constants that the row's family took no part in."""
    known = [row for row in rows if not _is_unseen(row) and "set" not in row]
    inside = [(row, _effects(row["fit_timer"], row["machine"], FITTED)) for row in known]
    for family in sorted({row["family"] for row in rows}):
        own = [row for row in rows if row["family"] == family]
        near, far = _factors(own, inside), _factors(own, outside)
        for row in own:
            machine = _scaled(row["machine"], far, _outside_keys(row["machine"]))
            found = row["retimer"].estimate(_scaled(machine, near, FITTED))
            low, high = found.interval_ms
            row["left_out_ms"] = found.total_ms
            row["left_out_error"] = found.total_ms / row["published_ms"] - 1
            row["left_out_inside"] = low <= row["published_ms"] <= high


def _factors(own: list[Row], effects: Effects) -> dict[int, float]:
    """Factors of the constants, fitted on the other families; none where all or no rows are others.

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
        return {}
    return _refitted([row for row, _ in others], [effect for _, effect in others])


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


# Ranges: calibrated on errors of families left out, and how often they hold.

# Share of left-out measurements that ranges are made to hold. A family counts once, however many
# rows it has, because what is new to come is another family.
LEVEL = 0.9
# What of a network has to be in layers of a tile before it counts as measured.
MEASURED_PART = 0.02
# Parts in the order of their calibration: each takes the ones before it as known.
_KIND_OF_PART = {"": interval.ON_CHIP} | {part: kind for kind, part, _ in reversed(interval.KINDS)}
_SIZES_OF = {
    "internal RAM": "internal_ram_kib",
    "internal RAM beside external RAM": "internal_ram_kib",
    "weights": "weights_flash_kib",
}


def write_ranges(rows: list[Row]) -> None:
    path = Path(ranges.__file__).with_name("ranges.json")
    path.write_text(json.dumps(msgspec.to_builtins(calibrated(rows)), indent=1) + "\n")
    ranges.ranges.cache_clear()
    interval.distance.cache_clear()
    for row in rows:  # the page is written with the new ones
        _judge_again(row)


def _judge_again(row: Row) -> None:
    found = row["retimer"].estimate(row["machine"])
    low, high = found.interval_ms
    row |= {"interval_ms": (low, high), "inside": low <= row["published_ms"] <= high}
    row["half_width"] = (high - low) / 2 / found.total_ms
    of = interval.contents(row["facts"], found.epochs, row["machine"], found.total_ms)
    row["contents"] = of
    cold = interval.cold_ms(row["machine"])
    low, high = interval.bounds_ms(row["left_out_ms"], interval.sides(of), cold)
    row["left_out_inside"] = low <= row["published_ms"] <= high


def calibrated(rows: list[Row]) -> ranges.Ranges:
    """Ranges by split conformal prediction on errors of families left out, by kind of prediction.

    Of a part of the time, the narrowest pair of widths is taken that holds LEVEL of the rows of
    its kind, with the correction for few families. How often such ranges hold is counted with the
    widths that come out without the row's own family.
    """
    usable = [row for row in rows if _is_evidence(row)]
    held: dict[str, list[bool]] = {}
    families: dict[str, set[str]] = {}
    for family in sorted({row["family"] for row in usable}):
        own = [row for row in usable if row["family"] == family]
        files = {row["file"] for row in own}
        others = [r for r in usable if r["family"] != family and r["file"] not in files]
        parts = _calibrated_parts(others)
        for row in own:
            kind = interval.kind_of(row["contents"])
            held.setdefault(kind, []).append(_holds(row, parts))
            families.setdefault(kind, set()).add(family)
    kinds = {
        kind: ranges.Held(sum(held[kind]), len(held[kind]), len(families[kind]))
        for kind in (interval.ON_CHIP, *(kind for kind, _, _ in interval.KINDS))
        if kind in held
    }
    return ranges.Ranges(
        "python -m benchmarks accuracy --models DIR --write-ranges",
        LEVEL,
        _calibrated_parts(usable),
        kinds,
        {name: _calibrated_size(name, usable) for name in _SIZES_OF},
        _measured_tiles(usable),
        tuple(
            ranges.OtherExport(row["facts"].model.md5, row["stedgeai"], row["published_ms"])
            for row in rows
            if row["other_export"] and "set" not in row
        ),
    )


def _is_evidence(row: Row) -> bool:
    """Not where another export was measured."""
    return not row["other_export"]


def _calibrated_parts(rows: list[Row]) -> dict[str, ranges.Sides]:
    parts: dict[str, ranges.Sides] = {}
    for part, kind in _KIND_OF_PART.items():
        own = [row for row in rows if interval.kind_of(row["contents"]) == kind]
        if not own:
            continue
        shares = np.array([getattr(row["contents"], part) if part else 1.0 for row in own])
        rest = np.array([_known_widths(row["contents"], parts) for row in own])
        scores = (np.array([_beyond(row) for row in own]) - rest) / shares[:, None]
        parts[part] = ranges.Sides(*_narrowest(scores, [row["family"] for row in own]))
    return parts


def _known_widths(of: interval.Contents, parts: dict[str, ranges.Sides]) -> tuple[float, float]:
    """Both widths without the part that is being calibrated."""
    whole = parts.get("", ranges.Sides(0.0, 0.0))
    widths = [(1.0, whole)]
    # Layers unlike measured ones: these were measured.
    names = [name for name in interval.PARTS if name != "unlike"]
    none = ranges.Sides(0.0, 0.0)
    stated = {name: interval.STATED.get(name) or parts.get(name) or none for name in names}
    widths += [(getattr(of, name), width) for name, width in stated.items()]
    faster, slower = (sum(share * width[side] for share, width in widths) for side in (0, 1))
    return faster, slower


def _beyond(row: Row) -> tuple[float, float]:
    """By how much the device was faster, and slower, than predicted without the family."""
    ms = row["left_out_ms"]
    cold = interval.cold_ms(row["machine"])
    return 1 - row["published_ms"] / ms, (row["published_ms"] - cold) / ms - 1


def _holds(row: Row, parts: dict[str, ranges.Sides]) -> bool:
    faster, slower = _beyond(row)
    most = _known_widths(row["contents"], parts)
    return faster <= min(most[0], interval.LARGEST) and slower <= most[1]


def _narrowest(scores: np.ndarray, families: list[str]) -> tuple[float, float]:
    """The least sum of two widths, none below 0, that holds enough of the rows.

    With fewer than nine families, not even the largest error of all is enough for LEVEL of what is
    to come: the widths that hold all of them are stretched by the share of the family to come.
    """
    count = Counter(families)
    weights = np.array([1 / count[family] / len(count) for family in families])
    level = LEVEL * (1 + 1 / len(count))
    stretch = 1 + 1 / len(count) if level > 1 else 1.0
    level = min(1.0, level)
    best = (float("inf"), 0.0, 0.0)
    slower_first = np.argsort(scores[:, 1])
    for faster in sorted({max(0.0, float(one)) for one in scores[:, 0]}):
        inside = scores[:, 0] <= faster + 1e-12
        reached = np.cumsum(np.where(inside, weights, 0.0)[slower_first])
        enough = np.flatnonzero(reached >= level - 1e-9)
        if enough.size:
            slower = max(0.0, float(scores[slower_first[enough[0]], 1]))
            best = min(best, (faster + slower, faster, slower))
    # Rounded up, so that what held still holds.
    faster, slower = (math.ceil(width * stretch * 1000) / 1000 for width in best[1:])
    return faster, slower


def _calibrated_size(name: str, rows: list[Row]) -> ranges.SizeRange:
    key = _SIZES_OF[name]
    own = [row for row in rows if row[f"published_{key}"] is not None and _is_of(row, name)]
    ratios = np.array([row[f"published_{key}"] / row[key] - 1 for row in own])
    scores = np.stack([-ratios, ratios], axis=1)
    families = [row["family"] for row in own]
    held = 0
    for n, row in enumerate(own):
        apart = [
            m
            for m, other in enumerate(own)
            if other["family"] != row["family"] and other["file"] != row["file"]
        ]
        if apart:
            less, more = _narrowest(scores[apart], [families[m] for m in apart])
            held += bool(-less <= ratios[n] <= more)
    less, more = _narrowest(scores, families) if own else (0.0, 0.0)
    return ranges.SizeRange(less, more, ranges.Held(held, len(own), len(set(families))))


def _is_of(row: Row, name: str) -> bool:
    return name == "weights" or bool(row["external_ram_kib"]) == name.endswith("external RAM")


def _measured_tiles(rows: list[Row]) -> tuple[ranges.Tile, ...]:
    """How layers are cut that take a part of the time of a measured network."""
    tiles: set[ranges.Tile] = set()
    for row in rows:
        spent: dict[ranges.Tile, float] = {}
        found = row["retimer"].estimate(row["machine"])
        for epoch, facts in zip(found.epochs, row["facts"].epochs, strict=True):
            units = [unit for unit in facts.units if isinstance(unit, Convacc)]
            for tile in {interval.tile_of(unit, row["machine"]) for unit in units}:
                if tile.kernel == "1x1":
                    continue
                spent[tile] = spent.get(tile, 0.0) + epoch.ms / found.total_ms
        tiles |= {tile for tile, share in spent.items() if share >= MEASURED_PART}
    return tuple(sorted(tiles, key=lambda t: (t.kernel, t.accumulates, t.depth, t.kernels)))


def _interval_sections(rows: list[Row]) -> Iterator[str]:
    """What npuscope prints of its ranges, and the widths behind it."""
    known = ranges.ranges()
    yield "\n## What the ranges hold, families left out\n"
    yield (
        f"Ranges are made to hold {known.level:.0%} of the families left out. `held` counts "
        "measurements inside a range that was calibrated without their family: npuscope prints it."
    )
    heads = ("kind", "held", "of", "share", "families", "mean width of the range")
    yield from _table(heads, (_kind_cells(kind, rows) for kind in known.kinds))
    heads = ("part of the time", "faster by", "slower by", "from")
    yield from _table(heads, _part_rows())
    heads = ("size", "range", "held", "of", "share")
    yield from _table(
        heads,
        (
            (name, f"-{one.less:.1%} to +{one.more:.1%}", one.held.held, one.held.rows,
             f"{one.held.share:.0%}")
            for name, one in known.sizes.items()
        ),
    )  # fmt: skip


def _kind_cells(kind: str, rows: list[Row]) -> Cells:
    held = ranges.ranges().kinds[kind]
    own = [row for row in rows if interval.kind_of(row["contents"]) == kind]
    widths = np.array([interval.sides(row["contents"]) for row in own])
    width = "-{:.0%} to +{:.0%}".format(*widths.mean(axis=0)) if own else ""
    return kind, held.held, held.rows, f"{held.share:.0%}", held.families, width


def _part_rows() -> Iterator[Cells]:
    for name, width in ranges.ranges().parts.items():
        cells = (name or "all of it", f"{width.faster:.1%}", f"{width.slower:.1%}")
        yield *cells, f"rows {_KIND_OF_PART[name]}"
    for name, width in interval.STATED.items():
        yield name, f"{width.faster:.1%}", f"{width.slower:.1%}", "stated: no set of measurements"


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
        title = f"Published with {version}" if version in GENERATIONS else f"Others: {version}"
        yield f"\n## {title}\n\n{len(done)} of {len(rows)} rows are predicted."
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
        shown = columns
        if version not in GENERATIONS:
            shown = {"network": columns["network"], "MHz": "{clocks}"} | columns
            heads = ("MHz", "n", "mean / median", "bias")
            yield from _table(heads, (cells[:-1] for cells in _by("clocks", done)))
        yield "\n### All rows"
        cells = (tuple(form.format(**row) for form in shown.values()) for row in done)
        yield from _table(tuple(shown), cells)


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
    if mean(bool(row["other_export"]) for row in rows) > 0.5:
        return "another export was measured (D)"
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
