"""Layers with weights and windows, as LiteRT's kernels take them."""

from __future__ import annotations

import numpy as np

from npuscope.files.tflite.convert_values import same_pads
from npuscope.files.tflite.file_parts import FileTensor
from npuscope.files.tflite.spelling import SAME, VALID
from npuscope.files.tflite.write_graph import ACTIVATIONS, GraphWriter, NotWritten, made_quant
from npuscope.graph.model import Activation, Op, Quant, Tensor
from npuscope.ops.functions import HardSigmoidAttrs
from npuscope.ops.layers import ConvAttrs, DenseAttrs, MatMulAttrs, TransposeConvAttrs
from npuscope.ops.norms import BatchNormAttrs
from npuscope.ops.reduce import PoolAttrs
from npuscope.ops.row import Shape

_LARGEST = 127  # of an int8 weight that LiteRT's symmetric layers use
_INT32 = 2**31 - 1
_ROOM = 2**30  # of a bias; the sum has 32 bits too


# --- Windows: explicit pads become SAME, or a PAD before the operator ---


def _windows(
    writer: GraphWriter,
    x: FileTensor,
    pads: tuple[int, int, int, int],
    window: tuple[int, int],
    strides: tuple[int, int],
    fill: float | None = None,
) -> tuple[FileTensor, int]:
    """The operand, and what the option `padding` says. `fill` is for what is no zero."""
    top, left, bottom, right = pads
    if not any(pads):
        return x, VALID
    sides = [same_pads(x.shape[n + 1], window[n], strides[n]) for n in (0, 1)]
    if sides == [(top, bottom), (left, right)]:
        return x, SAME
    if min(pads) < 0:
        raise NotWritten("its pads are negative")
    table = np.array([(0, 0), (top, bottom), (left, right), (0, 0)], np.int32)
    shape = [size + int(sum(row)) for size, row in zip(x.shape, table, strict=True)]
    padded = writer.aside("padded", shape, x.type, x.quant)
    rows = writer.constant("pads", table)
    if fill is None:
        writer.add("PAD", [x, rows], padded, "PadOptions")
    else:
        value = np.array([fill], np.float32 if x.quant is None else x.type.lower())
        writer.add("PADV2", [x, rows, writer.constant("fill", value, x.quant)], padded)
    return padded, VALID


def conv(writer: GraphWriter, op: Op) -> None:
    attrs = op.attrs_as(ConvAttrs)
    x, target = _operand(writer, op), writer.graph.output_tensor(op)
    kernel = writer.graph.tensors[op.inputs[1]].shape
    channels = writer.graph.first_input(op).shape[-1]
    depthwise = attrs.groups == channels and channels > 1
    window = _spread(kernel[1], attrs.dilations[0]), _spread(kernel[2], attrs.dilations[1])
    layer = _Layer(writer, op, x, (3, 1, 2, 0) if depthwise else (0, 1, 2, 3))
    source, padding = _windows(writer, layer.x, attrs.pads, window, attrs.strides)
    options = {
        "Padding": padding,
        "StrideH": attrs.strides[0],
        "StrideW": attrs.strides[1],
        "DilationHFactor": attrs.dilations[0],
        "DilationWFactor": attrs.dilations[1],
        "FusedActivationFunction": ACTIVATIONS[attrs.activation],
    }
    inputs = [source, layer.weights, layer.bias]
    if depthwise:
        options["DepthMultiplier"] = target.shape[-1] // channels
        writer.add("DEPTHWISE_CONV_2D", inputs, layer.y, "DepthwiseConv2DOptions", **options)
    else:
        writer.add("CONV_2D", inputs, layer.y, "Conv2DOptions", **options)


def _spread(window: int, dilation: int) -> int:
    return (window - 1) * dilation + 1


def transpose_conv(writer: GraphWriter, op: Op) -> None:
    """The file states the size of the result: all that the patches cover, of which a part is cut
    out unless LiteRT's own pads cut the same."""
    attrs = op.attrs_as(TransposeConvAttrs)
    if attrs.groups != 1 or attrs.dilations != (1, 1):
        raise NotWritten("TFLite's TRANSPOSE_CONV has neither groups nor dilations")
    layer = _Layer(writer, op, _operand(writer, op), (0, 1, 2, 3))
    sizes, window = layer.y.shape[1:3], layer.weights.shape[1:3]
    whole = [
        max((layer.x.shape[n + 1] - 1) * attrs.strides[n] + window[n], attrs.pads[n] + sizes[n])
        for n in (0, 1)
    ]
    same = all(
        same_pads(sizes[n], window[n], attrs.strides[n])[0] == attrs.pads[n]
        and -(-sizes[n] // attrs.strides[n]) == layer.x.shape[n + 1]
        for n in (0, 1)
    )
    y = layer.y
    if not same and any(attrs.pads[:2]):
        y = writer.aside("whole", (y.shape[0], *whole, y.shape[3]), y.type, y.quant)
        starts = writer.numbers("starts", (0, *attrs.pads[:2], 0))
        writer.add("SLICE", [y, starts, writer.numbers("sizes", layer.y.shape)], layer.y)
    writer.add(
        "TRANSPOSE_CONV",
        [writer.numbers("shape", y.shape), layer.weights, layer.x, layer.bias],
        y,
        "TransposeConvOptions",
        Padding=SAME if same else VALID,
        StrideH=attrs.strides[0],
        StrideW=attrs.strides[1],
        FusedActivationFunction=ACTIVATIONS[attrs.activation],
    )


def fully_connected(writer: GraphWriter, op: Op) -> None:
    layer = _Layer(writer, op, _operand(writer, op), (0, 1))
    writer.add(
        "FULLY_CONNECTED",
        [layer.x, layer.weights, layer.bias],
        layer.y,
        "FullyConnectedOptions",
        FusedActivationFunction=ACTIVATIONS[op.attrs_as(DenseAttrs).activation],
        KeepNumDims=len(layer.x.shape) != 2,
    )


def matmul(writer: GraphWriter, op: Op) -> None:
    attrs = op.attrs_as(MatMulAttrs)
    options = {"AdjX": attrs.transpose_a, "AdjY": attrs.transpose_b}
    writer.add(
        "BATCH_MATMUL", writer.operands(op), writer.target(op), "BatchMatMulOptions", **options
    )


class _Layer:
    """Operands of a layer: weights with their axes in `order`, and a bias in the scale of the
    products. Weights with a zero point need LiteRT's uint8 kernels, between two QUANTIZE."""

    def __init__(self, writer: GraphWriter, op: Op, x: FileTensor, order: tuple[int, ...]) -> None:
        graph = writer.graph
        weights = writer.tensor(op.inputs[1])
        if weights.data is None:
            raise NotWritten("its weights are computed by the network")
        self.x, self.y = x, writer.target(op)
        quant = weights.quant
        bias = graph.tensors[op.inputs[2]] if len(op.inputs) > 2 and op.inputs[2] else None
        outputs = graph.tensors[op.inputs[1]].shape[0]
        values = np.zeros(outputs) if bias is None else _constant_reals(bias)
        if quant is None or x.quant is None:
            if quant is not None or x.quant is not None or self.y.quant is not None:
                raise NotWritten("only some of its tensors have scales")
            self.weights = writer.constant("weights", weights.data.transpose(order))
            self.bias = writer.constant("bias", values.astype(np.float32))
            return
        data, points = weights.data, {*quant.zero_points}
        if points != {0}:
            if quant.per_channel or x.type != "INT8":
                raise NotWritten("its weights have zero points, one per channel")
            self._to_unsigned(writer)
            half = 128 if weights.type == "INT8" else 0
            quant = Quant(quant.scales, (quant.zero_point + half,))
            data = (data.astype(np.int16) + half).astype(np.uint8)
        if quant.axis is not None:
            quant = Quant(quant.scales, quant.zero_points, order.index(quant.axis))
        data, quant = _with_room(
            data.transpose(order), quant, values / x.quant.scale, order.index(0)
        )
        self.weights = writer.constant("weights", data, quant)
        scales = np.float32(x.quant.scale) * np.array(quant.scales, np.float32)
        stored = np.rint(values / scales.astype(np.float64))
        wide = np.int64 if x.type == "INT16" else np.int32
        axis = 0 if len(scales) > 1 else None
        bias_quant = Quant(tuple(map(float, scales)), (0,) * len(scales), axis)
        self.bias = writer.constant("bias", stored.astype(wide), bias_quant)

    def _to_unsigned(self, writer: GraphWriter) -> None:
        x, y = self.x, self.y
        assert x.quant is not None and y.quant is not None
        self.x, self.y = (
            writer.aside(
                "unsigned", t.shape, "UINT8", Quant(t.quant.scales, (t.quant.zero_point + 128,))
            )
            for t in (x, y)
            if t.quant is not None
        )
        writer.add("QUANTIZE", [x], self.x)
        writer.add("QUANTIZE", [self.y], y)


def _with_room(
    weights: np.ndarray, quant: Quant, biases: np.ndarray, axis: int
) -> tuple[np.ndarray, Quant]:
    """Weights of channels whose bias would not fit into 32 bits take a larger scale: the products
    are nothing beside such a bias."""
    scales = np.broadcast_to(np.array(quant.scales, np.float64), biases.shape)
    least = np.abs(biases) / _ROOM
    if not (least > scales).any():
        return weights, quant
    if any(quant.zero_points):
        raise NotWritten("a bias exceeds 32 bits")
    wider = np.maximum(scales, least).astype(np.float32)
    shape = [-1 if n == axis else 1 for n in range(weights.ndim)]
    stored = np.rint(weights * (scales / wider).reshape(shape)).astype(weights.dtype)
    return stored, Quant(tuple(map(float, wider)), (0,) * wider.size, axis)


def _constant_reals(tensor: Tensor) -> np.ndarray:
    if tensor.data is None:
        raise NotWritten("its bias is computed by the network")
    if tensor.quant is None:
        return tensor.data.astype(np.float64)
    points, scales = np.array(tensor.quant.zero_points), np.array(tensor.quant.scales, np.float64)
    return np.asarray((tensor.data.astype(np.float64) - points) * scales)


def _operand(writer: GraphWriter, op: Op) -> FileTensor:
    return writer.tensor(op.inputs[0])


# --- Functions that are layers with one weight per channel: one rounding, as onnxruntime's ---


def batch_norm(writer: GraphWriter, op: Op) -> None:
    if op.attrs_as(BatchNormAttrs).activation is not Activation.NONE:
        raise NotWritten("its fused activation")
    parameters = [writer.graph.tensors[name] for name in op.inputs[1:]]
    scale, bias, mean, variance = (_constant_reals(tensor) for tensor in parameters)
    factors = scale / np.sqrt(variance + op.attrs_as(BatchNormAttrs).epsilon)
    _linear(writer, op, factors, bias - mean * factors)


def hard_sigmoid(writer: GraphWriter, op: Op) -> None:
    attrs, target = op.attrs_as(HardSigmoidAttrs), writer.target(op)
    channels = target.shape[-1] if target.shape else 1
    quant = target.quant
    if quant is None or (_LARGEST - quant.zero_point) * quant.scale > 1 + quant.scale / 2:
        raise NotWritten("its result has no scale that ends at 1")
    _linear(
        writer,
        op,
        np.full(channels, attrs.alpha),
        np.full(channels, attrs.beta),
        Activation.RELU,
    )


def _linear(
    writer: GraphWriter,
    op: Op,
    factors: np.ndarray,
    offsets: np.ndarray,
    activation: Activation = Activation.NONE,
) -> None:
    """x * factors + offsets along the last axis: a depthwise convolution."""
    x, target = _operand(writer, op), writer.target(op)
    channels = factors.size
    if x.quant is None:
        y = target
        if activation is not Activation.NONE:
            raise NotWritten("TFLite has no such operator on floats")
        product = writer.aside("product", x.shape, x.type)
        scale = writer.constant("factors", factors.astype(np.float32))
        writer.add("MUL", [x, scale], product, "MulOptions")
        writer.add(
            "ADD",
            [product, writer.constant("offsets", offsets.astype(np.float32))],
            y,
            "AddOptions",
        )
        return
    if target.quant is None:
        raise NotWritten("only some of its tensors have scales")
    flat = (1, 1, max(int(np.prod(x.shape)) // channels, 1), channels)
    shape = x.shape if len(x.shape) == 4 else flat
    source, y = _reshaped(writer, x, shape), target
    if shape != target.shape:
        y = writer.aside("flat", shape, target.type, target.quant)
        writer.add("RESHAPE", [y, writer.numbers("shape", target.shape)], target)
    used = np.where(factors == 0, 1.0, np.abs(factors))
    scales = (used / _LARGEST).astype(np.float32)
    weights = (np.sign(factors) * _LARGEST).astype(np.int8).reshape(1, 1, 1, channels)
    products = np.float32(x.quant.scale) * scales
    axis, zeros = (3 if channels > 1 else None), (0,) * channels
    biases = np.clip(np.rint(offsets / products.astype(np.float64)), -_INT32, _INT32)
    one = {"StrideH": 1, "StrideW": 1, "DepthMultiplier": 1, "Padding": VALID}
    writer.add(
        "DEPTHWISE_CONV_2D",
        [
            source,
            writer.constant("factors", weights, Quant(tuple(map(float, scales)), zeros, axis)),
            writer.constant(
                "offsets",
                biases.astype(np.int32),
                Quant(tuple(map(float, products)), zeros, None if axis is None else 0),
            ),
        ],
        y,
        "DepthwiseConv2DOptions",
        **one,
        FusedActivationFunction=ACTIVATIONS[activation],
    )


def _reshaped(writer: GraphWriter, x: FileTensor, shape: Shape) -> FileTensor:
    if x.shape == shape:
        return x
    flat = writer.aside("flat", shape, x.type, x.quant)
    writer.add("RESHAPE", [x, writer.numbers("shape", shape)], flat)
    return flat


# --- Pools ---


def max_pool(writer: GraphWriter, op: Op) -> None:
    x = _operand(writer, op)
    least = float(-128 if x.type == "INT8" else -32768)
    _pool(
        writer, op, "MAX_POOL_2D", x, float(np.finfo(np.float32).min) if x.quant is None else least
    )


def average_pool(writer: GraphWriter, op: Op) -> None:
    """LiteRT's keeps the scale of its operand. To another scale, one rounding less is made by a
    depthwise convolution with equal weights."""
    attrs, x, target = op.attrs_as(PoolAttrs), _operand(writer, op), writer.target(op)
    same = [same_pads(x.shape[n + 1], attrs.window[n], attrs.strides[n]) for n in (0, 1)]
    top, left, bottom, right = attrs.pads
    if any(attrs.pads) and not attrs.count_pads:
        if same != [(top, bottom), (left, right)]:
            raise NotWritten("it leaves out pads that are not those of SAME")
        _pool(writer, op, "AVERAGE_POOL_2D", x)
        return
    if x.quant is None or target.quant is None or (x.quant == target.quant and not any(attrs.pads)):
        _pool(writer, op, "AVERAGE_POOL_2D", x)
        return
    height, width = attrs.window
    source, padding = _windows(writer, x, attrs.pads, attrs.window, attrs.strides)
    channels, share = x.shape[3], 1 / (height * width)
    scale = float(np.float32(share / _LARGEST))
    weights = np.full((1, height, width, channels), _LARGEST, np.int8)
    zeros = np.zeros(channels, np.int32)
    bias = Quant((float(np.float32(x.quant.scale) * np.float32(scale)),), (0,))
    writer.add(
        "DEPTHWISE_CONV_2D",
        [
            source,
            writer.constant("shares", weights, Quant((scale,), (0,))),
            writer.constant("zeros", zeros, bias),
        ],
        target,
        "DepthwiseConv2DOptions",
        Padding=padding,
        StrideH=attrs.strides[0],
        StrideW=attrs.strides[1],
        DepthMultiplier=1,
        FusedActivationFunction=ACTIVATIONS[attrs.activation],
    )


def _pool(writer: GraphWriter, op: Op, word: str, x: FileTensor, fill: float | None = None) -> None:
    attrs = op.attrs_as(PoolAttrs)
    source, padding = _windows(writer, x, attrs.pads, attrs.window, attrs.strides, fill)
    quant = x.quant if word == "AVERAGE_POOL_2D" else made_quant(writer, op)
    writer.add(
        word,
        [source],
        writer.result(op.outputs[0], quant),
        "Pool2DOptions",
        Padding=padding,
        StrideH=attrs.strides[0],
        StrideW=attrs.strides[1],
        FilterHeight=attrs.window[0],
        FilterWidth=attrs.window[1],
        FusedActivationFunction=ACTIVATIONS[attrs.activation],
    )
