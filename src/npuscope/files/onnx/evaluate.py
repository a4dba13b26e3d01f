"""One node run by ONNX's own reference."""

from __future__ import annotations

import numpy as np

from npuscope.files.onnx.stored_file import Node


def evaluated(node: Node, opset: int, constants: dict[str, np.ndarray]) -> np.ndarray:
    """The first output of a node whose inputs are these constants."""
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    output = helper.make_tensor_value_info(node.output[0], TensorProto.UNDEFINED, None)
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph([node], "constant", [], [output], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return np.asarray(next(iter(ReferenceEvaluator(model).run(None, {}))))
