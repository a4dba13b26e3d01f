"""Types and shapes as onnx infers them."""

from __future__ import annotations

from typing import Any


def infer(model: Any) -> Any:
    """The graph of a model with what onnx can infer. Nothing is added where inference itself fails,
    as it does on files whose opset imports are incomplete."""
    import onnx

    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return model.graph


def inferred_graph(model: Any) -> Any:
    """The same without what the file says of its tensors, except of inputs."""
    import onnx

    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for entry in bare.graph.output:
        if entry.type.HasField("tensor_type"):
            entry.type.tensor_type.ClearField("shape")
    return infer(bare)
