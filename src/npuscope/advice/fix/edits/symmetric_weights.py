"""symmetric-weights: zero point 0 for weights that stay within int8 when it is taken off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.steps import HIGHEST, LOWEST
from npuscope.advice.fix.parts.weights_onnx import LAYERS as ONNX_LAYERS
from npuscope.advice.fix.parts.weights_onnx import onnx_layer, onnx_place
from npuscope.advice.fix.parts.weights_tflite import DEPTHWISE, LAYERS, tflite_layer, tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument
from npuscope.graph.model import Quant


@onnx_edit("symmetric-weights")
def symmetric_onnx(document: OnnxDocument, request: Request) -> None:
    layer = onnx_layer(document, onnx_place(document, request, ONNX_LAYERS))
    if layer is None or layer.weights.scale is None or layer.weights.zero_point is None:
        raise NotFitting("its weights are not constant integers")
    weights = layer.weights
    values = _taken_off(weights.name, weights.values, weights.zeros)
    zeros = np.zeros_like(layer.weights.zero_point, np.int8)
    replace(layer, weights=replace(weights, values=values, zero_point=zeros)).replace_in(document)


@tflite_edit("symmetric-weights")
def symmetric_tflite(document: TfliteDocument, request: Request) -> None:
    layer = tflite_layer(tflite_place(document, request, (*LAYERS, DEPTHWISE)))
    if layer is None or layer.weights.quant is None or layer.weights.type != "INT8":
        raise NotFitting("its weights are not constant int8")
    weights, quant = layer.weights, layer.weights.quant
    assert weights.data is not None and quant is not None
    shape = [1] * weights.data.ndim
    if quant.axis is not None:
        shape[quant.axis] = -1
    points = np.array(quant.zero_points).reshape(shape)
    values = _taken_off(weights.name, weights.data, points)
    plain = Quant(quant.scales, (0,) * len(quant.zero_points), quant.axis)
    made = document.add_tensor(weights.name, "INT8", weights.shape, plain, values)
    replace(layer, weights=made).replace_in()


def _taken_off(name: str, values: np.ndarray, zeros: np.ndarray | int) -> np.ndarray:
    """The same weights about zero, exactly."""
    if not np.any(zeros) and values.dtype == np.int8:
        raise NotFitting(f"'{name}' has zero point 0 already")
    steps = values.astype(np.int16) - zeros
    low, high = int(steps.min()), int(steps.max())
    if low < LOWEST or high > HIGHEST:
        raise NotFitting(f"'{name}' reaches from {low} to {high} steps, beyond int8")
    return steps.astype(np.int8)
