"""Layers: modes, groups, strides and forms that the NPU or its compilers do not like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npuscope.graph.attrs import TransposeConvAttrs
from npuscope.graph.model import Graph, Op
from npuscope.graph.ops import is_depthwise
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit
from npuscope.rules.lint import lint
from npuscope.rules.queries import (
    LAYERS,
    convolutions,
    hit,
    is_dense,
    layers,
    of_kind,
    zero_point,
)
from npuscope.rules.streams import layer_shape, stream_cycles

_FREE_ZERO_POINTS = (0, -128)
_SLOWER = 1.3
_STRIDES = (1, 2, 4)
_HANGING_GROUPS = 256
_SAME_BYTES = ("Quantize", "Transpose", "Pad", "Reshape", "Identity")


@lint("LINT-ZERO-POINT")
def first_layer_subtracts(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """The network's input has a zero point other than 0 and -128: its first layer runs in the
    slower 16x8 mode."""
    near = _near_inputs(graph)
    for op, _ in layers(graph):
        zero = zero_point(graph.first_input(op))
        if op.inputs[0] not in near or zero in (*_FREE_ZERO_POINTS, None):
            continue
        if not is_dense(graph, op):
            continue
        shape = layer_shape(graph, op)
        fast = stream_cycles(replace(shape, eight_bits=True), machine)
        factor = stream_cycles(shape, machine) / fast
        if factor >= _SLOWER:
            yield replace(
                hit(op, f"zero point {zero}", "0 or -128", slowdown=round(factor, 1)),
                fixes={"zero-point": {"zero_point": "0 or -128"}},
            )


def _near_inputs(graph: Graph) -> set[str]:
    """Inputs, and what plain moves and changes of type make of them."""
    near = set(graph.inputs)
    for op in graph.ops:
        if op.kind in _SAME_BYTES and op.inputs[0] in near:
            near.update(op.outputs)
    return near


@lint("LINT-GROUPS")
def groups_are_not_depthwise(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A grouped convolution that is neither dense nor depthwise."""
    for op, attrs, weights in convolutions(graph):
        if attrs.groups > 1 and not (is_depthwise(graph, op) and weights[0] == attrs.groups):
            yield hit(op, f"{attrs.groups} groups", "1, or one per channel")


@lint("LINT-STRIDE")
def strides_are_unusual(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A stride other than 1, 2 or 4."""
    for op, attrs, _ in convolutions(graph):
        if any(step not in _STRIDES for step in attrs.strides):
            yield hit(op, f"stride {attrs.strides[0]}x{attrs.strides[1]}", "1, 2 or 4")


@lint("LINT-DEPTHWISE-STRIDE")
def strided_depthwise_on_lines(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A depthwise convolution of stride 2 over one line, with 256 channels or more: reported to
    hang."""
    for op, attrs, weights in convolutions(graph):
        one_line = 1 in graph.first_input(op).shape[1:3]
        strided = max(attrs.strides) > 1 and max(weights[1:3]) > 1
        if is_depthwise(graph, op) and one_line and strided and attrs.groups >= _HANGING_GROUPS:
            yield hit(
                op, f"{attrs.groups} groups, stride {max(attrs.strides)}", _HANGING_GROUPS - 1
            )


@lint("LINT-TRANSPOSED-CONV")
def transposed_convolution(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A transposed convolution: expanded into a convolution and a depth-to-space."""
    for op in of_kind(graph, "TransposeConv"):
        groups = op.attrs_as(TransposeConvAttrs).groups
        elements = graph.output_tensor(op).elements
        note = " (grouped: reported to crash the compiler)" if groups > 1 else ""
        yield hit(op, f"{elements} output elements{note}", 0)


@lint("LINT-BIAS-COMPUTED")
def bias_is_an_activation(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A layer's bias is computed at run time."""
    for op in of_kind(graph, *LAYERS):
        bias = _computed_bias(graph, op)
        if bias is not None:
            yield hit(op, f"bias '{bias}' is computed", "constant")


def _computed_bias(graph: Graph, op: Op) -> str | None:
    if len(op.inputs) > 2 and op.inputs[2] and not graph.tensor(op.inputs[2]).is_constant:
        return op.inputs[2]
    return _added_by_the_same_source(graph, op)


def _added_by_the_same_source(graph: Graph, op: Op) -> str | None:
    """The ONNX reader makes a layer and an Add of a Gemm with a computed bias."""
    readers = graph.consumers()[op.outputs[0]]
    adds = [other for other in readers if other.kind == "Add" and other.origin == op.origin]
    if not op.origin or not adds:
        return None
    return next((name for name in adds[0].inputs if name != op.outputs[0]), None)
