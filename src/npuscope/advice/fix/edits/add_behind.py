"""add-behind: a computed bias is added by an op of its own behind the layer."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit
from npuscope.advice.fix.parts.copying_onnx import quantized
from npuscope.advice.fix.parts.pairs_onnx import (
    activation_quant,
    as_onnx,
    as_quant,
    dequantizer,
    quantizers,
)
from npuscope.advice.fix.parts.steps import Interval, covered, int8_quant
from npuscope.advice.fix.parts.weights_onnx import onnx_place, stored
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import Node, OnnxDocument, OnnxQuant


@onnx_edit("add-behind")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    node = onnx_place(document, request, ("Gemm",))
    bias = node.input[2] if len(node.input) > 2 else ""
    if not bias or stored(document, bias) is not None:
        raise NotFitting("the bias is constant")
    quant = _product_quant(document, node, bias)
    result = node.output[0]
    product = document.fresh(f"{result}_product")
    node.output[0] = product
    del node.input[2]
    data = product if quant is None else quantized(document, product, quant)
    document.add_node("Add", (data, bias), result)


def _product_quant(document: OnnxDocument, node: Node, bias: str) -> OnnxQuant | None:
    """Steps for the layer's own result: what the sum can hold, less what the bias can.

    None in a network of floats.
    """
    readers, maker = quantizers(document, node.output[0]), dequantizer(document, bias)
    if not readers or maker is None:
        return None
    total = _covered(activation_quant(document, readers[0]))
    added = _covered(activation_quant(document, maker))
    return as_onnx(int8_quant(total[0] - added[1], total[1] - added[0]))


def _covered(quant: OnnxQuant) -> Interval:
    limits = np.iinfo(quant.zero_point.dtype)
    return covered(as_quant(quant), int(limits.min), int(limits.max))
