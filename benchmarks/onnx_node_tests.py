"""onnx's own node tests on the reference executor, by op.

    python benchmarks/onnx_node_tests.py [--only Gather] [--all]

Every test of `onnx.backend.test` whose graph consists of ops that npuscope claims to execute is
read from the bytes of its model and run on the test's own inputs, those that only describe the op
(axes, sizes, then weights) as constants where the reader needs them. A result agrees if it is equal
for integers and truth, and within 1e-3 relative and 1e-5 absolute (onnx's own limits are 1e-3 and
1e-7) for reals. Forms that the reader keeps as work of unknown cost are counted by their reason;
types that it has no arrays for (float16, float8, strings, sequences) are outside of the claim.
Prints the counts by op, and exits 1 if a result differs.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

from npuscope.errors import NpuscopeError, TargetError
from npuscope.files.load import read_model
from npuscope.files.onnx.file import FUNCTIONS
from npuscope.files.onnx.fused import FORMS
from npuscope.files.onnx.rewrite import REWRITES
from npuscope.graph.model import Tensor
from npuscope.ops.kernels.between import quantized, real_values
from npuscope.ops.run import run
from npuscope.ops.table import ONNX

RELATIVE, ABSOLUTE = 1e-3, 1e-5
_WALKED = {
    "QuantizeLinear",
    "DequantizeLinear",
    "Shape",
    "Size",
    "Constant",
    "QLinearConv",
    "CastLike",
}
_ARRAYS = ["float32", "int32", "int64", "bool", "int8", "uint8", "int16", "uint16"]
# Which inputs are constants, one choice after the other: none, integers, all but the first.
_FROZEN: tuple[Callable[[int, np.ndarray], bool], ...] = (
    lambda number, values: False,
    lambda number, values: number > 0 and values.dtype.kind in "iub",
    lambda number, values: number > 0,
)
# onnxruntime's own list of node tests names this one as a difference: sizes are rounded down first.
_AS_ONNXRUNTIME = {"test_resize_downsample_scales_linear_align_corners"}
AGREES, DIFFERS, KEPT, TYPES, REFUSED = "agrees", "differs", "unknown cost", "types", "refused"


def outcome(case: Any) -> tuple[str, str]:
    """What became of one test, and why."""
    inputs, outputs = case.data_sets[0]
    arrays = [np.asarray(value) for value in (*inputs, *outputs) if not isinstance(value, list)]
    if len(arrays) != len(inputs) + len(outputs):
        return TYPES, ""
    if any(str(array.dtype) not in _ARRAYS or array.size == 0 for array in arrays):
        return TYPES, ""
    result = KEPT, ""
    for chosen in _FROZEN:
        result = _tried(_frozen(case.model, inputs, chosen), inputs, outputs)
        if result[0] in (AGREES, DIFFERS):
            break
    return result


def _frozen(model: Any, inputs: Any, chosen: Callable[[int, np.ndarray], bool]) -> Any:
    """The model with some of its inputs as constants, as networks have axes, sizes and weights."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for number, (entry, value) in enumerate(zip(model.graph.input, inputs, strict=False)):
        if chosen(number, np.asarray(value)):
            copy.graph.initializer.append(onnx.numpy_helper.from_array(value, entry.name))
    return copy


def _tried(model: Any, inputs: Any, outputs: Any) -> tuple[str, str]:
    try:
        graph = read_model(Path("node.onnx"), model.SerializeToString())
        names = [entry.name for entry in model.graph.input]
        feed = {n: np.asarray(v) for n, v in zip(names, inputs, strict=False) if n in graph.inputs}
        feed = {name: _stored(value, graph.tensors[name]) for name, value in feed.items()}
        found = run(graph, feed)
    except TargetError as error:
        return KEPT, error.message
    except NpuscopeError as error:
        return REFUSED, str(error).splitlines()[0][-120:]
    for name, wanted in zip(graph.outputs, outputs, strict=True):
        result, tensor = found[name], graph.tensors[name]
        if tensor.quant is not None and np.asarray(wanted).dtype.kind == "f":
            result = real_values(result, tensor)  # a network ends with its integers
        if not _equal(result, np.asarray(wanted)):
            return DIFFERS, f"{name}: {_difference(result, np.asarray(wanted))}"
    return AGREES, ""


def _stored(value: np.ndarray, tensor: Tensor) -> np.ndarray:
    """A network begins with integers where a QuantizeLinear reads its input."""
    return value if value.dtype == tensor.dtype.numpy else quantized(value, tensor)


def _equal(found: np.ndarray, wanted: np.ndarray) -> bool:
    if found.shape != wanted.shape:
        return False
    if wanted.dtype.kind != "f":
        return bool(np.array_equal(found, wanted))
    return bool(np.allclose(found, wanted, RELATIVE, ABSOLUTE, equal_nan=True))


def _difference(found: np.ndarray, wanted: np.ndarray) -> str:
    if found.shape != wanted.shape:
        return f"shape {found.shape}, expected {wanted.shape}"
    return f"by {np.abs(found.astype(float) - wanted.astype(float)).max():.3g}"


def _against_onnxruntime(case: Any) -> tuple[str, str]:
    """Where onnxruntime and onnx differ, a quantized network is exact with onnxruntime."""
    from npuscope.profiling.runtimes import onnxruntime_session

    given = case.data_sets[0][0]
    names = (entry.name for entry in case.model.graph.input)
    session = onnxruntime_session(case.model.SerializeToString())
    outputs = session.run(None, dict(zip(names, given, strict=True)))
    return _tried(_frozen(case.model, given, _FROZEN[-1]), given, outputs)


def claimed(case: Any) -> bool:
    """Whether the test is of one op that npuscope executes."""
    kinds = {node.op_type for node in case.model.graph.node}
    domains = {node.domain for node in case.model.graph.node}
    known = ONNX.keys() | FORMS.keys() | REWRITES.keys() | FUNCTIONS | _WALKED
    return domains <= {"", "ai.onnx"} and kinds <= known


def cases(only: str = "") -> list[Any]:
    """Tests of single ops; onnx also writes each function as its body (`_expanded`)."""
    found = collect_testcases(only or None)
    return [case for case in found if case.kind == "node" and "_expanded" not in case.name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="tests of one op")
    parser.add_argument("--all", action="store_true", help="print every test that does not agree")
    args = parser.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases(args.only):
        kind = case.model.graph.node[-1].op_type
        result, why = outcome(case) if claimed(case) else ("not claimed", "")
        if result == DIFFERS and case.name in _AS_ONNXRUNTIME:
            result, why = _against_onnxruntime(case)
        counts[kind][result] += 1
        if result in (DIFFERS, REFUSED) or (args.all and why):
            print(f"{result:12} {case.name}: {why}")
    return _print_counts(counts)


def _print_counts(counts: dict[str, Counter[str]]) -> int:
    columns = (AGREES, DIFFERS, REFUSED, KEPT, TYPES)
    print(f"\n{'op':24}" + "".join(f"{column:>13}" for column in columns))
    total: Counter[str] = Counter()
    for kind, found in sorted(counts.items()):
        total.update(found)
        if any(found[column] for column in columns):
            print(f"{kind:24}" + "".join(f"{found[column] or '':>13}" for column in columns))
    print(f"{'all':24}" + "".join(f"{total[column]:>13}" for column in columns))
    print(f"{total['not claimed']} tests of ops that are not claimed")
    return 1 if total[DIFFERS] else 0


if __name__ == "__main__":
    sys.exit(main())
