"""Forms that quantizers do not know, or not well, as forms that they know; the function stays."""

from __future__ import annotations

from typing import Any

import numpy as np


def use_float32(proto: Any, notes: list[str]) -> None:
    from onnx import TensorProto

    half, single = TensorProto.FLOAT16, TensorProto.FLOAT
    tensors = [*proto.graph.initializer]
    tensors += [a.t for node in proto.graph.node for a in node.attribute if a.HasField("t")]
    found = [tensor for tensor in tensors if tensor.data_type == half]
    entries = (*proto.graph.input, *proto.graph.output)
    borders = [e.type.tensor_type for e in entries if e.type.tensor_type.elem_type == half]
    if not found and not borders:
        return
    for tensor in found:
        _widen(tensor)
    for border in borders:
        border.elem_type = single
    for node in proto.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == half:
                attribute.i = single
    del proto.graph.value_info[:]
    notes.append("16-bit floats became 32-bit ones")


def _widen(tensor: Any) -> None:
    from onnx import numpy_helper

    values = np.asarray(numpy_helper.to_array(tensor), np.float32)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def flatten_biases(proto: Any) -> None:
    """The quantizer wants a Gemm's bias as a row of one number for every output."""
    from onnx import numpy_helper

    held = {entry.name: entry for entry in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type != "Gemm" or len(node.input) < 3 or node.input[2] not in held:
            continue
        weights, bias = held.get(node.input[1]), held[node.input[2]]
        turned = any(a.name == "transB" and a.i for a in node.attribute)
        if weights is None or list(bias.dims) == [weights.dims[0 if turned else 1]]:
            continue
        count = weights.dims[0 if turned else 1]
        values = numpy_helper.to_array(bias).reshape(-1)
        if values.size in (1, count):
            name = f"{node.output[0]}_bias"
            row = np.ascontiguousarray(np.broadcast_to(values, (count,)))
            proto.graph.initializer.append(numpy_helper.from_array(row, name))
            node.input[2] = name


def inferred(proto: Any) -> Any:
    import onnx

    try:
        return onnx.shape_inference.infer_shapes(proto, data_prop=True)
    except Exception:  # what cannot be inferred is found out by running it
        return proto
