"""Ops that move values without changing them; they work on raw integers and floats alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.graph.attrs import ConcatAttrs, PadAttrs, TransposeAttrs
from npuscope.graph.kernels.between import quantized
from npuscope.graph.kernels.elementwise import litert_pad_value
from npuscope.graph.kernels.float_ops import activated
from npuscope.graph.kernels.requantize import (
    clamp_limits,
    real_limits,
    round_half_away,
    saturate,
)
from npuscope.graph.kernels.step import Array, Step, quant_of
from npuscope.graph.kernels.tabulate import tabulated
from npuscope.graph.model import Graph, Op, Tensor


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


def raw_pad_to_even(graph: Graph, op: Op) -> Step:
    """onnxruntime rounds the fill value like any other."""
    output, value = graph.output_tensor(op), op.attrs_as(PadAttrs).value
    fill = np.asarray(value, np.float32)
    return _pad(graph, op, value if output.quant is None else float(quantized(fill, output)))


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
    """Parts of another scale are rounded to the output's, in float32 as LiteRT does it."""
    output, attrs = graph.output_tensor(op), op.attrs_as(ConcatAttrs)
    if output.quant is None:
        return real_concat(graph, op)
    join = _concat(attrs.axis, clamp_limits(output, *real_limits(attrs.activation)))
    sources = [graph.tensors[name] for name in op.inputs]
    if all((t.quant, t.dtype) == (output.quant, output.dtype) for t in sources):
        return join
    parts = [_to_scale_of(source, output) for source in sources]
    return lambda inputs: join([part([x]) for part, x in zip(parts, inputs, strict=True)])


def _to_scale_of(source: Tensor, output: Tensor) -> Step:
    if source.quant == output.quant:
        return lambda inputs: inputs[0]
    inverse = np.float32(1) / np.float32(quant_of(output).scale)
    ratio = np.float32(quant_of(source).scale) * inverse
    offset = np.float32(-quant_of(source).zero_point) * ratio

    def step(inputs: Sequence[Array]) -> Array:
        value = round_half_away(inputs[0].astype(np.float32) * ratio + offset)
        return saturate(value + quant_of(output).zero_point, output.dtype)

    return tabulated(step, source)


def real_concat(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(ConcatAttrs)
    return lambda inputs: activated(np.concatenate(inputs, axis=attrs.axis), attrs.activation)


def _concat(axis: int, limits: tuple[int, int]) -> Step:
    return lambda inputs: np.concatenate(inputs, axis=axis).clip(*limits)
