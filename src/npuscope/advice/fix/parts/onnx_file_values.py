"""Constants that an exporter left to be computed: the node asked for, and its value."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.parts.border_onnx import in_graph
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import Node, OnnxDocument
from npuscope.graph.model import Graph


def the_node(document: OnnxDocument, request: Request, kind: str) -> Node:
    """The node of this kind among those of the finding."""
    nodes = [document.op(origin) for origin in request.ops]
    found = next((n for n in nodes if n is not None and n.op_type == kind), None)
    if found is None:
        raise NotFitting(f"there is no {kind}")
    return found


def file_shape(document: OnnxDocument, graph: Graph, tensor: str) -> tuple[int, ...] | None:
    """As ONNX infers it, or as the Graph knows it: some kinds of ops stop the inference."""
    shape = document.shape(tensor)
    known = in_graph(document, graph, tensor) if shape is None else None
    return (known.source_shape or known.shape) if known is not None else shape


def dequantized(document: OnnxDocument, node: Node) -> np.ndarray | None:
    """What a DequantizeLinear of a constant makes; None where its input is computed."""
    steps = document.constant(node.input[0])
    if steps is None:
        return None
    quant = document.quant(node)
    shape = [1] * steps.ndim
    if quant.per_channel:
        shape[quant.axis] = -1
    zero, scale = quant.zero_point.reshape(shape), quant.scale.reshape(shape)
    offset = (steps.astype(np.int64) - zero.astype(np.int64)).astype(np.float32)
    return np.asarray(offset * scale.astype(np.float32)).reshape(steps.shape)


def value_of(document: OnnxDocument, node: Node) -> np.ndarray | None:
    """The result of a node on constants; None where an input is computed."""
    given = {str(name): document.constant(name) for name in node.input if name}
    if any(value is None for value in given.values()):
        return None
    return evaluated(document, node, {k: v for k, v in given.items() if v is not None})


def evaluated(document: OnnxDocument, node: Node, given: dict[str, np.ndarray]) -> np.ndarray:
    """One node of one output, run by ONNX's own reference."""
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    output = helper.make_tensor_value_info(node.output[0], TensorProto.UNDEFINED, None)
    constants = [numpy_helper.from_array(value, name) for name, value in given.items()]
    graph = helper.make_graph([node], "constant", [], [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", document.opset)])
    return np.asarray(next(iter(ReferenceEvaluator(model).run(None, {}))))
