"""A layer as several ones, each with some of the output channels, and their results joined.

Weights, scales and biases are cut, not changed, and every part is quantized as the whole was:
the results are the same bit for bit.
"""

from __future__ import annotations

from itertools import pairwise

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.channelwise_onnx import (
    POINTWISE,
    data_inputs,
    follow,
    is_channelwise,
)
from npuscope.advice.fix.parts.picking import parts_of
from npuscope.advice.fix.parts.weights_onnx import (
    LAYERS,
    OnnxLayer,
    attributes_of,
    onnx_layer,
    onnx_place,
    title,
)
from npuscope.advice.fix.parts.weights_tflite import LAYERS as TFLITE_LAYERS
from npuscope.advice.fix.parts.weights_tflite import TfliteLayer, tflite_layer, tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit.document import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument
from npuscope.graph.edit.tflite_records import Record


def _ranges(layer: OnnxLayer | TfliteLayer | None, origin: str, request: Request) -> list[range]:
    """The channels of each part."""
    if layer is None:
        raise NotFitting(f"the weights or the bias of {origin} are computed")
    if layer.groups != 1:
        raise NotFitting(f"{origin} has {layer.groups} groups")
    text = str(request.parameters.get("parts", ""))
    parts = parts_of(layer.outputs, text)
    if parts is None:
        raise NotFitting(f"parts '{text}' do not make up the {layer.outputs} outputs of {origin}")
    return parts


@onnx_edit("split-outputs")
def split_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, LAYERS)
    layer = onnx_layer(document, node)
    parts = _ranges(layer, title(node), request)
    assert layer is not None
    chain = [] if layer.is_integer else _to_quantize(document, layer)
    last = chain[-2] if len(chain) > 1 else node  # what the Quantize reads
    rank = len(document.shape(node.output[0]) or ()) or layer.channel_axis + 1
    made = [_part(document, layer, rank, chain, part) for part in parts]
    joined = document.fresh(f"{last.output[0]}_joined")
    document.add_node("Concat", made, joined, axis=layer.channel_axis)
    _take_place(document, last, joined)


def _to_quantize(document: OnnxDocument, layer: OnnxLayer) -> list[Node]:
    """Nodes behind the layer up to its QuantizeLinear, and one that undoes it; or none.

    A part must be quantized before it is joined: compilers look for the Quantize at the layer.
    """
    chain: list[Node] = []
    tensor = layer.node.output[0]
    while not document.is_output(tensor):
        readers = document.readers(tensor)
        if len(readers) != 1:
            return []
        node = readers[0]
        if node.op_type not in (*POINTWISE, QUANTIZE):
            return []
        plain = is_channelwise(document, node, layer.channel_axis)
        if not plain or data_inputs(document, node) != [tensor]:
            return []
        chain.append(node)
        if node.op_type == QUANTIZE:
            return chain
        tensor = node.output[0]
    return []


def _part(
    document: OnnxDocument, layer: OnnxLayer, rank: int, chain: list[Node], part: range
) -> str:
    """The layer and what is behind it for some channels; gives its last tensor."""
    piece = layer.with_outputs(part)
    tensor = _copy(document, layer.node, piece.inputs_now(document))
    for before, node in pairwise([layer.node, *chain]):
        inputs = follow(document, node, layer.channel_axis, rank, layer.outputs, part)
        inputs = [tensor if name == before.output[0] else name for name in inputs]
        tensor = _copy(document, node, inputs)
    if not chain:
        return tensor
    result = document.fresh(f"{tensor}_real")
    document.add_node(DEQUANTIZE, [tensor, *chain[-1].input[1:]], result)
    return result


def _copy(document: OnnxDocument, node: Node, inputs: list[str]) -> str:
    result = document.fresh(f"{node.output[0]}_part")
    attributes = attributes_of(document, node)
    document.add_node(node.op_type, inputs, result, domain=node.domain, **attributes)
    return result


def _take_place(document: OnnxDocument, node: Node, tensor: str) -> None:
    """Readers of a node's result read `tensor`; the node goes."""
    old = node.output[0]
    document.rewire(old, tensor)
    document.remove(node)


@tflite_edit("split-outputs")
def split_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, TFLITE_LAYERS)
    layer = tflite_layer(op)
    parts = _ranges(layer, op.origin, request)
    assert layer is not None
    whole = op.outputs[0]
    made = []
    for part in parts:
        piece = layer.with_outputs(document, part)
        shape = (*whole.shape[:-1], len(part))
        result = document.add_tensor(f"{whole.name}_part", whole.type, shape, whole.quant)
        options = op.options.copy() if op.options else None
        document.add_op(op.kind, piece.tensors, [result], options, op.version)
        made.append(result)
    document.remove(op)
    axis = Record("ConcatenationOptions", {"Axis": len(whole.shape) - 1})
    document.add_op("CONCATENATION", made, [whole], axis)
