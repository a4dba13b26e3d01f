"""FullyConnected, MatMul and TransposeConv on integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.graph.model import Activation, DType, Graph, Op, Tensor
from npuscope.ops.kernels.conv import (
    IntegerWeights,
    integer_bias,
    integer_weights,
    litert_rescale,
    output_factors,
)
from npuscope.ops.kernels.float_ops import activated
from npuscope.ops.kernels.requantize import (
    Emit,
    ExactRescale,
    RescaleInDouble,
    litert_target,
    quantized_multipliers,
    scale_reduced,
    scale_twice,
)
from npuscope.ops.kernels.step import Array, Step, quant_of
from npuscope.ops.kernels.windows import FLOAT32_EXACT, exact_panels
from npuscope.ops.layers import DenseAttrs, MatMulAttrs, TransposeConvAttrs
from npuscope.structs import replace

# --- FullyConnected and MatMul on integers ---

EmitMaker = Callable[[Graph, Op, IntegerWeights], Emit]


def litert_fully_connected(graph: Graph, op: Op) -> Step:
    return integer_fully_connected(graph, op, _litert_emit)


def _litert_emit(graph: Graph, op: Op, weights: IntegerWeights) -> Emit:
    output = graph.output_tensor(op)
    target = litert_target(output, op.attrs_as(DenseAttrs).activation)
    bias = integer_bias(graph, op, weights).astype(np.float64)
    return RescaleInDouble(output_factors(weights, output), bias, target)


def integer_fully_connected(graph: Graph, op: Op, make_emit: EmitMaker) -> Step:
    """The step of a layer on raw integers; `make_emit` decides how its sums are rescaled."""
    weights, output = integer_weights(graph, op), graph.output_tensor(op)
    panels = exact_panels(weights.values, weights.input.dtype)
    emit = make_emit(graph, op, weights)
    depth = weights.values.shape[1]

    def step(inputs: Sequence[Array]) -> Array:
        rows = inputs[0].reshape(-1, depth).astype(panels.dtype)
        result = np.empty(output.shape, output.dtype.numpy)
        emit(panels(rows), result.reshape(len(rows), -1))
        return result

    return step


def litert_matmul(graph: Graph, op: Op) -> Step:
    """Product of two activations."""
    a, b = (graph.tensors[name] for name in op.inputs)
    output = graph.output_tensor(op)
    factor = product_factor(a, b, output)
    target = litert_target(output, Activation.NONE)
    rule = scale_reduced if a.dtype is DType.INT16 else scale_twice
    emit = ExactRescale(rule, quantized_multipliers(factor), np.zeros(1, np.int64), target)
    attrs = op.attrs_as(MatMulAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        left = _centred(inputs[0], a, attrs.transpose_a)
        right = _centred(inputs[1], b, attrs.transpose_b)
        result = np.empty(output.shape, output.dtype.numpy)
        emit(left @ right, result)
        return result

    return step


def product_factor(a: Tensor, b: Tensor, output: Tensor) -> float:
    """Accumulator to output; LiteRT multiplies the two scales in float32."""
    scales = np.float32(quant_of(a).scale) * np.float32(quant_of(b).scale)
    return float(scales) / quant_of(output).scale


def _centred(values: Array, tensor: Tensor, swap: bool) -> Array:
    """As float64, in which sums of products of 8-bit and 16-bit values are exact."""
    centred = np.subtract(values, quant_of(tensor).zero_point, dtype=np.float64)
    return centred.swapaxes(-1, -2) if swap else centred


# --- TransposeConv: every pixel times all weights, then the patches are added in place ---


class Room(Struct, frozen=True):
    """A padded output with room for every patch; what lies outside of the output is dropped."""

    attrs: TransposeConvAttrs
    images: tuple[int, ...]  # (N, H, W, I)
    weights: tuple[int, ...]  # (O, kernel rows, kernel columns, I / groups)
    output: tuple[int, ...]

    def empty(self, dtype: np.dtype[Any]) -> Array:
        return np.zeros(self.shape, dtype)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.images[0], self._extent(0), self._extent(1), self.weights[0]

    def _extent(self, axis: int) -> int:
        last = (self.images[1 + axis] - 1) * self.attrs.strides[axis]
        patch = (self.weights[1 + axis] - 1) * self.attrs.dilations[axis] + 1
        return max(last + patch, self.output[1 + axis] + self.attrs.pads[axis])

    def under(self, y: int, x: int) -> tuple[slice, slice, slice]:
        """The view that the products of one kernel tap are added to."""
        return slice(None), self._every(0, y), self._every(1, x)

    def _every(self, axis: int, tap: int) -> slice:
        first, stride = tap * self.attrs.dilations[axis], self.attrs.strides[axis]
        return slice(first, first + (self.images[1 + axis] - 1) * stride + 1, stride)

    @property
    def seen(self) -> tuple[slice, slice, slice]:
        """The part of the room that is the output."""
        top, left, _, _ = self.attrs.pads
        return slice(None), slice(top, top + self.output[1]), slice(left, left + self.output[2])


def _spread(patches: Array, room: Room) -> Array:
    """Adds patches (N, H, W, kh, kw, O) to images (N, rows, columns, O)."""
    sums = room.empty(patches.dtype)
    for y, x in np.ndindex(*patches.shape[3:5]):
        sums[room.under(y, x)] += patches[:, :, :, y, x]
    return sums[room.seen]


def _patches(images: Array, weights: Array, groups: int) -> Array:
    """Products of every pixel with the weights (O, kh, kw, I / groups), channels summed."""
    outputs, height, width, depth = weights.shape
    parts = np.split(weights, groups)
    images_of_group = np.split(images, groups, axis=3)
    shape = (*images.shape[:3], outputs // groups, height, width)
    products = [
        (x.reshape(-1, depth) @ w.reshape(-1, depth).T).reshape(shape)
        for x, w in zip(images_of_group, parts, strict=True)
    ]
    return np.concatenate(products, axis=3).transpose(0, 1, 2, 4, 5, 3)


def litert_transpose_conv(graph: Graph, op: Op) -> Step:
    return integer_transpose_conv(graph, op, _litert_patches_emit)


def _litert_patches_emit(graph: Graph, op: Op, weights: IntegerWeights) -> Emit:
    return litert_rescale(graph, op, weights, op.attrs_as(TransposeConvAttrs).activation)


def integer_transpose_conv(graph: Graph, op: Op, make_emit: EmitMaker) -> Step:
    """Inputs are centred first: near the borders some taps are missing, so no constant correction
    per channel exists."""
    weights, output = _centred_weights(graph, op), graph.output_tensor(op)
    attrs, zero = op.attrs_as(TransposeConvAttrs), quant_of(weights.input).zero_point
    exact = np.float32 if weights.reach.max() <= FLOAT32_EXACT else np.float64
    factors = weights.values.astype(exact)
    room = Room(attrs, weights.input.shape, weights.values.shape, output.shape)
    emit = make_emit(graph, op, weights)

    def step(inputs: Sequence[Array]) -> Array:
        images = np.subtract(inputs[0], zero, dtype=exact)
        result = np.empty(output.shape, output.dtype.numpy)
        sums = _spread(_patches(images, factors, attrs.groups), room)
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
    """On real values: terms in the order of the weights, the bias last (see float_ops.py)."""
    attrs, shape = op.attrs_as(TransposeConvAttrs), graph.output_tensor(op).shape

    def step(inputs: Sequence[Array]) -> Array:
        images = inputs[0]
        weights = inputs[1]
        outputs, kernel_height, kernel_width, depth = weights.shape
        groups = attrs.groups
        pixels = np.ascontiguousarray(
            np.moveaxis(images.reshape(*images.shape[:3], groups, -1), 4, 0)
        )
        factors = weights.reshape(groups, outputs // groups, kernel_height, kernel_width, depth)
        room = Room(attrs, images.shape, weights.shape, shape)
        sums = room.empty(images.dtype)
        with np.errstate(all="ignore"):
            for y, x, d in np.ndindex(kernel_height, kernel_width, depth):
                term = pixels[d][..., np.newaxis] * factors[:, :, y, x, d]
                sums[room.under(y, x)] += term.reshape(*images.shape[:3], outputs)
        result = sums[room.seen]
        if len(inputs) > 2:
            result = result + inputs[2]
        return activated(result, attrs.activation)

    return step
