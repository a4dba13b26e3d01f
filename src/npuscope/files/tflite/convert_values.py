"""TFLite operators that compute: with weights, with windows, element-wise or along axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npuscope.errors import ModelError, NotComputed
from npuscope.files.tflite.file import SourceOp
from npuscope.graph.model import Activation, Attrs, DType
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import GeluAttrs, LeakyReluAttrs
from npuscope.ops.layers import ConvAttrs, DenseAttrs, MatMulAttrs, TransposeConvAttrs
from npuscope.ops.norms import L2NormAttrs, SoftmaxAttrs
from npuscope.ops.reduce import ArgAttrs, PoolAttrs, ReduceAttrs
from npuscope.ops.row import Shape

if TYPE_CHECKING:
    from npuscope.files.tflite.reader import Convert, TfliteReader


# --- Operators with weights or windows: one function per family ---
#
# Every function takes the reader and the source operator, and emits Graph ops.


_ACTIVATIONS = {
    0: Activation.NONE,
    1: Activation.RELU,
    2: Activation.RELU_N1_TO_1,
    3: Activation.RELU6,
}
_SAME = 0


def activation(op: SourceOp) -> Activation:
    code = op.number("FusedActivationFunction")
    if code not in _ACTIVATIONS:
        raise NotComputed(
            f"fused activation {code} is not supported",
            where=op.origin,
            hint="export it as a separate operator; only RELU, RELU6 and RELU_N1_TO_1 can be fused",
        )
    return _ACTIVATIONS[code]


def same_pads(size: int, window: int, stride: int) -> tuple[int, int]:
    """(before, after) such that ceil(size / stride) windows fit; the odd one goes after."""
    total = max((-(-size // stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def _pads(
    op: SourceOp, shape: Shape, window: tuple[int, int], strides: tuple[int, int]
) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) of a SAME or VALID window; `window` includes dilation."""
    if len(shape) != 4:
        raise ModelError(f"expected 4 axes (N, H, W, C), found shape {shape}", where=op.origin)
    if min(strides) < 1:
        raise ModelError(f"strides {strides} must be >= 1", where=op.origin)
    if op.number("Padding") != _SAME:
        return 0, 0, 0, 0
    top, bottom = same_pads(shape[1], window[0], strides[0])
    left, right = same_pads(shape[2], window[1], strides[1])
    return top, left, bottom, right


def _conv_attrs(op: SourceOp, shape: Shape, kernel: Shape, groups: int) -> ConvAttrs:
    strides = op.number("StrideH"), op.number("StrideW")
    dilations = op.number("DilationHFactor"), op.number("DilationWFactor")
    window = (kernel[0] - 1) * dilations[0] + 1, (kernel[1] - 1) * dilations[1] + 1
    pads = _pads(op, shape, window, strides)
    return ConvAttrs(strides, pads, dilations, groups, activation(op))


def conv(reader: TfliteReader, op: SourceOp) -> None:
    x, weights = reader.tensor(op, 0), reader.tensor(op, 1)
    if len(weights.shape) != 4:
        raise ModelError(f"weights have shape {weights.shape}, expected 4 axes", where=op.origin)
    groups = max(x.shape[-1] // max(weights.shape[3], 1), 1) if x.shape else 1
    attrs = _conv_attrs(op, x.shape, weights.shape[1:3], groups)
    reader.emit(op, "Conv2D", (x.name, weights.name, reader.optional(op, 2)), attrs)


def depthwise(reader: TfliteReader, op: SourceOp) -> None:
    x, weights = reader.tensor(op, 0), reader.depthwise_weights(op, 1)
    groups = x.shape[-1] if x.shape else 1
    attrs = _conv_attrs(op, x.shape, weights.shape[1:3], groups)
    reader.emit(op, "Conv2D", (x.name, weights.name, reader.optional(op, 2)), attrs)


def transpose_conv(reader: TfliteReader, op: SourceOp) -> None:
    """Inputs: output shape, weights (O, kh, kw, I), x, bias. The file fixes the output's size."""
    weights, x = reader.tensor(op, 1), reader.tensor(op, 2)
    if len(weights.shape) != 4 or len(x.shape) != 4:
        raise ModelError(f"weights {weights.shape} do not fit input {x.shape}", where=op.origin)
    strides = op.number("StrideH"), op.number("StrideW")
    sizes = reader.window_target(op, 0)
    cuts = [_cut(op, x.shape[i + 1], weights.shape[i + 1], strides[i], sizes[i]) for i in (0, 1)]
    (top, bottom, below), (left, right, beside) = cuts
    attrs = TransposeConvAttrs(
        strides, (top, left, bottom, right), (below, beside), activation=activation(op)
    )
    reader.emit(op, "TransposeConv", (x.name, weights.name, reader.optional(op, 3)), attrs)


def _cut(op: SourceOp, size: int, kernel: int, stride: int, target: int) -> tuple[int, int, int]:
    """Elements to cut before and after, and to add behind, of a transposed convolution."""
    if stride < 1 or target < 1:
        raise ModelError(f"stride {stride} does not fit output size {target}", where=op.origin)
    # LiteRT pads like the forward convolution, which goes from `target` to `size` elements
    before = same_pads(target, kernel, stride)[0] if op.number("Padding") == _SAME else 0
    rest = (size - 1) * stride + kernel - before - target
    return before, max(rest, 0), max(-rest, 0)


def fully_connected(reader: TfliteReader, op: SourceOp) -> None:
    """Unless it keeps the axes, the operator itself flattens its input to (rows, I)."""
    x, weights = reader.tensor(op, 0), reader.tensor(op, 1)
    if op.number("WeightsFormat"):
        raise NotComputed("shuffled weights are not supported", where=op.origin)
    if len(weights.shape) != 2 or weights.shape[1] < 1 or x.elements % weights.shape[1]:
        raise ModelError(
            f"weights {weights.shape} do not fit an input of shape {x.shape}", where=op.origin
        )
    if not op.number("KeepNumDims") and len(x.shape) != 2:
        inner = weights.shape[1]
        x = reader.reshaped(op, x, (x.elements // inner, inner))
    inputs = (x.name, weights.name, reader.optional(op, 2))
    reader.emit(op, "FullyConnected", inputs, DenseAttrs(activation(op)))


def matmul(reader: TfliteReader, op: SourceOp) -> None:
    inputs = reader.tensor(op, 0).name, reader.tensor(op, 1).name
    attrs = MatMulAttrs(bool(op.number("AdjX")), bool(op.number("AdjY")))
    reader.emit(op, "MatMul", inputs, attrs)


def pool(kind: str) -> Convert:
    def convert(reader: TfliteReader, op: SourceOp) -> None:
        x = reader.tensor(op, 0)
        window = op.number("FilterHeight"), op.number("FilterWidth")
        strides = op.number("StrideH"), op.number("StrideW")
        pads = _pads(op, x.shape, window, strides)
        attrs = PoolAttrs(window, strides, pads, activation=activation(op))
        reader.emit(op, kind, (x.name,), attrs)

    return convert


# --- Element-wise operators, and those along axes ---

_L2_EPSILON = 1e-6  # fixed in LiteRT


def operands(kind: str, count: int, attrs: Attrs | None = None) -> Convert:
    """Any op that takes its inputs as they are."""

    def convert(reader: TfliteReader, op: SourceOp) -> None:
        names = tuple(reader.tensor(op, index).name for index in range(count))
        reader.emit(op, kind, names, attrs or Attrs())

    return convert


def binary(kind: str) -> Convert:
    def convert(reader: TfliteReader, op: SourceOp) -> None:
        inputs = reader.tensor(op, 0).name, reader.tensor(op, 1).name
        reader.emit(op, kind, inputs, BinaryAttrs(activation(op)))

    return convert


def unary(kind: str, attrs: Attrs | None = None) -> Convert:
    return operands(kind, 1, attrs)


def leaky_relu(reader: TfliteReader, op: SourceOp) -> None:
    unary("LeakyRelu", LeakyReluAttrs(op.real("Alpha")))(reader, op)


def gelu(reader: TfliteReader, op: SourceOp) -> None:
    unary("Gelu", GeluAttrs(bool(op.number("Approximate"))))(reader, op)


def reduction(kind: str) -> Convert:
    def convert(reader: TfliteReader, op: SourceOp) -> None:
        x = reader.tensor(op, 0)
        axes = {reader.axis(op, axis, x) for axis in reader.integers(op, 1).ravel().tolist()}
        attrs = ReduceAttrs(tuple(sorted(axes)), bool(op.number("KeepDims")))
        reader.emit(op, kind, (x.name,), attrs)

    return convert


def place(kind: str) -> Convert:
    """ARG_MAX and ARG_MIN."""

    def convert(reader: TfliteReader, op: SourceOp) -> None:
        x, axes = reader.tensor(op, 0), reader.integers(op, 1)
        if axes.size != 1:
            raise ModelError(f"{axes.size} axes, expected one", where=op.origin)
        axis = reader.axis(op, int(axes.ravel()[0]), x)
        reader.emit(op, kind, (x.name,), ArgAttrs(axis))

    return convert


def softmax(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    attrs = SoftmaxAttrs(len(x.shape) - 1, op.real("Beta"))
    reader.emit(op, "Softmax", (x.name,), attrs)


def log_softmax(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    reader.emit(op, "LogSoftmax", (x.name,), SoftmaxAttrs(len(x.shape) - 1))


def l2_normalization(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    if op.number("FusedActivationFunction"):
        raise NotComputed("a fused activation is not supported", where=op.origin)
    attrs = L2NormAttrs(len(x.shape) - 1, _L2_EPSILON)
    reader.emit(op, "L2Normalization", (x.name,), attrs)


def select(reader: TfliteReader, op: SourceOp) -> None:
    """SELECT also takes a condition with one value per row, without the other axes."""
    condition, x = reader.tensor(op, 0), reader.tensor(op, 1)
    if condition.dtype is not DType.BOOL:
        raise ModelError(
            f"the condition is {condition.dtype.value}, expected bool", where=op.origin
        )
    if op.kind == "SELECT" and len(condition.shape) == 1 and len(x.shape) > 1:
        rows = (*condition.shape, *[1] * (len(x.shape) - 1))
        condition = reader.reshaped(op, condition, rows)
    reader.emit(op, "Where", (condition.name, x.name, reader.tensor(op, 2).name), Attrs())
