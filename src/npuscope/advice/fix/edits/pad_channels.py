"""Channels of zeros behind a count that cannot be cut well, in all layers that share it.

The new channels never reach an old one: the results are the same bit for bit.
"""

from __future__ import annotations

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.pad_onnx import OnnxChannels
from npuscope.advice.fix.parts.pad_region import FRONT, Region, T, Unjoined, View, find_region
from npuscope.advice.fix.parts.pad_tflite import TfliteChannels
from npuscope.advice.fix.parts.repeat_channels import repeat_onnx, repeat_tflite
from npuscope.advice.fix.parts.weights_onnx import LAYERS, onnx_layer, onnx_place, title
from npuscope.advice.fix.parts.weights_tflite import LAYERS as TFLITE_LAYERS
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit.document import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import EditTensor, TfliteDocument
from npuscope.rules.finding import Value
from npuscope.text import safe_terminal


def _number(value: Value) -> int:
    return int(str(value))


def _new_channels(request: Request, count: int, name: str) -> int:
    """How many to add; none where another place of the same region was padded before."""
    before = _number(request.parameters["channels"])
    padded = _number(request.parameters["padded"])
    if count == padded:
        return 0
    if count != before or padded < before:
        raise NotFitting(f"'{safe_terminal(name)}' has {count} channels, not {before}")
    return padded - before


def _region(view: View[T], tensor: T, new: int) -> Region[T]:
    """New channels behind the old ones; in front of them where a slice has room only there; up to
    the joins where what is behind them cannot do with more."""
    behind, front = {view.channels(tensor) - 1: new}, {FRONT: new}
    misfits = []
    for look, pads in ((view, behind), (view, front), (Unjoined(view), behind)):
        try:
            return find_region(look, tensor, pads)
        except NotFitting as misfit:
            misfits.append(misfit)
    raise misfits[0]


def pad_onnx_tensor(document: OnnxDocument, tensor: str, axis: int, new: int) -> None:
    view = OnnxChannels(document, axis)
    view.pad(_region(view, tensor, new))


def pad_tflite_tensor(document: TfliteDocument, tensor: EditTensor, new: int) -> None:
    view = TfliteChannels(document)
    view.pad(_region(view, tensor, new))


@onnx_edit("pad-channels")
def pad_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, LAYERS)
    layer = onnx_layer(document, node)
    if layer is None:
        raise NotFitting(f"the weights or the bias of {title(node)} are computed")
    tensor = node.input[0] if request.parameters.get("side") == "inputs" else node.output[0]
    shape = document.shape(tensor)
    if shape is None or len(shape) <= layer.channel_axis:
        raise NotFitting(f"the shape of '{safe_terminal(tensor)}' is not known")
    new = _new_channels(request, shape[layer.channel_axis], tensor)
    if new:
        try:
            pad_onnx_tensor(document, tensor, layer.channel_axis, new)
        except NotFitting:
            if request.parameters.get("side") != "inputs":
                raise
            repeat_onnx(document, tensor, layer.channel_axis, new)


@tflite_edit("pad-channels")
def pad_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, TFLITE_LAYERS)
    tensor = op.inputs[0] if request.parameters.get("side") == "inputs" else op.outputs[0]
    assert tensor is not None
    new = _new_channels(request, tensor.shape[-1], tensor.name)
    if new:
        try:
            pad_tflite_tensor(document, tensor, new)
        except NotFitting:
            if request.parameters.get("side") != "inputs":
                raise
            repeat_tflite(document, tensor, new)
