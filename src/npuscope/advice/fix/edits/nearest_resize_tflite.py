"""nearest-resize for .tflite: edge pixels repeated, a nearest resize, a depthwise convolution."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import tflite_edit
from npuscope.advice.fix.edits.copying_tflite import add_depthwise, attrs_of, bytes_like, image
from npuscope.advice.fix.edits.smoothing import Smoothing, smoothing
from npuscope.advice.fix.edits.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.attrs_moves import ResizeAttrs
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.tflite_document import EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record

_LONGEST_AXIS = 65535  # what the NPU's size registers hold


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
    extra = form.before + form.after
    if (height + extra) * (width + extra) * channels > _LONGEST_AXIS:
        raise NotFitting(
            f"an image of {height}x{width}x{channels} is too large to repeat its edges"
        )
    document.remove(op)
    wide = _with_edges(document, source, form)
    large = _like(document, source, f"{result.name}_nearest", _scaled(wide, form.factor))
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
    columns = _reshaped(document, source, (images, height, 1, width * channels))
    columns = _joined(document, columns, channels, ends)
    row = columns.shape[3]
    rows = _reshaped(document, columns, (images, 1, 1, height * row))
    rows = _joined(document, rows, row, ends)
    return _reshaped(document, rows, (images, height + sum(ends), row // channels, channels))


def _joined(
    document: TfliteDocument, source: EditTensor, size: int, ends: tuple[int, int]
) -> EditTensor:
    """The first and the last `size` channels once more on their side."""
    last = source.shape[3] - size
    front = [_cut(document, source, 0, size) for _ in range(ends[0])]
    back = [_cut(document, source, last, size) for _ in range(ends[1])]
    shape = (*source.shape[:3], source.shape[3] + sum(ends) * size)
    result = _like(document, source, f"{source.name}_edges", shape)
    options = Record("ConcatenationOptions", {"Axis": 3})
    document.add_op("CONCATENATION", (*front, source, *back), (result,), options, version=2)
    return result


def _cut(document: TfliteDocument, source: EditTensor, first: int, size: int) -> EditTensor:
    result = _like(document, source, f"{source.name}_edge", (*source.shape[:3], size))
    begin, sizes = np.array([0, 0, 0, first], np.int32), np.array(result.shape, np.int32)
    places = [
        document.add_tensor(f"{result.name}_{name}", "INT32", (4,), None, values)
        for name, values in (("begin", begin), ("size", sizes))
    ]
    document.add_op("SLICE", (source, *places), (result,), Record("SliceOptions"), version=2)
    return result


def _reshaped(document: TfliteDocument, source: EditTensor, shape: tuple[int, ...]) -> EditTensor:
    result = _like(document, source, f"{source.name}_view", shape)
    sizes = np.array(shape, np.int32)
    given = document.add_tensor(f"{result.name}_shape", "INT32", (len(shape),), None, sizes)
    document.add_op(
        "RESHAPE", (source, given), (result,), Record("ReshapeOptions", {"NewShape": sizes})
    )
    return result


def _like(
    document: TfliteDocument, source: EditTensor, stem: str, shape: tuple[int, ...]
) -> EditTensor:
    return document.add_tensor(stem, source.type, shape, bytes_like(source))
