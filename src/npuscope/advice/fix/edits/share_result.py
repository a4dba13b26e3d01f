"""share-result: of two ops that make the same, the second one goes."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.chain_tflite import replace_tensor
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record

_NONE = "no two of its ops make the same in this file"


@onnx_edit("share-result")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    nodes = [node for origin in request.ops if (node := document.op(origin)) is not None]
    pairs = [(a, b) for n, b in enumerate(nodes) for a in nodes[:n] if _same(document, a, b)]
    if not pairs:
        raise NotFitting(_NONE)
    for first, second in pairs:
        _check_outputs(document, first, second)
    for first, second in pairs:
        _share(document, first, second)


def _check_outputs(document: OnnxDocument, first: Node, second: Node) -> None:
    for one, other in zip(first.output, second.output, strict=True):
        if document.is_output(one) and document.is_output(other):
            raise NotFitting(f"'{one}' and '{other}' are both outputs of the network")


def _same(document: OnnxDocument, first: Node, second: Node) -> bool:
    """The same op of the same values; what feeds them may be there twice too."""
    if first is second:
        return True
    kinds = (first.op_type, first.domain) == (second.op_type, second.domain)
    lengths = (len(first.input), len(first.output)) == (len(second.input), len(second.output))
    if not (kinds and lengths and _attributes(first) == _attributes(second)):
        return False
    pairs = zip(first.input, second.input, strict=True)
    return all(_same_tensor(document, one, other) for one, other in pairs)


def _same_tensor(document: OnnxDocument, one: str, other: str) -> bool:
    if one == other:
        return True
    first, second = document.constant(one), document.constant(other)
    if first is not None and second is not None:
        return first.dtype == second.dtype and np.array_equal(first, second)
    makers = document.producer(one), document.producer(other)
    if makers[0] is None or makers[1] is None:
        return False
    places = list(makers[0].output).index(one), list(makers[1].output).index(other)
    return places[0] == places[1] and _same(document, *makers)


def _attributes(node: Node) -> list[bytes]:
    return sorted(item.SerializeToString(deterministic=True) for item in node.attribute)


def _share(document: OnnxDocument, first: Node, second: Node) -> None:
    """Then the quantizers behind the two are the same as well."""
    for one, other in zip([*first.output], [*second.output], strict=True):
        if one == other:
            continue
        document.rewire(other, one)
        kept = other if document.is_output(other) else one
        _share_readers(document, kept)


def _share_readers(document: OnnxDocument, tensor: str) -> None:
    known: list[Node] = []
    for node in document.readers(tensor):
        if node.op_type not in (QUANTIZE, DEQUANTIZE):
            continue
        twin = next((other for other in known if _same(document, other, node)), None)
        if twin is None:
            known.append(node)
        elif not document.is_output(node.output[0]):
            _share(document, twin, node)


@tflite_edit("share-result")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    ops = [op for origin in request.ops if (op := document.op(origin)) is not None]
    pairs = [(a, b) for n, b in enumerate(ops) for a in ops[:n] if _same_op(a, b)]
    if not pairs:
        raise NotFitting(_NONE)
    for first, second in pairs:
        both = zip(first.outputs, second.outputs, strict=True)
        for one, other in both:
            if document.is_output(one) and document.is_output(other):
                raise NotFitting(f"'{one.name}' and '{other.name}' are both outputs of the network")
    for first, second in pairs:
        for one, other in zip(first.outputs, second.outputs, strict=True):
            replace_tensor(document, other, one)
        document.remove(second)


def _same_op(first: EditOp, second: EditOp) -> bool:
    same = (first.kind, len(first.inputs)) == (second.kind, len(second.inputs))
    return (
        same
        and _same_value(first.options, second.options)
        and all(map(_same_operand, first.inputs, second.inputs))
        and all(map(_same_format, first.outputs, second.outputs))
    )


def _same_operand(one: EditTensor | None, other: EditTensor | None) -> bool:
    if one is other or one is None or other is None:
        return one is other
    if one.data is None or other.data is None:
        return False
    return _same_format(one, other) and np.array_equal(one.data, other.data)


def _same_format(one: EditTensor, other: EditTensor) -> bool:
    return (one.shape, one.type, one.quant) == (other.shape, other.type, other.quant)


def _same_value(one: object, other: object) -> bool:
    """Options of two ops."""
    if isinstance(one, Record) and isinstance(other, Record):
        same = one.table == other.table and one.fields.keys() == other.fields.keys()
        return same and all(
            _same_value(one.fields[name], other.fields[name]) for name in one.fields
        )
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(np.asarray(one), np.asarray(other))
    return one == other
