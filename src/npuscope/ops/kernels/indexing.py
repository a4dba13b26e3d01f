"""Places read and written, sums along an axis, the largest values, neighbouring channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuscope.graph.model import Graph, Op
from npuscope.ops.indexing import (
    AxisAttrs,
    CumulativeAttrs,
    GatherNdAttrs,
    Joining,
    OneHotAttrs,
    ResponseAttrs,
    ReverseAttrs,
    ScatterAttrs,
    TopAttrs,
    TriangleAttrs,
)
from npuscope.ops.kernels.step import Array, Step


def _inside(places: Array, size: int) -> Array:
    """Counted from the front; numpy rejects what is still outside."""
    return np.where(places < 0, places + size, places).astype(np.int64)


def gather_elements(graph: Graph, op: Op) -> Step:
    axis = op.attrs_as(AxisAttrs).axis

    def step(inputs: Sequence[Array]) -> Array:
        data, places = inputs
        return np.ascontiguousarray(data[_grid(_inside(places, data.shape[axis]), axis)])

    return step


def _grid(places: Array, axis: int) -> tuple[Array, ...]:
    """The place of every index, with `axis` as the index says."""
    grid: list[Array] = list(np.indices(places.shape, sparse=True))
    grid[axis] = places
    return tuple(grid)


def gather_nd(graph: Graph, op: Op) -> Step:
    batch = op.attrs_as(GatherNdAttrs).batch_axes

    def step(inputs: Sequence[Array]) -> Array:
        data, places = inputs
        count = places.shape[-1]
        indices = tuple(_inside(places[..., n], data.shape[batch + n]) for n in range(count))
        rows = np.indices(places.shape[:-1], sparse=True)[:batch]
        return np.ascontiguousarray(data[(*rows, *indices)])

    return step


def reverse_sequence(graph: Graph, op: Op) -> Step:
    """Steps behind the length of a batch stay where they are; numpy rejects longer ones."""
    attrs = op.attrs_as(ReverseAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        data, lengths = inputs
        time: Array = np.indices(data.shape, sparse=True)[attrs.time_axis]
        around = [-1 if axis == attrs.batch_axis else 1 for axis in range(data.ndim)]
        length = lengths.astype(np.int64).reshape(around)
        places = np.where(time < length, length - 1 - time, time)
        return np.take_along_axis(data, places, attrs.time_axis)

    return step


_JOINED: dict[Joining, Callable[..., None]] = {
    Joining.ADD: np.add.at,
    Joining.MUL: np.multiply.at,
    Joining.MIN: np.minimum.at,
    Joining.MAX: np.maximum.at,
}


def _written(data: Array, where: tuple[Array, ...], values: Array, joining: Joining) -> Array:
    result = data.copy()
    if joining is Joining.NONE:
        result[where] = values
    else:
        _JOINED[joining](result, where, values)
    return result


def scatter_elements(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(ScatterAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        data, places, values = inputs
        inside = _inside(places, data.shape[attrs.axis])
        return _written(data, _grid(inside, attrs.axis), values, attrs.joining)

    return step


def scatter_nd(graph: Graph, op: Op) -> Step:
    joining = op.attrs_as(ScatterAttrs).joining

    def step(inputs: Sequence[Array]) -> Array:
        data, places, values = inputs
        count = places.shape[-1]
        where = tuple(_inside(places[..., n], data.shape[n]) for n in range(count))
        return _written(data, where, values, joining)

    return step


def cumulative(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(CumulativeAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        values = np.flip(inputs[0], attrs.axis) if attrs.back else inputs[0]
        sums = np.cumsum(values, attrs.axis, dtype=values.dtype)
        if attrs.exclusive:
            sums = np.roll(sums, 1, attrs.axis)
            first = [slice(None)] * sums.ndim
            first[attrs.axis] = slice(0, 1)
            sums[tuple(first)] = 0
        return np.ascontiguousarray(np.flip(sums, attrs.axis) if attrs.back else sums)

    return step


def triangle(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(TriangleAttrs)
    keep = np.triu if attrs.upper else np.tril
    return lambda inputs: np.asarray(keep(inputs[0], attrs.offset))


def one_hot(graph: Graph, op: Op) -> Step:
    """Places outside of the depth have no mark."""
    attrs = op.attrs_as(OneHotAttrs)
    dtype = graph.output_tensor(op).dtype.numpy

    def step(inputs: Sequence[Array]) -> Array:
        places = np.expand_dims(_inside(inputs[0], attrs.depth), attrs.axis)
        shape = [1] * places.ndim
        shape[attrs.axis] = attrs.depth
        hit = np.arange(attrs.depth).reshape(shape) == places
        return np.where(hit, attrs.on, attrs.off).astype(dtype)

    return step


def top(graph: Graph, op: Op) -> Step:
    """In order of size; of equal values the first place comes first."""
    attrs = op.attrs_as(TopAttrs)
    dtype = graph.output_tensor(op).dtype.numpy

    def step(inputs: Sequence[Array]) -> Array:
        x = inputs[0]
        turned = np.flip(x, attrs.axis) if attrs.largest else x
        order = np.argsort(turned, attrs.axis, kind="stable")
        if attrs.largest:
            order = x.shape[attrs.axis] - 1 - np.flip(order, attrs.axis)
        first = np.take(order, np.arange(attrs.count), attrs.axis)
        values = first if attrs.places else np.take_along_axis(x, first, attrs.axis)
        return np.ascontiguousarray(values).astype(dtype, copy=False)

    return step


def response(graph: Graph, op: Op) -> Step:
    """Channels are the last axis here."""
    attrs = op.attrs_as(ResponseAttrs)
    before = (attrs.size - 1) // 2

    def step(inputs: Sequence[Array]) -> Array:
        x = inputs[0]
        squares = np.square(x)
        total = np.zeros_like(x)
        for shift in range(-before, attrs.size - before):
            low, high = max(-shift, 0), x.shape[-1] - max(shift, 0)
            if low < high:
                total[..., low:high] += squares[..., low + shift : high + shift]
        scale = np.float32(attrs.alpha / attrs.size)
        return np.asarray(x / (np.float32(attrs.bias) + scale * total) ** np.float32(attrs.beta))

    return step


def is_nan(graph: Graph, op: Op) -> Step:
    dtype = graph.output_tensor(op).dtype.numpy
    return lambda inputs: np.isnan(inputs[0]).astype(dtype)


def is_infinite(graph: Graph, op: Op) -> Step:
    dtype = graph.output_tensor(op).dtype.numpy
    return lambda inputs: np.isinf(inputs[0]).astype(dtype)
