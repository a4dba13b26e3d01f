"""stride-instead: every second pixel is picked by a strided depthwise convolution."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.copying_onnx import (
    copy_instead,
    image_shape,
    moved_quant,
    numbers,
)
from npuscope.advice.fix.parts.copying_tflite import add_depthwise, image
from npuscope.advice.fix.parts.network_op import attrs_of
from npuscope.advice.fix.parts.weights_onnx import onnx_place
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import Node, OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument
from npuscope.ops.moves import SliceAttrs

Pair = tuple[int, int]


@onnx_edit("stride-instead")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Slice",))
    shape = image_shape(document, node.input[0])
    moved_quant(document, node.input[0])
    picks = _onnx_picks(document, node, shape)
    if picks[0] != range(shape[0]) or picks[1] != range(shape[1]):
        raise NotFitting("the Slice cuts images or channels too")
    kernel, strides = _window(picks[2], shape[2]), _window(picks[3], shape[3])
    ones = _one(kernel[0], strides[0])[np.newaxis, np.newaxis]
    kernels = np.repeat(ones, shape[1], axis=0)
    copy_instead(document, node, kernels, shape[1], (kernel[1], strides[1]))


def _onnx_picks(document: OnnxDocument, node: Node, shape: tuple[int, ...]) -> list[range]:
    """The places that are kept along every axis."""
    starts, ends = numbers(document, node, 1, "starts"), numbers(document, node, 2, "ends")
    if starts is None or ends is None:
        raise NotFitting("the Slice does not state its bounds")
    axes = numbers(document, node, 3, "axes") or [*range(len(starts))]
    steps = numbers(document, node, 4) or [1] * len(starts)
    picks = [range(size) for size in shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        picks[axis] = range(shape[axis])[start:end:step]
    return picks


@tflite_edit("stride-instead")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("STRIDED_SLICE",))
    source, result = image(op.input(0)), op.outputs[0]
    attrs = attrs_of(request, "Slice", SliceAttrs)
    if len(result.shape) != 4:
        raise NotFitting("the Slice drops an axis")
    picks = [
        range(start, start + size * step, step)
        for start, size, step in zip(attrs.starts, attrs.sizes, attrs.steps, strict=True)
    ]
    if [*picks[0]] != [*range(source.shape[0])] or [*picks[3]] != [*range(source.shape[3])]:
        raise NotFitting("the Slice cuts images or channels too")
    down, across = _window(picks[1], source.shape[1]), _window(picks[2], source.shape[2])
    ones = _one(down[0], across[0])[np.newaxis, :, :, np.newaxis]
    document.remove(op)
    kernels = np.repeat(ones, source.shape[3], axis=3)
    add_depthwise(document, source, result, kernels, (down[1], across[1]))


def _window(picks: range, size: int) -> Pair:
    """Kernel size and stride of a window without padding whose last element is the pick."""
    kernel, stride = picks.start + 1, picks.step
    if stride < 1 or picks.start >= max(stride, 2):
        raise NotFitting(f"the Slice starts at {picks.start} with step {stride}")
    if (size - kernel) // stride + 1 != len(picks):
        raise NotFitting(f"the Slice ends before the last of {size} places")
    return kernel, stride


def _one(height: int, width: int) -> np.ndarray:
    kernel = np.zeros((height, width), np.int8)
    kernel[-1, -1] = 1
    return kernel
