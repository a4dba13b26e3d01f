"""Chains of an .onnx file: a move, ops that treat every element alike, and another move."""

from __future__ import annotations

from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument

_UNARY = (
    *(QUANTIZE, DEQUANTIZE, "Identity", "Cast", "Relu", "LeakyRelu", "Clip", "Elu", "Selu"),
    *("Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Softplus", "Abs", "Neg", "Exp", "Log"),
    *("Sqrt", "Erf", "Floor", "Ceil", "Round", "Reciprocal", "Gelu", "Mish"),
)
_BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max")


def moves_of(document: OnnxDocument, request: Request, kinds: tuple[str, ...]) -> list[Node]:
    """The moves of a finding in the order of the file."""
    document.shape("")  # shapes are found first: finding them renews the nodes
    found = [node for origin in request.ops if (node := document.op(origin)) is not None]
    moves = [node for node in found if node.op_type in kinds]
    if not moves:
        raise NotFitting(f"none of its ops is a {' or '.join(kinds)} of this file")
    return moves


def between(document: OnnxDocument, first: Node, last: Node) -> list[Node]:
    """The nodes from one move to the other; NotFitting where they are more than a chain."""
    chain: list[Node] = []
    tensor = last.input[0]
    while tensor != first.output[0]:
        node = document.producer(tensor)
        if node is None or not _element_wise(document, node):
            name = node.op_type if node is not None else "input"
            raise NotFitting(f"a {name} stands between the two")
        if len(document.readers(tensor)) > 1 or document.is_output(tensor):
            raise NotFitting(f"'{tensor}' between the two is read by others too")
        chain.insert(0, node)
        tensor = _data(document, node)
    return chain


def _element_wise(document: OnnxDocument, node: Node) -> bool:
    """Every element alike: what else it reads are single numbers."""
    if node.op_type not in (*_UNARY, *_BINARY):
        return False
    others = [name for name in node.input if name and name != _data(document, node)]
    numbers = [document.constant(name) for name in others]
    return all(values is not None and values.size == 1 for values in numbers)


def _data(document: OnnxDocument, node: Node) -> str:
    """The computed operand."""
    computed = [name for name in node.input if name and document.constant(name) is None]
    return str(computed[0] if computed else node.input[0])


def bypass(document: OnnxDocument, first: Node, last: Node, chain: list[Node]) -> None:
    """What stands between two moves works on what the first one reads; the moves go."""
    source, result = first.input[0], last.output[0]
    if not chain:
        check_replaceable(document, result, source)
        document.rewire(result, source)
        return
    document.rewire(first.output[0], source, [chain[0]])
    document.rewire(result, chain[-1].output[0])
    _join(document, chain[0])
    _join(document, chain[-1])
    for node in document.readers(chain[-1].output[0]):
        _join(document, node)


def check_replaceable(document: OnnxDocument, old: str, new: str) -> None:
    """An output keeps its name: then another op must be able to write it."""
    if document.is_output(old) and (document.is_output(new) or document.producer(new) is None):
        raise NotFitting(f"the output '{old}' would be the same as '{new}'")


def _join(document: OnnxDocument, node: Node) -> None:
    """A QuantizeLinear right behind a DequantizeLinear of the same steps does nothing."""
    maker = document.producer(node.input[0])
    if node.op_type != QUANTIZE or maker is None or maker.op_type != DEQUANTIZE:
        return
    if _steps(document, maker) == _steps(document, node) and not document.is_output(node.output[0]):
        document.rewire(node.output[0], maker.input[0])


def _steps(document: OnnxDocument, node: Node) -> tuple[object, ...]:
    quant = document.quant(node)
    return quant.scale.tolist(), quant.zero_point.tolist(), quant.zero_point.dtype
