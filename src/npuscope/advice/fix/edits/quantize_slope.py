"""quantize-slope: the slopes of a PReLU as int8, so that it runs on the arithmetic unit."""

from __future__ import annotations

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.edits.quantize_op_onnx import quantize_nodes
from npuscope.advice.fix.edits.quantize_op_tflite import quantize_ops
from npuscope.advice.fix.parts.pairs_onnx import dequantizer
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import Node, OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument


@onnx_edit("quantize-slope")
def quantize_slope(document: OnnxDocument, request: Request) -> None:
    """The slopes go behind a DequantizeLinear, and the PReLU between a pair of conversions."""
    found = [document.op(name) for name in request.ops]
    nodes = [node for node in found if node is not None and node.op_type == "PRelu"]
    if not nodes:
        raise NotFitting("there is no PRelu here")
    for node in nodes:
        _check_slopes(document, node)
    quantize_nodes(document, nodes, request.network)


def _check_slopes(document: OnnxDocument, node: Node) -> None:
    if dequantizer(document, node.input[1]) is not None:
        raise NotFitting(f"the slopes '{node.input[1]}' are quantized already")
    if document.constant(node.input[1]) is None:
        raise NotFitting(f"the slopes '{node.input[1]}' are computed")


@tflite_edit("quantize-slope")
def quantize_float_prelu(document: TfliteDocument, request: Request) -> None:
    """A float PRELU between conversions becomes one on integers."""
    found = [document.op(name) for name in request.ops]
    ops = [op for op in found if op is not None and op.kind == "PRELU"]
    if not ops:
        raise NotFitting("there is no PRELU here")
    quantize_ops(document, ops, request.network)
