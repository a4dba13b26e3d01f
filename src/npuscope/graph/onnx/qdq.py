"""QuantizeLinear and DequantizeLinear: what they describe, and folding them into constants."""

from __future__ import annotations

from dataclasses import replace

from npuscope.errors import ModelError, NpuscopeError
from npuscope.graph.onnx.constants import Const, QuantType, dequantized, quant_type, quantized
from npuscope.graph.onnx.fold import FOLDERS, Computing
from npuscope.graph.onnx.nodes import Node, Source
from npuscope.graph.onnx.tensors import TYPE_NAMES
from npuscope.text import safe_terminal

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def node_type(node: Node, constants: dict[str, Const]) -> QuantType:
    """The integer type a Q or DQ node converts to or from."""
    scale = constants.get(node.input(1))
    if scale is None:
        raise ModelError(
            f"its scale '{safe_terminal(node.input(1))}' is not a constant",
            where=node.origin,
            hint="quantize the model statically: onnxruntime.quantization.quantize_static",
        )
    if node.integer("block_size", 0):
        raise ModelError("blockwise quantization is not supported", where=node.origin)
    zero_point = constants.get(node.input(2)) if node.input(2) else None
    if node.input(2) and zero_point is None:
        raise ModelError("its zero point is not a constant", where=node.origin)
    data = constants.get(node.input(0))
    try:
        rank = data.data.ndim if data is not None else None
        return quant_type(
            scale, zero_point, _default_type(node, data), node.integer("axis", 1), rank
        )
    except NpuscopeError as error:
        error.where = error.where or node.origin
        raise


def _default_type(node: Node, data: Const | None) -> str:
    """Without a zero point: the data's own type, or the type the node names."""
    if node.kind == DEQUANTIZE:
        return data.type if data is not None else "uint8"
    return TYPE_NAMES.get(node.integer("output_dtype", 0), "uint8")


def fold_constants(source: Source, computing: Computing) -> Source:
    """Compute what needs no activation: constants stay quantized behind a DequantizeLinear."""
    constants = dict(source.constants)
    nodes: list[Node] = []
    outputs = set(source.outputs)
    for node in source.nodes:
        known = [constants.get(name) for name in node.inputs]
        complete = all(const or not name for const, name in zip(known, node.inputs, strict=True))
        if not complete or node.output in outputs or len(node.outputs) > 1:
            nodes.append(node)
        elif node.kind in (QUANTIZE, DEQUANTIZE):
            constants[node.output] = _fold_qdq(node, constants, computing)
        elif node.kind in FOLDERS:
            constants[node.output] = computing.fold(node, known)
        else:
            nodes.append(node)
    return replace(source, nodes=tuple(nodes), constants=constants)


def _fold_qdq(node: Node, constants: dict[str, Const], computing: Computing) -> Const:
    data = constants.get(node.input(0))
    if data is None:
        raise ModelError("input 0 is missing", where=node.origin)
    convert = quantized if node.kind == QUANTIZE else dequantized
    try:
        computing.computed.check(data.data.shape, 1 if node.kind == QUANTIZE else 0)
        result = convert(data, node_type(node, constants))
        computing.take(result, (data,))
        return result
    except NpuscopeError as error:
        error.where = error.where or node.origin
        raise
