"""Outputs of compiled many-core programs beside onnxruntime's, at the networks' real sizes.

    python benchmarks/manycore_accuracy.py --networks bert,mobilenet --cores 1,2,16 --batches 1,8

Programs are executed on the bytes of VTCM and DDR in half floats. The error is the largest
difference of an output divided by the largest output; above the limit the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from many_core.nets import graph_of
from many_core.public_nets import bert, gpt2, mobilenet_v2, resnet50
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.execute import execute
from npuscope.families.many_core.machine import load_core_machine
from npuscope.graph.model import Graph

LIMIT = 0.005
NETWORKS: dict[str, Callable[[int], bytes]] = {
    "bert": lambda batch: bert(2, batch),
    "gpt2": lambda batch: gpt2(2, batch),
    "mobilenet": mobilenet_v2,
    "resnet": resnet50,
}


def inputs_of(data: bytes) -> tuple[dict[str, np.ndarray], list[np.ndarray], list[str]]:
    """Random values, onnxruntime's outputs for them, and their names."""
    from npuscope.profiling.runtimes import onnxruntime_session

    session = onnxruntime_session(data)
    random = np.random.default_rng(1)
    values: dict[str, np.ndarray] = {}
    for entry in session.get_inputs():
        if "float" in entry.type:
            values[entry.name] = random.standard_normal(entry.shape).astype(np.float32)
        else:
            values[entry.name] = random.integers(0, 2, entry.shape)
    return values, session.run(None, values), [entry.name for entry in session.get_outputs()]


def as_graph(graph: Graph, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Images have their channels last in a Graph."""
    return {
        name: value if value.shape == graph.tensors[name].shape else np.moveaxis(value, 1, -1)
        for name, value in values.items()
    }


def error(data: bytes, cores: int) -> float:
    graph = graph_of(data)
    values, expected, names = inputs_of(data)
    program = compile_graph(graph, load_core_machine(), CoreCompileOptions(cores=cores))
    found = execute(program, as_graph(graph, values))
    pairs = zip(names, expected, strict=True)
    return max(float(np.abs(found[n] - want).max() / np.abs(want).max()) for n, want in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--cores", default="1,2,16")
    parser.add_argument("--batches", default="1,8")
    args = parser.parse_args()
    worst = 0.0
    for name in args.networks.split(","):
        for batch in map(int, args.batches.split(",")):
            data = NETWORKS[name](batch)
            for cores in map(int, args.cores.split(",")):
                begin = time.perf_counter()
                found = error(data, cores)
                worst = max(worst, found)
                taken = time.perf_counter() - begin
                print(
                    f"{name}, batch {batch}, {cores} cores: {found:.2%}, {taken:.0f} s", flush=True
                )
    print(f"largest {worst:.2%}, limit {LIMIT:.1%}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
