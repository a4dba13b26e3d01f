"""TransposeConv: every pixel times all weights, then its patches added where they belong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from npuscope.graph.attrs import TransposeConvAttrs
from npuscope.graph.kernels.conv import litert_rescale
from npuscope.graph.kernels.emit import Emit
from npuscope.graph.kernels.float_ops import activated
from npuscope.graph.kernels.gemm import FLOAT32_EXACT
from npuscope.graph.kernels.step import Array, Step, quant_of
from npuscope.graph.kernels.weights import IntegerWeights, integer_weights
from npuscope.graph.model import Graph, Op

EmitMaker = Callable[[Graph, Op, IntegerWeights], Emit]


@dataclass(frozen=True, slots=True)
class Spread:
    """Adds patches (N, H, W, kh, kw, O) to images (N, rows, columns, O)."""

    attrs: TransposeConvAttrs
    output: tuple[int, ...]

    def __call__(self, patches: Array) -> Array:
        top, left, _, _ = self.attrs.pads
        height, width, kernel_height, kernel_width = patches.shape[1:5]
        (down, right), (far_down, far_right) = self.attrs.strides, self.attrs.dilations
        # room for every patch; what lies outside of the output is dropped
        rows = max((height - 1) * down + (kernel_height - 1) * far_down + 1, self.output[1] + top)
        columns = max(
            (width - 1) * right + (kernel_width - 1) * far_right + 1, self.output[2] + left
        )
        room = np.zeros((len(patches), rows, columns, patches.shape[5]), patches.dtype)
        for y in range(kernel_height):
            for x in range(kernel_width):
                first, start = y * far_down, x * far_right
                room[
                    :,
                    first : first + (height - 1) * down + 1 : down,
                    start : start + (width - 1) * right + 1 : right,
                ] += patches[:, :, :, y, x]
        return room[:, top : top + self.output[1], left : left + self.output[2]]


def _patches(images: Array, weights: Array, groups: int) -> Array:
    """Products of every pixel with the weights (O, kh, kw, I / groups), channels summed."""
    outputs, height, width, depth = weights.shape
    parts = np.split(weights, groups)
    chosen = np.split(images, groups, axis=3)
    shape = (*images.shape[:3], outputs // groups, height, width)
    made = [
        (x.reshape(-1, depth) @ w.reshape(-1, depth).T).reshape(shape)
        for x, w in zip(chosen, parts, strict=True)
    ]
    return np.concatenate(made, axis=3).transpose(0, 1, 2, 4, 5, 3)


def litert_transpose_conv(graph: Graph, op: Op) -> Step:
    return integer_transpose_conv(graph, op, _litert_emit)


def _litert_emit(graph: Graph, op: Op, weights: IntegerWeights) -> Emit:
    return litert_rescale(graph, op, weights, op.attrs_as(TransposeConvAttrs).activation)


def integer_transpose_conv(graph: Graph, op: Op, make_emit: EmitMaker) -> Step:
    """Inputs are centred first: at the borders not all taps exist, so no constant can do it."""
    weights, output = _centred_weights(graph, op), graph.output_tensor(op)
    attrs, zero = op.attrs_as(TransposeConvAttrs), quant_of(weights.input).zero_point
    exact = np.float32 if weights.reach.max() <= FLOAT32_EXACT else np.float64
    factors = weights.values.astype(exact)
    spread = Spread(attrs, output.shape)
    emit = make_emit(graph, op, weights)

    def step(inputs: Sequence[Array]) -> Array:
        images = np.subtract(inputs[0], zero, dtype=exact)
        result = np.empty(output.shape, output.dtype.numpy)
        sums = spread(_patches(images, factors, attrs.groups))
        emit(np.ascontiguousarray(sums).reshape(-1, output.shape[3]), result)
        return result

    return step


def _centred_weights(graph: Graph, op: Op) -> IntegerWeights:
    """The zero point is taken out of the inputs, so nothing is left to fold into the bias."""
    weights = integer_weights(graph, op)
    low, high = weights.input.dtype.limits
    widest = float(high - low)
    totals = np.abs(weights.values.astype(np.int64)).reshape(weights.channels, -1).sum(axis=1)
    return replace(
        weights, fold=np.zeros_like(weights.fold), reach=totals.astype(np.float64) * widest
    )


def transpose_conv(graph: Graph, op: Op) -> Step:
    """On real values."""
    attrs = op.attrs_as(TransposeConvAttrs)
    spread = Spread(attrs, graph.output_tensor(op).shape)

    def step(inputs: Sequence[Array]) -> Array:
        result = spread(_patches(inputs[0], inputs[1], attrs.groups))
        if len(inputs) > 2:
            result = result + inputs[2]
        return activated(result, attrs.activation)

    return step
