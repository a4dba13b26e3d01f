"""onnxruntime's view of a quantized network: float32 between DequantizeLinear and QuantizeLinear.

Integer ops here are a shortcut for that: same real values, same rounding half to even at the end.
"""

from __future__ import annotations

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.attrs import ConvAttrs, DenseAttrs, TransposeConvAttrs
from npuscope.graph.kernels.between import between, quantized, real_values
from npuscope.graph.kernels.conv import integer_conv2d
from npuscope.graph.kernels.dense import integer_fully_connected
from npuscope.graph.kernels.emit import Emit, RescaleToEven, Target, ToReal
from npuscope.graph.kernels.requantize import real_limits
from npuscope.graph.kernels.step import Array, Maker, Step, optional_constant
from npuscope.graph.kernels.transpose_conv import integer_transpose_conv
from npuscope.graph.kernels.weights import IntegerWeights, input_scale
from npuscope.graph.model import Graph, Op


def _pass_through(graph: Graph, op: Op) -> Step:
    return lambda inputs: inputs[0]


qdq_quantize = between(_pass_through, elementwise=True)


def qdq_conv2d(graph: Graph, op: Op) -> Step:
    return integer_conv2d(graph, op, _conv_emit)


def qdq_transpose_conv(graph: Graph, op: Op) -> Step:
    return integer_transpose_conv(graph, op, _transpose_conv_emit)


def qdq_fully_connected(graph: Graph, op: Op) -> Step:
    return integer_fully_connected(graph, op, _dense_emit)


def _conv_emit(graph: Graph, op: Op, weights: IntegerWeights) -> Emit:
    limits = real_limits(op.attrs_as(ConvAttrs).activation)
    return _emit(graph, op, weights, limits)


def _transpose_conv_emit(graph: Graph, op: Op, weights: IntegerWeights) -> Emit:
    limits = real_limits(op.attrs_as(TransposeConvAttrs).activation)
    return _emit(graph, op, weights, limits)


def _dense_emit(graph: Graph, op: Op, weights: IntegerWeights) -> Emit:
    limits = real_limits(op.attrs_as(DenseAttrs).activation)
    return _emit(graph, op, weights, limits)


def _emit(graph: Graph, op: Op, weights: IntegerWeights, limits: tuple[float, float]) -> Emit:
    output = graph.output_tensor(op)
    factors = input_scale(weights) * weights.scales
    bias = _real_bias(graph, op) + weights.fold * factors
    if output.quant is None:
        return ToReal(factors, bias, limits)
    scale = output.quant.scale
    first, last = quantized(np.asarray(limits, np.float32), output).tolist()
    target = Target(output.dtype, output.quant.zero_point, first, last)
    return RescaleToEven(factors / scale, bias / scale, target)


def _real_bias(graph: Graph, op: Op) -> Array:
    bias = optional_constant(graph, op, 2, "biases")
    if bias is None:
        return np.zeros(1)
    if bias.quant is None and not bias.dtype.is_float:
        raise ModelError(f"the bias '{bias.name}' is {bias.dtype.value} but has no scale")
    return real_values(np.asarray(bias.data), bias).astype(np.float64)


def integer_inputs(graph: Graph, op: Op) -> bool:
    """Activation and weights are both quantized, weights constant and with one scale a channel."""
    source, weights = graph.first_input(op), graph.tensors[op.inputs[1]]
    if source.quant is None or weights.quant is None or not weights.is_constant:
        return False
    return not source.quant.per_channel and weights.quant.axis in (None, 0)


def fast_when_integer(fast: Maker, real: Maker) -> Maker:
    """The integer shortcut where it applies, else floats."""

    def make(graph: Graph, op: Op) -> Step:
        chosen = fast if integer_inputs(graph, op) else between(real)
        return chosen(graph, op)

    return make
