"""multiply-instead: a constant divisor becomes a factor."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit
from npuscope.advice.fix.parts.copying_onnx import int8_constant
from npuscope.advice.fix.parts.pairs_onnx import dequantizer
from npuscope.advice.fix.parts.weights_onnx import onnx_place, stored
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument


@onnx_edit("multiply-instead")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Div",))
    divisor = stored(document, node.input[1])
    if divisor is None:
        raise NotFitting("the divisor is computed")
    scale = 1.0 if divisor.scale is None else np.asarray(divisor.scale, np.float64)
    values = (divisor.values.astype(np.float64) - divisor.zeros) * scale
    if np.unique(values).size != 1 or not values.reshape(-1)[0]:
        raise NotFitting("the divisors are not one number other than 0")
    factor = 1 / float(values.reshape(-1)[0])
    stem, shape = f"{node.output[0]}_factor", values.shape
    if dequantizer(document, node.input[0]) is not None:
        sign = np.full(shape, np.sign(factor), np.int8)
        name = int8_constant(document, stem, sign, abs(factor))
    else:
        name = document.add_constant(stem, np.full(shape, factor, np.float32))
    document.set_input(node, 1, name)
    node.op_type = "Mul"
