"""mean-times-n: a sum over whole maps is their mean times the number of pixels.

The mean has the steps of the sum divided by that number: its bytes are those of the sum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts.copying_onnx import image_shape, int8_constant, numbers, quantized
from npuscope.advice.fix.parts.copying_tflite import image
from npuscope.advice.fix.parts.network_op import attrs_of
from npuscope.advice.fix.parts.pairs_onnx import activation_quant, quantizers
from npuscope.advice.fix.parts.weights_onnx import onnx_place
from npuscope.advice.fix.parts.weights_tflite import tflite_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.graph.model import Quant
from npuscope.ops.reduce import ReduceAttrs

_AXES_AS_INPUT = 18  # opset from which ReduceMean has them there


@onnx_edit("mean-times-n")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("ReduceSum",))
    source, result = node.input[0], node.output[0]
    shape = image_shape(document, source)
    axes = sorted(axis % 4 for axis in numbers(document, node, 1, "axes") or [*range(4)])
    _check(axes == [2, 3])
    readers = quantizers(document, result)
    if not readers:
        raise NotFitting(f"'{result}' is not quantized")
    quant = activation_quant(document, readers[0])
    count = shape[2] * shape[3]
    keep = int(document.attribute(node, "keepdims", 1))
    document.remove(node)
    mean = document.fresh(f"{result}_mean")
    if document.opset >= _AXES_AS_INPUT:
        places = document.add_constant(f"{result}_axes", np.array(axes, np.int64))
        document.add_node("ReduceMean", (source, places), mean, keepdims=keep)
    else:
        document.add_node("ReduceMean", (source,), mean, axes=axes, keepdims=keep)
    finer = replace(quant, scale=np.asarray(quant.scale / np.float32(count), np.float32))
    factor = int8_constant(document, f"{result}_count", np.array(1, np.int8), float(count))
    document.add_node("Mul", (quantized(document, mean, finer), factor), result)


@tflite_edit("mean-times-n")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    op = tflite_place(document, request, ("SUM",))
    source, result = image(op.input(0)), op.outputs[0]
    _check(attrs_of(request, "ReduceSum", ReduceAttrs).axes == (1, 2))
    if result.quant is None or result.quant.per_channel:
        raise NotFitting(f"'{result.name}' is not quantized")
    count = source.shape[1] * source.shape[2]
    finer = Quant((float(np.float32(result.quant.scale / count)),), result.quant.zero_points)
    mean = document.add_tensor(f"{result.name}_mean", "INT8", result.shape, finer)
    document.remove(op)
    document.add_op("MEAN", op.inputs, (mean,), op.options, version=2)
    one = Quant((float(count),), (0,))
    factor = document.add_tensor(f"{result.name}_count", "INT8", (1,), one, np.array([1], np.int8))
    document.add_op("MUL", (mean, factor), (result,), Record("MulOptions"), version=2)


def _check(whole_maps: bool) -> None:
    if not whole_maps:
        raise NotFitting("the sum is not one over height and width")
