"""separate-outputs: parts that a last Concat joins become outputs of their own."""

from __future__ import annotations

from typing import Any

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts import border_onnx, border_tflite
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, Node, OnnxDocument
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument

_NO_CONCAT = "there is no Concat"
_NOT_MADE = "a part of the Concat is not computed: it is an input or a constant"
_TWICE = "a part of the Concat is there twice, or is an output already"
_CONCATS = ("Concat", "QLinearConcat")
_STEP = 3  # a QLinearConcat lists tensor, scale and zero point of each part, after its own two


@onnx_edit("separate-outputs")
def separate_onnx(document: OnnxDocument, request: Request) -> None:
    """Integers where the joint output was made of integers."""
    nodes = [document.op(origin) for origin in request.ops]
    concat = next((n for n in nodes if n is not None and n.op_type in _CONCATS), None)
    if concat is None:
        raise NotFitting(_NO_CONCAT)
    chain = border_onnx.way_out(document, concat.output[0])
    output = (chain[-1] if chain else concat).output[0]
    as_float = not chain or chain[-1].op_type == DEQUANTIZE
    rows = _rows(concat)
    convert = concat.op_type == "QLinearConcat" and bool(chain) and as_float
    if any(document.producer(row[0]) is None for row in rows):
        raise NotFitting(_NOT_MADE)
    if len({row[0] for row in rows}) < len(rows) or any(document.is_output(r[0]) for r in rows):
        raise NotFitting(_TWICE)
    parts = [row[0] if as_float else _integers(document, row[0]) for row in rows]
    new = border_onnx.output_entries(document, request.network.graph, parts)
    for entry, row in zip(new, rows, strict=True) if convert else ():
        _dequantize(document, entry, row)
    entries = [[e] if e.name != output else new for e in document.graph.output]
    border_onnx.set_outputs(document, [entry for group in entries for entry in group])


def _rows(concat: Node) -> list[tuple[str, ...]]:
    """The parts; in a QLinearConcat each with its scale and zero point."""
    names = tuple(str(name) for name in concat.input)
    if concat.op_type == "Concat":
        return [(name,) for name in names]
    return [names[place : place + _STEP] for place in range(2, len(names), _STEP)]


def _integers(document: OnnxDocument, name: str) -> str:
    maker = document.producer(name)
    return str(maker.input[0]) if maker is not None and maker.op_type == DEQUANTIZE else name


def _dequantize(document: OnnxDocument, entry: Any, row: tuple[str, ...]) -> None:
    """The part goes out as real values, as the joint output did."""
    entry.name = document.fresh(f"{row[0]}_real")
    entry.type.tensor_type.elem_type = border_onnx.FLOAT
    document.add_node(DEQUANTIZE, row, entry.name)


@tflite_edit("separate-outputs")
def separate_tflite(document: TfliteDocument, request: Request) -> None:
    """Each part gets the conversions that stood behind the Concat."""
    ops = [document.op(origin) for origin in request.ops]
    concat = next((op for op in ops if op is not None and op.kind == "CONCATENATION"), None)
    if concat is None:
        raise NotFitting(_NO_CONCAT)
    if concat.option("FusedActivationFunction"):
        raise NotFitting("the Concat has an activation of its own")
    chain = border_tflite.way_out(document, concat.outputs[0])
    parts = [tensor for tensor in concat.inputs if tensor is not None]
    if any(document.producer(tensor) is None for tensor in parts):
        raise NotFitting(_NOT_MADE)
    if len(set(parts)) < len(parts) or any(document.is_output(tensor) for tensor in parts):
        raise NotFitting(_TWICE)
    output = (chain[-1] if chain else concat).outputs[0]
    new = [_converted(document, tensor, chain) for tensor in parts]
    groups = [[t] if t is not output else new for t in document.outputs]
    border_tflite.set_outputs(document, [tensor for group in groups for tensor in group])


def _converted(document: TfliteDocument, part: EditTensor, chain: list[EditOp]) -> EditTensor:
    for op in chain:
        like = op.outputs[0]
        made = document.add_tensor(f"{part.name}_out", like.type, part.shape, like.quant)
        document.add_op(op.kind, [part], [made], op.options, op.version)
        part = made
    return part
