"""A channel shuffle (reshape, transpose, reshape) as a 1x1 convolution that permutes channels.

Each kernel has a single weight of exactly 1, and the result is quantized as the data are: every
value arrives as it was.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.edits.pad_channels import pad_onnx_tensor, pad_tflite_tensor
from npuscope.advice.fix.parts.weights_onnx import Stored, onnx_place, store, title
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit.document import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.graph.model import Quant
from npuscope.machine.model import Machine
from npuscope.rules.streams import LayerShape, padded_count

_ONE = 64  # as an integer; its scale is a power of two too, so that nothing is rounded
_SCALE = 1 / _ONE
_VALID = 1
_SIDES = ("inputs", "outputs")


def permutation(
    shape: tuple[int, ...], middle: tuple[int, ...], axes: tuple[int, ...], channel_axis: int
) -> np.ndarray | None:
    """The channels in their new order; None where more than channels moves."""
    numbers = np.arange(np.prod(shape))
    moved = numbers.reshape(middle).transpose(axes).reshape(shape)
    before, after = (
        np.moveaxis(values, channel_axis, 0).reshape(shape[channel_axis], -1)
        for values in (numbers.reshape(shape), moved)
    )
    order = np.searchsorted(before[:, 0], after[:, 0]).clip(max=len(before) - 1)
    return order if np.array_equal(before[order], after) else None


def kernel(order: np.ndarray) -> np.ndarray:
    """Weights, outputs by inputs."""
    weights = np.zeros((order.size, order.size), np.int8)
    weights[np.arange(order.size), order] = _ONE
    return weights


def _new_channels(
    counts: tuple[int, int], positions: int, zero_point: int, machine: Machine, side: str
) -> int:
    """How many channels of zeros a side of the new layer should get."""
    is_fast = zero_point in (0, -128)
    layer = LayerShape(*counts, (1, 1), positions, positions, is_fast)
    return padded_count([(layer, side)], machine) - counts[_SIDES.index(side)]


@onnx_edit("shuffle-conv")
def shuffle_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Transpose",))
    origin, name = title(node), node.name or "shuffle"
    between: list[Node] = []
    first, last = _above(document, node, between), _below(document, node, between)
    if first is None or last is None:
        raise NotFitting(f"{origin} does not stand alone between two Reshapes")
    source, result = first.input[0], last.output[0]
    order = _order(document, node, source, result)
    if order is None:
        raise NotFitting(f"{origin} moves more than channels")
    maker = document.producer(source)
    if maker is None or maker.op_type != DEQUANTIZE:
        raise NotFitting(f"the data of {origin} are not quantized")
    if not all(_is_alike(document, maker, other) for other in between):
        raise NotFitting(f"the data of {origin} are quantized anew on their way")
    zero_point = _zero_point(document, maker)
    held = _stored(document, f"{result}_shuffle", order)
    document.remove(last)
    document.remove(node)
    layer = document.add_node("Conv", [source, held], result, name=name).name
    _quantize_as(document, maker, result)
    _pad_onnx(document, layer, zero_point, request.network.machine)


def _order(document: OnnxDocument, node: Node, source: str, result: str) -> np.ndarray | None:
    shape, middle = document.shape(source), document.shape(node.input[0])
    axes = document.attribute(node, "perm")
    if shape is None or middle is None or axes is None or len(shape) != 4:
        return None
    return permutation(shape, middle, tuple(axes), 1) if document.shape(result) == shape else None


def _zero_point(document: OnnxDocument, maker: Node) -> int:
    """As int8 would have it."""
    zero = document.quant(maker).zero_point
    return int(zero.reshape(-1)[0]) - (128 if zero.dtype == np.uint8 else 0)


def _stored(document: OnnxDocument, name: str, order: np.ndarray) -> str:
    weights = kernel(order).reshape(order.size, order.size, 1, 1)
    scale, zero = np.array(_SCALE, np.float32), np.array(0, np.int8)
    return store(document, Stored(name, weights, scale, zero))


def _is_alike(document: OnnxDocument, one: Node, other: Node) -> bool:
    """Two nodes with the same scale and zero point."""
    first, second = document.quant(one), document.quant(other)
    alike = np.array_equal(first.scale, second.scale)
    return alike and np.array_equal(first.zero_point, second.zero_point)


def _above(document: OnnxDocument, node: Node, passed: list[Node]) -> Node | None:
    """The Reshape in front, with nothing but quantization between, which is `passed`."""
    tensor = node.input[0]
    while (maker := document.producer(tensor)) is not None:
        if document.is_output(tensor) or len(document.readers(tensor)) != 1:
            return None
        if maker.op_type == "Reshape":
            return maker
        if maker.op_type not in (QUANTIZE, DEQUANTIZE):
            return None
        passed.append(maker)
        tensor = maker.input[0]
    return None


def _below(document: OnnxDocument, node: Node, passed: list[Node]) -> Node | None:
    """The Reshape behind."""
    tensor = node.output[0]
    while not document.is_output(tensor) and len(document.readers(tensor)) == 1:
        reader = document.readers(tensor)[0]
        if reader.op_type == "Reshape":
            return reader
        if reader.op_type not in (QUANTIZE, DEQUANTIZE):
            return None
        passed.append(reader)
        tensor = reader.output[0]
    return None


def _quantize_as(document: OnnxDocument, maker: Node, result: str) -> None:
    """The result is quantized like the data, unless the file does so already."""
    readers = document.readers(result)
    if len(readers) == 1 and readers[0].op_type == QUANTIZE and not document.is_output(result):
        return
    plain = document.fresh(f"{result}_shuffled")
    whole = document.fresh(f"{result}_whole")
    layer = document.producer(result)
    assert layer is not None
    layer.output[0] = plain
    document.add_node(QUANTIZE, [plain, *maker.input[1:]], whole)
    document.add_node(DEQUANTIZE, [whole, *maker.input[1:]], result)


def _pad_onnx(document: OnnxDocument, name: str, zero_point: int, machine: Machine) -> None:
    """Both sides of the new layer, if their count is bad; shapes are found again, and nodes."""
    for side in _SIDES:
        document.shape("")
        node = next(node for node in document.nodes if node.name == name)
        source, result = document.shape(node.input[0]), document.shape(node.output[0])
        assert source is not None and result is not None
        positions = source[2] * source[3]
        new = _new_channels((source[1], result[1]), positions, zero_point, machine, side)
        if new:
            tensor = node.input[0] if side == "inputs" else node.output[0]
            with suppress(NotFitting):
                pad_onnx_tensor(document, tensor, 1, new)


@tflite_edit("shuffle-conv")
def shuffle_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("TRANSPOSE",))
    first, last = _around(document, op)
    if first is None or last is None:
        raise NotFitting(f"{op.origin} does not stand alone between two RESHAPEs")
    source, result = first.inputs[0], last.outputs[0]
    assert source is not None
    order = _tflite_order(op, source, result)
    if order is None:
        raise NotFitting(f"{op.origin} moves more than channels")
    quant = source.quant
    if source.type != "INT8" or quant is None or result.quant != quant:
        raise NotFitting(f"{op.origin} and its Reshapes do not have one int8 quantization")
    constants = _tflite_constants(document, result.name, order, quant.scale)
    for old in (first, op, last):
        document.remove(old)
    options = Record("Conv2DOptions", {"Padding": _VALID, "StrideW": 1, "StrideH": 1})
    layer = document.add_op("CONV_2D", [source, *constants], [result], options, 3)
    _pad_tflite(document, layer, quant.zero_point, request.network.machine)


def _tflite_order(op: EditOp, source: EditTensor, result: EditTensor) -> np.ndarray | None:
    middle, axes = op.inputs[0], op.input(1)
    if middle is None or axes is None or axes.data is None or len(source.shape) != 4:
        return None
    if result.shape != source.shape:
        return None
    return permutation(source.shape, middle.shape, tuple(axes.data.tolist()), 3)


def _tflite_constants(
    document: TfliteDocument, name: str, order: np.ndarray, scale: float
) -> list[EditTensor]:
    count = order.size
    shape = (count, 1, 1, count)
    quant = Quant((_SCALE,) * count, (0,) * count, 0)
    sums = Quant((float(np.float32(scale * _SCALE)),) * count, (0,) * count, 0)
    weights = kernel(order).reshape(shape)
    bias = np.zeros(count, np.int32)
    return [
        document.add_tensor(f"{name}_shuffle", "INT8", shape, quant, weights),
        document.add_tensor(f"{name}_shuffle_bias", "INT32", (count,), sums, bias),
    ]


def _around(document: TfliteDocument, op: EditOp) -> tuple[EditOp | None, EditOp | None]:
    """The RESHAPEs in front and behind; what lies between has no other reader."""
    data, result = op.inputs[0], op.outputs[0]
    assert data is not None
    readers = [*document.readers(data), *document.readers(result)]
    if len(readers) != 2 or document.is_output(result) or document.is_output(data):
        return None, None
    first, last = document.producer(data), readers[1]
    if first is None or first.kind != "RESHAPE" or last.kind != "RESHAPE":
        return None, None
    return first, last


def _pad_tflite(document: TfliteDocument, layer: EditOp, zero_point: int, machine: Machine) -> None:
    for side in _SIDES:
        data, made = layer.inputs[0], layer.outputs[0]
        assert data is not None
        positions = data.shape[1] * data.shape[2]
        counts = data.shape[3], made.shape[3]
        new = _new_channels(counts, positions, zero_point, machine, side)
        if new:
            with suppress(NotFitting):
                pad_tflite_tensor(document, data if side == "inputs" else made, new)
