"""The open table of ops: what each kind takes, makes and costs. A new kind is a new row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npuscope.errors import InternalError
from npuscope.graph import element_types, shapes, shapes_moves
from npuscope.graph.attrs import (
    ArgAttrs,
    Attrs,
    BatchNormAttrs,
    BinaryAttrs,
    ClipAttrs,
    ConcatAttrs,
    ConvAttrs,
    DenseAttrs,
    EluAttrs,
    GeluAttrs,
    GroupNormAttrs,
    HardSigmoidAttrs,
    InstanceNormAttrs,
    L2NormAttrs,
    LayerNormAttrs,
    LeakyReluAttrs,
    MatMulAttrs,
    PadAttrs,
    PoolAttrs,
    ReduceAttrs,
    SoftmaxAttrs,
    TransposeAttrs,
    TransposeConvAttrs,
)
from npuscope.graph.attrs_moves import (
    BlockAttrs,
    BroadcastAttrs,
    GatherAttrs,
    MirrorPadAttrs,
    ResizeAttrs,
    SliceAttrs,
    SplitAttrs,
    TileAttrs,
)
from npuscope.graph.model import Graph, Op
from npuscope.graph.shapes import Shapes


def _conv_macs(graph: Graph, op: Op) -> int:
    _, height, width, per_group = graph.tensors[op.inputs[1]].shape
    return graph.output_tensor(op).elements * height * width * per_group


def _transpose_conv_macs(graph: Graph, op: Op) -> int:
    out, height, width, _ = graph.tensors[op.inputs[1]].shape
    groups = op.attrs_as(TransposeConvAttrs).groups
    return graph.first_input(op).elements * height * width * (out // groups)


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
    through them unchanged; `data_inputs` is how many of the inputs they move (None: all).
    """

    kind: str
    attrs: type[Attrs]
    min_inputs: int
    max_inputs: int | None
    shapes: Callable[[Graph, Op], Shapes]
    macs: Callable[[Graph, Op], int] = _no_macs
    moves_data: bool = False
    data_inputs: int | None = None
    types: Callable[[Graph, Op], str] = element_types.anything


def _function(kind: str, attrs: type[Attrs] = Attrs) -> OpSpec:
    """One real value in, one out."""
    return OpSpec(kind, attrs, 1, 1, shapes.same, types=element_types.real)


def _sign_function(kind: str) -> OpSpec:
    """The same for whole numbers too."""
    return OpSpec(kind, Attrs, 1, 1, shapes.same, types=element_types.numbers)


def _conversion(kind: str) -> OpSpec:
    return OpSpec(kind, Attrs, 1, 1, shapes.same)


def _binary(kind: str) -> OpSpec:
    return OpSpec(kind, BinaryAttrs, 2, 2, shapes.binary, types=element_types.numbers)


def _comparison(kind: str) -> OpSpec:
    return OpSpec(kind, Attrs, 2, 2, shapes.binary, types=element_types.makes_truth)


def _logic(kind: str, operands: int) -> OpSpec:
    shape = shapes.binary if operands == 2 else shapes.same
    return OpSpec(kind, Attrs, operands, operands, shape, types=element_types.only_truth)


def _reduction(kind: str, moves: bool = False) -> OpSpec:
    shape, types = shapes.reduce, element_types.numbers
    return OpSpec(kind, ReduceAttrs, 1, 1, shape, moves_data=moves, types=types)


def _place(kind: str) -> OpSpec:
    return OpSpec(kind, ArgAttrs, 1, 1, shapes.arg, types=element_types.makes_places)


_REAL = element_types.real

_WEIGHTED = (
    OpSpec("Conv2D", ConvAttrs, 2, 3, shapes.conv2d, _conv_macs, types=_REAL),
    OpSpec(
        "TransposeConv",
        TransposeConvAttrs,
        2,
        3,
        shapes.transpose_conv,
        _transpose_conv_macs,
        types=_REAL,
    ),
    OpSpec("FullyConnected", DenseAttrs, 2, 3, shapes.fully_connected, _dense_macs, types=_REAL),
    OpSpec("MatMul", MatMulAttrs, 2, 2, shapes.matmul, _matmul_macs, types=_REAL),
)
_OPERANDS = (
    *map(_binary, ("Add", "Sub", "Mul", "Div", "Min", "Max", "Pow", "SquaredDifference")),
    OpSpec("PRelu", Attrs, 2, 2, shapes.slope, types=element_types.real),
    OpSpec("Where", Attrs, 3, 3, shapes.select, types=element_types.chooses),
    *map(_comparison, ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual")),
    _logic("And", 2),
    _logic("Or", 2),
    _logic("Not", 1),
)
_FUNCTIONS = (
    *map(_function, ("Sigmoid", "Tanh", "HardSwish", "Softplus", "Mish", "Erf")),
    *map(_sign_function, ("Abs", "Neg", "Sign", "Square")),
    *map(_function, ("Floor", "Ceil", "Round", "Sqrt", "Rsqrt")),
    *map(_function, ("Reciprocal", "Exp", "Log", "Sin", "Cos")),
    OpSpec("Clip", ClipAttrs, 1, 1, shapes.same, types=element_types.numbers),
    _function("LeakyRelu", LeakyReluAttrs),
    _function("Elu", EluAttrs),
    _function("HardSigmoid", HardSigmoidAttrs),
    _function("Gelu", GeluAttrs),
    *map(_conversion, ("Quantize", "Dequantize", "Cast")),
)
_REDUCTIONS = (
    OpSpec("MaxPool", PoolAttrs, 1, 1, shapes.pool, moves_data=True),
    OpSpec("AveragePool", PoolAttrs, 1, 1, shapes.pool, types=_REAL),
    *map(_reduction, ("Mean", "ReduceSum", "ReduceProd", "ReduceL2")),
    _reduction("ReduceMax", moves=True),
    _reduction("ReduceMin", moves=True),
    _place("ArgMax"),
    _place("ArgMin"),
    OpSpec("Softmax", SoftmaxAttrs, 1, 1, shapes.softmax, types=_REAL),
    OpSpec("LogSoftmax", SoftmaxAttrs, 1, 1, shapes.softmax, types=_REAL),
    OpSpec("BatchNorm", BatchNormAttrs, 5, 5, shapes.batch_norm, types=_REAL),
    OpSpec("LayerNorm", LayerNormAttrs, 1, 3, shapes.layer_norm, types=_REAL),
    OpSpec("InstanceNorm", InstanceNormAttrs, 3, 3, shapes.channel_norm, types=_REAL),
    OpSpec("GroupNorm", GroupNormAttrs, 3, 3, shapes.channel_norm, types=_REAL),
    OpSpec("L2Normalization", L2NormAttrs, 1, 1, shapes.l2_norm, types=_REAL),
)
_MOVES = (
    OpSpec("Reshape", Attrs, 1, 1, shapes.reshape, moves_data=True),
    OpSpec("Transpose", TransposeAttrs, 1, 1, shapes.transpose, moves_data=True),
    OpSpec("Concat", ConcatAttrs, 1, None, shapes.concat, moves_data=True),
    OpSpec("Split", SplitAttrs, 1, 1, shapes_moves.split, moves_data=True),
    OpSpec("Slice", SliceAttrs, 1, 1, shapes_moves.cut, moves_data=True),
    OpSpec("Pad", PadAttrs, 1, 1, shapes.pad, moves_data=True),
    OpSpec("MirrorPad", MirrorPadAttrs, 1, 1, shapes_moves.mirror_pad, moves_data=True),
    OpSpec("Resize", ResizeAttrs, 1, 1, shapes_moves.resize, types=element_types.resizable),
    OpSpec("DepthToSpace", BlockAttrs, 1, 1, shapes_moves.depth_to_space, moves_data=True),
    OpSpec("SpaceToDepth", BlockAttrs, 1, 1, shapes_moves.space_to_depth, moves_data=True),
    OpSpec(
        "Gather",
        GatherAttrs,
        2,
        2,
        shapes_moves.gather,
        moves_data=True,
        data_inputs=1,
        types=element_types.reads_places,
    ),
    OpSpec("Tile", TileAttrs, 1, 1, shapes_moves.tile, moves_data=True),
    OpSpec("BroadcastTo", BroadcastAttrs, 1, 1, shapes_moves.broadcast_to, moves_data=True),
    OpSpec("Identity", Attrs, 1, 1, shapes.same, moves_data=True),
)

OPS: dict[str, OpSpec] = {
    row.kind: row for row in (*_WEIGHTED, *_OPERANDS, *_FUNCTIONS, *_REDUCTIONS, *_MOVES)
}


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
