"""nearest-resize for .onnx: edge pixels repeated, a nearest resize, a depthwise convolution."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit
from npuscope.advice.fix.edits.copying_onnx import (
    bind,
    image_shape,
    int8_constant,
    moved_quant,
    quantized,
)
from npuscope.advice.fix.edits.copying_tflite import attrs_of
from npuscope.advice.fix.edits.smoothing import smoothing
from npuscope.advice.fix.edits.weights_onnx import onnx_place
from npuscope.advice.fix.request import Request
from npuscope.graph.attrs_moves import ResizeAttrs
from npuscope.graph.edit.onnx_document import OnnxDocument


@onnx_edit("nearest-resize")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Resize",))
    source, result = node.input[0], node.output[0]
    shape = image_shape(document, source)
    attrs = attrs_of(request, "Resize", ResizeAttrs)
    form = smoothing(attrs, *shape[2:])
    quant = moved_quant(document, source)
    document.remove(node)
    if form is None:
        _add_nearest(document, source, result, (1.0, 1.0, *map(float, attrs.sizes)))
        return
    pads = np.array([0, 0, form.before, form.before, 0, 0, form.after, form.after], np.int64)
    places = document.add_constant(f"{result}_pads", pads)
    wide = document.fresh(f"{result}_edges")
    document.add_node("Pad", (source, places), wide, mode="edge")
    large = document.fresh(f"{result}_nearest")
    _add_nearest(document, wide, large, (1.0, 1.0, form.factor, form.factor))
    data = quantized(document, large, quant)
    kernels = np.repeat(form.steps[np.newaxis, np.newaxis], shape[1], axis=0)
    weights = int8_constant(document, f"{result}_kernels", kernels, form.scale)
    document.add_node(
        "Conv", (data, weights), result, kernel_shape=[*form.steps.shape], group=shape[1]
    )
    bind(document, result, quant)


def _add_nearest(
    document: OnnxDocument, source: str, result: str, scales: tuple[float, ...]
) -> None:
    factors = document.add_constant(f"{result}_factors", np.array(scales, np.float32))
    document.add_node(
        "Resize",
        (source, "", factors),
        result,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
