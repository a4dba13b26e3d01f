"""integer-input, integer-output: the network takes and gives integers; the application converts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.pairs_onnx import activation_quant, add_pair_constants, quantizers
from npuscope.advice.fix.request import Request
from npuscope.graph.edit.document import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument, OnnxQuant
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument
from npuscope.graph.model import Quant

_UNSIGNED = 128  # steps between the zero points of int8 and uint8
_CONVERTED = ("FLOAT32", "UINT8")


def _each(names: Sequence[Any], change: Callable[[Any], None]) -> None:
    """All that fit are changed; where none does, the first reason stands for all."""
    reasons = []
    for name in names:
        try:
            change(name)
        except NotFitting as reason:
            reasons.append(reason)
    if len(reasons) == len(names):
        raise reasons[0] if reasons else NotFitting("nothing is converted here at the border")


@onnx_edit("integer-input")
def integer_input(document: OnnxDocument, request: Request) -> None:
    """Float inputs become what the QuantizeLinear behind them makes; `type` may ask for uint8."""
    constants = {entry.name for entry in document.graph.initializer}
    floats = [e for e in document.graph.input if e.name not in constants and _is_float(e)]
    named = _conversions(document, request)
    if named:
        floats = [e for e in floats if any(e.name in node.input for node in named)]
    wanted = str(request.parameters.get("type", ""))
    _each(floats, lambda entry: _onnx_input(document, entry, wanted))


def _conversions(document: OnnxDocument, request: Request) -> list[Node]:
    """Those that the finding names; a request for the whole border names none."""
    found = [document.op(name) for name in request.ops]
    return [node for node in found if node is not None and node.op_type in (QUANTIZE, DEQUANTIZE)]


def _is_float(entry: Any) -> bool:
    import onnx

    return bool(entry.type.tensor_type.elem_type == onnx.TensorProto.FLOAT)


def _onnx_input(document: OnnxDocument, entry: Any, wanted: str) -> None:
    readers, found = document.readers(entry.name), quantizers(document, entry.name)
    others = sorted({node.op_type for node in readers} - {QUANTIZE})
    if others or not found or document.is_output(entry.name):
        who = ", ".join(others) or "nobody"
        raise NotFitting(f"input '{entry.name}' is read by {who}, not by QuantizeLinear alone")
    quants = [activation_quant(document, node) for node in found]
    if len({(float(q.scale), int(q.zero_point), q.zero_point.dtype) for q in quants}) > 1:
        raise NotFitting(f"input '{entry.name}' is quantized in more than one way")
    dtype = str(quants[0].zero_point.dtype)
    if wanted in ("", dtype):
        for node in found:
            document.remove(node)
            document.rewire(node.output[0], entry.name)
    else:
        dtype = wanted
        _convert_input(document, entry.name, quants[0], wanted)
    _set_type(entry, dtype)


def _convert_input(document: OnnxDocument, name: str, quant: OnnxQuant, wanted: str) -> None:
    """Bytes of the other sign: the QuantizeLinear behind stays and moves the zero point."""
    zero = int(quant.zero_point) + (_UNSIGNED if wanted == "uint8" else -_UNSIGNED)
    outer = OnnxQuant(quant.scale, np.array(zero, wanted))
    readers = document.readers(name)
    real = document.fresh(f"{name}_real")
    constants = add_pair_constants(document, f"{name}_{wanted}", outer)
    document.add_node(DEQUANTIZE, (name, *constants), real)
    document.rewire(name, real, readers)


def _set_type(entry: Any, dtype: str) -> None:
    import onnx

    entry.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


@onnx_edit("integer-output")
def integer_output(document: OnnxDocument, request: Request) -> None:
    """Outputs that a DequantizeLinear makes become what it reads."""
    floats = [entry for entry in document.graph.output if _is_float(entry)]
    named = _conversions(document, request)
    if named:
        floats = [e for e in floats if any(e.name in node.output for node in named)]
    _each(floats, lambda entry: _onnx_output(document, entry))


def _onnx_output(document: OnnxDocument, entry: Any) -> None:
    maker = document.producer(entry.name)
    if maker is None or maker.op_type != DEQUANTIZE:
        who = maker.op_type if maker is not None else "an input"
        raise NotFitting(f"output '{entry.name}' is made by {who}, not by DequantizeLinear")
    integers = maker.input[0]
    source = document.producer(integers)
    if source is None or document.is_output(integers):
        raise NotFitting(f"'{integers}' is at the border already")
    quant = activation_quant(document, maker)
    readers = document.readers(entry.name)
    inner = document.fresh(f"{entry.name}_real")
    maker.output[0] = inner
    document.rewire(entry.name, inner, readers)
    document.rewire(integers, entry.name)
    source.output[list(source.output).index(integers)] = entry.name
    _set_type(entry, str(quant.zero_point.dtype))


@tflite_edit("integer-input")
def integer_tflite_input(document: TfliteDocument, request: Request) -> None:
    """Inputs that a QUANTIZE reads become what it makes; `type` may ask for uint8."""
    wanted = str(request.parameters.get("type", ""))
    converted = [t for t in document.inputs if t.type in _CONVERTED]
    named = _tflite_conversions(document, request)
    if named:
        converted = [t for t in converted if any(t in op.inputs for op in named)]
    _each(converted, lambda tensor: _tflite_input(document, tensor, wanted))


def _tflite_conversions(document: TfliteDocument, request: Request) -> list[EditOp]:
    found = [document.op(name) for name in request.ops]
    return [op for op in found if op is not None and op.kind in ("QUANTIZE", "DEQUANTIZE")]


def _tflite_input(document: TfliteDocument, tensor: EditTensor, wanted: str) -> None:
    readers = document.readers(tensor)
    kinds = sorted({op.kind for op in readers} - {"QUANTIZE"})
    if kinds or not readers or document.is_output(tensor):
        who = ", ".join(kinds) or "nobody"
        raise NotFitting(f"input '{tensor.name}' is read by {who}, not by QUANTIZE alone")
    made = [op.outputs[0] for op in readers]
    if len({(t.type, t.quant) for t in made}) > 1 or any(document.is_output(t) for t in made):
        raise NotFitting(f"input '{tensor.name}' is quantized in more than one way")
    if wanted == "uint8":
        _unsigned_input(tensor, made[0])
        return
    place = document.inputs.index(tensor)
    for op in readers:
        document.remove(op)
    for other in made[1:]:
        document.rewire(other, made[0])
    document.inputs[place] = made[0]
    made[0].name = tensor.name


def _unsigned_input(tensor: EditTensor, made: EditTensor) -> None:
    if tensor.type == "UINT8" or made.quant is None:
        raise NotFitting(f"input '{tensor.name}' is uint8 already")
    tensor.type = "UINT8"
    tensor.quant = Quant(made.quant.scales, (made.quant.zero_point + _UNSIGNED,))


@tflite_edit("integer-output")
def integer_tflite_output(document: TfliteDocument, request: Request) -> None:
    """Outputs that a conversion makes become what it reads."""
    converted = [t for t in document.outputs if t.type in _CONVERTED]
    named = _tflite_conversions(document, request)
    if named:
        converted = [t for t in converted if any(t in op.outputs for op in named)]
    _each(converted, lambda tensor: _tflite_output(document, tensor))


def _tflite_output(document: TfliteDocument, tensor: EditTensor) -> None:
    maker = document.producer(tensor)
    source = _converted(maker)
    if maker is None or source is None:
        who = maker.kind if maker is not None else "an input"
        raise NotFitting(f"output '{tensor.name}' is made by {who}, not by DEQUANTIZE")
    if source in document.outputs or source in document.inputs:
        raise NotFitting(f"'{source.name}' is at the border already")
    document.outputs = [source if t is tensor else t for t in document.outputs]
    source.name, tensor.name = tensor.name, f"{tensor.name}_real"
    if not document.readers(tensor):
        document.remove(maker)


def _converted(op: EditOp | None) -> EditTensor | None:
    """The int8 tensor that a conversion at the output reads."""
    if op is None or op.kind not in ("DEQUANTIZE", "QUANTIZE"):
        return None
    source = op.inputs[0]
    return source if source is not None and source.type == "INT8" else None
