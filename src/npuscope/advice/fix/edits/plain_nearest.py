"""plain-nearest: a nearest resize stated as asymmetric and floor, where it picks the same."""

from __future__ import annotations

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.copying_onnx import check_opset
from npuscope.advice.fix.parts.network_op import network_op
from npuscope.advice.fix.parts.weights_onnx import onnx_place
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.ops.images import ResizeAttrs
from npuscope.rules.layout import repeats_pixels


@onnx_edit("plain-nearest")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Resize",))
    check_opset(document, 11)
    _check(request)
    document.set_attribute(node, "coordinate_transformation_mode", "asymmetric")
    document.set_attribute(node, "nearest_mode", "floor")


@tflite_edit("plain-nearest")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("RESIZE_NEAREST_NEIGHBOR",))
    _check(request)
    op.options = Record("ResizeNearestNeighborOptions")


def _check(request: Request) -> None:
    op = network_op(request, "Resize")
    if not repeats_pixels(request.network.graph, op):
        name = op.attrs_as(ResizeAttrs).coordinates.value
        raise NotFitting(f"'{name}' picks other pixels than 'asymmetric' here")
