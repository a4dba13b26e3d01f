"""Constants as plain initializers: fold-constants, own-weights, static-export."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit
from npuscope.advice.fix.edits.batch_one import close_batch
from npuscope.advice.fix.parts.onnx_file_values import (
    dequantized,
    evaluated,
    file_shape,
    the_node,
    value_of,
)
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, Node, OnnxDocument

_MOVES = ("Unsqueeze", "Squeeze", "Reshape", "Gather")
# What exporters do with the sizes that a Shape gives.
_ARITHMETIC = (
    *("Add", "Sub", "Mul", "Div", "Mod", "Neg", "Abs", "Floor", "Ceil", "Cast", "Min", "Max"),
    *("Gather", "Concat", "Slice", "Unsqueeze", "Squeeze", "Reshape", "Identity", "Transpose"),
    *("ConstantOfShape", "Expand", "Range", "Equal", "Less", "Greater", "And", "Or", "Not"),
    *("Where", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin", "Tile"),
)
_MOST_ELEMENTS = 1 << 16


@onnx_edit("fold-constants")
def fold_constants(document: OnnxDocument, request: Request) -> None:
    """Readers that only move a constant are carried out on its integers, which stay integers; any
    other reader gets float values."""
    node = the_node(document, request, DEQUANTIZE)
    real = dequantized(document, node)
    if real is None:
        raise NotFitting("what it dequantizes is computed")
    readers = [r for r in document.readers(node.output[0]) if r.op_type in _MOVES]
    if not readers:
        raise NotFitting("no op that only moves it reads the constant")
    table = ""
    for reader in readers:
        moved = _moved(document, node, reader)
        if moved is None:
            table = table or document.add_constant(f"{node.output[0]}_folded", real)
            document.rewire(node.output[0], table, [reader])
        else:
            _dequantize_behind(document, node, reader, moved)


def _moved(document: OnnxDocument, node: Node, reader: Node) -> np.ndarray | None:
    """The integers as the reader would arrange them."""
    steps = document.constant(node.input[0])
    rest = {str(n): document.constant(n) for n in reader.input if n and n != node.output[0]}
    given = {name: value for name, value in rest.items() if value is not None}
    if steps is None or len(given) < len(rest) or document.quant(node).per_channel:
        return None
    if reader.input[0] != node.output[0]:
        return None
    return evaluated(document, reader, {str(node.output[0]): steps, **given})


def _dequantize_behind(document: OnnxDocument, node: Node, reader: Node, moved: np.ndarray) -> None:
    constant = document.add_constant(f"{reader.output[0]}_quantized", moved)
    document.remove(reader)
    document.add_node(DEQUANTIZE, [constant, *node.input[1:]], reader.output[0])


@onnx_edit("own-weights")
def own_weights(document: OnnxDocument, request: Request) -> None:
    """Each Gemm that shares weights with a MatMul gets a copy."""
    done = False
    for name in request.ops:
        values = document.constant(name)
        readers = [n for n in document.readers(name) if name in n.input[1:2]]
        kinds = {node.op_type for node in readers}
        if values is None or not {"Gemm", "MatMul"} <= kinds:
            continue
        own = document.add_constant(f"{name}_gemm", values)
        document.rewire(name, own, [node for node in readers if node.op_type == "Gemm"])
        done = True
    if not done:
        raise NotFitting("no weights are shared by a Gemm and a MatMul")


@onnx_edit("static-export")
def write_shapes(document: OnnxDocument, request: Request) -> None:
    """Shapes become constants with all that is computed from them alone; allowzero goes.

    An open batch is closed: it would be a part of the constants.
    """
    kinds = {origin.partition(":")[0] for origin in request.ops}
    if "Shape" in kinds:
        _fold_shape(document, request)
    else:
        _without_allowzero(document, the_node(document, request, "Reshape"))


def _without_allowzero(document: OnnxDocument, node: Node) -> None:
    sizes = document.constant(node.input[1])
    if sizes is None:
        raise NotFitting("its shape is computed")
    if (sizes == 0).any():
        raise NotFitting("a size of 0 in its shape is meant as it stands")
    document.set_attribute(node, "allowzero", 0)


def _fold_shape(document: OnnxDocument, request: Request) -> None:
    tensor = str(the_node(document, request, "Shape").input[0])
    shape = file_shape(document, request.network.graph, tensor)
    node = the_node(document, request, "Shape")
    if shape is None:
        raise NotFitting("the shape is not known before a run")
    if _has_open_sizes(document):
        raise NotFitting("a size of an input is open that is no batch")
    if document.is_output(node.output[0]):
        raise NotFitting("the shape is an output of the network")
    close_batch(document)
    start = int(document.attribute(node, "start", 0))
    end = int(document.attribute(node, "end", len(shape)))
    waiting = [_replaced(document, node, np.array(shape[start:end], np.int64))]
    while waiting:
        for reader in document.readers(waiting.pop()):
            value = _foldable(document, reader)
            if value is not None:
                waiting.append(_replaced(document, reader, value))


def _foldable(document: OnnxDocument, node: Node) -> np.ndarray | None:
    plain = node.op_type in _ARITHMETIC and len(node.output) == 1
    if not plain or document.is_output(node.output[0]):
        return None
    value = value_of(document, node)
    return value if value is not None and value.size <= _MOST_ELEMENTS else None


def _replaced(document: OnnxDocument, node: Node, value: np.ndarray) -> str:
    """A constant in place of the node."""
    name = document.add_constant(f"{node.output[0]}_folded", value)
    document.rewire(node.output[0], name)
    document.remove(node)
    return name


def _has_open_sizes(document: OnnxDocument) -> bool:
    shapes = (entry.type.tensor_type.shape for entry in document.graph.input)
    return any(not dim.HasField("dim_value") for shape in shapes for dim in shape.dim[1:])
