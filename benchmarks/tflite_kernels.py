"""The reference executor against LiteRT's reference kernels, by op.

    python benchmarks/tflite_kernels.py [FOLDER] [--tests] [--each 2] [--all]

Every operator of the .tflite files of a folder is cut out as a network of its own (--each: so many
of a kind per file) and runs on random values, those of its type in full range; --tests takes the
networks that the tests of the kernels make. Integers agree if they are equal; reals within 1e-4,
relative and absolute. Forms that the reader keeps as work of unknown cost, and operators that
LiteRT refuses, are counted apart. Prints the counts by op, and exits 1 if a result differs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from npuscope.errors import NpuscopeError, TargetError
from npuscope.files.load import read_model
from npuscope.files.tflite.file import parse
from npuscope.ops.run import run
from npuscope.profiling.runtimes import LitertKernels, litert_interpreter

LIMIT = 1e-4
AGREES, DIFFERS, REFUSED, KEPT, LITERT = "agrees", "differs", "refused", "unknown cost", "no LiteRT"
_COLUMNS = (AGREES, DIFFERS, REFUSED, KEPT, LITERT)
_ROOT = Path(__file__).parents[1]
_WRONG = {"SUM"}  # its reference kernel reads memory that it never set; the default one does not
_LARGEST = 1 << 22  # elements of a tensor that are worth the time


def cut_out(data: bytes, each: int) -> Iterator[bytes]:
    """Operators of the main subgraph as networks of one operator."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    graph, seen = model.subgraphs[0], Counter[int]()
    for operator in graph.operators:
        used = [*operator.inputs, *operator.outputs]
        large = any(np.prod(graph.tensors[i].shape, dtype=float) > _LARGEST for i in used if i >= 0)
        seen[operator.opcodeIndex] += not large
        if not large and seen[operator.opcodeIndex] <= each:
            yield _single(model, operator)


def _single(model: Any, operator: Any) -> bytes:
    graph, made = model.subgraphs[0], schema.SubGraphT()
    inner = [] if operator.intermediates is None else list(operator.intermediates)
    used = list(dict.fromkeys([*operator.inputs, *operator.outputs, *inner]))
    places = {index: place for place, index in enumerate(i for i in used if i >= 0)} | {-1: -1}
    made.tensors = [graph.tensors[index] for index in places if index >= 0]
    copy = schema.OperatorT()
    copy.opcodeIndex = 0
    copy.inputs = [places[index] for index in operator.inputs]
    copy.outputs = [places[index] for index in operator.outputs]
    copy.intermediates = [places[index] for index in inner]
    copy.builtinOptionsType, copy.builtinOptions = (
        operator.builtinOptionsType,
        operator.builtinOptions,
    )
    made.operators, made.outputs = [copy], copy.outputs
    made.inputs = [i for i in dict.fromkeys(copy.inputs) if i >= 0 and _is_given(model, made, i)]
    whole = schema.ModelT()
    whole.version, whole.subgraphs, whole.buffers = model.version, [made], model.buffers
    whole.operatorCodes = [model.operatorCodes[operator.opcodeIndex]]
    builder = flatbuffers.Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _is_given(model: Any, graph: Any, place: int) -> bool:
    """Neither a constant nor a variable."""
    tensor = graph.tensors[place]
    data = model.buffers[tensor.buffer].data
    return not tensor.isVariable and (data is None or len(data) == 0)


def from_tests() -> list[bytes]:
    """The networks that the tests of the kernels build, in the order of the tests."""
    import pytest

    models: dict[bytes, None] = {}

    class Recorder:
        def pytest_collection(self) -> None:
            from ops import litert_ops

            build = litert_ops.one_op

            def recorded(*args: Any, **more: Any) -> bytes:
                made: bytes = build(*args, **more)
                models[made] = None
                return made

            litert_ops.one_op = recorded

    words = [str(_ROOT / "tests" / "ops" / "kernels"), "-q", "-p", "no:randomly"]
    pytest.main(words, plugins=[Recorder()])
    return list(models)


def outcome(data: bytes) -> tuple[str, str]:
    """What became of one network, and why."""
    try:
        runtime = _interpreter(data)
        given = [_values(detail) for detail in runtime.get_input_details()]
        for detail, value in zip(runtime.get_input_details(), given, strict=True):
            runtime.set_tensor(detail["index"], value)
        runtime.invoke()
        wanted = [runtime.get_tensor(detail["index"]) for detail in runtime.get_output_details()]
    except (ValueError, RuntimeError) as error:
        return LITERT, str(error)[:120]
    try:
        graph = read_model(Path("one.tflite"), data)
        states = {name: _start(graph.tensors[name]) for name in graph.inputs[len(given) :]}
        found = run(graph, dict(zip(graph.inputs, given, strict=False)) | states)
    except TargetError as error:
        return KEPT, error.message
    except NpuscopeError as error:
        return REFUSED, str(error).splitlines()[0][-120:]
    for name, result in zip(graph.outputs, wanted, strict=False):
        if not _equal(found[name], result):
            return DIFFERS, _difference(found[name], result)
    return AGREES, ""


def guarded(data: bytes) -> tuple[str, str]:
    """The same in a child: LiteRT ends the process on some operators."""
    context = multiprocessing.get_context("fork" if sys.platform != "win32" else "spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(data, theirs))
    child.start()
    theirs.close()
    try:
        found: tuple[str, str] = ours.recv()
    except EOFError:
        found = LITERT, "the process died"
    child.join()
    return found


def _child(data: bytes, pipe: Any) -> None:
    pipe.send(outcome(data))


def _interpreter(data: bytes) -> Any:
    """Some operators have no reference kernel in the version that a file asks for."""
    if _kind(data) in _WRONG:
        return litert_interpreter(data, LitertKernels.DEFAULT)
    try:
        return litert_interpreter(data)
    except (ValueError, RuntimeError):
        return litert_interpreter(data, LitertKernels.DEFAULT)


def _values(detail: Any) -> np.ndarray:
    rng, dtype, shape = np.random.default_rng(7), np.dtype(detail["dtype"]), detail["shape"]
    if dtype.kind not in "iufb":
        raise ValueError(f"no values of {dtype}")
    if dtype.kind == "f":
        return np.asarray(rng.normal(size=shape), dtype)
    plain = dtype.kind == "b" or not len(detail["quantization_parameters"]["scales"])
    if (plain and dtype.itemsize > 1) or dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)  # places, sizes and truth
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def _start(tensor: Any) -> np.ndarray:
    """A variable before the first inference."""
    zero = tensor.quant.zero_point if tensor.quant is not None else 0
    return np.full(tensor.shape, zero, tensor.dtype.numpy)


def _equal(found: np.ndarray, wanted: np.ndarray) -> bool:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if wanted.dtype.kind != "f":
        return bool(np.array_equal(found, wanted))
    return bool(np.allclose(found, wanted, LIMIT, LIMIT, equal_nan=True))


def _difference(found: np.ndarray, wanted: np.ndarray) -> str:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype} {found.shape}, expected {wanted.dtype} {wanted.shape}"
    apart = np.abs(found.astype(float) - wanted.astype(float))
    return f"{wanted.dtype} by {apart.max():.3g}, {np.mean(apart > 0):.2%} of the elements"


def _kind(data: bytes) -> str:
    return parse(data).ops[0].kind


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--tests", action="store_true", help="the networks of the tests too")
    parser.add_argument("--each", type=int, default=2, help="operators of a kind per file")
    parser.add_argument("--all", action="store_true", help="print why others do not agree")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # random values overflow floats
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, data in _networks(args):
        result, why = guarded(data)
        counts[_kind(data)][result] += 1
        if result == DIFFERS or (args.all and why):
            print(f"{result:12} {_kind(data)} of {name}: {why}", flush=True)
    return _print_counts(counts)


def _networks(args: argparse.Namespace) -> Iterator[tuple[str, bytes]]:
    for data in from_tests() if args.tests else ():
        yield "the tests", data
    seen: set[bytes] = set()
    for path in sorted(args.folder.rglob("*.tflite")) if args.folder else ():
        for data in _operators(path, args.each):
            if data not in seen:
                seen.add(data)
                yield path.name, data


def _operators(path: Path, each: int) -> Iterator[bytes]:
    content = path.read_bytes()
    try:
        parse(content)
    except NpuscopeError:
        return  # damaged, or not a network
    yield from cut_out(content, each)


def _print_counts(counts: dict[str, Counter[str]]) -> int:
    print(f"\n{'op':32}" + "".join(f"{column:>13}" for column in _COLUMNS))
    total: Counter[str] = Counter()
    for kind, found in sorted(counts.items()):
        total.update(found)
        print(f"{kind:32}" + "".join(f"{found[column] or '':>13}" for column in _COLUMNS))
    print(f"{'all':32}" + "".join(f"{total[column]:>13}" for column in _COLUMNS))
    return 1 if total[DIFFERS] else 0


if __name__ == "__main__":
    sys.exit(main())
