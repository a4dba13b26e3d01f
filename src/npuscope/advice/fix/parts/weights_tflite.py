"""Constants of TFLite ops in another order of channels, and the layers that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from npuscope.advice.fix.parts.picking import picked
from npuscope.advice.fix.request import Request
from npuscope.graph.edit.document import NotFitting
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument
from npuscope.graph.model import Quant

LAYERS = ("CONV_2D", "FULLY_CONNECTED")
DEPTHWISE = "DEPTHWISE_CONV_2D"


def picked_tensor(
    document: TfliteDocument, tensor: EditTensor, index: Sequence[int], axis: int
) -> EditTensor:
    """A constant with the channels of `index`; a new one holds zeros, at the first one's scale."""
    assert tensor.data is not None
    axis %= tensor.data.ndim
    quant = tensor.quant
    zero: np.ndarray | int = 0
    if quant is not None and quant.axis == axis:
        quant = picked_quant(quant, index)
        zero = _along(quant.zero_points, axis, tensor.data.ndim)
    elif quant is not None:
        points = quant.zero_points
        zero = points[0] if quant.axis is None else _along(points, quant.axis, tensor.data.ndim)
    data = picked(tensor.data, index, axis, zero)
    return document.add_tensor(tensor.name, tensor.type, data.shape, quant, data)


def picked_quant(quant: Quant, index: Sequence[int]) -> Quant:
    places = [max(place, 0) for place in index]
    scales = tuple(quant.scales[place] for place in places)
    # One channel alone has no axis: its scale is that of the tensor.
    axis = quant.axis if len(places) > 1 else None
    return Quant(scales, tuple(quant.zero_points[place] for place in places), axis)


def _along(values: Sequence[int], axis: int, rank: int) -> np.ndarray:
    shape = [1] * rank
    shape[axis] = -1
    return np.array(values).reshape(shape)


@dataclass(frozen=True, slots=True)
class TfliteLayer:
    """A layer with constant weights; its channels are the last axis of its data."""

    op: EditOp
    weights: EditTensor
    bias: EditTensor | None

    @property
    def is_depthwise(self) -> bool:
        return self.op.kind == DEPTHWISE

    @property
    def outputs(self) -> int:
        return int(self.weights.shape[-1 if self.is_depthwise else 0])

    @property
    def inputs(self) -> int:
        """Channels of its data; more than those of its weights where it has groups."""
        data = self.op.inputs[0]
        assert data is not None
        return self.weights.shape[-1] if self.op.kind == "FULLY_CONNECTED" else data.shape[-1]

    @property
    def groups(self) -> int:
        return 1 if self.is_depthwise else self.inputs // self.weights.shape[-1]

    def with_outputs(self, document: TfliteDocument, index: Sequence[int]) -> TfliteLayer:
        axis = -1 if self.is_depthwise else 0
        weights = picked_tensor(document, self.weights, index, axis)
        bias = None if self.bias is None else picked_tensor(document, self.bias, index, 0)
        return replace(self, weights=weights, bias=bias)

    def with_inputs(self, document: TfliteDocument, index: Sequence[int]) -> TfliteLayer:
        return replace(self, weights=picked_tensor(document, self.weights, index, -1))

    @property
    def tensors(self) -> list[EditTensor | None]:
        """Inputs of the op, with the constants of this layer."""
        return [self.op.inputs[0], self.weights, self.bias]

    def replace_in(self) -> None:
        """The op takes the constants of this layer."""
        self.op.inputs = self.tensors[: max(len(self.op.inputs), 2)]


def tflite_layer(op: EditOp) -> TfliteLayer | None:
    """None where it is no layer, or its weights or bias are computed or packed."""
    if op.kind not in (*LAYERS, DEPTHWISE):
        return None
    weights, bias = op.input(1), op.input(2)
    if weights is None or weights.data is None or weights.data.shape != weights.shape:
        return None
    return None if bias is not None and bias.data is None else TfliteLayer(op, weights, bias)


def tflite_place(document: TfliteDocument, request: Request, kinds: Sequence[str]) -> EditOp:
    """The op of a finding that an edit works on."""
    found = (document.op(origin) for origin in request.ops)
    op = next((op for op in found if op is not None and op.kind in kinds), None)
    if op is None:
        raise NotFitting(f"none of its ops is a {' or '.join(kinds)} of this file")
    return op
