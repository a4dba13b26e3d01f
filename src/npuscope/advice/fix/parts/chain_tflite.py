"""Chains of a .tflite file: a move, ops that treat every element alike, and another move."""

from __future__ import annotations

from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument

_UNARY = (
    *("QUANTIZE", "DEQUANTIZE", "CAST", "RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "ELU"),
    *("LOGISTIC", "TANH", "HARD_SWISH", "GELU", "ABS", "NEG", "EXP", "LOG", "SQRT", "RSQRT"),
    *("SQUARE", "FLOOR", "CEIL", "ROUND"),
)
_BINARY = ("ADD", "SUB", "MUL", "DIV", "POW", "MINIMUM", "MAXIMUM")


def data_of(op: EditOp) -> EditTensor:
    """The computed operand."""
    found = [t for t in op.inputs if t is not None and not t.is_constant]
    return found[0] if found else op.inputs[0]  # type: ignore[return-value]


def moves_of(document: TfliteDocument, request: Request, kinds: tuple[str, ...]) -> list[EditOp]:
    """The moves of a finding in the order of the file."""
    found = [op for origin in request.ops if (op := document.op(origin)) is not None]
    moves = [op for op in found if op.kind in kinds]
    if not moves:
        raise NotFitting(f"none of its ops is a {' or '.join(kinds)} of this file")
    for op in moves:
        if data_of(op).quant != op.outputs[0].quant:
            raise NotFitting(f"{op.kind} changes the quantization too")
    return moves


def between(document: TfliteDocument, first: EditOp, last: EditOp) -> list[EditOp]:
    """The ops from one move to the other; NotFitting where they are more than a chain."""
    chain: list[EditOp] = []
    tensor = data_of(last)
    while tensor is not first.outputs[0]:
        op = document.producer(tensor)
        if op is None or not _element_wise(op):
            raise NotFitting(f"a {op.kind if op is not None else 'input'} stands between the two")
        if len(document.readers(tensor)) > 1 or document.is_output(tensor):
            raise NotFitting(f"'{tensor.name}' between the two is read by others too")
        chain.insert(0, op)
        tensor = data_of(op)
    return chain


def _element_wise(op: EditOp) -> bool:
    """Every element alike: what else it reads are single numbers."""
    if op.kind not in (*_UNARY, *_BINARY):
        return False
    others = [t for t in op.inputs if t is not None and t is not data_of(op)]
    return all(t.data is not None and t.data.size == 1 for t in others)


def bypass(document: TfliteDocument, first: EditOp, last: EditOp, chain: list[EditOp]) -> None:
    """What stands between two moves works on what the first one reads; the moves go."""
    source, result = data_of(first), last.outputs[0]
    if not chain:
        replace_tensor(document, result, source)
    else:
        document.rewire(first.outputs[0], source, [chain[0]])
        for op in chain:
            op.outputs[0].shape = source.shape
        replace_tensor(document, result, chain[-1].outputs[0])
    document.remove(last)
    if first is not last:
        drop_unread(document, first)


def replace_tensor(document: TfliteDocument, old: EditTensor, new: EditTensor) -> None:
    """Readers of `old` read `new`, which takes its name where it is an output."""
    if document.is_output(old):
        if document.is_output(new) or document.producer(new) is None:
            raise NotFitting(f"the output '{old.name}' would be the same as '{new.name}'")
        old.name, new.name = new.name, old.name
    document.rewire(old, new)


def drop_unread(document: TfliteDocument, op: EditOp) -> None:
    """Unlike ONNX documents these keep ops whose results nobody reads."""
    if not any(document.readers(t) or document.is_output(t) for t in op.outputs):
        document.remove(op)
