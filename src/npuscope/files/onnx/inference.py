"""Types and shapes as onnx infers them."""

from __future__ import annotations

from typing import Any


def inferred_graph(model: Any) -> Any:
    """The graph of a model with what onnx can tell of its tensors: without what the file says,
    except of inputs. Nothing is added where inference itself fails, as it does on files whose
    opset imports are incomplete."""
    import onnx

    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for entry in bare.graph.output:
        if entry.type.HasField("tensor_type"):
            entry.type.tensor_type.ClearField("shape")
    try:
        return onnx.shape_inference.infer_shapes(bare, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return bare.graph
