"""Convolutions in an .onnx file whose kernels are ones and zeros: they copy values exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.advice.fix.parts.pairs_onnx import (
    activation_quant,
    add_pair_constants,
    dequantizer,
    insert_pair,
)
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument, OnnxQuant

_MOVERS = (
    *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "MaxPool", "Pad"),
    *("Slice", "Gather", "Split", "DepthToSpace", "SpaceToDepth", "Relu", "Clip"),
)
# Scale and zero point of their results are inputs 6 and 7.
_INTEGER_OPS = ("QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul")


def check_opset(document: OnnxDocument, least: int) -> None:
    """The form that a new node has came with this opset."""
    if document.opset < least:
        raise NotFitting(f"the file's opset {document.opset} is older than {least}")


def moved_quant(document: OnnxDocument, tensor: str) -> OnnxQuant:
    """That of the integers whose values a tensor holds."""
    node = _first_maker(document, tensor)
    if node is not None and node.op_type in (QUANTIZE, DEQUANTIZE):
        return activation_quant(document, node)
    if node is not None and node.op_type in _INTEGER_OPS:
        scale, zero = (document.constant(node.input[place]) for place in (6, 7))
        if scale is not None and zero is not None:
            return OnnxQuant(scale, zero)
    raise NotFitting(f"'{tensor}' is not quantized")


def is_integer(document: OnnxDocument, tensor: str) -> bool:
    node = _first_maker(document, tensor)
    return node is not None and node.op_type in (QUANTIZE, *_INTEGER_OPS)


def _first_maker(document: OnnxDocument, tensor: str) -> Node | None:
    """The node that made the values, before any moves."""
    node = document.producer(tensor)
    while node is not None and node.op_type in _MOVERS:
        node = document.producer(node.input[0])
    return node


def image_shape(document: OnnxDocument, tensor: str) -> tuple[int, int, int, int]:
    """(N, C, H, W)"""
    shape = document.shape(tensor)
    if shape is None or len(shape) != 4:
        raise NotFitting(f"'{tensor}' is no image (N, C, H, W)")
    return shape[0], shape[1], shape[2], shape[3]


def numbers(document: OnnxDocument, node: Node, place: int, name: str = "") -> list[int] | None:
    """Whole numbers that an input states, or an attribute in old files; None where absent."""
    if len(node.input) > place and node.input[place]:
        values = document.constant(node.input[place])
        if values is None:
            raise NotFitting(f"'{node.input[place]}' is computed")
        return [int(value) for value in values.reshape(-1)]
    stated = document.attribute(node, name) if name else None
    return None if stated is None else [int(value) for value in stated]


def quantized(document: OnnxDocument, tensor: str, quant: OnnxQuant) -> str:
    """The tensor behind a QuantizeLinear and a DequantizeLinear, unless it comes from one."""
    if dequantizer(document, tensor) is not None:
        return tensor
    constants = add_pair_constants(document, tensor, quant)
    integers = document.fresh(f"{tensor}_quantized")
    document.add_node(QUANTIZE, (tensor, *constants), integers)
    result = document.fresh(f"{tensor}_dequantized")
    document.add_node(DEQUANTIZE, (integers, *constants), result)
    return result


def int8_constant(document: OnnxDocument, stem: str, steps: np.ndarray, scale: float = 1.0) -> str:
    """An int8 constant about zero behind a DequantizeLinear."""
    quant = OnnxQuant(np.array(scale, np.float32), np.zeros((), np.int8))
    integers = document.add_constant(stem, steps.astype(np.int8))
    constants = add_pair_constants(document, stem, quant)
    result = document.fresh(f"{stem}_dequantized")
    document.add_node(DEQUANTIZE, (integers, *constants), result)
    return result


def copy_instead(
    document: OnnxDocument,
    node: Node,
    kernels: np.ndarray,
    groups: int = 1,
    strides: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
) -> None:
    """A convolution (O, I / groups, kh, kw) in place of a node that moves values."""
    source, result = node.input[0], node.output[0]
    quant, integers = moved_quant(document, source), is_integer(document, source)
    document.remove(node)
    data = source if integers else quantized(document, source, quant)
    made = document.fresh(f"{result}_float") if integers else result
    if integers:
        constants = add_pair_constants(document, result, quant)
        data = document.fresh(f"{source}_dequantized")
        document.add_node(DEQUANTIZE, (source, *constants), data)
        document.add_node(QUANTIZE, (made, *constants), result)
    document.add_node(
        "Conv",
        (data, int8_constant(document, f"{result}_kernels", kernels)),
        made,
        kernel_shape=[*kernels.shape[2:]],
        strides=[*strides],
        pads=[*pads],
        group=groups,
    )
    if not integers:
        bind(document, result, quant)


def bind(document: OnnxDocument, tensor: str, quant: OnnxQuant) -> None:
    """The convolution computes on integers only when all its readers are quantizers."""
    readers = document.readers(tensor)
    if document.is_output(tensor) or any(node.op_type != QUANTIZE for node in readers):
        insert_pair(document, tensor, quant)
