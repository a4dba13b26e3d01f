"""A grouped convolution as a dense one: each kernel is zero outside of its group.

The products that were there stay as they were and the others are zero: the results are the same
bit for bit, for more multiplications.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.weights_onnx import onnx_layer, onnx_place, title
from npuscope.advice.fix.parts.weights_tflite import (
    DEPTHWISE,
    TfliteLayer,
    tflite_layer,
    tflite_place,
)
from npuscope.advice.fix.request import Request
from npuscope.graph.edit.document import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.graph.model import Quant

_OPTIONS = (
    "Padding",
    "StrideW",
    "StrideH",
    "FusedActivationFunction",
    "DilationWFactor",
    "DilationHFactor",
)


def block_diagonal(
    weights: np.ndarray, groups: int, in_axis: int, zero: np.ndarray | int
) -> np.ndarray:
    """Kernels over all input channels, from kernels (outputs first) over those of their group."""
    outputs, depth = weights.shape[0], weights.shape[in_axis]
    shape = list(weights.shape)
    shape[in_axis] = depth * groups
    dense = np.empty(shape, weights.dtype)
    dense[...] = zero
    rows = np.moveaxis(dense, in_axis, 1)
    kernels = np.moveaxis(weights, in_axis, 1)
    for output in range(outputs):
        first = output // (outputs // groups) * depth
        rows[output, first : first + depth] = kernels[output]
    return dense


@onnx_edit("dense-groups")
def dense_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Conv", "QLinearConv"))
    layer = onnx_layer(document, node)
    origin = title(node)
    if layer is None:
        raise NotFitting(f"the weights or the bias of {origin} are computed")
    _check(layer.groups, layer.is_depthwise, origin)
    weights = layer.weights
    dense = block_diagonal(weights.values, layer.groups, 1, weights.zeros)
    replace(layer, weights=replace(weights, values=dense)).replace_in(document)
    document.set_attribute(node, "group", 1)


def _check(groups: int, is_depthwise: bool, origin: str) -> None:
    if groups == 1:
        raise NotFitting(f"{origin} has no groups")
    if is_depthwise:
        raise NotFitting(f"{origin} is depthwise: the NPU has a mode for it")


@tflite_edit("dense-groups")
def dense_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("CONV_2D", DEPTHWISE))
    layer = tflite_layer(op)
    if layer is None:
        raise NotFitting(f"the weights or the bias of {op.origin} are computed")
    groups = layer.inputs if layer.is_depthwise else layer.groups
    _check(groups, layer.is_depthwise and layer.outputs == layer.inputs, op.origin)
    kernels, quant = _outputs_first(layer)
    dense = block_diagonal(kernels, groups, 3, _zero(quant))
    weights = document.add_tensor(layer.weights.name, layer.weights.type, dense.shape, quant, dense)
    inputs: list[EditTensor | None] = [op.inputs[0], weights, layer.bias]
    options = op.options.fields if op.options else {}
    kept = {name: options[name] for name in _OPTIONS if name in options}
    document.remove(op)
    document.add_op("CONV_2D", inputs, op.outputs, Record("Conv2DOptions", kept), op.version)


def _outputs_first(layer: TfliteLayer) -> tuple[np.ndarray, Quant | None]:
    """Kernels and scales with the outputs in front; depthwise ones have them behind."""
    data, quant = layer.weights.data, layer.weights.quant
    assert data is not None
    if not layer.is_depthwise:
        return data, quant
    turned = quant and replace(quant, axis=0 if quant.per_channel else None)
    return data.transpose(3, 1, 2, 0), turned


def _zero(quant: Quant | None) -> np.ndarray | int:
    """Weights of old files have a zero point."""
    if quant is None:
        return 0
    return np.array(quant.zero_points).reshape(-1, 1, 1, 1)
