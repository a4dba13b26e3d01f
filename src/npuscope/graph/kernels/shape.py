"""Ops that move values without changing them; they work on raw integers and floats alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.attrs import ConcatAttrs, PadAttrs, TransposeAttrs
from npuscope.graph.kernels.elementwise import litert_pad_value
from npuscope.graph.kernels.requantize import clamp_limits, real_limits
from npuscope.graph.kernels.step import Array, Step
from npuscope.graph.model import Graph, Op


def reshape(graph: Graph, op: Op) -> Step:
    shape = graph.output_tensor(op).shape
    return lambda inputs: inputs[0].reshape(shape)


def identity(graph: Graph, op: Op) -> Step:
    return lambda inputs: inputs[0]


def transpose(graph: Graph, op: Op) -> Step:
    order = op.attrs_as(TransposeAttrs).permutation
    return lambda inputs: np.ascontiguousarray(inputs[0].transpose(order))


def raw_pad(graph: Graph, op: Op) -> Step:
    output = graph.output_tensor(op)
    value = op.attrs_as(PadAttrs).value
    return _pad(graph, op, value if output.quant is None else litert_pad_value(value, output))


def real_pad(graph: Graph, op: Op) -> Step:
    return _pad(graph, op, op.attrs_as(PadAttrs).value)


def _pad(graph: Graph, op: Op, fill: float) -> Step:
    """Negative pads cut."""
    pads, shape = op.attrs_as(PadAttrs).pads, graph.output_tensor(op).shape
    source = graph.first_input(op).shape
    kept = tuple(
        slice(max(0, -a), dim - max(0, -b)) for dim, (a, b) in zip(source, pads, strict=True)
    )
    place = tuple(
        slice(max(0, a), dim - max(0, b)) for dim, (a, b) in zip(shape, pads, strict=True)
    )

    def step(inputs: Sequence[Array]) -> Array:
        result = np.full(shape, fill, inputs[0].dtype)
        result[place] = inputs[0][kept]
        return result

    return step


def raw_concat(graph: Graph, op: Op) -> Step:
    """LiteRT refuses unequal scales too."""
    output = graph.output_tensor(op)
    if any(graph.tensors[name].quant != output.quant for name in op.inputs):
        raise ModelError("the inputs and the output of the concat differ in their quantization")
    if output.quant is None:
        return real_concat(graph, op)
    attrs = op.attrs_as(ConcatAttrs)
    return _concat(attrs.axis, clamp_limits(output, *real_limits(attrs.activation)))


def real_concat(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(ConcatAttrs)
    return _concat(attrs.axis, real_limits(attrs.activation))


def _concat(axis: int, limits: tuple[float, float]) -> Step:
    if limits == (-np.inf, np.inf):
        return lambda inputs: np.concatenate(inputs, axis=axis)
    return lambda inputs: np.concatenate(inputs, axis=axis).clip(*limits)
