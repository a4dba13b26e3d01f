"""The table of ONNX ops. A new op is a new row."""

from __future__ import annotations

from collections.abc import Callable

from npuscope.graph.attrs import Activation, Attrs
from npuscope.graph.onnx.constants import Const
from npuscope.graph.onnx.convert_shape import (
    concat,
    flatten,
    identity,
    pad,
    reshape,
    squeeze,
    transpose,
    unsqueeze,
)
from npuscope.graph.onnx.convert_values import (
    batch_norm,
    binary,
    clip,
    clip_range,
    mean,
    softmax,
    unary,
)
from npuscope.graph.onnx.convert_weights import conv, gemm, matmul
from npuscope.graph.onnx.convert_windows import average_pool, global_average_pool, max_pool
from npuscope.graph.onnx.nodes import Node
from npuscope.graph.onnx.task import Task

CONVERTERS: dict[str, Callable[[Task], None]] = {
    "Conv": conv,
    "Gemm": gemm,
    "MatMul": matmul,
    "Add": binary("Add"),
    "Sub": binary("Sub"),
    "Mul": binary("Mul"),
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average_pool,
    "ReduceMean": mean,
    "Softmax": softmax,
    "Sigmoid": unary("Sigmoid", Attrs()),
    "Relu": clip,
    "Clip": clip,
    "BatchNormalization": batch_norm,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Concat": concat,
    "Pad": pad,
    "Identity": identity,
}

_CLAMPS = {
    (0.0, float("inf")): Activation.RELU,
    (0.0, 6.0): Activation.RELU6,
    (-1.0, 1.0): Activation.RELU_N1_TO_1,
}


def clamp_of(node: Node, constants: dict[str, Const]) -> Activation | None:
    """The activation that can be fused into the op before this node, if it is one."""
    if node.kind not in ("Relu", "Clip"):
        return None
    limits = clip_range(node, constants)
    return _CLAMPS.get(limits) if limits else None
