"""Quantized ops computed on real values, as onnxruntime does it, and its integer shortcuts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.model import Graph, Op, Tensor
from npuscope.ops.kernels.conv import IntegerWeights, input_scale, integer_conv2d
from npuscope.ops.kernels.dense import integer_fully_connected, integer_transpose_conv
from npuscope.ops.kernels.elementwise import per_axis
from npuscope.ops.kernels.requantize import (
    Emit,
    RescaleToEven,
    Target,
    ToReal,
    real_limits,
    round_half_away,
    saturate,
)
from npuscope.ops.kernels.step import Array, Maker, Step, optional_constant, tabulated
from npuscope.ops.layers import ConvAttrs, DenseAttrs, TransposeConvAttrs

# --- Any op on real values, between a dequantize and a quantize ---
#
# onnxruntime computes quantized networks this way. With LiteRT's numerics it is used only for ops
# that have no integer kernel; ties then round away from zero.

Store = Callable[[Array, Tensor], Array]


def real_values(values: Array, tensor: Tensor) -> Array:
    """DequantizeLinear; tensors without a scale are returned unchanged."""
    if tensor.quant is None:
        return values
    zero = per_axis(tensor.quant.zero_points, tensor, np.int64)
    scale = per_axis(tensor.quant.scales, tensor, np.float32)
    real: Array = np.multiply(values - zero, scale, dtype=np.float32)
    return real


def quantized(values: Array, tensor: Tensor) -> Array:
    """QuantizeLinear: half to even, saturating; tensors without a scale are returned unchanged."""
    return _stored(values, tensor, np.rint)


def quantized_away(values: Array, tensor: Tensor) -> Array:
    """The same with ties away from zero."""
    return _stored(values, tensor, round_half_away)


def _stored(values: Array, tensor: Tensor, rounded: Callable[[Array], Array]) -> Array:
    if tensor.quant is None:
        return values.astype(tensor.dtype.numpy, copy=False)
    with np.errstate(all="ignore"):  # infinities saturate, as in QuantizeLinear
        ratio = rounded(values / per_axis(tensor.quant.scales, tensor, np.float32))
        shifted = ratio + per_axis(tensor.quant.zero_points, tensor, np.float32)
    low = tensor.dtype.limits[0]
    return saturate(np.where(np.isnan(shifted), low, shifted), tensor.dtype)


def between(make_real: Maker, elementwise: bool = False, store: Store = quantized) -> Maker:
    """`elementwise` ops on 8-bit values become tables."""

    def make(graph: Graph, op: Op) -> Step:
        real = make_real(graph, op)
        sources = [graph.tensors[name] for name in op.inputs if name]
        as_table = elementwise and not any(t.quant and t.quant.per_channel for t in sources)
        # The table is made by running the step on all values, so the step must use its argument,
        # not a cached constant.
        readers = [
            _Reader(t) if as_table else (_Constant(t) if t.is_constant else _Reader(t))
            for t in sources
        ]
        output = graph.output_tensor(op)

        def step(inputs: Sequence[Array]) -> Array:
            values = [read(value) for read, value in zip(readers, inputs, strict=True)]
            return store(real(values), output)

        return tabulated(step, *sources) if as_table else step

    return make


class _Constant:
    """A constant's real values, computed once."""

    def __init__(self, tensor: Tensor) -> None:
        self.values = real_values(np.asarray(tensor.data), tensor)

    def __call__(self, values: Array) -> Array:
        return self.values


class _Reader:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __call__(self, values: Array) -> Array:
        return real_values(values, self.tensor)


def moving(make_raw: Maker, make_real: Maker, data_inputs: int | None = None) -> Maker:
    """Ops that only move values work on raw ones when both sides share the quantization.

    `data_inputs` is how many of the inputs are moved (None: all).
    """

    def make(graph: Graph, op: Op) -> Step:
        output = graph.output_tensor(op)
        sources = [graph.tensors[name] for name in op.inputs[:data_inputs]]
        if all((t.quant, t.dtype) == (output.quant, output.dtype) for t in sources):
            return make_raw(graph, op)
        return between(make_real)(graph, op)

    return make


# --- onnxruntime's integer shortcuts ---
#
# onnxruntime computes in float32 between DequantizeLinear and QuantizeLinear. The integer ops here
# are a shortcut: same real values, same rounding half to even at the end.


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
    """Both inputs are quantized, and the weights are constant with one scale per channel."""
    source, weights = graph.first_input(op), graph.tensors[op.inputs[1]]
    if source.quant is None or weights.quant is None or not weights.is_constant:
        return False
    return not source.quant.per_channel and weights.quant.axis in (None, 0)


def fast_when_integer(fast: Maker, real: Maker) -> Maker:
    """The integer shortcut where it applies, else floats."""

    def make(graph: Graph, op: Op) -> Step:
        maker = fast if integer_inputs(graph, op) else between(real)
        return maker(graph, op)

    return make
