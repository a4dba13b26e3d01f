"""The open table of ops: what each kind takes, makes and costs. A new kind is a new row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npuscope.errors import InternalError
from npuscope.graph import shapes
from npuscope.graph.attrs import (
    Attrs,
    BatchNormAttrs,
    BinaryAttrs,
    ClipAttrs,
    ConcatAttrs,
    ConvAttrs,
    DenseAttrs,
    MatMulAttrs,
    PadAttrs,
    PoolAttrs,
    ReduceAttrs,
    SoftmaxAttrs,
    TransposeAttrs,
)
from npuscope.graph.model import Graph, Op
from npuscope.graph.shapes import Shapes


def _conv_macs(graph: Graph, op: Op) -> int:
    _, height, width, per_group = graph.tensors[op.inputs[1]].shape
    return graph.output_tensor(op).elements * height * width * per_group


def _dense_macs(graph: Graph, op: Op) -> int:
    return graph.output_tensor(op).elements * graph.tensors[op.inputs[1]].shape[-1]


def _matmul_macs(graph: Graph, op: Op) -> int:
    inner = -2 if op.attrs_as(MatMulAttrs).transpose_a else -1
    return graph.output_tensor(op).elements * graph.first_input(op).shape[inner]


def _no_macs(graph: Graph, op: Op) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One kind of op. `max_inputs` None means any number; inputs past `min_inputs` are optional.

    `moves_data` marks ops whose output values are input values, so quantization passes
    through them unchanged.
    """

    kind: str
    attrs: type[Attrs]
    min_inputs: int
    max_inputs: int | None
    shapes: Callable[[Graph, Op], Shapes]
    macs: Callable[[Graph, Op], int] = _no_macs
    moves_data: bool = False


_ROWS = (
    OpSpec("Conv2D", ConvAttrs, 2, 3, shapes.conv2d, _conv_macs),
    OpSpec("FullyConnected", DenseAttrs, 2, 3, shapes.fully_connected, _dense_macs),
    OpSpec("MatMul", MatMulAttrs, 2, 2, shapes.matmul, _matmul_macs),
    OpSpec("Add", BinaryAttrs, 2, 2, shapes.binary),
    OpSpec("Sub", BinaryAttrs, 2, 2, shapes.binary),
    OpSpec("Mul", BinaryAttrs, 2, 2, shapes.binary),
    OpSpec("MaxPool", PoolAttrs, 1, 1, shapes.pool, moves_data=True),
    OpSpec("AveragePool", PoolAttrs, 1, 1, shapes.pool),
    OpSpec("Mean", ReduceAttrs, 1, 1, shapes.reduce),
    OpSpec("Softmax", SoftmaxAttrs, 1, 1, shapes.softmax),
    OpSpec("Sigmoid", Attrs, 1, 1, shapes.same),
    OpSpec("Clip", ClipAttrs, 1, 1, shapes.same),
    OpSpec("BatchNorm", BatchNormAttrs, 5, 5, shapes.batch_norm),
    OpSpec("Quantize", Attrs, 1, 1, shapes.same),
    OpSpec("Dequantize", Attrs, 1, 1, shapes.same),
    OpSpec("Reshape", Attrs, 1, 1, shapes.reshape, moves_data=True),
    OpSpec("Transpose", TransposeAttrs, 1, 1, shapes.transpose, moves_data=True),
    OpSpec("Concat", ConcatAttrs, 1, None, shapes.concat, moves_data=True),
    OpSpec("Pad", PadAttrs, 1, 1, shapes.pad, moves_data=True),
    OpSpec("Identity", Attrs, 1, 1, shapes.same, moves_data=True),
)

OPS: dict[str, OpSpec] = {row.kind: row for row in _ROWS}


def spec(op: Op) -> OpSpec:
    """The row of an op's kind."""
    found = OPS.get(op.kind)
    if found is None:
        raise InternalError(f"op '{op.name}' has the unknown kind '{op.kind}'")
    return found


def macs(graph: Graph, op: Op) -> int:
    """Multiply-accumulates of one op in one inference."""
    return spec(op).macs(graph, op)


def is_depthwise(graph: Graph, op: Op) -> bool:
    """A Conv2D with one group per input channel (and more than one of them)."""
    if op.kind != "Conv2D":
        return False
    channels = graph.first_input(op).shape[-1]
    return channels > 1 and op.attrs_as(ConvAttrs).groups == channels
