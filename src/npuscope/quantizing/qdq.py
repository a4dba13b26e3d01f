"""A plan to a QDQ file, by onnxruntime's quantizer; and what that makes without a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from npuscope.errors import ModelError
from npuscope.ops.table import OPS, having
from npuscope.ops.traits import Trait
from npuscope.quantizing.float_onnx import FloatNetwork
from npuscope.quantizing.others import first_line, quiet
from npuscope.quantizing.plan import Plan

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


def quantized(network: FloatNetwork, plan: Plan) -> Any:
    """The QDQ model with a float border: int8 activations, int8 weights per channel."""
    import onnx
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.calibrate import TensorData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

    proto = onnx.ModelProto()
    proto.CopyFrom(network.proto)
    ranges = {
        name: TensorData(lowest=np.float32(found.low), highest=np.float32(found.high))
        for name, found in plan.ranges.items()
    }
    steps = {name: [_steps(r.scale, r.zero_point)] for name, r in plan.ranges.items()}
    extra = {
        "TensorQuantOverrides": {**steps, **_operands(network)},
        "WeightSymmetric": True,
        "ForceQuantizeNoInputCheck": not plan.narrow,
    }
    kept = [n.name for n in proto.graph.node if not _may_go(n, plan, network)]
    with quiet():
        quantizer = QDQQuantizer(
            proto,
            True,
            False,
            QuantType.QInt8,
            QuantType.QInt8,
            ranges,
            [],
            kept,
            _default_kinds() if plan.narrow else list(integer_kinds()),
            extra,
        )
        try:
            quantizer.quantize_model()
            quantizer.model.topological_sort()
        except Exception as error:
            raise ModelError(f"onnxruntime cannot quantize it: {first_line(error)}") from error
    return quantizer.model.model


def _steps(scale: float, zero_point: int) -> dict[str, Any]:
    return {"scale": np.array(scale, np.float32), "zero_point": np.array(zero_point, np.int8)}


def _may_go(node: Any, plan: Plan, network: FloatNetwork) -> bool:
    """A clamp is dropped if the steps of its result clamp as it does; else it stays."""
    if node.op_type not in ("Relu", "Clip"):
        return True
    found = plan.ranges.get(node.output[0])
    if found is None:
        return False
    low, high = clamp(node, network)
    slack = found.scale / 2
    return abs(found.low - low) <= slack and found.high <= high + slack


def clamp(node: Any, network: FloatNetwork) -> tuple[float, float]:
    if node.op_type == "Relu":
        return 0.0, inf
    bounds = [-inf, inf]
    for place in (1, 2):
        value = network.constant(node.input[place]) if len(node.input) > place else None
        if value is not None and value.size:
            bounds[place - 1] = float(np.ravel(value)[0])
    return bounds[0], bounds[1]


def _operands(network: FloatNetwork) -> dict[str, list[dict[str, Any]]]:
    """Constants beside activations (slopes, factors, offsets): symmetric, where they have both
    signs or none; the units want no zero point there."""
    made = {}
    for node in network.proto.graph.node:
        if node.op_type in _BESIDE_CONSTANTS:
            for name in node.input:
                values = network.constant(name)
                if values is not None and values.dtype == np.float32 and values.size:
                    largest = float(np.abs(values).max()) or 1.0
                    made[name] = [_steps(largest / _LARGEST, 0)]
    return made


def plain(network: FloatNetwork, samples: Sequence[Sample], folder: Path) -> bytes:
    """What onnxruntime makes by default, from the same data: the mark to beat."""
    from onnxruntime.quantization import quantize_static

    class All:
        def __init__(self) -> None:
            self.waiting = list(samples)

        def get_next(self) -> Sample | None:
            return self.waiting.pop(0) if self.waiting else None

    source, target = folder / "float.onnx", folder / "plain.onnx"
    source.write_bytes(network.proto.SerializeToString())
    with quiet():
        quantize_static(source, target, All())
    return target.read_bytes()
