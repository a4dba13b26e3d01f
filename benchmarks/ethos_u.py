"""Ethos-U: streams that Vela compiles, executed and compared with LiteRT on the source.

    python benchmarks/ethos_u.py MODEL... [--random N] [--profile conv] [-o ROWS]

Every .tflite model (folders: all in them) and N random networks of tests/differential are compiled
for every machine and executed bit by bit on random inputs; LiteRT's reference kernels compute the
same on the source; with --each for every operator of a network by itself. Prints one JSON row per
run: values, how many differ, how far, from which causes (ethos_u_causes.py) and how many do not
follow from these, seconds of this process. What Vela, npuscope or LiteRT refuse is a row with the
reason.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Container, Iterator
from math import prod
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from ethos_u_causes import REAL, unexplained

from npuscope.errors import NpuscopeError
from npuscope.families.ethos_u.build import compiled, timed
from npuscope.families.ethos_u.network import executed
from npuscope.files.tflite.file import parse
from npuscope.graph.model import Graph
from npuscope.ops.reduce import ReduceAttrs
from npuscope.ops.run import run_once
from npuscope.profiling.model import Profile
from npuscope.program.model import EpochKind

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
_MACHINES = "ethos-u55-64,ethos-u55-128,ethos-u65-512,ethos-u85-256"
Arrays = dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--profile", default="mixed", help="of the random networks: mixed, conv")
    parser.add_argument("--machines", default=_MACHINES)
    parser.add_argument("--each", action="store_true", help="every operator by itself")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    machines = options.machines.split(",")
    with tempfile.TemporaryDirectory() as name:
        paths = [*_files(options.models), *_random(options, Path(name))]
        if options.each:
            paths = [one for path in paths for one in _operators(path, Path(name))]
        with open(options.output, "a") if options.output else sys.stdout as target:
            for path in paths:
                for machine in machines:
                    _tell(target, path, machine)


def _files(models: list[Path]) -> Iterator[Path]:
    for model in models:
        yield from sorted(model.glob("*.tflite")) if model.is_dir() else [model]


def _random(options: argparse.Namespace, folder: Path) -> Iterator[Path]:
    from differential.generate import FORMATS, network_of

    first = options.seed // 2 * 2 + FORMATS.index("tflite")  # formats take turns
    for seed in range(first, first + 2 * options.random, 2):
        path = folder / f"{options.profile}_{seed}.tflite"
        path.write_bytes(network_of(seed, options.profile).written())
        yield path


def _operators(path: Path, folder: Path) -> Iterator[Path]:
    from tflite_kernels import cut_out

    for number, data in enumerate(cut_out(path.read_bytes(), each=1 << 16)):
        one = folder / f"{path.stem}_{number}_{parse(data).ops[0].kind}.tflite"
        one.write_bytes(data)
        yield one


def _tell(target: TextIO, path: Path, machine: str) -> None:
    began = time.process_time()
    row: dict[str, Any] = {"model": path.name, "machine": machine}
    try:
        row |= compared(path, machine)
    except NpuscopeError as error:
        row["refused"] = str(error)[:300]
    except (RuntimeError, ValueError) as error:
        row["litert"] = f"{type(error).__name__}: {str(error)[:200]}"
    row["cpu_s"] = round(time.process_time() - began, 2)
    print(json.dumps(row), file=target, flush=True)


def compared(path: Path, machine: str) -> dict[str, Any]:
    build = compiled(path, {"machine": machine})
    profile = timed(build)
    assert build.graph is not None
    inputs, expected = reference(path)
    names = build.graph.inputs
    if len(inputs) < len(names):  # variables, which LiteRT does not let one set
        rng, tensors = np.random.default_rng(0), build.graph.tensors
        inputs = {
            n: _values(rng, np.dtype(tensors[n].dtype.value), tensors[n].shape) for n in names
        }
        expected = list(run_once(build.graph, inputs).values())
    arguments = dict(zip(names, inputs.values(), strict=True))
    results = executed(build.file, build.graph, arguments)
    worst = values = different = beyond = 0
    for one, other in zip(expected, results.values(), strict=True):
        distance = np.abs(one.astype(np.float64).ravel() - other.astype(np.float64).ravel())
        values += distance.size
        different += int((distance > 0).sum())
        last_bit = REAL * np.abs(one.astype(np.float64).ravel()) if one.dtype.kind == "f" else 0
        beyond += int((distance > last_bit).sum())
        worst = max(worst, float(distance.max(initial=0)))
    row = {"values": values, "different": different, "worst": worst, "cpu": on_cpu(profile)}
    if different:
        left = [op for op in build.file.model.ops if op.index not in build.file.offloads]
        tensors = {build.file.tensor(index).name for op in left for index in op.outputs}
        causes, rest = unexplained(build.graph, machine, arguments, tensors, results)
        if rest and (spilled := _spilling(build.graph, tensors)):
            rest = _rest(path, machine, spilled)
        row |= {"causes": causes, "unexplained": rest if causes else beyond}
    return row


def _rest(path: Path, machine: str, spilled: set[str]) -> int:
    """What is not explained of the network without operators that overwrite others."""
    data = _without(path.read_bytes(), spilled)
    if data is None:
        return 0
    with tempfile.TemporaryDirectory() as name:
        part = Path(name) / path.name
        part.write_bytes(data)
        rest: int = compared(part, machine).get("unexplained", 0)
        return rest


def _spilling(graph: Graph, on_cpu: Container[str]) -> set[str]:
    """Sums with more values than their outputs have room for: they overwrite other tensors."""
    names = set()
    for op in graph.ops:
        if op.kind == "ReduceSum" and op.outputs[0] not in on_cpu:
            shape = list(graph.tensors[op.inputs[0]].shape)
            del shape[op.attrs_as(ReduceAttrs).axes[0]]
            if prod(shape) > prod(graph.output_tensor(op).shape):
                names.add(op.outputs[0])
    return names


def _without(data: bytes, names: Container[str]) -> bytes | None:
    """A file without the outputs that depend on some tensors; None if none is left."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(data, 0)
    graph = model.subgraphs[0]
    makers = {index: op for op in graph.operators for index in op.outputs}
    dependent: set[int] = set()
    for op in graph.operators:  # in the order of execution
        named = any(graph.tensors[index].name.decode() in names for index in op.outputs)
        if named or not dependent.isdisjoint(op.inputs):
            dependent.update(op.outputs)
    graph.outputs = [index for index in graph.outputs if index not in dependent]
    needed, queue = set(), list(graph.outputs)
    while queue:
        index = queue.pop()
        if index not in needed:
            needed.add(index)
            queue += list(makers[index].inputs) if index in makers else []
    graph.operators = [op for op in graph.operators if needed.intersection(op.outputs)]
    graph.inputs = [index for index in graph.inputs if index in needed]
    if not graph.operators:
        return None
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def on_cpu(profile: Profile) -> list[str]:
    parts = [part for part in profile.epochs if part.kind is EpochKind.SW]
    return sorted({operator for part in parts for operator in part.operators})


def reference(path: Path, seed: int = 0) -> tuple[Arrays, list[np.ndarray]]:
    from npuscope.profiling.runtimes import litert_interpreter

    rng = np.random.default_rng(seed)
    interpreter = litert_interpreter(str(path))
    inputs: Arrays = {}
    for detail in interpreter.get_input_details():
        array = _values(rng, np.dtype(detail["dtype"]), tuple(detail["shape"]))
        inputs[detail["name"]] = array
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return inputs, [
        interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()
    ]


def _values(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    if dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


if __name__ == "__main__":
    main()
