"""narrower-kernel: a wide depthwise kernel in forms that the convolution unit takes.

Where one column results, the stride across does not matter, and at stride 2 the unit takes twice
the columns: nothing else changes. Elsewhere two halves of the kernel are added.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.narrow import Half, halves, layer_of, strides_of_one_column
from npuscope.advice.fix.parts.pairs_onnx import add_pair_constants, as_onnx
from npuscope.advice.fix.parts.steps import int8_quant
from npuscope.advice.fix.parts.weights_onnx import (
    OnnxLayer,
    attributes_of,
    onnx_layer,
    onnx_place,
    store,
)
from npuscope.advice.fix.parts.weights_tflite import DEPTHWISE, tflite_layer, tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, OnnxDocument
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.graph.model import Quant

_COMPUTED = "its weights or its bias are computed"
_VALID = 1


@onnx_edit("narrower-kernel")
def narrower_conv(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Conv", "QLinearConv"))
    limits = request.network.machine.convacc
    op = layer_of(request)
    strides = strides_of_one_column(request.network.graph, op, limits.max_kernel_width_strided)
    if strides is not None:
        document.set_attribute(node, "strides", list(strides))
        return
    layer = onnx_layer(document, node)
    if layer is None:
        raise NotFitting(_COMPUTED)
    parts = halves(request.network, op, limits.max_kernel_width)
    _add_halves(document, layer, parts)


def _add_halves(document: OnnxDocument, layer: OnnxLayer, parts: tuple[Half, Half]) -> None:
    """Both halves in steps of their own, then a sum in the steps of the layer."""
    node = layer.node
    document.remove(node)
    sums = [_onnx_half(document, layer, half, n) for n, half in enumerate(parts)]
    if not layer.is_integer:
        document.add_node("Add", sums, node.output[0])
        return
    total = document.fresh(f"{node.output[0]}_sum")
    document.add_node("Add", sums, total)
    document.add_node(QUANTIZE, (total, *node.input[6:8]), node.output[0])


def _onnx_half(document: OnnxDocument, layer: OnnxLayer, half: Half, number: int) -> str:
    """A convolution with some of the columns; gives its dequantized result."""
    node, kept = layer.node, layer.weights
    values = half.of(kept.values, kept.values.ndim - 1, kept.zeros)
    attributes = _attributes(document, layer, half)
    stem = f"{node.output[0]}_half{number + 1}"
    constants = add_pair_constants(document, stem, as_onnx(int8_quant(*half.reach)))
    integers = document.fresh(f"{stem}_quantized")
    if layer.is_integer:
        inputs = [*node.input[:6], *constants, *(node.input[8:9] if number == 0 else [])]
        inputs[3] = document.add_constant(kept.name, values)
        document.add_node("QLinearConv", inputs, integers, **attributes)
    else:
        weights = store(document, replace(kept, values=values))
        bias = node.input[2:3] if number == 0 else []
        made = document.fresh(f"{stem}_float")
        document.add_node("Conv", (node.input[0], weights, *bias), made, **attributes)
        document.add_node(QUANTIZE, (made, *constants), integers)
    result = document.fresh(stem)
    document.add_node(DEQUANTIZE, (integers, *constants), result)
    return result


def _attributes(document: OnnxDocument, layer: OnnxLayer, half: Half) -> dict[str, Any]:
    found = attributes_of(document, layer.node)
    found.pop("auto_pad", None)
    rows = layer.weights.values.shape[-2]
    return {**found, "kernel_shape": [rows, half.end - half.first], "pads": list(half.pads)}


@tflite_edit("narrower-kernel")
def narrower_depthwise(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, (DEPTHWISE,))
    limits = request.network.machine.convacc
    conv = layer_of(request)
    strides = strides_of_one_column(request.network.graph, conv, limits.max_kernel_width_strided)
    if op.options is None:
        raise NotFitting("it has no options")
    if strides is not None:
        op.options = op.options.copy()
        op.options.fields.update(StrideH=strides[0], StrideW=strides[1])
        return
    if tflite_layer(op) is None:
        raise NotFitting(_COMPUTED)
    parts = halves(request.network, conv, limits.max_kernel_width)
    sums = [_tflite_half(document, op, half, n) for n, half in enumerate(parts)]
    activation = op.option("FusedActivationFunction")
    options = Record("AddOptions", {"FusedActivationFunction": activation})
    document.remove(op)
    document.add_op("ADD", sums, op.outputs, options, version=2)


def _tflite_half(document: TfliteDocument, op: EditOp, half: Half, number: int) -> EditTensor:
    """A pad and a convolution without one: SAME would centre the narrower kernel anew."""
    features, weights, result = op.inputs[0], op.inputs[1], op.outputs[0]
    assert features is not None and weights is not None and weights.data is not None
    assert op.options is not None
    columns = half.of(weights.data, 2, 0)
    kernel = document.add_tensor(weights.name, weights.type, columns.shape, weights.quant, columns)
    quant = int8_quant(*half.reach)
    made = document.add_tensor(f"{result.name}_half{number + 1}", "INT8", result.shape, quant)
    bias = op.input(2) if number == 0 else None
    if bias is None and op.input(2) is not None:
        bias = _no_bias(document, op.inputs[2])
    options = op.options.copy()
    options.fields.update(Padding=_VALID, FusedActivationFunction=0)
    source = _padded(document, features, half)
    document.add_op(DEPTHWISE, [source, kernel, bias], [made], options, op.version)
    return made


def _no_bias(document: TfliteDocument, bias: EditTensor | None) -> EditTensor:
    """Zeros in its place: the kernels of LiteRT want one."""
    assert bias is not None and bias.data is not None
    zeros = np.zeros_like(bias.data)
    return document.add_tensor(f"{bias.name}_none", bias.type, bias.shape, bias.quant, zeros)


def _padded(document: TfliteDocument, features: EditTensor, half: Half) -> EditTensor:
    top, left, bottom, right = half.pads
    if not any(half.pads):
        return features
    pads = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
    _, height, width, channels = features.shape
    shape = (1, height + top + bottom, width + left + right, channels)
    quant: Quant | None = features.quant
    made = document.add_tensor(f"{features.name}_padded", features.type, shape, quant)
    constant = document.add_tensor(f"{made.name}_pads", "INT32", pads.shape, None, pads)
    document.add_op("PAD", [features, constant], [made], Record("PadOptions"), version=2)
    return made
