"""Layers with weights, and products of two activations."""

from __future__ import annotations

from npuscope.errors import ModelError
from npuscope.graph.model import Activation, Attrs, Graph, Op
from npuscope.ops.row import (
    Kernel,
    Onnx,
    Row,
    Shape,
    Shapes,
    Tflite,
    broadcast,
    input_shape,
    rank4,
    real_type,
    window_output,
)
from npuscope.ops.traits import Trait


class ConvAttrs(Attrs, frozen=True):
    """Conv: weights are (O, kh, kw, I / groups); a depthwise conv has groups == I.

    `pads` is (top, left, bottom, right), explicit.
    """

    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1
    activation: Activation = Activation.NONE


class TransposeConvAttrs(Attrs, frozen=True):
    """TransposeConv: weights are (O, kh, kw, I / groups), as in Conv.

    Every input pixel adds kernel-sized patches `strides` apart; then `pads` (top, left, bottom,
    right) are cut off and `output_pads` (bottom, right) rows and columns are added.
    """

    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    output_pads: tuple[int, int] = (0, 0)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1
    activation: Activation = Activation.NONE


class DenseAttrs(Attrs, frozen=True):
    """FullyConnected: weights are (O, I); works on the last axis."""

    activation: Activation = Activation.NONE


class MatMulAttrs(Attrs, frozen=True):
    """Product of two activations over their last two axes, the others broadcast."""

    transpose_a: bool = False
    transpose_b: bool = False


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


def is_depthwise(graph: Graph, op: Op) -> bool:
    """A Conv2D with one group per input channel (and more than one of them)."""
    if op.kind != "Conv2D":
        return False
    channels = graph.first_input(op).shape[-1]
    return channels > 1 and op.attrs_as(ConvAttrs).groups == channels


def conv_shape(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(ConvAttrs)
    n, height, width, channels = rank4(input_shape(graph, op, 0))
    out, kh, kw, per_group = rank4(input_shape(graph, op, 1))
    _check_groups(channels, out, attrs.groups, per_group)
    _check_bias(graph, op, out)
    top, left, bottom, right = attrs.pads
    rows = window_output(height, kh, attrs.strides[0], attrs.dilations[0], top + bottom)
    columns = window_output(width, kw, attrs.strides[1], attrs.dilations[1], left + right)
    return ((n, rows, columns, out),)


def _check_groups(channels: int, out: int, groups: int, per_group: int) -> None:
    if groups < 1 or per_group * groups != channels or out % groups:
        raise ModelError(
            f"{channels} input and {out} output channels do not fit {groups} groups of {per_group}"
        )


def transpose_conv_shape(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(TransposeConvAttrs)
    n, height, width, channels = rank4(input_shape(graph, op, 0))
    out, kh, kw, per_group = rank4(input_shape(graph, op, 1))
    _check_groups(channels, out, attrs.groups, per_group)
    _check_bias(graph, op, out)
    rows = _spread(attrs, 0, height, kh)
    columns = _spread(attrs, 1, width, kw)
    return ((n, rows, columns, out),)


def _spread(attrs: TransposeConvAttrs, axis: int, size: int, kernel: int) -> int:
    """Output size of a transposed convolution along one axis."""
    stride, dilation = attrs.strides[axis], attrs.dilations[axis]
    if min(stride, dilation, kernel) < 1 or attrs.output_pads[axis] < 0:
        raise ModelError(f"kernel {kernel}, stride {stride}, dilation {dilation}: must be >= 1")
    whole = (size - 1) * stride + (kernel - 1) * dilation + 1
    result = whole - attrs.pads[axis] - attrs.pads[axis + 2] + attrs.output_pads[axis]
    if result < 1:
        raise ModelError(f"pads {attrs.pads} remove all of {whole} elements")
    return result


def dense_shape(graph: Graph, op: Op) -> Shapes:
    source, weights = input_shape(graph, op, 0), input_shape(graph, op, 1)
    if len(weights) != 2 or not source or source[-1] != weights[1]:
        raise ModelError(f"weights {weights} do not fit an input of shape {source}")
    _check_bias(graph, op, weights[0])
    return ((*source[:-1], weights[0]),)


def _check_bias(graph: Graph, op: Op, channels: int) -> None:
    if len(op.inputs) < 3 or not op.inputs[2]:
        return
    bias = input_shape(graph, op, 2)
    if bias != (channels,):
        raise ModelError(f"bias has shape {bias}, expected ({channels},)")


def matmul_shape(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(MatMulAttrs)
    a, b = input_shape(graph, op, 0), input_shape(graph, op, 1)
    if len(a) < 2 or len(b) < 2:
        raise ModelError(f"operands {a} and {b} need two axes each")
    rows, inner_a = _last_two(a, attrs.transpose_a)
    inner_b, columns = _last_two(b, attrs.transpose_b)
    if inner_a != inner_b:
        raise ModelError(f"operands {a} and {b} do not match")
    return ((*(broadcast(a[:-2], b[:-2]) if len(a) + len(b) > 4 else ()), rows, columns),)


def _last_two(shape: Shape, swapped: bool) -> tuple[int, int]:
    return (shape[-1], shape[-2]) if swapped else (shape[-2], shape[-1])


_LAYER = {Trait.LAYER, Trait.PRODUCT, Trait.INTEGER_FORM}
_WINDOW_OPTIONS = ("Padding", "StrideH", "StrideW")
_CONV_OPTIONS = (*_WINDOW_OPTIONS, "DilationHFactor", "DilationWFactor", "FusedActivationFunction")

ROWS = (
    Row(
        "Conv2D",
        ConvAttrs,
        inputs=(2, 3),
        shape=conv_shape,
        types=real_type,
        macs=_conv_macs,
        kernel=Kernel("layer", "float_ops:conv2d", "conv:litert_conv2d", "between:qdq_conv2d"),
        traits=_LAYER,
        tflite={
            "CONV_2D": Tflite("convert_values:conv", options=("Conv2DOptions", *_CONV_OPTIONS)),
            "DEPTHWISE_CONV_2D": Tflite(
                "convert_values:depthwise", options=("DepthwiseConv2DOptions", *_CONV_OPTIONS)
            ),
        },
        onnx={
            "Conv": Onnx("convert_weights:conv", parameters=(1, 2), quantized=(1,), windowed=True)
        },
    ),
    Row(
        "TransposeConv",
        TransposeConvAttrs,
        inputs=(2, 3),
        shape=transpose_conv_shape,
        types=real_type,
        macs=_transpose_conv_macs,
        kernel=Kernel(
            "layer",
            "dense:transpose_conv",
            "dense:litert_transpose_conv",
            "between:qdq_transpose_conv",
        ),
        traits=_LAYER,
        tflite={
            "TRANSPOSE_CONV": Tflite(
                "convert_values:transpose_conv",
                options=("TransposeConvOptions", *_WINDOW_OPTIONS, "FusedActivationFunction"),
            )
        },
        onnx={
            "ConvTranspose": Onnx(
                "convert_weights:conv_transpose", parameters=(1, 2), quantized=(1,), windowed=True
            )
        },
    ),
    Row(
        "FullyConnected",
        DenseAttrs,
        inputs=(2, 3),
        shape=dense_shape,
        types=real_type,
        macs=_dense_macs,
        kernel=Kernel(
            "layer",
            "float_ops:fully_connected",
            "dense:litert_fully_connected",
            "between:qdq_fully_connected",
        ),
        traits=_LAYER,
        tflite={
            "FULLY_CONNECTED": Tflite(
                "convert_values:fully_connected",
                options=(
                    "FullyConnectedOptions",
                    "FusedActivationFunction",
                    "WeightsFormat",
                    "KeepNumDims",
                ),
            )
        },
        onnx={"Gemm": Onnx("convert_weights:gemm", parameters=(2,))},
    ),
    Row(
        "MatMul",
        MatMulAttrs,
        inputs=(2, 2),
        shape=matmul_shape,
        types=real_type,
        macs=_matmul_macs,
        kernel=Kernel("whole", "float_ops:matmul", "dense:litert_matmul"),
        traits={Trait.PRODUCT, Trait.INTEGER_FORM},
        tflite={
            "BATCH_MATMUL": Tflite(
                "convert_values:matmul", options=("BatchMatMulOptions", "AdjX", "AdjY")
            )
        },
        onnx={
            "MatMul": Onnx("convert_weights:matmul", parameters=(2,)),
            "Einsum": Onnx("convert_weights:einsum"),
        },
    ),
)
