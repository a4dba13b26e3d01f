"""More channels for a layer whose data come from elsewhere: some of them a second time.

The layer has weights of zeros for them, so that it does not matter what they hold; copies of what
is there cost less than a constant, which the CPU would have to join.
"""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.parts.picking import padded_index
from npuscope.advice.fix.parts.weights_onnx import OnnxLayer, onnx_layer
from npuscope.advice.fix.parts.weights_tflite import TfliteLayer, tflite_layer
from npuscope.graph.edit.document import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument
from npuscope.graph.edit.tflite_document import EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.text import safe_terminal


def repeat_onnx(document: OnnxDocument, tensor: str, axis: int, new: int) -> None:
    """All dense layers that read the tensor read a wider one."""
    shape = document.shape(tensor)
    layers = [onnx_layer(document, node) for node in document.readers(tensor)]
    readers = [one for one in layers if one and one.groups == 1 and one.node.input[0] == tensor]
    maker = document.producer(tensor)
    real = not readers or not readers[0].is_integer
    if not readers or shape is None or new > shape[axis]:
        raise NotFitting(f"no layer could read copies of channels of '{safe_terminal(tensor)}'")
    if real and (maker is None or maker.op_type != DEQUANTIZE):
        raise NotFitting(f"'{safe_terminal(tensor)}' is not quantized")
    wide = _joined_onnx(document, tensor, axis, new, maker if real else None)
    for layer in readers:
        _read_onnx(document, layer, wide, new)


def _read_onnx(document: OnnxDocument, layer: OnnxLayer, wide: str, new: int) -> None:
    layer.with_inputs(padded_index(layer.inputs, layer.inputs + new)).replace_in(document)
    document.set_input(layer.node, 0, wide)


def _joined_onnx(
    document: OnnxDocument, tensor: str, axis: int, new: int, maker: Node | None
) -> str:
    bounds = [
        document.add_constant(f"{tensor}_{name}", np.array([bound], np.int64))
        for name, bound in (("starts", 0), ("ends", new), ("axes", axis))
    ]
    again, wide = document.fresh(f"{tensor}_again"), document.fresh(f"{tensor}_wide")
    document.add_node("Slice", [tensor, *bounds], again)
    again = _quantized(document, again, maker)
    document.add_node("Concat", [tensor, again], wide, axis=axis)
    return _quantized(document, wide, maker)


def _quantized(document: OnnxDocument, tensor: str, maker: Node | None) -> str:
    """Floats are quantized as the maker's data are."""
    if maker is None:
        return tensor
    whole, real = document.fresh(f"{tensor}_whole"), document.fresh(f"{tensor}_real")
    document.add_node(QUANTIZE, [tensor, *maker.input[1:]], whole)
    document.add_node(DEQUANTIZE, [whole, *maker.input[1:]], real)
    return real


def repeat_tflite(document: TfliteDocument, tensor: EditTensor, new: int) -> None:
    layers = [tflite_layer(op) for op in document.readers(tensor)]
    readers = [one for one in layers if one and _is_dense(one, tensor)]
    count, rank = tensor.shape[-1], len(tensor.shape)
    if not readers or new > count:
        raise NotFitting(
            f"no layer could read copies of channels of '{safe_terminal(tensor.name)}'"
        )
    bounds = {"begin": [0] * rank, "size": [*tensor.shape[:-1], new]}
    constants = [
        document.add_tensor(
            f"{tensor.name}_{name}", "INT32", (rank,), None, np.array(values, np.int32)
        )
        for name, values in bounds.items()
    ]
    again, wide = (
        document.add_tensor(
            f"{tensor.name}_{name}", tensor.type, (*tensor.shape[:-1], channels), tensor.quant
        )
        for name, channels in (("again", new), ("wide", count + new))
    )
    document.add_op("SLICE", [tensor, *constants], [again], Record("SliceOptions"), 2)
    joined = Record("ConcatenationOptions", {"Axis": rank - 1})
    document.add_op("CONCATENATION", [tensor, again], [wide], joined)
    for layer in readers:
        layer.with_inputs(document, padded_index(count, count + new)).replace_in()
        layer.op.inputs[0] = wide


def _is_dense(layer: TfliteLayer, tensor: EditTensor) -> bool:
    data = layer.op.inputs[0]
    plain = not layer.is_depthwise and layer.groups == 1
    return plain and data is tensor and tensor.shape[-1] == layer.inputs
