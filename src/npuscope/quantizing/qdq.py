"""A plan to a QDQ file, by onnxruntime's quantizer; and what that makes without a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from npuscope.edits.onnx.document import OnnxDocument
from npuscope.edits.records import NotFitting
from npuscope.errors import ModelError
from npuscope.files.file_graph import FileNode
from npuscope.ops.table import OPS, having
from npuscope.ops.traits import Trait
from npuscope.quantizing.float_onnx import FloatNetwork
from npuscope.quantizing.others import first_line, quiet
from npuscope.quantizing.plan import ActivationRange, RangePlan

Sample = Mapping[str, np.ndarray]
_LARGEST = 127
# Statistics and normalisations of others: they run on the CPU in either form, better in float.
_NEVER = ("Cast", "Identity", "Where", "Mod", "Erf", "Pow", "Exp", "Log", "Sqrt", "Div")


_BESIDE_CONSTANTS = having(Trait.ARITHMETIC) & having(Trait.INTEGER_FORM) | {"PRelu"}


@cache
def integer_kinds() -> tuple[str, ...]:
    """Ops of ONNX that exist in integers here, beyond those of onnxruntime's own list."""
    kinds = [name for row in OPS.values() if row.has(Trait.INTEGER_FORM) for name in row.onnx]
    return tuple(sorted({k for k in kinds if "." not in k and k not in _NEVER}))


def _default_kinds() -> list[str]:
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    return sorted({*QDQRegistry, *QLinearOpsRegistry})


def quantized(network: FloatNetwork, plan: RangePlan) -> bytes:
    """The QDQ model with a float border: int8 activations, int8 weights per channel."""
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.calibrate import TensorData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

    graph = network.graph
    ranges = {
        name: TensorData(lowest=np.float32(r.low), highest=np.float32(r.high))
        for name, r in plan.ranges.items()
    }
    steps = {name: [_steps(r.scale, r.zero_point)] for name, r in plan.ranges.items()}
    for name in plan.wide:
        steps[name] = [{"quant_type": QuantType.QInt16, **_wide_steps(plan.ranges[name])}]
    extra = {
        "TensorQuantOverrides": {**steps, **_operands(network)},
        "WeightSymmetric": True,
        "ForceQuantizeNoInputCheck": not plan.narrow,
    }
    floats = [graph.own_name(op) for op in graph.nodes if not _may_go(op, plan, network)]
    with quiet():
        quantizer = QDQQuantizer(
            graph.message(),
            not plan.per_tensor,
            False,
            QuantType.QInt8,
            QuantType.QInt8,
            ranges,
            [],
            floats,
            _default_kinds() if plan.narrow else list(integer_kinds()),
            extra,
        )
        try:
            quantizer.quantize_model()
            quantizer.model.topological_sort()
        except Exception as error:
            raise ModelError(f"onnxruntime cannot quantize it: {first_line(error)}") from error
    data = bytes(quantizer.model.model.SerializeToString())
    return _in_new_opset(data) if plan.wide else data


def _in_new_opset(data: bytes) -> bytes:
    document = OnnxDocument.parse(data, Path())
    try:
        document.use_new_types()
    except NotFitting as misfit:
        raise ModelError(f"16 bits cannot be written: {misfit}") from None
    return document.to_bytes()


def _steps(scale: float, zero_point: int) -> dict[str, Any]:
    return {"scale": np.array(scale, np.float32), "zero_point": np.array(zero_point, np.int8)}


def _wide_steps(range: ActivationRange) -> dict[str, Any]:
    """The same ends, so that a clamp in front is still the steps' own."""
    scale = max((max(range.high, 0.0) - min(range.low, 0.0)) / 65535, 1e-8)
    zero = round(-32768 - min(range.low, 0.0) / scale)
    return {
        "scale": np.array(scale, np.float32),
        "zero_point": np.array(min(max(zero, -32768), 32767), np.int16),
    }


def _may_go(op: FileNode, plan: RangePlan, network: FloatNetwork) -> bool:
    """A clamp is dropped if the steps of its result clamp as it does; else it stays."""
    if network.graph.kind(op) not in ("Relu", "Clip"):
        return True
    range = plan.ranges.get(network.graph.outputs(op)[0])
    if range is None:
        return False
    low, high = clamp(op, network)
    slack = range.scale / 2
    return abs(range.low - low) <= slack and range.high <= high + slack


def clamp(op: FileNode, network: FloatNetwork) -> tuple[float, float]:
    if network.graph.kind(op) == "Relu":
        return 0.0, inf
    bounds, inputs = [-inf, inf], network.graph.inputs(op)
    for place in (1, 2):
        value = network.constant(inputs[place]) if len(inputs) > place else None
        if value is not None and value.size:
            bounds[place - 1] = float(np.ravel(value)[0])
    return bounds[0], bounds[1]


def _operands(network: FloatNetwork) -> dict[str, list[dict[str, Any]]]:
    """Constants beside activations (slopes, factors, offsets): symmetric, where they have both
    signs or none; the units want no zero point there."""
    steps, graph = {}, network.graph
    for op in graph.nodes:
        if graph.kind(op) in _BESIDE_CONSTANTS:
            for name in graph.inputs(op):
                values = network.constant(name)
                if values is not None and values.dtype == np.float32 and values.size:
                    largest = float(np.abs(values).max()) or 1.0
                    steps[name] = [_steps(largest / _LARGEST, 0)]
    return steps


def plain(network: FloatNetwork, samples: Sequence[Sample], folder: Path) -> bytes:
    """What onnxruntime makes by default, from the same data: the mark to beat."""
    from onnxruntime.quantization import quantize_static

    class All:
        def __init__(self) -> None:
            self.waiting = list(samples)

        def get_next(self) -> Sample | None:
            return self.waiting.pop(0) if self.waiting else None

    source, target = folder / "float.onnx", folder / "plain.onnx"
    source.write_bytes(network.data)
    with quiet():
        quantize_static(source, target, All())
    return target.read_bytes()
