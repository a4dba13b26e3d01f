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


def split_fused(proto: Any, notes: list[str]) -> None:
    """onnxruntime's FusedConv, which no quantizer knows, as a Conv and what follows it."""
    nodes, count = list(proto.graph.node), 0
    del proto.graph.node[:]
    for node in nodes:
        proto.graph.node.append(node)
        if node.op_type == "FusedConv":
            proto.graph.node.extend(_parts_of(proto.graph.node[-1], proto.graph))
            count += 1
    if count:
        notes.append(f"{count} FusedConv of onnxruntime became Conv and activation")


def _parts_of(node: Any, graph: Any) -> list[Any]:
    """The node becomes a Conv; what follows it is given."""
    from onnx import helper, numpy_helper

    found = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    kind = found.get("activation", b"").decode()
    numbers = list(found.get("activation_params", ()))
    kept = [item for item in node.attribute if not item.name.startswith("activation")]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.op_type, node.domain = "Conv", ""
    value, made = node.output[0], []
    summed = node.input[3] if len(node.input) > 3 else ""
    if summed:
        del node.input[3:]
        made.append(helper.make_node("Add", [f"{value}/conv", summed], [f"{value}/sum"]))
    if kind:
        bounds = [f"{value}/bound{n}" for n in range(len(numbers))] if kind == "Clip" else []
        for name, number in zip(bounds, numbers, strict=False):
            graph.initializer.append(numpy_helper.from_array(np.array(number, np.float32), name))
        names = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}.get(kind, ())
        given = dict(zip(names, numbers, strict=False))
        source = f"{value}/sum" if summed else f"{value}/conv"
        made.append(helper.make_node(kind, [source, *bounds], [value], **given))
    if made:
        node.output[0] = f"{value}/conv"
        made[-1].output[0] = value
    return made


def norms_as_layers(proto: Any, notes: list[str]) -> None:
    """A BatchNormalization that no layer in front could take (as in pre-activation blocks) is a
    depthwise 1x1 convolution: that has a scale for every channel in int8."""
    from onnx import helper, numpy_helper

    held = {entry.name: numpy_helper.to_array(entry) for entry in proto.graph.initializer}
    ranks, count = _ranks(proto), 0
    for node in proto.graph.node:
        if node.op_type != "BatchNormalization" or len(node.output) > 1:
            continue
        numbers = [held.get(name) for name in node.input[1:5]]
        rank = ranks.get(node.input[0], 0)
        if rank < 3 or any(values is None for values in numbers):
            continue
        epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
        gain, shift, mean, variance = (np.asarray(values, np.float64) for values in numbers)
        factor = gain / np.sqrt(variance + epsilon)
        kernel = factor.reshape(-1, *[1] * (rank - 1))
        names = [f"{node.output[0]}/{stem}" for stem in ("weight", "bias")]
        for name, values in zip(names, (kernel, shift - mean * factor), strict=True):
            proto.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
        conv = helper.make_node("Conv", [node.input[0], *names], node.output, node.name)
        sizes = {"group": factor.size, "kernel_shape": [1] * (rank - 2)}
        conv.attribute.extend(helper.make_attribute(name, size) for name, size in sizes.items())
        node.CopyFrom(conv)
        count += 1
    if count:
        notes.append(f"{count} BatchNormalization became depthwise 1x1 convolutions")


def _ranks(proto: Any) -> dict[str, int]:
    graph = inferred(proto).graph
    entries = (*graph.input, *graph.value_info, *graph.output)
    return {entry.name: len(entry.type.tensor_type.shape.dim) for entry in entries}


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
