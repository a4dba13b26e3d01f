"""constant-slice: a Gather of neighbours is a Slice."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.copying_onnx import check_opset
from npuscope.advice.fix.parts.views_tflite import add_reshape
from npuscope.advice.fix.parts.weights_onnx import onnx_place
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument
from npuscope.graph.edit.tflite_records import Record


@onnx_edit("constant-slice")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Gather",))
    check_opset(document, 10)
    source, result = node.input[0], node.output[0]
    shape = document.shape(source)
    if shape is None:
        raise NotFitting(f"the shape of '{source}' is not known")
    axis = int(document.attribute(node, "axis", 0)) % len(shape)
    indices = document.constant(node.input[1])
    first, last = _neighbours(indices, shape[axis])
    is_single = indices is not None and indices.ndim == 0
    document.remove(node)
    bounds = [
        document.add_constant(f"{result}_{name}", np.array([value], np.int64))
        for name, value in (("starts", first), ("ends", last + 1), ("axes", axis))
    ]
    cut = document.fresh(f"{result}_slice") if is_single else result
    document.add_node("Slice", (source, *bounds), cut)
    if is_single:
        # 0 stands for the size that the tensor has: it may be open.
        sizes = np.array([*[0] * axis, *shape[axis + 1 :]], np.int64)
        document.add_node("Reshape", (cut, document.add_constant(f"{result}_shape", sizes)), result)


@tflite_edit("constant-slice")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("GATHER",))
    source, indices, result = op.inputs[0], op.inputs[1], op.outputs[0]
    if source is None or indices is None or op.option("BatchDims"):
        raise NotFitting("the Gather walks batches")
    axis = op.option("Axis") % len(source.shape)
    first, last = _neighbours(indices.data, source.shape[axis])
    starts = np.zeros(len(source.shape), np.int32)
    starts[axis] = first
    sizes = np.array(source.shape, np.int32)
    sizes[axis] = last + 1 - first
    document.remove(op)
    begin, size = (
        document.add_tensor(f"{result.name}_{name}", "INT32", values.shape, None, values)
        for name, values in (("begin", starts), ("size", sizes))
    )
    if len(result.shape) == len(source.shape):
        document.add_op("SLICE", (source, begin, size), (result,), Record("SliceOptions"), 2)
        return
    cut = document.add_tensor(f"{result.name}_slice", source.type, sizes.tolist(), source.quant)
    document.add_op("SLICE", (source, begin, size), (cut,), Record("SliceOptions"), 2)
    add_reshape(document, cut, result)


def _neighbours(indices: np.ndarray | None, size: int) -> tuple[int, int]:
    """The first and the last index."""
    if indices is None:
        raise NotFitting("the indices are computed")
    if indices.ndim > 1:
        raise NotFitting(f"the indices have {indices.ndim} axes")
    places = indices.reshape(-1).astype(int) % size
    if not places.size or np.any(np.diff(places) != 1):
        raise NotFitting("the indices are not neighbours")
    return int(places[0]), int(places[-1])
