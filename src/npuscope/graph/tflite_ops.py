"""TFLite operators to Graph ops: one function a family, one row an operator.

Every function receives the reader and the source operator, and emits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from npuscope.errors import ModelError
from npuscope.graph.attrs import (
    Activation,
    Attrs,
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
from npuscope.graph.shapes import Shape
from npuscope.graph.tflite_file import SourceOp

if TYPE_CHECKING:
    from npuscope.graph.tflite_reader import TfliteReader

Convert = Callable[["TfliteReader", SourceOp], None]

_ACTIVATIONS = {
    0: Activation.NONE,
    1: Activation.RELU,
    2: Activation.RELU_N1_TO_1,
    3: Activation.RELU6,
}
_SAME = 0
_INF = float("inf")


def _number(op: SourceOp, field: str) -> int:
    value = op.options[field]
    return int(value) if not isinstance(value, tuple) else 0


def _activation(op: SourceOp) -> Activation:
    code = _number(op, "FusedActivationFunction")
    if code not in _ACTIVATIONS:
        raise ModelError(f"fused activation {code} is not supported", where=op.origin)
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
    if _number(op, "Padding") != _SAME:
        return 0, 0, 0, 0
    top, bottom = same_pads(shape[1], window[0], strides[0])
    left, right = same_pads(shape[2], window[1], strides[1])
    return top, left, bottom, right


def _conv_attrs(op: SourceOp, shape: Shape, kernel: Shape, groups: int) -> ConvAttrs:
    strides = _number(op, "StrideH"), _number(op, "StrideW")
    dilations = _number(op, "DilationHFactor"), _number(op, "DilationWFactor")
    window = (kernel[0] - 1) * dilations[0] + 1, (kernel[1] - 1) * dilations[1] + 1
    pads = _pads(op, shape, window, strides)
    return ConvAttrs(strides, pads, dilations, groups, _activation(op))


def _conv(reader: TfliteReader, op: SourceOp) -> None:
    x, weights = reader.tensor(op, 0), reader.tensor(op, 1)
    if len(weights.shape) != 4:
        raise ModelError(f"weights have shape {weights.shape}, expected 4 axes", where=op.origin)
    groups = max(x.shape[-1] // max(weights.shape[3], 1), 1) if x.shape else 1
    attrs = _conv_attrs(op, x.shape, weights.shape[1:3], groups)
    reader.emit(op, "Conv2D", (x.name, weights.name, reader.optional(op, 2)), attrs)


def _depthwise(reader: TfliteReader, op: SourceOp) -> None:
    x, weights = reader.tensor(op, 0), reader.depthwise_weights(op, 1)
    groups = x.shape[-1] if x.shape else 1
    attrs = _conv_attrs(op, x.shape, weights.shape[1:3], groups)
    reader.emit(op, "Conv2D", (x.name, weights.name, reader.optional(op, 2)), attrs)


def _fully_connected(reader: TfliteReader, op: SourceOp) -> None:
    """Unless it keeps the axes, the operator flattens its input to (rows, I) by itself."""
    x, weights = reader.tensor(op, 0), reader.tensor(op, 1)
    if _number(op, "WeightsFormat"):
        raise ModelError("shuffled weights are not supported", where=op.origin)
    if len(weights.shape) != 2 or weights.shape[1] < 1 or x.elements % weights.shape[1]:
        raise ModelError(
            f"weights {weights.shape} do not fit an input of shape {x.shape}", where=op.origin
        )
    if not _number(op, "KeepNumDims") and len(x.shape) != 2:
        inner = weights.shape[1]
        x = reader.reshaped(op, x, (x.elements // inner, inner))
    inputs = (x.name, weights.name, reader.optional(op, 2))
    reader.emit(op, "FullyConnected", inputs, DenseAttrs(_activation(op)))


def _binary(kind: str) -> Convert:
    def convert(reader: TfliteReader, op: SourceOp) -> None:
        inputs = reader.tensor(op, 0).name, reader.tensor(op, 1).name
        reader.emit(op, kind, inputs, BinaryAttrs(_activation(op)))

    return convert


def _unary(kind: str, attrs: Attrs | None = None) -> Convert:
    def convert(reader: TfliteReader, op: SourceOp) -> None:
        reader.emit(op, kind, (reader.tensor(op, 0).name,), attrs or Attrs())

    return convert


def _pool(kind: str) -> Convert:
    def convert(reader: TfliteReader, op: SourceOp) -> None:
        x = reader.tensor(op, 0)
        window = _number(op, "FilterHeight"), _number(op, "FilterWidth")
        strides = _number(op, "StrideH"), _number(op, "StrideW")
        pads = _pads(op, x.shape, window, strides)
        attrs = PoolAttrs(window, strides, pads, activation=_activation(op))
        reader.emit(op, kind, (x.name,), attrs)

    return convert


def _mean(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    axes = {reader.axis(op, axis, x) for axis in reader.integers(op, 1).ravel().tolist()}
    attrs = ReduceAttrs(tuple(sorted(axes)), bool(_number(op, "KeepDims")))
    reader.emit(op, "Mean", (x.name,), attrs)


def _softmax(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    beta = op.options["Beta"]
    attrs = SoftmaxAttrs(len(x.shape) - 1, float(beta) if not isinstance(beta, tuple) else 1.0)
    reader.emit(op, "Softmax", (x.name,), attrs)


def _pad(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    table = reader.integers(op, 1)
    if table.shape != (len(x.shape), 2):
        raise ModelError(f"pads {table.shape} do not fit shape {x.shape}", where=op.origin)
    value = reader.real_scalar(op, 2) if len(op.inputs) > 2 else 0.0
    pads = tuple((int(before), int(after)) for before, after in table)
    reader.emit(op, "Pad", (x.name,), PadAttrs(pads, value))


def _transpose(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    order = tuple(reader.axis(op, axis, x) for axis in reader.integers(op, 1).ravel().tolist())
    reader.emit(op, "Transpose", (x.name,), TransposeAttrs(order))


def _concat(reader: TfliteReader, op: SourceOp) -> None:
    tensors = [reader.tensor(op, index) for index in range(len(op.inputs))]
    axis = reader.axis(op, _number(op, "Axis"), tensors[0])
    names = tuple(tensor.name for tensor in tensors)
    reader.emit(op, "Concat", names, ConcatAttrs(axis, _activation(op)))


def _reshape(reader: TfliteReader, op: SourceOp) -> None:
    """The shape input is not read: the file states the output's shape."""
    x = reader.tensor(op, 0)
    reader.emit(op, "Reshape", (x.name,), Attrs(), reader.reshape_target(op, x))


def _matmul(reader: TfliteReader, op: SourceOp) -> None:
    inputs = reader.tensor(op, 0).name, reader.tensor(op, 1).name
    attrs = MatMulAttrs(bool(_number(op, "AdjX")), bool(_number(op, "AdjY")))
    reader.emit(op, "MatMul", inputs, attrs)


CONVERTERS: dict[str, Convert] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _matmul,
    "ADD": _binary("Add"),
    "SUB": _binary("Sub"),
    "MUL": _binary("Mul"),
    "MAX_POOL_2D": _pool("MaxPool"),
    "AVERAGE_POOL_2D": _pool("AveragePool"),
    "MEAN": _mean,
    "SOFTMAX": _softmax,
    "LOGISTIC": _unary("Sigmoid"),
    "RELU": _unary("Clip", ClipAttrs(0.0, _INF)),
    "RELU6": _unary("Clip", ClipAttrs(0.0, 6.0)),
    "RELU_N1_TO_1": _unary("Clip", ClipAttrs(-1.0, 1.0)),
    "RELU_0_TO_1": _unary("Clip", ClipAttrs(0.0, 1.0)),
    "QUANTIZE": _unary("Quantize"),
    "DEQUANTIZE": _unary("Dequantize"),
    "RESHAPE": _reshape,
    "SQUEEZE": _reshape,
    "EXPAND_DIMS": _reshape,
    "TRANSPOSE": _transpose,
    "CONCATENATION": _concat,
    "PAD": _pad,
    "PADV2": _pad,
}

# Inputs that only describe a shape: what computes them is dead once shapes are static.
SHAPE_INPUTS = {"RESHAPE": 1, "EXPAND_DIMS": 1}
