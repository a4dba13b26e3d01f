"""signed-activations: uint8 tensors as int8. Values and zero points move by 128, so no result
changes."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.sites_onnx import MOVES, Site, sites, zero_points
from npuscope.advice.fix.parts.weights_tflite import DEPTHWISE, LAYERS
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import EditTensor, TfliteDocument
from npuscope.graph.model import Quant

_OFFSET = 128
_MOVES = (*MOVES, "Concat", "Gather", "Tile", "Expand")  # a Pad fills in zeros of its own
_WEIGHTS = (*LAYERS, DEPTHWISE, "TRANSPOSE_CONV")
_INT8_VERSIONS = {"CONV_2D": 3, DEPTHWISE: 3, "FULLY_CONNECTED": 4}  # others: 2


@onnx_edit("signed-activations")
def signed_onnx(document: OnnxDocument, request: Request) -> None:
    """The whole file at once: types must agree wherever integers meet."""
    found = [site for site in sites(document) if _is_unsigned(document, site)]
    if not found:
        raise NotFitting("no tensor is uint8")
    tensors = _with_moved(document, {site.tensor for site in found})
    _check(document, tensors, found)
    for tensor in tensors:
        _shift_constant(document, tensor)
    for site in found:
        _shift_zero_point(document, site)


def _is_unsigned(document: OnnxDocument, site: Site) -> bool:
    zero = zero_points(document, site)
    if zero is not None:
        return zero.dtype == np.uint8
    values = document.constant(site.tensor)
    return site.makes or (values is not None and values.dtype == np.uint8)


def _with_moved(document: OnnxDocument, tensors: set[str]) -> set[str]:
    """And what moves bring to them or make of them, where nobody states a zero point."""
    waiting = [*tensors]
    found = set(tensors)
    while waiting:
        tensor = waiting.pop()
        maker = document.producer(tensor)
        nodes = [*document.readers(tensor), *([maker] if maker is not None else [])]
        for node in (node for node in nodes if node.op_type in _MOVES):
            sources = node.input if node.op_type == "Concat" else node.input[:1]
            new = {*sources, *node.output} - found - {""}
            found |= new
            waiting += new
    return found


def _check(document: OnnxDocument, tensors: set[str], found: list[Site]) -> None:
    known = [site.node for site in found]
    for tensor in sorted(tensors):
        if document.is_input(tensor) or document.is_output(tensor):
            raise NotFitting(f"applications see the uint8 tensor '{tensor}'")
        maker = document.producer(tensor)
        touching = [*document.readers(tensor), *([maker] if maker is not None else [])]
        for node in touching:
            if node.op_type not in _MOVES and not any(node is other for other in known):
                raise NotFitting(f"a {node.op_type} computes on the uint8 tensor '{tensor}'")


def _shift_constant(document: OnnxDocument, tensor: str) -> None:
    """Weights stored as uint8; all who read them are among the sites."""
    values = document.constant(tensor)
    if values is None:
        return
    shifted = (values.astype(np.int16) - _OFFSET).astype(np.int8)
    name = document.add_constant(f"{tensor}_int8", shifted)
    document.rewire(tensor, name)


def _shift_zero_point(document: OnnxDocument, site: Site) -> None:
    zero = zero_points(document, site)
    old = np.zeros((), np.int16) if zero is None else zero.astype(np.int16)
    name = document.add_constant(f"{site.tensor}_zero", (old - _OFFSET).astype(np.int8))
    document.set_input(site.node, site.zero_point, name)


@tflite_edit("signed-activations")
def signed_tflite(document: TfliteDocument, request: Request) -> None:
    """Every quantized uint8 tensor; kernels on int8 want weights with zero point 0."""
    found = [t for t in document.tensors if t.type == "UINT8" and t.quant is not None]
    inner = [t for t in found if t not in document.inputs and t not in document.outputs]
    if not inner:
        raise NotFitting("no tensor inside the network is uint8")
    weights = {op.inputs[1] for op in document.ops if op.kind in _WEIGHTS}
    for tensor in found:
        if tensor in weights:
            _check_weights(tensor)
    border = [t for t in found if t not in inner]
    if border:
        raise NotFitting(f"applications see the uint8 tensor '{border[0].name}'")
    for tensor in found:
        _make_signed(tensor)
    for op in document.ops:
        if any(t in found for t in (*op.inputs, *op.outputs)):
            op.version = max(op.version, _INT8_VERSIONS.get(op.kind, 2))


def _check_weights(tensor: EditTensor) -> None:
    assert tensor.quant is not None
    if any(zero != _OFFSET for zero in tensor.quant.zero_points):
        zero = tensor.quant.zero_points[0]
        raise NotFitting(f"'{tensor.name}' has zero point {zero}: int8 weights need 0")


def _make_signed(tensor: EditTensor) -> None:
    assert tensor.quant is not None
    points = tuple(zero - _OFFSET for zero in tensor.quant.zero_points)
    tensor.type, tensor.quant = "INT8", Quant(tensor.quant.scales, points, tensor.quant.axis)
    if tensor.data is not None:
        tensor.data = (tensor.data.astype(np.int16) - _OFFSET).astype(np.int8)
