"""Whole models that no other test has: functions of the file's own, a float network."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, TensorProto, ValueInfoProto, helper, numpy_helper

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]


def onnx_with_functions(nested: bool = False) -> bytes:
    """A network whose one layer is a function of the file, at will inside of another."""
    nodes = [helper.make_node("Relu", ["a"], ["r"]), helper.make_node("Neg", ["r"], ["b"])]
    functions = [helper.make_function("own", "Inner", ["a"], ["b"], nodes, OPSETS)]
    if nested:
        calls = [helper.make_node("Inner", ["a"], ["b"], domain="own")]
        functions.append(helper.make_function("own", "Outer", ["a"], ["b"], calls, OPSETS))
    call = helper.make_node("Outer" if nested else "Inner", ["x"], ["y"], domain="own")
    graph = helper.make_graph([call], "g", [_value("x", 1, 3, 8, 8)], [_value("y", 1, 3, 8, 8)])
    return _model(graph, functions=functions)


def onnx_float() -> bytes:
    """What `quantize` takes."""
    rng = np.random.default_rng(5)
    weights = numpy_helper.from_array(rng.normal(size=(4, 3, 3, 3)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["y"]),
    ]
    ends = [_value("x", 1, 3, 8, 8)], [_value("y", 1, 4, 1, 1)]
    return _model(helper.make_graph(nodes, "g", *ends, [weights]))


def _value(name: str, *shape: int) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _model(graph: GraphProto, **more: object) -> bytes:
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=8, **more)
    return bytes(model.SerializeToString())
