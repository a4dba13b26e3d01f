"""zero-point: 0 or -128 at a layer's input, which frees the fast mode of the convolution unit.

At the network's input the application has to send the other integers; the real values are the
same but for the ends of the range.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.fast_zero import fast_quant
from npuscope.advice.fix.parts.pairs_onnx import as_quant
from npuscope.advice.fix.parts.sites_onnx import (
    MOVES,
    Site,
    set_quant,
    site_quant,
    sites,
    tied,
)
from npuscope.advice.fix.parts.weights_onnx import LAYERS as ONNX_LAYERS
from npuscope.advice.fix.parts.weights_onnx import onnx_place, store, stored
from npuscope.advice.fix.parts.weights_tflite import DEPTHWISE, LAYERS, tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, Node, OnnxDocument, OnnxQuant
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument
from npuscope.graph.model import Quant

_TFLITE_LAYERS = (*LAYERS, DEPTHWISE)
_TIED = (
    "PAD",
    "RESHAPE",
    "SQUEEZE",
    "EXPAND_DIMS",
    "TRANSPOSE",
    "MAX_POOL_2D",
    "AVERAGE_POOL_2D",
    "STRIDED_SLICE",
    "RESIZE_NEAREST_NEIGHBOR",
)
# Kernels that bring any steps to any others.
_FREE = (
    *_TFLITE_LAYERS,
    "ADD",
    "SUB",
    "MUL",
    "MEAN",
    "PRELU",
    "LEAKY_RELU",
    "HARD_SWISH",
    "RELU",
    "RELU6",
    "QUANTIZE",
    "DEQUANTIZE",
)
_FREE_READERS = (*_FREE, "LOGISTIC", "TANH", "SOFTMAX")


@onnx_edit("zero-point")
def onnx_zero_point(document: OnnxDocument, request: Request) -> None:
    """All nodes that state the quantization of the layer's input state another one."""
    layer = onnx_place(document, request, ONNX_LAYERS)
    tensor = _integers(document, layer)
    group = tied(document, tensor)
    found = [site for site in sites(document) if site.tensor in group]
    _check_onnx(document, group, found)
    old = site_quant(document, found[0])
    offset = 128 if old.zero_point.dtype == np.uint8 else 0
    new = fast_quant(as_quant(old), offset)
    zero = np.array(new.zero_point, old.zero_point.dtype)
    ratio = float(old.scale) / float(np.float32(new.scale))
    if new.scales != as_quant(old).scales:
        for node in _layers_of(document, found):
            _rescale_bias(document, node, ratio)
    set_quant(document, found, OnnxQuant(np.array(new.scale, np.float32), zero))


def _integers(document: OnnxDocument, layer: Node) -> str:
    if layer.op_type.startswith("Q"):
        return str(layer.input[0])
    maker = document.producer(layer.input[0])
    if maker is None or maker.op_type != DEQUANTIZE:
        raise NotFitting(f"'{layer.input[0]}' is not quantized")
    return str(maker.input[0])


def _check_onnx(document: OnnxDocument, group: set[str], found: list[Site]) -> None:
    """Every node that touches the tensors must follow the change."""
    for tensor in group:
        if document.is_output(tensor):
            raise NotFitting(f"'{tensor}' is an output of the network")
        maker = document.producer(tensor)
        touching = [*document.readers(tensor), *([maker] if maker is not None else [])]
        known = [site.node for site in found]
        for node in touching:
            if node.op_type not in MOVES and not any(node is other for other in known):
                raise NotFitting(f"'{tensor}' is also used by {node.op_type}")
    if not found:
        raise NotFitting("its quantization is not in the file")
    quants = {as_quant(site_quant(document, site)) for site in found}
    if len(quants) > 1:
        raise NotFitting(f"'{found[0].tensor}' is quantized in more than one way")


def _layers_of(document: OnnxDocument, found: list[Site]) -> list[Node]:
    """Layers that read the tensors, as integers or dequantized."""
    nodes: list[Node] = []
    for site in found:
        if site.makes:
            continue
        direct = site.node.op_type != DEQUANTIZE
        nodes += [site.node] if direct else document.readers(site.node.output[0])
    return [node for node in nodes if node.op_type in ONNX_LAYERS]


def _rescale_bias(document: OnnxDocument, node: Node, ratio: float) -> None:
    """The step of an int32 bias is the product of the input's and the weights'."""
    place = {"QLinearConv": 8, "QGemm": 6, "Conv": 2, "Gemm": 2}.get(node.op_type)
    if place is None or len(node.input) <= place or not node.input[place]:
        return
    constant = stored(document, node.input[place])
    if constant is None or constant.values.dtype != np.int32:
        return  # a float bias has no steps
    values = np.rint(constant.values * ratio).astype(np.int32)
    scale = constant.scale
    if scale is not None:
        scale = np.asarray(scale / ratio, np.float32)
    document.set_input(node, place, store(document, replace(constant, values=values, scale=scale)))


@tflite_edit("zero-point")
def tflite_zero_point(document: TfliteDocument, request: Request) -> None:
    """The layer's input, and what moves tie to it, get other steps."""
    layer = tflite_place(document, request, _TFLITE_LAYERS)
    source = layer.inputs[0]
    if source is None or source.quant is None or source.type != "INT8":
        raise NotFitting("its input is not int8")
    group = _tied_tensors(document, source)
    for tensor in group:
        _check_tflite(document, tensor, source.quant)
    new = fast_quant(source.quant)
    old = source.quant
    for tensor in group:
        tensor.quant = new
    if new.scales == old.scales:
        return
    readers = {op for tensor in group for op in document.readers(tensor)}
    for op in (op for op in document.ops if op in readers and op.kind in _TFLITE_LAYERS):
        _new_bias(document, op, old.scale / float(np.float32(new.scale)))


def _tied_tensors(document: TfliteDocument, tensor: EditTensor) -> list[EditTensor]:
    group, waiting = [tensor], [tensor]
    while waiting:
        at = waiting.pop()
        ops = [op for op in document.ops if at in (op.inputs[:1] + op.outputs[:1])]
        for op in (op for op in ops if op.kind in _TIED):
            ends = [t for t in (op.inputs[0], op.outputs[0]) if t is not None]
            new = [t for t in ends if t not in group]
            group += new
            waiting += new
    return group


def _check_tflite(document: TfliteDocument, tensor: EditTensor, quant: Quant) -> None:
    if document.is_output(tensor):
        raise NotFitting(f"'{tensor.name}' is an output of the network")
    if tensor.quant != quant:
        raise NotFitting(f"'{tensor.name}' is quantized in another way")
    maker = document.producer(tensor)
    if maker is not None and maker.kind not in (*_FREE, *_TIED):
        raise NotFitting(f"'{tensor.name}' is made by {maker.kind}, whose steps are fixed")
    for op in document.readers(tensor):
        if op.kind not in (*_FREE_READERS, *_TIED):
            raise NotFitting(f"'{tensor.name}' is also used by {op.kind}")


def _new_bias(document: TfliteDocument, op: EditOp, ratio: float) -> None:
    """A copy: another layer may share the old one."""
    bias = op.input(2)
    if bias is None or bias.data is None or bias.quant is None:
        return
    quant = Quant(
        tuple(float(np.float32(scale / ratio)) for scale in bias.quant.scales),
        bias.quant.zero_points,
        bias.quant.axis,
    )
    data = np.rint(bias.data * ratio).astype(bias.data.dtype)
    op.inputs[2] = document.add_tensor(bias.name, bias.type, bias.shape, quant, data)
