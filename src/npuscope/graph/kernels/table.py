"""The open table of kernels: one row a kind of op, one maker a numerics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.kernels import (
    compare,
    conv,
    dense,
    elementwise,
    float_layers,
    float_ops,
    functions,
    litert_functions,
    lookup,
    moves,
    norms,
    pool,
    qdq,
    reduce,
    resize,
    shape,
    softmax,
    transpose_conv,
)
from npuscope.graph.kernels.between import between, moving, quantized_away
from npuscope.graph.kernels.step import Maker, Steps, StepsMaker
from npuscope.graph.model import Graph, Numerics, Op


@dataclass(frozen=True, slots=True)
class Row:
    """`real` works on unquantized tensors, `litert` and `qdq` where a quantization is involved."""

    litert: Maker | None
    qdq: Maker | None
    real: Maker | None


def _values(real: Maker, litert: Maker | None = None) -> Row:
    """Ops on values one by one; LiteRT's kernel, where it has an integer one."""
    return Row(litert or between(real, True, quantized_away), between(real, True), real)


def _whole(real: Maker, litert: Maker | None = None) -> Row:
    """Ops on more than one value at a time."""
    return Row(litert or between(real, store=quantized_away), between(real), real)


def _raw(make: Maker, real: Maker | None = None) -> Row:
    """Ops that move values."""
    return Row(make, moving(make, real or make), real or make)


def _fast(litert: Maker, fast: Maker, real: Maker) -> Row:
    """Layers with weights, which have an integer shortcut in QDQ form too."""
    return Row(litert, qdq.fast_when_integer(fast, real), real)


def _comparison(function: compare.Compare) -> Row:
    real = compare.real(function)
    return Row(compare.litert(function), between(real), real)


_WEIGHTED = {
    "Conv2D": _fast(conv.litert_conv2d, qdq.qdq_conv2d, float_layers.conv2d),
    "TransposeConv": _fast(
        transpose_conv.litert_transpose_conv,
        qdq.qdq_transpose_conv,
        transpose_conv.transpose_conv,
    ),
    "FullyConnected": _fast(
        dense.litert_fully_connected, qdq.qdq_fully_connected, float_layers.fully_connected
    ),
    "MatMul": _whole(float_layers.matmul, dense.litert_matmul),
}
_OPERANDS = {
    "Add": _values(float_ops.add, elementwise.litert_add),
    "Sub": _values(float_ops.sub, elementwise.litert_sub),
    "Mul": _values(float_ops.mul, elementwise.litert_mul),
    "Div": _values(float_ops.div, litert_functions.divide),
    "Min": _values(float_ops.smaller, elementwise.litert_extreme(np.minimum)),
    "Max": _values(float_ops.larger, elementwise.litert_extreme(np.maximum)),
    "Pow": _values(float_ops.power),
    "SquaredDifference": _values(float_ops.squared_difference, litert_functions.squared_difference),
    "PRelu": _values(float_ops.prelu, litert_functions.prelu),
    "Where": Row(compare.choose, between(compare.choose), compare.choose),
    "Equal": _comparison(np.equal),
    "NotEqual": _comparison(np.not_equal),
    "Greater": _comparison(np.greater),
    "GreaterEqual": _comparison(np.greater_equal),
    "Less": _comparison(np.less),
    "LessEqual": _comparison(np.less_equal),
    "And": Row(None, None, compare.real(np.logical_and)),
    "Or": Row(None, None, compare.real(np.logical_or)),
    "Not": Row(None, None, compare.negation),
}
_LITERT_FUNCTIONS: dict[str, Maker] = {
    "Sigmoid": lookup.sigmoid,
    "Tanh": lookup.tanh,
    "Elu": lookup.elu,
    "Gelu": lookup.gelu,
    "Exp": lookup.exp,
    "Log": lookup.log,
    "Sqrt": lookup.square_root,
    "Neg": litert_functions.negative,
    "HardSwish": litert_functions.hard_swish,
    "LeakyRelu": litert_functions.leaky_relu,
    "Abs": litert_functions.absolute,
    "Rsqrt": litert_functions.rsqrt,
}
_FUNCTIONS = {
    **{kind: _values(make, _LITERT_FUNCTIONS.get(kind)) for kind, make in functions.REAL.items()},
    "Clip": _values(float_ops.clip, elementwise.litert_clip),
    "Quantize": Row(elementwise.litert_quantize, qdq.qdq_quantize, None),
    "Dequantize": Row(elementwise.dequantize, elementwise.dequantize, None),
    "Cast": Row(functions.cast, functions.cast, functions.cast),
}
_REDUCTIONS = {
    "MaxPool": _raw(pool.max_pool, float_ops.max_pool),
    "AveragePool": _whole(float_ops.average_pool, pool.litert_average_pool),
    "Mean": _whole(reduce.mean, pool.litert_mean),
    "ReduceSum": _whole(reduce.total, reduce.litert_sum),
    "ReduceProd": _whole(reduce.product),
    "ReduceL2": _whole(reduce.length),
    "ReduceMax": _raw(reduce.largest),
    "ReduceMin": _raw(reduce.smallest),
    "ArgMax": Row(*[reduce.place(np.argmax)] * 3),
    "ArgMin": Row(*[reduce.place(np.argmin)] * 3),
    "Softmax": _whole(float_ops.softmax, softmax.litert_softmax),
    "LogSoftmax": _whole(norms.log_softmax),
    "BatchNorm": _whole(float_ops.batch_norm),
    "LayerNorm": _whole(norms.layer_norm),
    "InstanceNorm": _whole(norms.instance_norm),
    "GroupNorm": _whole(norms.group_norm),
    "L2Normalization": _whole(norms.l2_norm, norms.litert_l2_norm),
}
_MOVES = {
    "Reshape": _raw(shape.reshape),
    "Transpose": _raw(shape.transpose),
    "Concat": _raw(shape.raw_concat, shape.real_concat),
    "Slice": _raw(moves.cut),
    "Pad": Row(shape.raw_pad, moving(shape.raw_pad_to_even, shape.real_pad), shape.real_pad),
    "MirrorPad": _raw(moves.mirror_pad),
    "Resize": Row(resize.litert_resize, resize.qdq_resize, resize.real_resize),
    "DepthToSpace": _raw(moves.depth_to_space),
    "SpaceToDepth": _raw(moves.space_to_depth),
    "Gather": Row(moves.gather, moving(moves.gather, moves.gather, 1), moves.gather),
    "Tile": _raw(moves.tile),
    "BroadcastTo": _raw(moves.broadcast_to),
    "Identity": _raw(shape.identity),
}

KERNELS: dict[str, Row] = {**_WEIGHTED, **_OPERANDS, **_FUNCTIONS, **_REDUCTIONS, **_MOVES}

# Ops with several outputs; they only move values, so numerics do not matter.
SEVERAL_OUTPUTS: dict[str, StepsMaker] = {"Split": moves.split}


def make_step(graph: Graph, op: Op) -> Steps:
    """The prepared kernel of an op, chosen by the graph's numerics and the op's tensors."""
    if op.kind in SEVERAL_OUTPUTS:
        return SEVERAL_OUTPUTS[op.kind](graph, op)
    row = KERNELS.get(op.kind)
    if row is None:
        raise ModelError(f"the reference executor has no kernel for '{op.kind}'")
    maker = _choose(graph, op, row)
    if maker is None:
        raise ModelError(f"the reference executor has no {op.kind} on these types")
    step = maker(graph, op)
    return lambda inputs: (step(inputs),)


def _choose(graph: Graph, op: Op, row: Row) -> Maker | None:
    if not _is_quantized(graph, op):
        return row.real
    return row.litert if graph.numerics is Numerics.LITERT else row.qdq


def _is_quantized(graph: Graph, op: Op) -> bool:
    tensors = [graph.tensors[name] for name in (*op.inputs, *op.outputs) if name]
    return any(tensor.quant is not None for tensor in tensors)
