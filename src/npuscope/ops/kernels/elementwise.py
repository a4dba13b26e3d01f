"""Element-wise ops on integers as in LiteRT's reference kernels; comparisons and Where."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuscope.graph.model import DType, Graph, Op, Tensor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.kernels.requantize import (
    clamp_limits,
    clamped,
    quantize_real,
    quantized_multipliers,
    real_limits,
    round_half_away,
    saturate,
    scale_twice,
)
from npuscope.ops.kernels.step import Array, Maker, Step, only_bytes, quant_of, tabulated

# --- Arithmetic, as LiteRT's reference kernels compute it ---
#
# Written as plain 64-bit arithmetic; for 8-bit inputs step.py turns it into tables.


def centred(values: Array, tensor: Tensor) -> Array:
    return values.astype(np.int64) - quant_of(tensor).zero_point


def _finish(values: Array, output: Tensor, limits: tuple[int, int]) -> Array:
    return clamped(values + quant_of(output).zero_point, limits, output.dtype)


def litert_add(graph: Graph, op: Op) -> Step:
    return _sum(graph, op, np.add)


def litert_sub(graph: Graph, op: Op) -> Step:
    return _sum(graph, op, np.subtract)


def _sum(graph: Graph, op: Op, combine: Callable[[Array, Array], Array]) -> Step:
    """Bring both operands to a common finer scale, add, and scale back: three roundings.

    The finer scale is twice the larger one, shifted left by 20 bits (15 for int16).
    """
    a, b = (graph.tensors[name] for name in op.inputs)
    output = graph.output_tensor(op)
    limits = clamp_limits(output, *real_limits(op.attrs_as(BinaryAttrs).activation))
    finer = 15 if output.dtype is DType.INT16 else 20
    common = 2.0 * max(quant_of(a).scale, quant_of(b).scale)
    scale_a = quantized_multipliers(quant_of(a).scale / common)
    scale_b = quantized_multipliers(quant_of(b).scale / common)
    scale_out = quantized_multipliers(common / (2.0**finer * quant_of(output).scale))

    def step(inputs: Sequence[Array]) -> Array:
        left = scale_twice(centred(inputs[0], a) << finer, scale_a)
        right = scale_twice(centred(inputs[1], b) << finer, scale_b)
        return _finish(scale_twice(combine(left, right), scale_out), output, limits)

    return tabulated(step, a, b)


def litert_mul(graph: Graph, op: Op) -> Step:
    """LiteRT computes the ratio of the three scales in float32."""
    a, b = (graph.tensors[name] for name in op.inputs)
    output = graph.output_tensor(op)
    limits = clamp_limits(output, *real_limits(op.attrs_as(BinaryAttrs).activation))
    product = np.float32(quant_of(a).scale) * np.float32(quant_of(b).scale)
    factor = quantized_multipliers(float(product / np.float32(quant_of(output).scale)))

    def step(inputs: Sequence[Array]) -> Array:
        values = centred(inputs[0], a) * centred(inputs[1], b)
        return _finish(scale_twice(values, factor), output, limits)

    return tabulated(step, a, b)


def litert_extreme(choose: Callable[[Array, Array], Array]) -> Callable[[Graph, Op], Step]:
    """LiteRT compares raw values: it requires the same scale for all three tensors."""

    def make(graph: Graph, op: Op) -> Step:
        return lambda inputs: choose(inputs[0], inputs[1])

    return make


litert_min = litert_extreme(np.minimum)
litert_max = litert_extreme(np.maximum)


def litert_clip(graph: Graph, op: Op) -> Step:
    """RELU and its variants as ops of their own; the ratio of scales is computed in float32."""
    source, output = graph.first_input(op), graph.output_tensor(op)
    attrs = op.attrs_as(ClipAttrs)
    limits = clamp_limits(output, attrs.low, attrs.high)
    ratio = np.float32(quant_of(source).scale) / np.float32(quant_of(output).scale)
    factor = quantized_multipliers(float(ratio))

    def step(inputs: Sequence[Array]) -> Array:
        return _finish(scale_twice(centred(inputs[0], source), factor), output, limits)

    return tabulated(step, source)


def litert_quantize(graph: Graph, op: Op) -> Step:
    """From float: half away from zero. From integers: a requantization."""
    source, output = graph.first_input(op), graph.output_tensor(op)
    if not source.dtype.is_float:
        return tabulated(_requantize(source, output), source)
    scale, zero = np.float32(quant_of(output).scale), quant_of(output).zero_point

    def step(inputs: Sequence[Array]) -> Array:
        whole = round_half_away(inputs[0] / scale) + zero
        return saturate(np.where(np.isnan(whole), output.dtype.limits[0], whole), output.dtype)

    return step


def _requantize(source: Tensor, output: Tensor) -> Step:
    factor = quantized_multipliers(quant_of(source).scale / quant_of(output).scale)

    def step(inputs: Sequence[Array]) -> Array:
        values = scale_twice(centred(inputs[0], source), factor)
        return _finish(values, output, output.dtype.limits)

    return step


def dequantize(graph: Graph, op: Op) -> Step:
    """Both numerics agree: the difference is exact and only the product rounds."""
    source = graph.first_input(op)
    quant = quant_of(source)
    scale = per_axis(quant.scales, source, np.float32)
    zero = per_axis(quant.zero_points, source, np.int32 if source.dtype.bits <= 16 else np.int64)

    def step(inputs: Sequence[Array]) -> Array:
        return (inputs[0] - zero).astype(np.float32) * scale

    return step if quant.per_channel else tabulated(step, source)


def per_axis(values: Sequence[float], tensor: Tensor, dtype: type[np.number]) -> Array:
    """One value per channel, shaped to broadcast over the tensor."""
    axis = quant_of(tensor).axis
    shape = [1] * len(tensor.shape)
    if axis is not None:
        shape[axis] = len(values)
    return np.asarray(values, dtype).reshape(shape if axis is not None else ())


def litert_pad_value(value: float, output: Tensor) -> int:
    """A real fill value on the output's grid."""
    low, high = output.dtype.limits
    return int(np.clip(quantize_real(value, quant_of(output)), low, high))


# --- Comparisons, logic and Where ---

Compare = Callable[[Array, Array], Array]
_FINER = 8  # bits that LiteRT adds before it brings both operands to real units


def litert_comparison(compare: Compare) -> Maker:
    """Compare both operands as fixed-point reals; close values of small scales become equal."""

    def make(graph: Graph, op: Op) -> Step:
        a, b = (graph.tensors[name] for name in op.inputs)
        only_bytes(op, a, b)
        scale_a, scale_b = (quantized_multipliers(quant_of(t).scale) for t in (a, b))

        def step(inputs: Sequence[Array]) -> Array:
            left = scale_twice(centred(inputs[0], a) << _FINER, scale_a)
            right = scale_twice(centred(inputs[1], b) << _FINER, scale_b)
            return compare(left, right)

        return tabulated(step, a, b)

    return make


def comparison(compare: Compare) -> Maker:
    """The result has the type of the output: programs store bool as bytes."""

    def make(graph: Graph, op: Op) -> Step:
        dtype = graph.output_tensor(op).dtype.numpy
        return lambda inputs: compare(inputs[0], inputs[1]).astype(dtype, copy=False)

    return make


both = comparison(np.logical_and)
either = comparison(np.logical_or)
one_of_both = comparison(np.logical_xor)


def negation(graph: Graph, op: Op) -> Step:
    dtype = graph.output_tensor(op).dtype.numpy
    return lambda inputs: np.logical_not(inputs[0]).astype(dtype, copy=False)


def choose(graph: Graph, op: Op) -> Step:
    """Raw values are copied unchanged."""
    return lambda inputs: np.where(inputs[0], inputs[1], inputs[2])
