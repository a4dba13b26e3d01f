"""The open table of kernels: one row a kind of op, one maker a numerics."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.errors import ModelError
from npuscope.graph.kernels import (
    conv,
    dense,
    elementwise,
    float_ops,
    moves,
    pool,
    qdq,
    shape,
    softmax,
)
from npuscope.graph.kernels.step import Maker, Steps, StepsMaker
from npuscope.graph.model import Graph, Numerics, Op


@dataclass(frozen=True, slots=True)
class Row:
    """`real` works on unquantized tensors, `litert` and `qdq` where a quantization is involved."""

    litert: Maker | None
    qdq: Maker | None
    real: Maker | None


def _moving(make: Maker) -> Row:
    return Row(make, qdq.moving(make, make), make)


KERNELS: dict[str, Row] = {
    "Conv2D": Row(
        conv.litert_conv2d,
        qdq.fast_when_integer(qdq.qdq_conv2d, float_ops.conv2d),
        float_ops.conv2d,
    ),
    "FullyConnected": Row(
        dense.litert_fully_connected,
        qdq.fast_when_integer(qdq.qdq_fully_connected, float_ops.fully_connected),
        float_ops.fully_connected,
    ),
    "MatMul": Row(dense.litert_matmul, qdq.between(float_ops.matmul), float_ops.matmul),
    "Add": Row(elementwise.litert_add, qdq.between(float_ops.add, True), float_ops.add),
    "Sub": Row(elementwise.litert_sub, qdq.between(float_ops.sub, True), float_ops.sub),
    "Mul": Row(elementwise.litert_mul, qdq.between(float_ops.mul, True), float_ops.mul),
    "MaxPool": Row(
        pool.max_pool, qdq.moving(pool.max_pool, float_ops.max_pool), float_ops.max_pool
    ),
    "AveragePool": Row(
        pool.litert_average_pool, qdq.between(float_ops.average_pool), float_ops.average_pool
    ),
    "Mean": Row(pool.litert_mean, qdq.between(float_ops.mean), float_ops.mean),
    "Softmax": Row(softmax.litert_softmax, qdq.between(float_ops.softmax), float_ops.softmax),
    "Sigmoid": Row(
        elementwise.litert_sigmoid, qdq.between(float_ops.sigmoid, True), float_ops.sigmoid
    ),
    "Clip": Row(elementwise.litert_clip, qdq.between(float_ops.clip, True), float_ops.clip),
    "BatchNorm": Row(None, qdq.between(float_ops.batch_norm), float_ops.batch_norm),
    "Quantize": Row(elementwise.litert_quantize, qdq.qdq_quantize, None),
    "Dequantize": Row(elementwise.dequantize, elementwise.dequantize, None),
    "Reshape": Row(shape.reshape, qdq.moving(shape.reshape, shape.reshape), shape.reshape),
    "Transpose": Row(
        shape.transpose, qdq.moving(shape.transpose, shape.transpose), shape.transpose
    ),
    "Concat": Row(
        shape.raw_concat, qdq.moving(shape.raw_concat, shape.real_concat), shape.real_concat
    ),
    "Pad": Row(shape.raw_pad, qdq.moving(shape.raw_pad, shape.real_pad), shape.real_pad),
    "Slice": _moving(moves.cut),
    "MirrorPad": _moving(moves.mirror_pad),
    "Gather": Row(moves.gather, qdq.moving(moves.gather, moves.gather, 1), moves.gather),
    "Tile": _moving(moves.tile),
    "BroadcastTo": _moving(moves.broadcast_to),
    "DepthToSpace": _moving(moves.depth_to_space),
    "SpaceToDepth": _moving(moves.space_to_depth),
    "Identity": Row(shape.identity, qdq.moving(shape.identity, shape.identity), shape.identity),
}


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
