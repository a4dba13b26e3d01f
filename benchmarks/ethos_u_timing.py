"""Ethos-U: beats and cycles of streams against published counters, networks left out.

    python benchmarks/ethos_u_timing.py PUBLISHED.csv MODELS --vela PATH --vela-config INI
        [--keep FOLDER] [-o ROWS]

MODELS has a NAME.tflite for every network of the table that can be had; Vela of the version that
the table names compiles each for its machine. Constants of cycles that were chosen by such counters
are chosen again without a network before it is predicted. Judges (virtual platform, FPGA, boards)
are never mixed. Prints a table and writes one JSON row per cell.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

from msgspec import Struct

from npuscope.families.ethos_u.build import EthosBuild, compiled, read_build, timed
from npuscope.families.ethos_u.machine import EthosMachine, MemoryPort
from npuscope.families.ethos_u.timing import time_stream
from npuscope.structs import replace

# What the counters of cycles decided, by product; the first one of each is what the machines have.
_FITTED: dict[str, dict[str, tuple[Any, ...]]] = {
    "u55": {
        "external_rate": (1.086, 1.0, 1.04, 1.13),
        "reads_ahead": (False, True),
        "command_buffer_bytes": (128, 64, 96, 192),
    },
    "u65": {
        "weight_buffer_bytes": (1280, 1024, 1536, 65536),
        "reads_ahead": (False, True),
        "command_buffer_bytes": (128, 64, 96, 192),
    },
    "u85": {
        "reads_ahead": (True, False),
        "command_buffer_bytes": (128, 64, 96, 192, 256),
    },
}
_BOARD_MODES = {
    "internal flash + internal SRAM": "Shared_Sram",
    "internal SRAM only": "Sram_Only",
}
_NO_LATENCY = "no latency and no bandwidth cap"
_SINGLE = "h3r"  # networks of one layer


class Cell(Struct, frozen=True):
    """A network on a machine, with what a judge counted."""

    row: dict[str, str]
    build: EthosBuild
    same_bytes: bool

    @property
    def model(self) -> str:
        return self.row["model"]

    @property
    def judge(self) -> str:
        if self.row["kind"] == "fvp" and not self.row["vela_cycles"]:
            return "platform, version of Vela not stated"
        if self.row["kind"] == "fvp" and _SINGLE in self.model:
            idle = " without latencies" if _NO_LATENCY in self.row["vela_options"] else ""
            return f"platform, one layer{idle}"
        return {"fvp": "platform"}.get(self.row["kind"], self.row["kind"])

    @property
    def published(self) -> float:
        """Cycles at work; in all, where nothing else is told; of a board milliseconds."""
        texts = (self.row[name] for name in ("npu_active_cycles", "npu_total_cycles", "latency_ms"))
        return float(next(filter(None, texts)))

    def estimate(self, machine: EthosMachine | None = None) -> float:
        if self.row["kind"] == "board":
            return timed(self.build).total_ms
        streams = (offload.stream for offload in self.build.file.offloads.values())
        return sum(time_stream(one, machine or self.build.machine).cycles for one in streams)

    def error(self, machine: EthosMachine | None = None) -> float:
        return self.estimate(machine) / self.published - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("published", type=Path)
    parser.add_argument("models", type=Path)
    parser.add_argument("--vela", default="")
    parser.add_argument("--vela-config", default="")
    parser.add_argument("--keep", type=Path, help="folder of files that Vela wrote")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    cells = list(_cells(options))
    platform = [cell for cell in cells if cell.judge == "platform"]
    rows = [row for product_name in _FITTED for row in left_out(platform, product_name)]
    _print_left_out(rows)
    _print_beats(platform)
    others = [
        {"judge": cell.judge, "model": cell.model, **_machine_of(cell), "error": cell.error()}
        | {"published": cell.published, "mode": cell.build.machine.memory_mode}
        for cell in cells
        if cell.judge != "platform"
    ]
    _print_others(others)
    if options.output:
        options.output.write_text("".join(json.dumps(row) + "\n" for row in rows + others))


# --- Cells ---


def _cells(options: argparse.Namespace) -> Iterator[Cell]:
    with options.published.open() as file:
        for row in csv.DictReader(file):
            path = options.models / f"{row['model']}.tflite"
            board = row["kind"] == "board"
            if path.is_file() and (not board or row["memory_mode"] in _BOARD_MODES):
                same = hashlib.sha256(path.read_bytes()).hexdigest() == row["sha256"]
                yield Cell(row, _build(path, row, options), same)


def _build(path: Path, row: dict[str, str], options: argparse.Namespace) -> EthosBuild:
    board = row["kind"] == "board"
    setting: dict[str, Any] = {
        "machine": f"{row['accelerator']}-{row['macs']}",
        "system_config": "Renesas_RA8P1" if board else row["system_config"],
        "memory_mode": _BOARD_MODES[row["memory_mode"]] if board else row["memory_mode"],
    }
    kept = None
    if options.keep:
        options.keep.mkdir(exist_ok=True)
        kept = options.keep / f"{'__'.join((path.stem, *setting.values()))}_vela.tflite"
    if kept is None or not kept.is_file():
        vela = {} if board else {"vela": options.vela, "vela_config": options.vela_config}
        build = compiled(path, setting | vela | {"optimise": "Performance"})
        if kept is not None:
            kept.write_bytes(build.data)
    else:
        build = read_build(kept, setting)
    if _NO_LATENCY in row["vela_options"]:
        build = replace(build, machine=_without_latencies(build.machine))
    return build


def _without_latencies(machine: EthosMachine) -> EthosMachine:
    port = MemoryPort(1024.0, 0.0, 0.0, 128)
    return replace(machine, sram=port, external=port)


# --- Networks left out ---


def left_out(cells: list[Cell], product_name: str) -> Iterator[dict[str, Any]]:
    """Every cell of a product by constants that were chosen without its network."""
    cells = [cell for cell in cells if cell.build.machine.product == product_name]
    names = tuple(_FITTED[product_name])
    errors = [
        {
            choice: cell.error(_changed(cell.build.machine, dict(zip(names, choice, strict=True))))
            for choice in product(*_FITTED[product_name].values())
        }
        for cell in cells
    ]
    chosen = next(iter(errors[0])) if errors else ()
    for cell, own in zip(cells, errors, strict=True):
        rest = [
            one
            for other, one in zip(cells, errors, strict=True)
            if other.model != cell.model and other.same_bytes
        ]
        best = min(own, key=lambda choice: mean(abs(one[choice]) for one in rest))
        yield {
            "judge": cell.judge,
            "model": cell.model,
            **_machine_of(cell),
            "same_bytes": cell.same_bytes,
            "active": cell.published,
            "left_out": own[best],
            "as_chosen": own[chosen],
            "vela": int(cell.row["vela_cycles"]) / int(cell.row["npu_total_cycles"]) - 1,
            "constants": dict(zip(names, best, strict=True)),
        }


def _changed(machine: EthosMachine, values: dict[str, Any]) -> EthosMachine:
    rate = values.pop("external_rate", machine.external.bytes_per_cycle)
    external = replace(machine.external, bytes_per_cycle=rate)
    return replace(machine, external=external, **values)


def _machine_of(cell: Cell) -> dict[str, Any]:
    machine = cell.build.machine
    return {"product": machine.product, "macs": machine.macs}


def _print_left_out(rows: list[dict[str, Any]]) -> None:
    print("cycles at work on the platform, |error| in %: median, mean, largest")
    for product_name in _FITTED:
        group = [row for row in rows if row["product"] == product_name]
        for words, part in (
            ("same bytes", [row for row in group if row["same_bytes"]]),
            ("all", group),
        ):
            if part:
                columns = (_summary(row[key] for row in part) for key in _COLUMNS)
                print(f"{product_name} {words} ({len(part)}): ", "   ".join(columns))
        covered = [_inside(row, group) for row in group]
        print(f"  interval of the other networks holds {sum(covered)} of {len(covered)}")
        ratios = [1 / (1 + row["left_out"]) for row in group]
        if ratios:
            print(f"  published / left out: {min(ratios):.3f} to {max(ratios):.3f}")
        for model in dict.fromkeys(row["model"] for row in group):
            part = [row for row in group if row["model"] == model]
            words = (f"{row['macs']}:{100 * row['left_out']:+.1f}" for row in part)
            print(f"    {model:28}", " ".join(words), part[0]["constants"])


_COLUMNS = ("left_out", "as_chosen", "vela")


def _summary(errors: Iterator[float]) -> str:
    sizes = [100 * abs(error) for error in errors]
    return f"{median(sizes):5.1f} {mean(sizes):5.1f} {max(sizes):5.1f}"


def _inside(row: dict[str, Any], group: list[dict[str, Any]]) -> bool:
    """Whether what the other networks differ by holds for this one."""
    others = [1 / (1 + one["left_out"]) for one in group if one["model"] != row["model"]]
    return min(others) <= 1 / (1 + row["left_out"]) <= max(others)


# --- Beats and other judges ---


def beats(cell: Cell) -> dict[str, tuple[int, int]]:
    """Ours and what was counted, by the name of the counter."""
    machine, totals = cell.build.machine, dict[str, int]()
    near, far = ("sram", "ext") if machine.product == "u85" else ("axi0", "axi1")
    for offload in cell.build.file.offloads.values():
        time = time_stream(offload.stream, machine)
        for writes, word in ((False, "rd"), (True, "wr")):
            for region, count in time.beats(machine, writes=writes).items():
                side = near if machine.port(region) is machine.sram else far
                ending = "" if machine.product == "u85" else "_beats"
                name = f"{side}_{word}{ending}"
                totals[name] = totals.get(name, 0) + count
    counters = {name: text for name, text in cell.row.items() if name.startswith((near, far))}
    return {name: (totals.get(name, 0), int(text)) for name, text in counters.items() if text}


def _print_beats(cells: list[Cell]) -> None:
    print("beats: counters, equal ones, largest difference in %")
    for words, same in (("same bytes", True), ("other weights", False)):
        for direction in ("rd", "wr"):
            pairs = [
                pair
                for cell in cells
                if cell.same_bytes is same
                for name, pair in beats(cell).items()
                if direction in name
            ]
            if pairs:
                equal = sum(ours == count for ours, count in pairs)
                worst = max(100 * abs(ours - count) / max(count, 1) for ours, count in pairs)
                print(f"  {words}, {direction}: {len(pairs)} {equal} {worst:.2f}")


def _print_others(rows: list[dict[str, Any]]) -> None:
    for judge in dict.fromkeys(row["judge"] for row in rows):
        print(judge)
        for row in rows:
            if row["judge"] == judge:
                place = f"{row['product']}-{row['macs']} {row['mode']}"
                print(f"    {row['model']:26} {place:24} {100 * row['error']:+.1f} %")


if __name__ == "__main__":
    main()
