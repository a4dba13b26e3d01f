"""Conv2D on integers, for both numerics: the sums are the same, only the final rounding differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from npuscope.errors import ModelError
from npuscope.graph.model import Activation, DType, Graph, Op, Tensor
from npuscope.ops.kernels.requantize import (
    Emit,
    ExactRescale,
    Multipliers,
    Target,
    litert_target,
    quantized_multipliers,
    scale_reduced,
    scale_twice,
)
from npuscope.ops.kernels.step import Array, Step, constant_of, optional_constant, quant_of
from npuscope.ops.kernels.windows import (
    Geometry,
    Grouped,
    Pointwise,
    RowSums,
    Windowed,
    depthwise,
    exact_panels,
    geometry_of,
    reach,
    sum_type,
)
from npuscope.ops.layers import ConvAttrs
from npuscope.structs import replace

# --- gemmlowp's double rounding of conv sums, in float64 that is proven exact ---
#
# With z = sum * mantissa / 2**31 and e = -shift > 0 the rule is y = floor(z + 1/2), then y / 2**e
# with ties away from zero. For y >= 0 the result is
#     floor((y + 2**(e-1)) / 2**e) = floor(z / 2**e + 1/2 + d)  with d = 2**-(e+1),
# because floor(floor(a) / n) = floor(a / n). For y < 0 one unit less is added before the division,
# which gives floor(z / 2**e + 1/2 - d). For -1/2 <= z < 0 both are 0, so the sign of z may choose.
# Without a right shift there is no second rounding, and d = 0.
#
# So one multiply, one add and one floor are enough if float64 is exact for the values at hand. Two
# proofs are accepted for each channel: a bound on all terms, or a check of every sum at which the
# output changes.

_EXACT = 2.0**53  # integers up to here are exact in float64
# numpy has a fixed cost per inner loop, so rows of few channels are handled several at a time.
_LONG_ROW = 1024


class ConvSums(Struct, frozen=True):
    """What is known about the accumulators before a run: bias and bound of |sum|, per channel."""

    bias: Array  # int64
    reach: Array  # float64
    row: int = 1  # sums arrive in multiples of this many pixels


def rescale_twice(factors: Array, sums: ConvSums, target: Target) -> Emit:
    """The rule in floats where that is proven exact, else in integers."""
    multipliers = quantized_multipliers(np.broadcast_to(factors, sums.bias.shape))
    exact = ExactRescale(scale_twice, multipliers, sums.bias, target)
    # All terms are multiples of 2**(shift - 31): exact if none exceeds 2**53 of these units.
    largest = (sums.reach + np.abs(sums.bias)) * multipliers.mantissa
    constants = 2.0 ** (target.dtype.bits + 1) * np.exp2(31.0 - multipliers.shift)
    bounded: Array = (largest + constants <= _EXACT) & (multipliers.shift <= 30)
    doubtful = np.flatnonzero(~bounded)
    if len(doubtful) and not _agree(_channels(exact, doubtful), sums.reach[doubtful]):
        return exact
    return float_rescale(exact, sums.row)


def _channels(exact: ExactRescale, places: Array) -> ExactRescale:
    factors = Multipliers(exact.factors.mantissa[places], exact.factors.shift[places])
    return replace(exact, factors=factors, bias=exact.bias[places])


def _agree(exact: ExactRescale, reach: Array) -> bool:
    """True if both ways give the same result for all sums within reach.

    Both are monotone. So they agree everywhere if they agree on points such that the exact
    result does not change between neighbours that are more than 1 apart.
    """
    if exact.target.dtype.bits > 8:
        return False  # too many steps to check
    # Sums next to where the output changes, sorted, one column per channel.
    target = exact.target
    steps = np.arange(target.low, target.high)[:, np.newaxis] + 0.5 - target.zero_point
    with np.errstate(divide="ignore"):
        places = np.rint(steps / _scale(exact.factors) - exact.bias)
    window = np.arange(-2.0, 3.0)[:, np.newaxis, np.newaxis]
    points = (places + window).reshape(-1, places.shape[1])
    points = np.clip(points, -reach, reach)
    points = np.sort(np.concatenate((points, [-reach, reach])), axis=0)
    exact_results, float_results = (
        np.empty(points.shape, exact.target.dtype.numpy) for _ in range(2)
    )
    exact(points, exact_results)
    float_rescale(exact, 1)(points, float_results)
    covered = (np.diff(points, axis=0) <= 1) | (exact_results[1:] == exact_results[:-1])
    return bool(np.array_equal(exact_results, float_results) and covered.all())


def _scale(factors: Multipliers) -> Array:
    return factors.mantissa * np.exp2(factors.shift - 31.0)


def float_rescale(exact: ExactRescale, row: int) -> FloatRescale:
    """If the activation clamps at the zero point, negative results vanish and +d is right."""
    target, scale = exact.target, _scale(exact.factors)
    nudge = np.where(exact.factors.shift < 0, np.exp2(exact.factors.shift - 1.0), 0.0)
    offset = exact.bias * scale
    lowest = target.dtype.limits[0]
    base = target.zero_point - lowest + 0.5
    one_sided = target.low >= target.zero_point or not nudge.any()
    if one_sided:
        offset = offset + (base + nudge)
    # The largest divisor of `row` that keeps a row of numbers below _LONG_ROW.
    most = max(1, min(row, _LONG_ROW // len(scale)))
    repeat = next(count for count in range(most, 0, -1) if row % count == 0)
    return FloatRescale(
        np.tile(scale, repeat),
        np.tile(offset, repeat),
        None if one_sided else np.tile(nudge, repeat),
        base,
        (float(target.low - lowest), target.high - lowest + 0.5),
    )


class FloatRescale(Struct, frozen=True):
    """Values are counted from the type's smallest one, so that a cast, which truncates, floors."""

    scale: Array
    offset: Array
    nudge: Array | None
    base: float
    limits: tuple[float, float]

    def __call__(self, sums: Array, out: Array) -> None:
        value: Array = np.multiply(sums.reshape(-1, self.scale.size), self.scale)
        value += self.offset
        if self.nudge is not None:
            value += np.copysign(self.nudge, value)
            value += self.base
        value.clip(*self.limits, out=value)
        whole = out.view(f"u{out.itemsize}").reshape(value.shape)
        np.copyto(whole, value, casting="unsafe")
        if out.dtype.kind == "i":
            whole ^= whole.dtype.type(1 << (8 * out.itemsize - 1))


# --- Integer weights of a conv or fully connected layer ---


class IntegerWeights(Struct, frozen=True):
    """Weights with output channels first, their zero points taken out.

    sum(w * (x - zero)) = sum(w * x) + fold, so kernels work on the raw x and add `fold`.
    """

    values: Array  # int32
    scales: Array  # float64, one per channel
    fold: Array  # int64, one per channel
    reach: Array  # float64: bound of |sum(w * x)| over all raw inputs
    input: Tensor

    @property
    def channels(self) -> int:
        return len(self.values)


def integer_weights(graph: Graph, op: Op) -> IntegerWeights:
    source, tensor = graph.first_input(op), constant_of(graph, op, 1, "weights")
    quant = quant_of(tensor)
    if quant.axis not in (None, 0):
        raise ModelError(f"the weights have scales along axis {quant.axis}, expected axis 0")
    data = np.asarray(tensor.data).astype(np.int32)
    zero = np.asarray(quant.zero_points, np.int32).reshape(-1, *[1] * (data.ndim - 1))
    values = data - zero
    totals = values.reshape(len(values), -1).sum(axis=1, dtype=np.int64)
    return IntegerWeights(
        values,
        np.broadcast_to(np.asarray(quant.scales, np.float64), len(values)),
        -quant_of(source).zero_point * totals,
        reach(values, source.dtype),
        source,
    )


def input_scale(weights: IntegerWeights) -> float:
    return quant_of(weights.input).scale


def output_factors(weights: IntegerWeights, output: Tensor) -> Array:
    """Accumulator to output, per channel: products and quotients in double, as LiteRT does."""
    return input_scale(weights) * weights.scales / quant_of(output).scale


def integer_bias(graph: Graph, op: Op, weights: IntegerWeights) -> Array:
    """The bias plus the folded zero point, in units of the accumulator."""
    bias = optional_constant(graph, op, 2, "biases")
    if bias is None:
        return weights.fold
    if bias.dtype not in (DType.INT32, DType.INT64):
        raise ModelError(f"the bias is {bias.dtype.value}, expected int32 or int64")
    return np.asarray(bias.data).astype(np.int64) + weights.fold


EmitMaker = Callable[[Graph, Op, IntegerWeights], Emit]

# Numbers in one block of rows: its float32 inputs and float64 outputs stay within a usual L2.
_BLOCK = 1 << 17


def litert_conv2d(graph: Graph, op: Op) -> Step:
    return integer_conv2d(graph, op, _litert_emit)


def _litert_emit(graph: Graph, op: Op, weights: IntegerWeights) -> Emit:
    return litert_rescale(graph, op, weights, op.attrs_as(ConvAttrs).activation)


def litert_rescale(graph: Graph, op: Op, weights: IntegerWeights, activation: Activation) -> Emit:
    """16-bit inputs have 64-bit sums and a rule of their own, unless the bias has 32 bits."""
    output = graph.output_tensor(op)
    target = litert_target(output, activation)
    bias = integer_bias(graph, op, weights)
    factors = output_factors(weights, output)
    if weights.input.dtype is DType.INT16 and not _has_int32_bias(graph, op):
        return ExactRescale(scale_reduced, quantized_multipliers(factors), bias, target)
    return rescale_twice(factors, ConvSums(bias, weights.reach, output.shape[2]), target)


def _has_int32_bias(graph: Graph, op: Op) -> bool:
    present = len(op.inputs) > 2 and op.inputs[2] != ""
    return present and graph.tensors[op.inputs[2]].dtype is DType.INT32


def integer_conv2d(graph: Graph, op: Op, make_emit: EmitMaker) -> Step:
    """The step of a conv on raw integers; `make_emit` decides what its sums become."""
    weights, output = integer_weights(graph, op), graph.output_tensor(op)
    sums = row_sums(_geometry(op, weights, output.shape), weights, op.attrs_as(ConvAttrs).groups)
    emit = make_emit(graph, op, weights)
    depth: int = weights.values[0].size
    rows = max(1, _BLOCK // (output.shape[2] * max(depth, weights.channels)))
    height, width, channels = output.shape[1:]

    def step(inputs: Sequence[Array]) -> Array:
        images = inputs[0]
        result = np.empty((len(images), height, width, channels), output.dtype.numpy)
        for image, rows_of_image in zip(images, result, strict=True):
            for first in range(0, height, rows):
                last = min(first + rows, height)
                emit(sums(image, first, last), rows_of_image[first:last].reshape(-1, channels))
        return result

    return step


def _geometry(op: Op, weights: IntegerWeights, output: tuple[int, ...]) -> Geometry:
    _, kernel_height, kernel_width, _ = weights.values.shape
    _, height, width, _ = output
    fill = quant_of(weights.input).zero_point
    attrs = op.attrs_as(ConvAttrs)
    return geometry_of(attrs, (kernel_height, kernel_width), (height, width), fill)


def row_sums(where: Geometry, weights: IntegerWeights, groups: int) -> RowSums:
    """The cheapest exact way to the sums of this conv."""
    values, dtype = weights.values, weights.input.dtype
    channels = weights.input.shape[3]
    if groups == channels and groups > 1:
        taps = values[..., 0].transpose(1, 2, 0).astype(sum_type(values, dtype))
        return depthwise(where, taps, len(values) // channels)
    if groups > 1:
        parts = np.split(values, groups)
        return Grouped(tuple(_dense_sums(where, part, dtype) for part in parts))
    return _dense_sums(where, values, dtype)


def _dense_sums(where: Geometry, values: Array, dtype: DType) -> RowSums:
    panels = exact_panels(values.reshape(len(values), -1), dtype)
    return Pointwise(where, panels) if where.plain else Windowed(where, panels)
