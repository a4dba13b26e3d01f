"""QuantizeLinear and DequantizeLinear put around tensors of an .onnx file."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuscope.advice.fix.parts.opset import can_raise, raise_opset
from npuscope.advice.fix.parts.steps import HIGHEST, symmetric_steps
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument, OnnxQuant
from npuscope.graph.model import Quant


def as_onnx(quant: Quant, dtype: str = "int8") -> OnnxQuant:
    return OnnxQuant(np.array(quant.scale, np.float32), np.array(quant.zero_point, dtype))


def as_quant(quant: OnnxQuant) -> Quant:
    """Of one scale; the zero point stays that of its type."""
    return Quant((float(quant.scale.reshape(-1)[0]),), (int(quant.zero_point.reshape(-1)[0]),))


def dequantizer(document: OnnxDocument, tensor: str) -> Node | None:
    """The DequantizeLinear that makes a tensor, if one does."""
    maker = document.producer(tensor)
    return maker if maker is not None and maker.op_type == DEQUANTIZE else None


def quantizers(document: OnnxDocument, tensor: str) -> list[Node]:
    """The QuantizeLinear nodes that read a tensor."""
    return [node for node in document.readers(tensor) if node.op_type == QUANTIZE]


def activation_quant(document: OnnxDocument, node: Node) -> OnnxQuant:
    """Of a Q or DQ on an activation; NotFitting where it has many scales or computed ones."""
    try:
        quant = document.quant(node)
    except ValueError as error:
        raise NotFitting(str(error)) from error
    if quant.per_channel:
        raise NotFitting(f"'{node.input[0]}' has one scale per channel")
    return quant


def add_pair_constants(document: OnnxDocument, stem: str, quant: OnnxQuant) -> tuple[str, str]:
    """Names of a scale and a zero point."""
    scale = document.add_constant(f"{stem}_scale", quant.scale.astype(np.float32))
    return scale, document.add_constant(f"{stem}_zero_point", quant.zero_point)


def insert_pair(document: OnnxDocument, tensor: str, quant: OnnxQuant) -> None:
    """Readers of a float tensor, and the network's output, get it quantized and dequantized.

    A QuantizeLinear that is there already serves all of them.
    """
    maker = document.producer(tensor)
    assert maker is not None  # inputs of the network were refused
    before = document.fresh(f"{tensor}_float")
    present = quantizers(document, tensor)
    others = [node for node in document.readers(tensor) if node is not (present or [None])[0]]
    maker.output[list(maker.output).index(tensor)] = before
    if present:
        document.set_input(present[0], 0, before)
        integers, constants = present[0].output[0], present[0].input[1:3]
    else:
        integers = document.fresh(f"{tensor}_quantized")
        constants = add_pair_constants(document, tensor, quant)
        document.add_node(QUANTIZE, (before, *constants), integers)
    if others or document.is_output(tensor):
        document.add_node(DEQUANTIZE, (integers, *constants), tensor)


def store_steps(
    document: OnnxDocument,
    node: Node,
    place: int,
    steps: np.ndarray,
    scales: np.ndarray,
    axis: int | None = None,
) -> None:
    """A constant operand becomes these int8 steps about zero behind a DequantizeLinear."""
    stem = str(node.input[place])
    quant = OnnxQuant(scales, np.zeros(scales.shape, np.int8))
    integers = document.add_constant(f"{stem}_quantized", steps)
    constants = add_pair_constants(document, stem, quant)
    output = document.fresh(f"{stem}_dequantized")
    along: dict[str, Any] = {} if axis is None else {"axis": axis}
    document.add_node(DEQUANTIZE, (integers, *constants), output, **along)
    document.set_input(node, place, output)


def store_slopes(document: OnnxDocument, node: Node, slopes: np.ndarray) -> None:
    """Of a PReLU: a scale per channel keeps each as it is; a single one rounds most of them."""
    axes = [axis for axis, size in enumerate(slopes.shape) if size > 1]
    if len(axes) > 1 or (axes and not can_raise(document)):
        steps, scale = symmetric_steps(slopes)
        store_steps(document, node, 1, steps, np.array(scale))
        return
    scales = np.abs(slopes.astype(np.float64)) / HIGHEST
    scales = np.where(scales > 0, scales, 1.0)
    steps = np.rint(slopes / scales).astype(np.int8)
    if not axes:
        store_steps(document, node, 1, steps, scales.reshape(()))
        return
    raise_opset(document)
    store_steps(document, node, 1, steps, scales.reshape(-1), axes[0])
