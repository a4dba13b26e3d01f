"""explicit-pad: an average pool that counts its padding reads a padded tensor instead."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit
from npuscope.advice.fix.parts.copying_onnx import check_opset, image_shape, moved_quant, quantized
from npuscope.advice.fix.parts.network_op import attrs_of
from npuscope.advice.fix.parts.weights_onnx import onnx_place
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.ops.reduce import PoolAttrs


@onnx_edit("explicit-pad")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    """Where padding does not count, every border has its own divisor: no op has that."""
    node = onnx_place(document, request, ("AveragePool",))
    check_opset(document, 11)
    source = node.input[0]
    image_shape(document, source)
    quant = moved_quant(document, source)
    attrs = attrs_of(request, "AveragePool", PoolAttrs)
    if not attrs.count_pads:
        raise NotFitting("the averages at the border do not count the padding")
    top, left, bottom, right = attrs.pads
    sizes = np.array([0, 0, top, left, 0, 0, bottom, right], np.int64)
    pads = document.add_constant(f"{source}_pads", sizes)
    padded = document.fresh(f"{source}_padded")
    document.add_node("Pad", (source, pads), padded)
    document.set_input(node, 0, quantized(document, padded, quant))
    document.set_attribute(node, "auto_pad", "NOTSET")
    document.set_attribute(node, "pads", [0, 0, 0, 0])
    document.set_attribute(node, "count_include_pad", 0)
