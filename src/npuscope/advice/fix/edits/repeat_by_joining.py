"""repeat-by-joining: a nearest resize as a tensor joined with itself along the channels.

Each pixel twice in a row of channels is two columns; each row twice is two rows. The reshapes
between move nothing, and joining channels is a copy by the stream engines.
"""

from __future__ import annotations

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.copying_onnx import check_opset, image_shape, moved_quant
from npuscope.advice.fix.parts.copying_tflite import image
from npuscope.advice.fix.parts.network_op import network_op
from npuscope.advice.fix.parts.smoothing import LONGEST_AXIS
from npuscope.advice.fix.parts.views_onnx import joined as joined_onnx
from npuscope.advice.fix.parts.views_onnx import made
from npuscope.advice.fix.parts.views_onnx import reshaped as reshaped_onnx
from npuscope.advice.fix.parts.views_tflite import add_reshape, joined, reshaped
from npuscope.advice.fix.parts.weights_onnx import onnx_place
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument
from npuscope.rules.layout import resize_factor


@tflite_edit("repeat-by-joining")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("RESIZE_NEAREST_NEIGHBOR",))
    source, result = image(op.input(0)), op.outputs[0]
    images, height, width, channels = source.shape
    factor = _factor(request, width, channels)
    document.remove(op)
    columns = joined(document, [source] * factor)
    rows = reshaped(document, columns, (images, height, 1, factor * width * channels))
    add_reshape(document, joined(document, [rows] * factor), result)


@onnx_edit("repeat-by-joining")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Resize",))
    check_opset(document, 5)
    source, result = node.input[0], node.output[0]
    _, channels, height, width = image_shape(document, source)
    moved_quant(document, source)
    factor = _factor(request, width, channels)
    document.remove(node)
    pixels = made(document, source, "Transpose", perm=[0, 2, 3, 1])
    columns = joined_onnx(document, [pixels] * factor)
    rows = reshaped_onnx(document, columns, (height, 1, factor * width * channels))
    rows = joined_onnx(document, [rows] * factor)
    large = reshaped_onnx(document, rows, (factor * height, factor * width, channels))
    document.add_node("Transpose", (large,), result, perm=[0, 3, 1, 2])


def _factor(request: Request, width: int, channels: int) -> int:
    op = network_op(request, "Resize")
    factor = resize_factor(request.network.graph, op)
    if factor is None:
        raise NotFitting("the Resize does not repeat pixels by a whole factor")
    longest = factor * factor * width * channels
    if longest > LONGEST_AXIS:
        raise NotFitting(f"{longest} elements are more than an axis of the NPU holds")
    return factor
