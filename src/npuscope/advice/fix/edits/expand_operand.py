"""expand-operand: the smaller operand is brought to the full shape.

A constant is stored in full and both operands become one long row of channels, where the NPU has
a coefficient for each. One computed channel is repeated by a 1x1 convolution of ones.
"""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.copying_onnx import bind, int8_constant, quantized
from npuscope.advice.fix.parts.copying_tflite import add_dense, bytes_like, image
from npuscope.advice.fix.parts.pairs_onnx import (
    activation_quant,
    dequantizer,
    quantizers,
)
from npuscope.advice.fix.parts.smoothing import LONGEST_AXIS
from npuscope.advice.fix.parts.views_tflite import add_reshape
from npuscope.advice.fix.parts.weights_onnx import onnx_place, stored
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, Node, OnnxDocument
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument

_BOTH = "no operand has the full shape"


@tflite_edit("expand-operand")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("ADD", "SUB", "MUL"))
    result = op.outputs[0]
    place = next((n for n, t in enumerate(op.inputs) if t is not None and t.is_constant), None)
    if place is None:
        _repeat_tflite(document, op, result)
        return
    constant, data = op.inputs[place], op.inputs[1 - place]
    assert constant is not None and constant.data is not None and data is not None
    if data.shape != result.shape:
        raise NotFitting(_BOTH)
    _check_length(result.shape)
    flat = (1, 1, 1, int(np.prod(result.shape)))
    values = np.broadcast_to(constant.data, result.shape).reshape(flat)
    full = document.add_tensor(f"{constant.name}_full", constant.type, flat, constant.quant, values)
    row = document.add_tensor(f"{data.name}_row", data.type, flat, data.quant)
    made = document.add_tensor(f"{result.name}_row", result.type, flat, result.quant)
    add_reshape(document, data, row)
    op.inputs = [full, row] if place == 0 else [row, full]
    op.outputs = [made]
    add_reshape(document, made, result)


def _repeat_tflite(document: TfliteDocument, op: EditOp, result: EditTensor) -> None:
    """(N, H, W, 1) against (N, H, W, C)."""
    small = next((n for n, t in enumerate(op.inputs) if t and t.shape != result.shape), 0)
    other = op.inputs[1 - small]
    source = image(op.inputs[small])
    if source.shape != (*result.shape[:-1], 1) or other is None or other.shape != result.shape:
        raise NotFitting(_BOTH)
    full = document.add_tensor(f"{source.name}_full", "INT8", result.shape, bytes_like(source))
    add_dense(document, source, full, np.ones((result.shape[3], 1, 1, 1), np.int8))
    op.inputs[small] = full


@onnx_edit("expand-operand")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Add", "Sub", "Mul"))
    place = next((n for n in (0, 1) if stored(document, node.input[n]) is not None), None)
    if place is None:
        _repeat_onnx(document, node)
        return
    data, result = node.input[1 - place], node.output[0]
    shape, constant = document.shape(result), stored(document, node.input[place])
    makers, readers = dequantizer(document, data), quantizers(document, result)
    if shape is None or document.shape(data) != shape:
        raise NotFitting(_BOTH)
    if constant is None or constant.scale is None or makers is None or not readers:
        raise NotFitting("the operands are not quantized on all sides")
    if constant.scale.size > 1:
        raise NotFitting("the constant has one scale per channel")
    _check_length(shape)
    source, target = activation_quant(document, makers), activation_quant(document, readers[0])
    flat = (1, int(np.prod(shape)))
    values = np.broadcast_to(constant.values, shape).reshape(flat)
    inputs = [document.add_constant(f"{constant.name}_full", values)]
    inputs.append(document.add_constant(f"{constant.name}_full_scale", constant.scale))
    if constant.zero_point is not None:
        inputs.append(document.add_constant(f"{constant.name}_full_zero", constant.zero_point))
    full = document.fresh(f"{constant.name}_full_dequantized")
    document.add_node(DEQUANTIZE, inputs, full)
    row = quantized(document, _reshaped(document, data, (-1, flat[1])), source)
    made = document.fresh(f"{result}_row")
    document.add_node(node.op_type, (full, row) if place == 0 else (row, full), made)
    document.remove(node)
    back = quantized(document, made, target)
    sizes = document.add_constant(f"{result}_shape", np.array((-1, *shape[1:]), np.int64))
    document.add_node("Reshape", (back, sizes), result)


def _reshaped(document: OnnxDocument, tensor: str, shape: tuple[int, ...]) -> str:
    sizes = document.add_constant(f"{tensor}_row_shape", np.array(shape, np.int64))
    result = document.fresh(f"{tensor}_row")
    document.add_node("Reshape", (tensor, sizes), result)
    return result


def _repeat_onnx(document: OnnxDocument, node: Node) -> None:
    """(N, 1, H, W) against (N, C, H, W)."""
    full = document.shape(node.output[0])
    shapes = [document.shape(name) for name in node.input]
    small = next((n for n in (0, 1) if shapes[n] != full), 0)
    if full is None or len(full) != 4 or shapes[1 - small] != full:
        raise NotFitting(_BOTH)
    if shapes[small] != (full[0], 1, *full[2:]):
        raise NotFitting(_BOTH)
    source = node.input[small]
    maker = dequantizer(document, source)
    if maker is None:
        raise NotFitting(f"'{source}' is not quantized")
    quant = activation_quant(document, maker)
    weights = int8_constant(document, f"{source}_ones", np.ones((full[1], 1, 1, 1), np.int8))
    made = document.fresh(f"{source}_full")
    document.add_node("Conv", (source, weights), made, kernel_shape=[1, 1])
    document.set_input(node, small, made)
    bind(document, made, quant)


def _check_length(shape: tuple[int, ...]) -> None:
    if int(np.prod(shape)) > LONGEST_AXIS:
        raise NotFitting(f"{int(np.prod(shape))} elements are more than an axis of the NPU holds")
