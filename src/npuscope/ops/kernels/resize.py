"""Resize: which input pixels an output pixel takes, and the weight of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuscope.graph.model import DType, Graph, Op
from npuscope.ops.images import (
    Coordinates,
    NearestRounding,
    ResizeAttrs,
    ResizeMode,
)
from npuscope.ops.kernels.between import between, moving, quantized_away
from npuscope.ops.kernels.step import Array, Step

_BITS = 10  # fraction bits of a position in LiteRT's integer kernel


Shares = tuple[Array, Array, Array]


def places(attrs: ResizeAttrs, axis: int, size: int) -> Array:
    """Input positions (float32) of all output positions along H (axis 0) or W (axis 1)."""
    count = attrs.sizes[axis]
    at = np.arange(count, dtype=np.float32)
    ratio, half = np.float32(attrs.scales[axis]), np.float32(0.5)
    if attrs.coordinates == Coordinates.ASYMMETRIC:
        return at / ratio
    if attrs.coordinates == Coordinates.ALIGN_CORNERS:
        return at * np.float32(size - 1) / np.float32(max(count - 1, 1))
    if attrs.coordinates == Coordinates.TF_HALF_PIXEL_FOR_NN:
        return (at + half) / ratio
    if attrs.coordinates == Coordinates.PYTORCH_HALF_PIXEL and count == 1:
        return at * 0
    centred: Array = (at + half) / ratio - half
    if attrs.coordinates == Coordinates.HALF_PIXEL_SYMMETRIC:
        # positions stay symmetric even if the ratio is not exactly that of the sizes
        adjusted = np.float32(count) / (ratio * np.float32(size))
        centred += np.float32(size) / 2 * (1 - adjusted)
    return centred


# onnxruntime takes a float32 place as the middle of two pixels when it is so near to it.
_MIDDLE = 1e-6

_ROUND: dict[str, Callable[[Array], Array]] = {
    NearestRounding.FLOOR: np.floor,
    NearestRounding.CEIL: np.ceil,
    NearestRounding.PREFER_FLOOR: lambda at: np.ceil(at.astype(np.float64) - 0.5 - _MIDDLE),
    NearestRounding.PREFER_CEIL: lambda at: np.floor(at.astype(np.float64) + 0.5 + _MIDDLE),
}


def nearest_of(attrs: ResizeAttrs, axis: int, size: int) -> Array:
    sources = _ROUND[attrs.rounding](places(attrs, axis, size))
    return np.asarray(np.clip(sources, 0, size - 1)).astype(np.intp)


def litert_nearest_of(attrs: ResizeAttrs, axis: int, size: int) -> Array:
    """LiteRT multiplies by a float32 ratio of the sizes."""
    count = attrs.sizes[axis]
    corners = attrs.coordinates == Coordinates.ALIGN_CORNERS
    pair = (size - 1, count - 1) if corners and count > 1 else (size, count)
    ratio = np.float32(pair[0]) / np.float32(pair[1])
    middle = attrs.coordinates == Coordinates.TF_HALF_PIXEL_FOR_NN
    at = (np.arange(count, dtype=np.float32) + np.float32(0.5 if middle else 0.0)) * ratio
    sources = np.floor(at + np.float32(0.5)) if corners else np.floor(at)
    return np.asarray(np.clip(sources, 0, size - 1)).astype(np.intp)


def _nearest(attrs: ResizeAttrs, rows: Array, columns: Array) -> Step:
    return lambda inputs: inputs[0][:, rows[:, np.newaxis], columns]


def litert_resize(graph: Graph, op: Op) -> Step:
    attrs, source = op.attrs_as(ResizeAttrs), graph.first_input(op)
    _, height, width, _ = source.shape
    if attrs.mode == ResizeMode.NEAREST:
        rows, columns = (litert_nearest_of(attrs, axis, (height, width)[axis]) for axis in (0, 1))
        return _nearest(attrs, rows, columns)
    if source.dtype in (DType.INT8, DType.INT16):
        # Positions and weights in units of 2**-10; the result rounds half away from zero.
        (top, bottom, down), (left, right, across) = (
            integer_shares(attrs, axis, size) for axis, size in enumerate((height, width))
        )
        down = down[:, np.newaxis, np.newaxis]
        across = across[:, np.newaxis]
        whole = 1 << _BITS

        def step(inputs: Sequence[Array]) -> Array:
            images = inputs[0].astype(np.int64)
            upper, lower = images[:, top], images[:, bottom]
            mixed = upper * (whole - down) + lower * down
            total = mixed[:, :, left] * (whole - across) + mixed[:, :, right] * across
            half = np.where(total > 0, 1 << (2 * _BITS - 1), -(1 << (2 * _BITS - 1)))
            rounded = np.sign(total) * (np.abs(total + half) >> (2 * _BITS))
            return np.asarray(rounded).astype(inputs[0].dtype)

        return step
    if source.dtype is DType.UINT8:
        # The bytes themselves in float32; a result in the middle is rounded up.
        mix = _litert_mix(litert_shares(attrs, 0, height), litert_shares(attrs, 1, width))
        half_byte = np.float32(0.5)
        return lambda x: np.floor(mix(x[0].astype(np.float32)) + half_byte).astype(np.uint8)
    return between(real_resize, store=quantized_away)(graph, op)


def integer_shares(attrs: ResizeAttrs, axis: int, size: int) -> tuple[Array, Array, Array]:
    """Lower and upper neighbour of every output position, and the weight of the upper one."""
    count, whole = attrs.sizes[axis], 1 << _BITS
    corners = attrs.coordinates == Coordinates.ALIGN_CORNERS
    pair = (size - 1, count - 1) if corners and count > 1 else (size, count)
    ratio = (whole * pair[0] + pair[1] // 2) // pair[1]
    at = np.arange(count, dtype=np.int64) * ratio
    if attrs.coordinates == Coordinates.HALF_PIXEL:
        at = at + ratio // 2 - whole // 2
    lower = np.maximum(_truncated(at, whole), 0)
    upper = np.minimum(_truncated(at + whole - 1, whole), size - 1)
    return lower, upper, at - whole * lower


def _truncated(values: Array, by: int) -> Array:
    """C's division."""
    return np.asarray(np.sign(values) * (np.abs(values) // by))


def real_resize(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(ResizeAttrs)
    _, height, width, _ = graph.first_input(op).shape
    if attrs.mode == ResizeMode.NEAREST:
        rows, columns = (nearest_of(attrs, axis, (height, width)[axis]) for axis in (0, 1))
        return _nearest(attrs, rows, columns)
    mix = _mix(shares(attrs, 0, height), shares(attrs, 1, width))
    return lambda inputs: mix(inputs[0])


def _mix(rows: Shares, columns: Shares) -> Callable[[Array], Array]:
    """Four neighbours of every output position, by their weights."""
    (top, bottom, down), (left, right, across) = rows, columns
    down, across = down[:, np.newaxis, np.newaxis], across[:, np.newaxis]

    def mix(images: Array) -> Array:
        upper, lower = images[:, top], images[:, bottom]
        one = np.float32(1)
        with np.errstate(invalid="ignore"):  # weight 0 times infinity would be NaN
            return np.asarray(
                (one - down) * (one - across) * upper[:, :, left]
                + (one - down) * across * upper[:, :, right]
                + down * (one - across) * lower[:, :, left]
                + down * across * lower[:, :, right]
            )

    return mix


def _litert_mix(rows: Shares, columns: Shares) -> Callable[[Array], Array]:
    """The same in LiteRT's order of operations, which decides where a sum lies in the middle."""
    (top, bottom, down), (left, right, across) = rows, columns
    down, across = down[:, np.newaxis, np.newaxis], across[:, np.newaxis]
    up, back = np.float32(1) - down, np.float32(1) - across

    def mix(images: Array) -> Array:
        upper, lower = images[:, top], images[:, bottom]
        return np.asarray(
            upper[:, :, left] * up * back
            + lower[:, :, left] * down * back
            + upper[:, :, right] * up * across
            + lower[:, :, right] * down * across
        )

    return mix


def litert_places(attrs: ResizeAttrs, axis: int, size: int) -> Array:
    """LiteRT multiplies by a float32 ratio of the sizes."""
    count, half = attrs.sizes[axis], np.float32(0.5)
    corners = attrs.coordinates == Coordinates.ALIGN_CORNERS
    pair = (size - 1, count - 1) if corners and count > 1 else (size, count)
    ratio, at = np.float32(pair[0]) / np.float32(pair[1]), np.arange(count, dtype=np.float32)
    if attrs.coordinates == Coordinates.HALF_PIXEL:
        return np.asarray((at + half) * ratio - half)
    return np.asarray(at * ratio)


def shares(attrs: ResizeAttrs, axis: int, size: int) -> Shares:
    """Lower and upper neighbour of every output position, and the weight of the upper one."""
    at = np.clip(places(attrs, axis, size), 0, np.float32(size - 1))
    lower = np.minimum(np.floor(at).astype(np.intp), size - 1)
    upper = np.minimum(lower + 1, size - 1)
    return lower, upper, np.where(upper == lower, 0, at - lower).astype(np.float32)


def litert_shares(attrs: ResizeAttrs, axis: int, size: int) -> Shares:
    """LiteRT leaves places outside of the image there: both neighbours are the border's."""
    at = litert_places(attrs, axis, size)
    lower = np.clip(np.floor(at).astype(np.intp), 0, size - 1)
    upper = np.minimum(np.ceil(at).astype(np.intp), size - 1)
    return lower, upper, np.asarray(at - lower.astype(np.float32))


def qdq_resize(graph: Graph, op: Op) -> Step:
    if op.attrs_as(ResizeAttrs).mode == ResizeMode.NEAREST:
        return moving(real_resize, real_resize)(graph, op)
    return between(real_resize)(graph, op)
