"""pad-conv: channels of zeros come from a 1x1 convolution that copies the others."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.copying_onnx import (
    copy_instead,
    image_shape,
    is_integer,
    moved_quant,
    numbers,
)
from npuscope.advice.fix.parts.copying_tflite import add_dense, bytes_like, image
from npuscope.advice.fix.parts.network_op import attrs_of
from npuscope.advice.fix.parts.weights_onnx import onnx_place
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import Node, OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.ops.moves import PadAttrs

Pads = tuple[tuple[int, int], ...]


@onnx_edit("pad-conv")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Pad",))
    channels = image_shape(document, node.input[0])[1]
    pads = _onnx_pads(document, node)
    _check(pads, _onnx_value(document, node), pads[1])
    kernels = _copies(channels, *pads[1]).reshape(-1, channels, 1, 1)
    around = (pads[2][0], pads[3][0], pads[2][1], pads[3][1])
    copy_instead(document, node, kernels, pads=around)


def _onnx_pads(document: OnnxDocument, node: Node) -> Pads:
    """(before, after) of N, C, H and W."""
    if document.attribute(node, "mode", b"constant") != b"constant":
        raise NotFitting("the Pad repeats values of the tensor")
    given = numbers(document, node, 1, "pads") or []
    axes = numbers(document, node, 3) or [*range(4)]
    count = len(axes)
    if len(given) != 2 * count:
        raise NotFitting(f"{len(given)} pads for {count} axes")
    known = {axis % 4: (given[n], given[n + count]) for n, axis in enumerate(axes)}
    return tuple(known.get(axis, (0, 0)) for axis in range(4))


def _onnx_value(document: OnnxDocument, node: Node) -> float:
    """The real value of the padding."""
    quant = moved_quant(document, node.input[0])
    value = document.attribute(node, "value", 0.0)
    if len(node.input) > 2 and node.input[2]:
        stated = document.constant(node.input[2])
        if stated is None:
            raise NotFitting("the value of the padding is computed")
        value = stated.reshape(-1)[0]
    if not is_integer(document, node.input[0]):
        return float(value)
    return float(value - quant.zero_point.reshape(-1)[0]) * float(quant.scale.reshape(-1)[0])


@tflite_edit("pad-conv")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("PAD", "PADV2"))
    source, result = image(op.input(0)), op.outputs[0]
    attrs = attrs_of(request, "Pad", PadAttrs)
    _check(attrs.pads, attrs.value, attrs.pads[-1])
    kernels = _copies(source.shape[3], *attrs.pads[3])[:, np.newaxis, np.newaxis]
    document.remove(op)
    deep = result
    if any(map(any, attrs.pads[1:3])):
        shape = (*source.shape[:3], result.shape[3])
        deep = document.add_tensor(f"{result.name}_deep", "INT8", shape, bytes_like(source))
        sizes = np.array([(0, 0), *attrs.pads[1:3], (0, 0)], np.int32)
        pads = document.add_tensor(f"{result.name}_pads", "INT32", sizes.shape, None, sizes)
        document.add_op("PAD", (deep, pads), (result,), Record("PadOptions"))
    add_dense(document, source, deep, kernels)


def _check(pads: Pads, value: float, channels: tuple[int, int]) -> None:
    if any(pads[0]) or min(size for pair in pads for size in pair) < 0:
        raise NotFitting(f"the Pad {pads} does more than to add channels")
    if not any(channels):
        raise NotFitting("the Pad adds no channels")
    if value != 0.0:
        raise NotFitting(f"the new channels hold {value:g}, not 0")


def _copies(channels: int, before: int, after: int) -> np.ndarray:
    """(O, I): a one where an output is a copy."""
    return np.pad(np.eye(channels, dtype=np.int8), ((before, after), (0, 0)))
