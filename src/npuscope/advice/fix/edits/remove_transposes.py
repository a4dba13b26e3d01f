"""remove-transposes: pairs that undo each other, and those that keep every axis in its place."""

from __future__ import annotations

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts import chain_onnx, chain_tflite
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import Node, OnnxDocument
from npuscope.graph.edit.tflite_document import EditOp, TfliteDocument

Axes = tuple[int, ...]


@onnx_edit("remove-transposes")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    moves = chain_onnx.moves_of(document, request, ("Transpose",))
    first, last = moves[0], moves[-1]
    if first is last:
        _check_idle(_onnx_axes(document, first))
        chain_onnx.bypass(document, first, last, [])
        return
    _check_inverse(_onnx_axes(document, first), _onnx_axes(document, last))
    chain_onnx.bypass(document, first, last, chain_onnx.between(document, first, last))


def _onnx_axes(document: OnnxDocument, node: Node) -> Axes:
    stated = document.attribute(node, "perm")
    if stated is not None:
        return tuple(stated)
    shape = document.shape(node.input[0])
    if shape is None:
        raise NotFitting("the shape that the Transpose turns is not known")
    return tuple(reversed(range(len(shape))))


@tflite_edit("remove-transposes")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    moves = chain_tflite.moves_of(document, request, ("TRANSPOSE",))
    first, last = moves[0], moves[-1]
    if first is last:
        _check_idle(_tflite_axes(first))
        chain_tflite.bypass(document, first, last, [])
        return
    _check_inverse(_tflite_axes(first), _tflite_axes(last))
    chain_tflite.bypass(document, first, last, chain_tflite.between(document, first, last))


def _tflite_axes(op: EditOp) -> Axes:
    order = op.input(1)
    if order is None or order.data is None:
        raise NotFitting("the order of the axes is computed")
    return tuple(int(axis) for axis in order.data.reshape(-1))


def _check_idle(axes: Axes) -> None:
    if axes != tuple(range(len(axes))):
        raise NotFitting(f"the Transpose {axes} moves axes")


def _check_inverse(first: Axes, last: Axes) -> None:
    same = len(first) == len(last) and tuple(first[axis] for axis in last) == (*range(len(last)),)
    if not same:
        raise NotFitting(f"the Transposes {first} and {last} do not undo each other")
