"""nearest-resize for .tflite: edge pixels repeated, a nearest resize, a depthwise convolution."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import tflite_edit
from npuscope.advice.fix.parts.copying_tflite import add_depthwise, image
from npuscope.advice.fix.parts.network_op import attrs_of
from npuscope.advice.fix.parts.smoothing import LONGEST_AXIS, Smoothing, smoothing
from npuscope.advice.fix.parts.views_tflite import joined, like, reshaped
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit.tflite_document import EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.ops.images import ResizeAttrs

_SYMMETRIC = 1  # the edge pixel itself comes first


@tflite_edit("nearest-resize")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("RESIZE_BILINEAR",))
    source, result = image(op.input(0)), op.outputs[0]
    _, height, width, channels = source.shape
    form = smoothing(attrs_of(request, "Resize", ResizeAttrs), height, width)
    if form is None:
        document.remove(op)
        _add_nearest(document, source, result)
        return
    document.remove(op)
    wide = _with_edges(document, source, form)
    large = like(document, source, f"{result.name}_nearest", _scaled(wide, form.factor))
    _add_nearest(document, wide, large)
    kernels = np.repeat(form.steps[np.newaxis, :, :, np.newaxis], channels, axis=3)
    add_depthwise(document, large, result, kernels, scale=form.scale)


def _scaled(tensor: EditTensor, factor: int) -> tuple[int, ...]:
    images, height, width, channels = tensor.shape
    return images, height * factor, width * factor, channels


def _add_nearest(document: TfliteDocument, source: EditTensor, result: EditTensor) -> None:
    sizes = np.array(result.shape[1:3], np.int32)
    size = document.add_tensor(f"{result.name}_size", "INT32", (2,), None, sizes)
    options = Record("ResizeNearestNeighborOptions")
    document.add_op("RESIZE_NEAREST_NEIGHBOR", (source, size), (result,), options, version=2)


def _with_edges(document: TfliteDocument, source: EditTensor, form: Smoothing) -> EditTensor:
    """Columns, then rows, joined as channels: that is what the stream engines can do."""
    images, height, width, channels = source.shape
    ends = (form.before, form.after)
    if (height + sum(ends)) * (width + sum(ends)) * channels > LONGEST_AXIS:
        return _padded(document, source, ends)
    columns = reshaped(document, source, (images, height, 1, width * channels))
    columns = _joined(document, columns, channels, ends)
    row = columns.shape[3]
    rows = reshaped(document, columns, (images, 1, 1, height * row))
    rows = _joined(document, rows, row, ends)
    return reshaped(document, rows, (images, height + sum(ends), row // channels, channels))


def _padded(document: TfliteDocument, source: EditTensor, ends: tuple[int, int]) -> EditTensor:
    """By the CPU: too many values for one row of channels."""
    sizes = np.array([(0, 0), ends, ends, (0, 0)], np.int32)
    pads = document.add_tensor(f"{source.name}_pads", "INT32", sizes.shape, None, sizes)
    shape = tuple(n + int(s.sum()) for n, s in zip(source.shape, sizes, strict=True))
    result = like(document, source, f"{source.name}_edges", shape)
    options = Record("MirrorPadOptions", {"Mode": _SYMMETRIC})
    document.add_op("MIRROR_PAD", (source, pads), (result,), options, version=2)
    return result


def _joined(
    document: TfliteDocument, source: EditTensor, size: int, ends: tuple[int, int]
) -> EditTensor:
    """The first and the last `size` channels once more on their side."""
    last = source.shape[3] - size
    front = [_cut(document, source, 0, size) for _ in range(ends[0])]
    back = [_cut(document, source, last, size) for _ in range(ends[1])]
    return joined(document, [*front, source, *back])


def _cut(document: TfliteDocument, source: EditTensor, first: int, size: int) -> EditTensor:
    result = like(document, source, f"{source.name}_edge", (*source.shape[:3], size))
    begin, sizes = np.array([0, 0, 0, first], np.int32), np.array(result.shape, np.int32)
    places = [
        document.add_tensor(f"{result.name}_{name}", "INT32", (4,), None, values)
        for name, values in (("begin", begin), ("size", sizes))
    ]
    document.add_op("SLICE", (source, *places), (result,), Record("SliceOptions"), version=2)
    return result
