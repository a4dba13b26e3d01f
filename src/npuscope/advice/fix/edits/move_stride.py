"""move-stride: a depthwise convolution makes all places, the 1x1 convolutions behind it skip."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.copying_tflite import SAME, VALID
from npuscope.advice.fix.parts.network_op import attrs_of
from npuscope.advice.fix.parts.weights_onnx import onnx_place
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.ops.layers import ConvAttrs

_ONNX_BETWEEN = (QUANTIZE, DEQUANTIZE, "Relu", "Clip", "LeakyRelu", "HardSwish", "Identity")
_TFLITE_BETWEEN = ("RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "HARD_SWISH", "QUANTIZE")
_LAYERS = ("Conv", "QLinearConv")


@onnx_edit("move-stride")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, _LAYERS)
    strides = [*document.attribute(node, "strides", ())]
    if max(strides, default=1) == 1:
        raise NotFitting("the convolution has no stride")
    behind = _pointwise_onnx(document, node.output[0], len(strides))
    if document.attribute(node, "auto_pad", b"NOTSET") != b"NOTSET":
        # Stated, for "same" means other padding without the stride.
        pads = attrs_of(request, "Conv2D", ConvAttrs).pads
        stated = [*pads] if len(strides) == 2 else [pads[1], pads[3]]
        document.set_attribute(node, "auto_pad", "NOTSET")
        document.set_attribute(node, "pads", stated)
    document.set_attribute(node, "strides", [1] * len(strides))
    for layer in behind:
        own = document.attribute(layer, "strides", [1] * len(strides))
        document.set_attribute(layer, "strides", [a * b for a, b in zip(own, strides, strict=True)])


def _pointwise_onnx(document: OnnxDocument, tensor: str, axes: int) -> list[Node]:
    """The 1x1 convolutions that read a tensor; NotFitting where anything else does."""
    readers = document.readers(tensor)
    if document.is_output(tensor) or not readers:
        raise NotFitting(f"'{tensor}' is an output of the network")
    found: list[Node] = []
    for node in readers:
        if node.op_type in _ONNX_BETWEEN and node.input[0] == tensor:
            found += _pointwise_onnx(document, node.output[0], axes)
        elif _is_pointwise(document, node, axes):
            found.append(node)
        else:
            raise NotFitting(f"the result is read by a {node.op_type}, not by a 1x1 convolution")
    return found


def _is_pointwise(document: OnnxDocument, node: Node, axes: int) -> bool:
    if node.op_type not in _LAYERS:
        return False
    weights = document.shape(node.input[3 if node.op_type == "QLinearConv" else 1])
    pads = document.attribute(node, "pads", [0])
    return weights is not None and weights[2:] == (1,) * axes and not any(pads)


@tflite_edit("move-stride")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("DEPTHWISE_CONV_2D",))
    strides = (op.option("StrideH", 1), op.option("StrideW", 1))
    source, result = op.inputs[0], op.outputs[0]
    if strides == (1, 1) or source is None:
        raise NotFitting("the convolution has no stride")
    between, behind = _pointwise_tflite(document, result)
    padded = _padded(document, op, source, attrs_of(request, "Conv2D", ConvAttrs))
    _set(op, StrideH=1, StrideW=1)
    sizes = _sizes(op, padded)
    for tensor in (result, *(other.outputs[0] for other in between)):
        tensor.shape = (tensor.shape[0], *sizes, tensor.shape[3])
    for layer in behind:
        own = (layer.option("StrideH", 1), layer.option("StrideW", 1))
        _set(layer, StrideH=own[0] * strides[0], StrideW=own[1] * strides[1], Padding=VALID)


def _padded(
    document: TfliteDocument, op: EditOp, source: EditTensor, attrs: ConvAttrs
) -> EditTensor:
    """What the convolution reads without padding of its own, where "same" would be another."""
    top, left, bottom, right = attrs.pads
    if not any(attrs.pads):
        _set(op, Padding=VALID)
        return source
    assert op.inputs[1] is not None
    kernel = op.inputs[1].shape[1:3]
    reach = [(size - 1) * step for size, step in zip(kernel, attrs.dilations, strict=True)]
    if (top, left) == (reach[0] // 2, reach[1] // 2) and _keeps(source, attrs, reach):
        _set(op, Padding=SAME)
        return source
    sizes = np.array([(0, 0), (top, bottom), (left, right), (0, 0)], np.int32)
    pads = document.add_tensor(f"{source.name}_pads", "INT32", sizes.shape, None, sizes)
    shape = tuple(n + int(s.sum()) for n, s in zip(source.shape, sizes, strict=True))
    padded = document.add_tensor(f"{source.name}_padded", source.type, shape, source.quant)
    document.add_op("PAD", (source, pads), (padded,), Record("PadOptions"))
    op.inputs[0] = padded
    _set(op, Padding=VALID)
    return padded


def _keeps(source: EditTensor, attrs: ConvAttrs, reach: list[int]) -> bool:
    """Do the places that the stride keeps lie inside, as many as before?"""
    pairs = zip(
        source.shape[1:3], attrs.strides, attrs.pads[:2], attrs.pads[2:], reach, strict=True
    )
    return all(
        (size + before + after - over - 1) // stride + 1 == -(-size // stride)
        for size, stride, before, after, over in pairs
    )


def _sizes(op: EditOp, source: EditTensor) -> tuple[int, int]:
    """Height and width of the result without a stride."""
    if op.option("Padding") == SAME:
        return source.shape[1], source.shape[2]
    assert op.inputs[1] is not None
    kernel = op.inputs[1].shape[1:3]
    steps = (op.option("DilationHFactor", 1), op.option("DilationWFactor", 1))
    height, width = (source.shape[n + 1] - (kernel[n] - 1) * steps[n] for n in (0, 1))
    return height, width


def _pointwise_tflite(
    document: TfliteDocument, tensor: EditTensor
) -> tuple[list[EditOp], list[EditOp]]:
    """Ops between, and the 1x1 convolutions at the end; NotFitting where anything else reads."""
    readers = document.readers(tensor)
    if document.is_output(tensor) or not readers:
        raise NotFitting(f"'{tensor.name}' is an output of the network")
    between: list[EditOp] = []
    behind: list[EditOp] = []
    for op in readers:
        weights = op.input(1)
        if op.kind in _TFLITE_BETWEEN:
            more, ends = _pointwise_tflite(document, op.outputs[0])
            between += [op, *more]
            behind += ends
        elif op.kind == "CONV_2D" and weights is not None and weights.shape[1:3] == (1, 1):
            behind.append(op)
        else:
            raise NotFitting(f"the result is read by a {op.kind}, not by a 1x1 convolution")
    return between, behind


def _set(op: EditOp, **values: int) -> None:
    assert op.options is not None
    op.options.fields.update(values)
