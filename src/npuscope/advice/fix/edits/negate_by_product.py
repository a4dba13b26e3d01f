"""negate-by-product: a product with -1 instead of a Neg or of a constant minus a tensor.

The negated bytes are -1 - q: all of them fit, so nothing is rounded on the way.
"""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.copying_onnx import int8_constant, quantized
from npuscope.advice.fix.parts.pairs_onnx import activation_quant, dequantizer
from npuscope.advice.fix.parts.weights_onnx import onnx_place
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument, OnnxQuant
from npuscope.graph.edit.tflite_document import EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.graph.model import Quant


@onnx_edit("negate-by-product")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Sub", "Neg"))
    tensor, result = node.input[-1], node.output[0]
    maker = dequantizer(document, tensor)
    if maker is None or document.constant(maker.input[0]) is not None:
        raise NotFitting(f"'{tensor}' is not a quantized tensor")
    quant = _negated(activation_quant(document, maker))
    if node.op_type == "Sub" and not _is_constant(document, node.input[0]):
        raise NotFitting(f"'{node.input[0]}' is computed")
    document.remove(node)
    factor = int8_constant(document, f"{result}_minus_one", np.array(-1, np.int8))
    if node.op_type == "Neg":
        document.add_node("Mul", (tensor, factor), result)
        return
    product = document.fresh(f"{result}_negated")
    document.add_node("Mul", (tensor, factor), product)
    document.add_node("Add", (node.input[0], quantized(document, product, quant)), result)


def _negated(quant: OnnxQuant) -> OnnxQuant:
    """Steps of -x: the bytes are mirrored about the middle of their range."""
    limits = np.iinfo(quant.zero_point.dtype)
    zero = int(limits.min) + int(limits.max) - int(quant.zero_point.reshape(-1)[0])
    return OnnxQuant(quant.scale.reshape(()), np.array(zero, quant.zero_point.dtype))


def _is_constant(document: OnnxDocument, tensor: str) -> bool:
    if document.constant(tensor) is not None:
        return True
    maker = dequantizer(document, tensor)
    return maker is not None and document.constant(maker.input[0]) is not None


@tflite_edit("negate-by-product")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("SUB", "NEG"))
    tensor, result = op.inputs[-1], op.outputs[0]
    if tensor is None or tensor.is_constant or tensor.type != "INT8" or tensor.quant is None:
        raise NotFitting("the operand is not a computed int8 tensor")
    if op.kind == "NEG":
        document.remove(op)
        _multiply(document, tensor, result)
        return
    constant = op.inputs[0]
    if constant is None or not constant.is_constant:
        raise NotFitting("the left operand is computed")
    quant = Quant(tensor.quant.scales, (-1 - tensor.quant.zero_point,))
    product = document.add_tensor(f"{result.name}_negated", "INT8", tensor.shape, quant)
    activation = op.option("FusedActivationFunction")
    document.remove(op)
    _multiply(document, tensor, product)
    options = Record("AddOptions", {"FusedActivationFunction": activation})
    document.add_op("ADD", (constant, product), (result,), options, version=2)


def _multiply(document: TfliteDocument, tensor: EditTensor, result: EditTensor) -> None:
    steps = np.array([-1], np.int8)
    one = Quant((1.0,), (0,))
    factor = document.add_tensor(f"{result.name}_minus_one", "INT8", (1,), one, steps)
    document.add_op("MUL", (tensor, factor), (result,), Record("MulOptions"), version=2)
