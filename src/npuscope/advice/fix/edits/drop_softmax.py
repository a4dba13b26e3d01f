"""drop-softmax: the network gives the scores that the last Softmax would normalise."""

from __future__ import annotations

from dataclasses import replace

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts import border_onnx, border_tflite
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, Node, OnnxDocument
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument

_NO_SOFTMAX = "there is no Softmax"
_BARE = "nothing is computed in front of the Softmax"
_TWICE = "its scores are an output already"
_SIGN_SHIFT = 128  # between int8 and uint8


@onnx_edit("drop-softmax")
def drop_onnx(document: OnnxDocument, request: Request) -> None:
    """A float output stays float, an integer one gets the scale of the scores."""
    nodes = [document.op(origin) for origin in request.ops]
    softmax = next((n for n in nodes if n is not None and n.op_type == "Softmax"), None)
    if softmax is None:
        raise NotFitting(_NO_SOFTMAX)
    chain = border_onnx.way_out(document, softmax.output[0])
    output = (chain[-1] if chain else softmax).output[0]
    scores = _scores(document, softmax, chain)
    if document.producer(scores) is None:
        raise NotFitting(_BARE)
    if document.is_output(scores):
        raise NotFitting(_TWICE)
    kind = border_onnx.element_types(document).get(scores)
    document.rewire(output, scores)
    entry = next(e for e in document.graph.output if e.name == output)
    if kind:
        entry.type.tensor_type.elem_type = kind


def _scores(document: OnnxDocument, softmax: Node, chain: list[Node]) -> str:
    """What goes out instead: integers where the output is made of integers."""
    ends_float = not chain or chain[-1].op_type == DEQUANTIZE
    maker = document.producer(softmax.input[0])
    if ends_float or maker is None or maker.op_type != DEQUANTIZE:
        return str(softmax.input[0])
    return str(maker.input[0])


@tflite_edit("drop-softmax")
def drop_tflite(document: TfliteDocument, request: Request) -> None:
    ops = [document.op(origin) for origin in request.ops]
    softmax = next((op for op in ops if op is not None and op.kind == "SOFTMAX"), None)
    if softmax is None:
        raise NotFitting(_NO_SOFTMAX)
    chain = border_tflite.way_out(document, softmax.outputs[0])
    scores = softmax.input(0)
    if scores is None or document.producer(scores) is None:
        raise NotFitting(_BARE)
    if document.is_output(scores):
        raise NotFitting(_TWICE)
    document.rewire(softmax.outputs[0], scores)
    document.remove(softmax)
    for op in chain:
        _carry_scale(op, scores)


def _carry_scale(op: EditOp, scores: EditTensor) -> None:
    """A QUANTIZE between signed and unsigned bytes writes the same steps, shifted."""
    target = op.outputs[0]
    if op.kind != "QUANTIZE" or scores.quant is None or target.quant is None:
        return
    shift = {("INT8", "UINT8"): _SIGN_SHIFT, ("UINT8", "INT8"): -_SIGN_SHIFT}
    zero = scores.quant.zero_point + shift.get((scores.type, target.type), 0)
    target.quant = replace(scores.quant, zero_points=(zero,))
