"""Constants of ONNX nodes, as the file holds them, and layers made again with other ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npuscope.advice.fix.parts.picking import picked, repeated
from npuscope.advice.fix.request import Request
from npuscope.files.onnx.constants import text
from npuscope.graph.edit.document import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, Node, OnnxDocument
from npuscope.text import safe_terminal


@dataclass(frozen=True, slots=True)
class Stored:
    """A constant: plain values, or integers with scales, behind a DequantizeLinear or beside.

    `axis` is that of scales per channel.
    """

    name: str
    values: np.ndarray
    scale: np.ndarray | None = None
    zero_point: np.ndarray | None = None
    axis: int = 0

    @property
    def zeros(self) -> np.ndarray | int:
        """What stands for zero, in the shape of the values or a single number."""
        if self.zero_point is None or not self.zero_point.size:
            return 0
        if self.zero_point.size == 1:
            return int(self.zero_point.reshape(()))
        shape = [1] * self.values.ndim
        shape[self.axis] = -1
        return self.zero_point.reshape(shape)

    def picked(self, index: Sequence[int], axis: int) -> Stored:
        """Channels along an axis; scales go with them, new channels are zeros."""
        axis %= self.values.ndim
        along = self.scale is not None and self.scale.size > 1 and axis == self.axis
        if not along:
            return replace(self, values=picked(self.values, index, axis, self.zeros))
        assert self.scale is not None
        scale = repeated(self.scale, index)
        points = None if self.zero_point is None else repeated(self.zero_point, index)
        made = replace(self, scale=scale, zero_point=points)
        zeros = replace(made, values=repeated(self.values, index, axis)).zeros
        return replace(made, values=picked(self.values, index, axis, zeros))


def stored(document: OnnxDocument, tensor: str) -> Stored | None:
    """A constant input of a node of floats; None where it is computed."""
    values = document.constant(tensor)
    if values is not None:
        return Stored(tensor, values)
    maker = document.producer(tensor)
    if maker is None or maker.op_type != DEQUANTIZE:
        return None
    values, scale = document.constant(maker.input[0]), document.constant(maker.input[1])
    zero = document.constant(maker.input[2]) if len(maker.input) > 2 and maker.input[2] else None
    if values is None or scale is None:
        return None
    axis = int(document.attribute(maker, "axis", 1)) % max(values.ndim, 1)
    return Stored(maker.input[0], values, scale, zero, axis)


def store(document: OnnxDocument, constant: Stored) -> str:
    """Give a node's input: the values, with a DequantizeLinear where they have scales."""
    name = document.add_constant(constant.name, constant.values)
    if constant.scale is None:
        return name
    inputs = [name, document.add_constant(f"{name}_scale", constant.scale)]
    if constant.zero_point is not None:
        inputs.append(document.add_constant(f"{name}_zero_point", constant.zero_point))
    attributes: dict[str, Any] = {"axis": constant.axis} if constant.scale.size > 1 else {}
    result = document.fresh(f"{name}_dequantized")
    document.add_node(DEQUANTIZE, inputs, result, **attributes)
    return result


@dataclass(frozen=True, slots=True)
class _Places:
    """Where a node has its weights and bias; `integer` ones have scale and zero point beside."""

    weights: int
    bias: int | None
    integer: bool = False


_LAYERS = {
    "Conv": _Places(1, 2),
    "Gemm": _Places(1, 2),
    "MatMul": _Places(1, None),
    "QLinearConv": _Places(3, 8, integer=True),
    "QLinearMatMul": _Places(3, None, integer=True),
    "QGemm": _Places(3, 6, integer=True),
}
LAYERS = tuple(_LAYERS)


@dataclass(frozen=True, slots=True)
class OnnxLayer:
    """A layer with constant weights. `channel_axis` is that of its result."""

    node: Node
    weights: Stored
    bias: Stored | None
    out_axis: int
    in_axis: int
    channel_axis: int
    groups: int = 1

    @property
    def outputs(self) -> int:
        return int(self.weights.values.shape[self.out_axis])

    @property
    def inputs(self) -> int:
        return int(self.weights.values.shape[self.in_axis]) * self.groups

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.groups == self.inputs == self.outputs

    @property
    def is_integer(self) -> bool:
        """Its result is an integer tensor, not one of floats."""
        return _LAYERS[self.node.op_type].integer

    def with_outputs(self, index: Sequence[int]) -> OnnxLayer:
        bias = self.bias
        if bias is not None and bias.values.shape[-1:] == (self.outputs,):
            bias = bias.picked(index, -1)
        return replace(self, weights=self.weights.picked(index, self.out_axis), bias=bias)

    def with_inputs(self, index: Sequence[int]) -> OnnxLayer:
        return replace(self, weights=self.weights.picked(index, self.in_axis))

    def inputs_now(self, document: OnnxDocument) -> list[str]:
        """The node's inputs with the constants of this layer, which are added to the file."""
        places = _LAYERS[self.node.op_type]
        inputs = [*self.node.input]
        if not places.integer:
            inputs[places.weights] = store(document, self.weights)
            if self.bias is not None and places.bias is not None:
                inputs[places.bias] = store(document, self.bias)
            return inputs
        inputs[places.weights : places.weights + 3] = _beside(document, self.weights)
        if self.bias is not None and places.bias is not None:
            inputs[places.bias] = document.add_constant(self.bias.name, self.bias.values)
        return inputs

    def replace_in(self, document: OnnxDocument) -> None:
        """The node takes the constants of this layer."""
        for place, name in enumerate(self.inputs_now(document)):
            document.set_input(self.node, place, name)


def _beside(document: OnnxDocument, constant: Stored) -> list[str]:
    assert constant.scale is not None and constant.zero_point is not None
    name = document.add_constant(constant.name, constant.values)
    scale = document.add_constant(f"{name}_scale", constant.scale)
    return [name, scale, document.add_constant(f"{name}_zero_point", constant.zero_point)]


def onnx_layer(document: OnnxDocument, node: Node) -> OnnxLayer | None:
    """None where it is no layer, or its weights or bias are computed."""
    places = _LAYERS.get(node.op_type)
    if places is None:
        return None
    weights = _weights(document, node, places)
    bias = _bias(document, node, places)
    if weights is None or weights.values.ndim < 2 or isinstance(bias, str):
        return None
    return _with_axes(document, OnnxLayer(node, weights, bias, 0, 1, 1))


def _with_axes(document: OnnxDocument, layer: OnnxLayer) -> OnnxLayer | None:
    kind, rank = layer.node.op_type, layer.weights.values.ndim
    if kind in ("Conv", "QLinearConv"):
        return replace(layer, groups=int(document.attribute(layer.node, "group", 1)))
    if kind in ("Gemm", "QGemm"):
        if document.attribute(layer.node, "transA", 0):
            return None
        turned = bool(document.attribute(layer.node, "transB", 0))
        return replace(layer, out_axis=0 if turned else 1, in_axis=1 if turned else 0)
    shape = document.shape(layer.node.input[0])
    if rank != 2 or shape is None:
        return None
    return replace(layer, out_axis=1, in_axis=0, channel_axis=len(shape) - 1)


def _weights(document: OnnxDocument, node: Node, places: _Places) -> Stored | None:
    if not places.integer:
        return stored(document, node.input[places.weights])
    values, scale, zero = (document.constant(node.input[places.weights + n]) for n in range(3))
    if values is None or scale is None or zero is None:
        return None
    axis = {"QLinearConv": 0, "QGemm": 1}.get(node.op_type, values.ndim - 1)
    if node.op_type == "QGemm" and document.attribute(node, "transB", 0):
        axis = 0
    return Stored(node.input[places.weights], values, scale, zero, axis)


def _bias(document: OnnxDocument, node: Node, places: _Places) -> Stored | str | None:
    """None without a bias, its name where it is computed."""
    if places.bias is None or len(node.input) <= places.bias or not node.input[places.bias]:
        return None
    return stored(document, node.input[places.bias]) or str(node.input[places.bias])


def onnx_place(document: OnnxDocument, request: Request, kinds: Sequence[str]) -> Node:
    """The node of a finding that an edit works on."""
    document.shape("")  # shapes are found first: finding them renews the nodes
    found = (document.op(origin) for origin in request.ops)
    node = next((node for node in found if node is not None and node.op_type in kinds), None)
    if node is None:
        raise NotFitting(f"none of its ops is a {' or '.join(kinds)} of this file")
    return node


def title(node: Node) -> str:
    """A node as messages name it."""
    made = text(node.name) or f"'{text(node.output[0])}'"
    return safe_terminal(f"{text(node.op_type)}:{made}")


def attributes_of(document: OnnxDocument, node: Node) -> dict[str, Any]:
    return {item.name: document.attribute(node, item.name) for item in node.attribute}
