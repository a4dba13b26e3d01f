"""Weights of 4 bits: flash and time saved, predicted and published.

    python benchmarks/four_bits.py --models DIR --table published_latency.csv --pairs w4a8_pairs.csv

A pair has a network with 8-bit weights and the same with part of them in 4 bits. Its file is the
one that the table of published latencies has with the same time and flash. Files with 4 bits are
not available: the largest kernels are taken to 4 bits until the published share is reached, and
outputs are integers, as a list of their output buffers shows for detectors (docs/accuracy.md).
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from accuracy import CLOCKS, as_measured
from npuscope.compiler.passes.numbers import with_io_types
from npuscope.compiler.pipeline import compile_graph
from npuscope.files.load import load_model
from npuscope.graph.model import DType, Graph
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine
from npuscope.profiling.model import Profile
from npuscope.profiling.run import retimer
from npuscope.structs import replace

VERSION, GENERATION = "4.0.0", "4.0"
HEADS = (
    *("network", "4 bits", "flash KiB", "published"),
    *("ms saved", "published", "RAM KiB", "published"),
)
FLASH_AIM, TIME_AIM, TIME_AIM_MS = 0.02, 0.20, 0.1


def main() -> None:
    options = _arguments()
    machine = load_machine(generation=GENERATION, epoch_controller=True, overrides=CLOCKS)
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    met: list[tuple[bool, bool]] = []
    for row, pair in _pairs(options):
        graph = as_measured(row, load_model(options.models / row["file"]))
        cells, aims = _pair(graph, pair, machine)
        met.append(aims)
        print(f"| {row['file']} | {' | '.join(cells)} |", flush=True)
    flash, time = (sum(aims[n] for aims in met) for n in (0, 1))
    print(
        f"\n{len(met)} pairs with a file: flash within {FLASH_AIM:.0%} in {flash}, the saving "
        f"within {TIME_AIM:.0%} or {TIME_AIM_MS} ms in {time}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, required=True, help="folder of model files")
    parser.add_argument("--table", type=Path, required=True, help="CSV of published figures")
    parser.add_argument("--pairs", type=Path, required=True, help="CSV of published pairs")
    return parser.parse_args()


def _pairs(options: argparse.Namespace) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Rows of the table whose file is there, each with its pairs."""
    with options.table.open(newline="") as file:
        rows = [line for line in csv.DictReader(file) if line["stedgeai"] == VERSION]
    with options.pairs.open(newline="") as file:
        pairs = list(csv.DictReader(file))
    for pair in pairs:
        own = (float(pair["int8_ms"]), float(pair["int8_flash_kib"]))
        for row in rows:
            published = (float(row["inference_ms"]), float(row["weights_flash_kib"]))
            if published == own and (options.models / row["file"]).is_file():
                yield row, pair
                break


def _pair(
    graph: Graph, pair: dict[str, str], machine: Machine
) -> tuple[tuple[str, ...], tuple[bool, bool]]:
    share = float(pair["share_of_4_bit_weights"])
    wide = _profile(graph, machine)
    narrow = _profile(with_io_types(in_four_bits(graph, share), None, "int8"), machine)
    flash, published = narrow.memory.weights_bytes / 1024, float(pair["w4_flash_kib"])
    saved = wide.total_ms - narrow.total_ms
    truth = float(pair["int8_ms"]) - float(pair["w4_ms"])
    cells = (
        f"{share:.0%}",
        f"{flash:.0f}",
        f"{published:.0f}",
        f"{saved:.2f}",
        f"{truth:.2f}",
        f"{narrow.memory.internal_ram_bytes / 1024:.2f}",
        pair["w4_internal_kib"],
    )
    near = abs(saved - truth) <= max(TIME_AIM_MS, TIME_AIM * abs(truth))
    return cells, (abs(flash / published - 1) <= FLASH_AIM, near)


def _profile(graph: Graph, machine: Machine) -> Profile:
    return retimer(compile_graph(graph, machine), machine, graph).estimate(machine)


def in_four_bits(graph: Graph, share: float) -> Graph:
    """The network with its largest kernels in 4 bits, as many as come nearest to the share."""
    kernels = {op.inputs[1] for op in graph.ops if len(op.inputs) > 1 and op.inputs[1]}
    weights = [graph.tensor(name) for name in kernels if graph.tensor(name).is_constant]
    weights = [t for t in weights if t.dtype is DType.INT8 and len(t.shape) > 1]
    weights.sort(key=lambda tensor: (-tensor.elements, tensor.name))
    wanted = share * sum(tensor.elements for tensor in weights)
    narrow, taken = graph.copy(), 0
    for tensor in weights:
        if abs(taken + tensor.elements - wanted) < abs(taken - wanted):
            taken += tensor.elements
            assert tensor.data is not None
            data = np.clip(tensor.data, *DType.INT4.limits)
            narrow.tensors[tensor.name] = replace(tensor, dtype=DType.INT4, data=data)
    return narrow


if __name__ == "__main__":
    main()
