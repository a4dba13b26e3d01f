"""gate-form: (1 - z) * n + z * h becomes n + z * (h - n), one op less and no constant on the left.

The new tensors get steps that cover all that their operands can hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.copying_onnx import quantized
from npuscope.advice.fix.parts.pairs_onnx import activation_quant, as_onnx, as_quant, dequantizer
from npuscope.advice.fix.parts.steps import Interval, covered, int8_quant
from npuscope.advice.fix.parts.weights_onnx import onnx_place, stored
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.graph.model import Quant

_NO_GATE = "the op is not part of (1 - z) * n + z * h"
_LEAST = 1e-3  # how far a quantized one may be from 1


@dataclass(frozen=True, slots=True)
class _Steps:
    """Of h - n, and of z times that."""

    difference: Quant
    product: Quant


def _steps(z: Interval, n: Interval, h: Interval) -> _Steps:
    difference = (h[0] - n[1], h[1] - n[0])
    corners = [a * b for a in z for b in difference]
    return _Steps(int8_quant(*difference), int8_quant(min(corners), max(corners)))


@onnx_edit("gate-form")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Sub",))
    _check_one(document, node)
    z = node.input[1]
    first = _next(document, node, "Mul")
    n = _other(document, first, node)
    total = _next(document, first, "Add")
    second = _maker(document, _other(document, total, first))
    if second is None or second.op_type != "Mul" or _next(document, second, "Add") is not total:
        raise NotFitting(_NO_GATE)
    gates = [name for name in second.input if _source(document, name) == _source(document, z)]
    if not gates:
        raise NotFitting(_NO_GATE)
    h = next(name for name in second.input if name != gates[0])
    steps = _steps(*(_onnx_range(document, name) for name in (z, n, h)))
    result = total.output[0]
    document.remove(total)
    difference, product = (document.fresh(f"{result}_{name}") for name in ("difference", "gated"))
    document.add_node("Sub", (h, n), difference)
    apart = quantized(document, difference, as_onnx(steps.difference))
    document.add_node("Mul", (z, apart), product)
    document.add_node("Add", (n, quantized(document, product, as_onnx(steps.product))), result)


def _check_one(document: OnnxDocument, node: Node) -> None:
    constant = stored(document, node.input[0])
    if constant is None:
        raise NotFitting("the left operand is computed")
    scale = 1.0 if constant.scale is None else np.asarray(constant.scale, np.float64)
    values = (constant.values.astype(np.float64) - constant.zeros) * scale
    if np.abs(values - 1).max() > _LEAST:
        raise NotFitting(_NO_GATE)


def _next(document: OnnxDocument, node: Node, kind: str) -> Node:
    """The only op that reads a result, through its quantizers."""
    readers = document.readers(node.output[0])
    while len(readers) == 1 and readers[0].op_type in (QUANTIZE, DEQUANTIZE):
        readers = document.readers(readers[0].output[0])
    if len(readers) != 1 or readers[0].op_type != kind:
        raise NotFitting(_NO_GATE)
    return readers[0]


def _other(document: OnnxDocument, node: Node, maker: Node) -> str:
    """The operand that does not come from `maker`."""
    names = [name for name in node.input if _maker(document, name) is not maker]
    if len(names) != 1:
        raise NotFitting(_NO_GATE)
    return str(names[0])


def _maker(document: OnnxDocument, tensor: str) -> Node | None:
    return document.producer(_source(document, tensor))


def _source(document: OnnxDocument, tensor: str) -> str:
    """The tensor in front of quantizers."""
    node = document.producer(tensor)
    while node is not None and node.op_type in (QUANTIZE, DEQUANTIZE):
        tensor = node.input[0]
        node = document.producer(tensor)
    return tensor


def _onnx_range(document: OnnxDocument, tensor: str) -> Interval:
    maker = dequantizer(document, tensor)
    if maker is None:
        raise NotFitting(f"'{tensor}' is not quantized")
    quant = activation_quant(document, maker)
    limits = np.iinfo(quant.zero_point.dtype)
    return covered(as_quant(quant), int(limits.min), int(limits.max))


@tflite_edit("gate-form")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("SUB",))
    z = op.inputs[1]
    _check_one_tflite(op.inputs[0])
    first = _next_tflite(document, op, "MUL")
    n = _other_tflite(first, op.outputs[0])
    total = _next_tflite(document, first, "ADD")
    second = document.producer(_other_tflite(total, first.outputs[0]))
    if second is None or second.kind != "MUL" or z not in second.inputs:
        raise NotFitting(_NO_GATE)
    if _next_tflite(document, second, "ADD") is not total:
        raise NotFitting(_NO_GATE)
    h = _other_tflite(second, z)
    steps = _steps(*(_tflite_range(tensor) for tensor in (z, n, h)))
    result = total.outputs[0]
    for gone in (op, first, second, total):
        document.remove(gone)
    shape = result.shape
    apart = document.add_tensor(f"{result.name}_difference", "INT8", shape, steps.difference)
    gated = document.add_tensor(f"{result.name}_gated", "INT8", shape, steps.product)
    document.add_op("SUB", (h, n), (apart,), Record("SubOptions"), version=2)
    document.add_op("MUL", (z, apart), (gated,), Record("MulOptions"), version=2)
    document.add_op("ADD", (n, gated), (result,), total.options, version=2)


def _check_one_tflite(tensor: EditTensor | None) -> None:
    if tensor is None or tensor.data is None or tensor.quant is None or tensor.quant.per_channel:
        raise NotFitting("the left operand is computed")
    values = (tensor.data.astype(np.float64) - tensor.quant.zero_point) * tensor.quant.scale
    if np.abs(values - 1).max() > _LEAST:
        raise NotFitting(_NO_GATE)


def _next_tflite(document: TfliteDocument, op: EditOp, kind: str) -> EditOp:
    readers = document.readers(op.outputs[0])
    if len(readers) != 1 or readers[0].kind != kind or document.is_output(op.outputs[0]):
        raise NotFitting(_NO_GATE)
    return readers[0]


def _other_tflite(op: EditOp, tensor: EditTensor | None) -> EditTensor:
    others = [other for other in op.inputs if other is not None and other is not tensor]
    if len(others) != 1 or others[0].is_constant:
        raise NotFitting(_NO_GATE)
    return others[0]


def _tflite_range(tensor: EditTensor | None) -> Interval:
    if tensor is None or tensor.type != "INT8" or tensor.quant is None:
        raise NotFitting("an operand is not int8")
    return covered(tensor.quant)
