"""Conv2D on integers, for both numerics: the same exact sums, another rounding at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuscope.graph.attrs import Activation, ConvAttrs
from npuscope.graph.kernels.double_rounding import Sums, rescale_twice
from npuscope.graph.kernels.emit import Emit, ExactRescale, litert_target
from npuscope.graph.kernels.gemm import exact_panels, sum_type
from npuscope.graph.kernels.requantize import quantized_multipliers, scale_reduced
from npuscope.graph.kernels.step import Array, Step, quant_of
from npuscope.graph.kernels.weights import (
    IntegerWeights,
    integer_bias,
    integer_weights,
    output_factors,
)
from npuscope.graph.kernels.windows import (
    Geometry,
    Grouped,
    Pointwise,
    RowSums,
    Windowed,
    depthwise,
    geometry_of,
)
from npuscope.graph.model import DType, Graph, Op

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
    return rescale_twice(factors, Sums(bias, weights.reach, output.shape[2]), target)


def _has_int32_bias(graph: Graph, op: Op) -> bool:
    present = len(op.inputs) > 2 and op.inputs[2] != ""
    return present and graph.tensors[op.inputs[2]].dtype is DType.INT32


def integer_conv2d(graph: Graph, op: Op, make_emit: EmitMaker) -> Step:
    """The step of a conv on raw integers; `make_emit` decides what its sums become."""
    weights, output = integer_weights(graph, op), graph.output_tensor(op)
    sums = row_sums(_geometry(op, weights, output.shape), weights, op.attrs_as(ConvAttrs).groups)
    emit = make_emit(graph, op, weights)
    rows = _rows_a_block(weights, output.shape)
    height, width, channels = output.shape[1:]

    def step(inputs: Sequence[Array]) -> Array:
        images = inputs[0]
        result = np.empty((len(images), height, width, channels), output.dtype.numpy)
        for image, made in zip(images, result, strict=True):
            for first in range(0, height, rows):
                last = min(first + rows, height)
                emit(sums(image, first, last), made[first:last].reshape(-1, channels))
        return result

    return step


def _geometry(op: Op, weights: IntegerWeights, output: tuple[int, ...]) -> Geometry:
    _, kernel_height, kernel_width, _ = weights.values.shape
    _, height, width, _ = output
    fill = quant_of(weights.input).zero_point
    attrs = op.attrs_as(ConvAttrs)
    return geometry_of(attrs, (kernel_height, kernel_width), (height, width), fill)


def _rows_a_block(weights: IntegerWeights, output: tuple[int, ...]) -> int:
    depth: int = weights.values[0].size
    return max(1, _BLOCK // (output[2] * max(depth, weights.channels)))


def row_sums(where: Geometry, weights: IntegerWeights, groups: int) -> RowSums:
    """The cheapest exact way to the sums of this conv."""
    values, dtype = weights.values, weights.input.dtype
    channels = weights.input.shape[3]
    regular = where.strides[1] == 1 or where.dilations[1] == 1
    if groups == channels and groups > 1 and regular:
        taps = values[..., 0].transpose(1, 2, 0).astype(sum_type(values, dtype))
        return depthwise(where, taps, len(values) // channels)
    if groups > 1:
        parts = np.split(values, groups)
        return Grouped(tuple(_dense_sums(where, part, dtype) for part in parts))
    return _dense_sums(where, values, dtype)


def _dense_sums(where: Geometry, values: Array, dtype: DType) -> RowSums:
    panels = exact_panels(values.reshape(len(values), -1), dtype)
    return Pointwise(where, panels) if where.plain else Windowed(where, panels)
