"""nearest-resize for .onnx: edge pixels repeated, a nearest resize, a depthwise convolution."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit
from npuscope.advice.fix.parts.copying_onnx import (
    bind,
    check_opset,
    image_shape,
    int8_constant,
    moved_quant,
    quantized,
)
from npuscope.advice.fix.parts.network_op import attrs_of
from npuscope.advice.fix.parts.smoothing import LONGEST_AXIS, Smoothing, smoothing
from npuscope.advice.fix.parts.views_onnx import joined, made, reshaped
from npuscope.advice.fix.parts.weights_onnx import onnx_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.ops.images import ResizeAttrs

Shape = tuple[int, int, int, int]


@onnx_edit("nearest-resize")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Resize",))
    check_opset(document, 11)
    source, result = node.input[0], node.output[0]
    shape = image_shape(document, source)
    attrs = attrs_of(request, "Resize", ResizeAttrs)
    form = smoothing(attrs, *shape[2:])
    quant = moved_quant(document, source)
    document.remove(node)
    if form is None:
        _add_nearest(document, source, result, attrs.sizes)
        return
    wide = _with_edges(document, source, shape, form)
    large = document.fresh(f"{result}_nearest")
    _add_nearest(document, wide, large, (form.factor, form.factor))
    data = quantized(document, large, quant)
    kernels = np.repeat(form.steps[np.newaxis, np.newaxis], shape[1], axis=0)
    weights = int8_constant(document, f"{result}_kernels", kernels, form.scale)
    document.add_node(
        "Conv", (data, weights), result, kernel_shape=[*form.steps.shape], group=shape[1]
    )
    bind(document, result, quant)


def _add_nearest(
    document: OnnxDocument, source: str, result: str, factors: tuple[int, int]
) -> None:
    scales = np.array((1, 1, *factors), np.float32)
    document.add_node(
        "Resize",
        (source, "", document.add_constant(f"{result}_factors", scales)),
        result,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def _with_edges(document: OnnxDocument, source: str, shape: Shape, form: Smoothing) -> str:
    """Columns, then rows, joined as channels: that is what the stream engines can do."""
    _, channels, height, width = shape
    ends = (form.before, form.after)
    wide, high = width + sum(ends), height + sum(ends)
    if wide * high * channels > LONGEST_AXIS:
        return _padded(document, source, ends)
    data = made(document, source, "Transpose", perm=[0, 2, 3, 1])
    data = reshaped(document, data, (height, 1, width * channels))
    data = _joined(document, data, width * channels, channels, ends)
    data = reshaped(document, data, (1, 1, height * wide * channels))
    data = _joined(document, data, height * wide * channels, wide * channels, ends)
    data = reshaped(document, data, (high, wide, channels))
    return made(document, data, "Transpose", perm=[0, 3, 1, 2])


def _padded(document: OnnxDocument, source: str, ends: tuple[int, int]) -> str:
    """By the CPU: too many values for one row of channels."""
    pads = [0, 0, ends[0], ends[0], 0, 0, ends[1], ends[1]]
    return made(document, source, "Pad", pads, mode="edge")


def _joined(
    document: OnnxDocument, source: str, count: int, size: int, ends: tuple[int, int]
) -> str:
    """The first and the last `size` of `count` channels once more on their side."""
    front = [made(document, source, "Slice", [0], [size], [3]) for _ in range(ends[0])]
    back = [made(document, source, "Slice", [count - size], [count], [3]) for _ in range(ends[1])]
    return joined(document, [*front, source, *back])
