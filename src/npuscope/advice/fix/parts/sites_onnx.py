"""Where the scale and zero point of an integer tensor stand in an .onnx file: all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from npuscope.advice.fix.parts.pairs_onnx import add_pair_constants
from npuscope.files.onnx.expand import QLINEAR
from npuscope.graph.edit.document import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument, OnnxQuant

# Ops that hand integers on: the tensors on both sides share scale and zero point.
MOVES = (
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Transpose",
    "MaxPool",
    "Identity",
    "Slice",
    "Split",
    "DepthToSpace",
    "SpaceToDepth",
)


@dataclass(frozen=True, slots=True)
class Site:
    """A node that states the quantization of one of its tensors; `makes` it or reads it."""

    node: Node
    tensor: str
    scale: int
    zero_point: int
    makes: bool


def sites(document: OnnxDocument) -> Iterator[Site]:
    """Of all integer tensors, activations and constants."""
    for node in document.nodes:
        yield from _sites_of(node)


def _sites_of(node: Node) -> Iterator[Site]:
    if node.op_type == QUANTIZE:
        yield Site(node, node.output[0], 1, 2, True)
    elif node.op_type == DEQUANTIZE:
        yield Site(node, node.input[0], 1, 2, False)
    elif node.op_type == "QLinearConcat":
        yield Site(node, node.output[0], 0, 1, True)
        for place in range(2, len(node.input), 3):
            yield Site(node, node.input[place], place + 1, place + 2, False)
    else:
        row = QLINEAR.get(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
        if row is None:
            return
        for tensor, scale, zero in row.operands:
            yield Site(node, node.input[tensor], scale, zero, False)
        if len(node.input) > row.result[0] and node.input[row.result[0]]:
            yield Site(node, node.output[0], *row.result, True)


def zero_points(document: OnnxDocument, site: Site) -> np.ndarray | None:
    """None where the node leaves them out."""
    present = len(site.node.input) > site.zero_point and site.node.input[site.zero_point]
    if not present:
        return None
    values = document.constant(site.node.input[site.zero_point])
    if values is None:
        raise NotFitting(f"the zero point of '{site.tensor}' is computed")
    return values


def site_quant(document: OnnxDocument, site: Site) -> OnnxQuant:
    """One scale and a zero point that is written down."""
    scale, zero = document.constant(site.node.input[site.scale]), zero_points(document, site)
    if scale is None or zero is None or scale.size > 1:
        raise NotFitting(f"'{site.tensor}' has not one scale and zero point")
    return OnnxQuant(scale.reshape(()), zero.reshape(()))


def tied(document: OnnxDocument, tensor: str) -> set[str]:
    """The integer tensors that must have the quantization of this one: moves lie between."""
    group, waiting = {tensor}, [tensor]
    while waiting:
        for other in _neighbours(document, waiting.pop()):
            if other not in group:
                group.add(other)
                waiting.append(other)
    return group


def _neighbours(document: OnnxDocument, tensor: str) -> Iterator[str]:
    """Over a move of integers, or over DequantizeLinear, a move of floats, QuantizeLinear."""
    for node in document.readers(tensor):
        if node.op_type in MOVES and node.input[0] == tensor:
            yield from node.output
        elif node.op_type == DEQUANTIZE:
            moved = [n for n in document.readers(node.output[0]) if n.op_type in MOVES]
            floats = [name for n in moved for name in n.output]
            yield from (q.output[0] for name in floats for q in _quantizers(document, name))
    maker = document.producer(tensor)
    if maker is None:
        return
    if maker.op_type in MOVES:
        yield maker.input[0]
        yield from maker.output
    elif maker.op_type == QUANTIZE:
        move = document.producer(maker.input[0])
        if move is not None and move.op_type in MOVES:
            source = document.producer(move.input[0])
            yield from source.input[:1] if source and source.op_type == DEQUANTIZE else ()


def _quantizers(document: OnnxDocument, tensor: str) -> list[Node]:
    return [node for node in document.readers(tensor) if node.op_type == QUANTIZE]


def set_quant(document: OnnxDocument, found: list[Site], quant: OnnxQuant) -> None:
    """One new pair of constants at all these sites."""
    scale, zero = add_pair_constants(document, f"{found[0].tensor}_new", quant)
    for site in found:
        document.set_input(site.node, site.scale, scale)
        document.set_input(site.node, site.zero_point, zero)
