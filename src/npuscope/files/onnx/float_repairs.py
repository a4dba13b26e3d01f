"""Forms that quantizers do not know, or not well, as forms that they know; the function stays."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuscope.ops.table import onnx_names
from npuscope.ops.traits import Trait


def use_float32(proto: Any, notes: list[str]) -> None:
    from onnx import TensorProto, numpy_helper

    half, single = TensorProto.FLOAT16, TensorProto.FLOAT
    tensors = [*proto.graph.initializer]
    tensors += [a.t for node in proto.graph.node for a in node.attribute if a.HasField("t")]
    halves = [tensor for tensor in tensors if tensor.data_type == half]
    entries = (*proto.graph.input, *proto.graph.output)
    borders = [e.type.tensor_type for e in entries if e.type.tensor_type.elem_type == half]
    if not halves and not borders:
        return
    for tensor in halves:
        values = np.asarray(numpy_helper.to_array(tensor), np.float32)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for border in borders:
        border.elem_type = single
    for node in proto.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == half:
                attribute.i = single
    del proto.graph.value_info[:]
    notes.append("16-bit floats became 32-bit ones")


def own_biases(proto: Any) -> None:
    """Every layer with a bias of its own: the quantizer copies a shared one under a name that it
    does not look up, which another tensor may have. A Gemm's as a row of one number per output, as
    the quantizer wants it."""
    from onnx import numpy_helper

    initializers = {entry.name: entry for entry in proto.graph.initializer}
    names = {
        *initializers,
        *(name for node in proto.graph.node for name in (*node.input, *node.output)),
    }
    owned: set[str] = set()
    for node in proto.graph.node:
        if (
            node.op_type not in onnx_names(Trait.LAYER)
            or len(node.input) < 3
            or node.input[2] not in initializers
        ):
            continue
        bias = numpy_helper.to_array(initializers[node.input[2]])
        row = _as_row(node, initializers.get(node.input[1]), bias)
        if row is bias and node.input[2] not in owned:
            owned.add(node.input[2])
            continue
        name = f"{node.output[0]}_bias"
        while name in names:
            name += "_"
        names.add(name)
        proto.graph.initializer.append(numpy_helper.from_array(row, name))
        node.input[2] = name


def _as_row(node: Any, weights: Any, bias: np.ndarray) -> np.ndarray:
    if node.op_type != "Gemm" or weights is None:
        return bias
    turned = any(a.name == "transB" and a.i for a in node.attribute)
    count = weights.dims[0 if turned else 1]
    if bias.shape == (count,) or bias.size not in (1, count):
        return bias
    return np.ascontiguousarray(np.broadcast_to(bias.reshape(-1), (count,)))


def add_computed_biases(proto: Any) -> None:
    """A Gemm that adds what another node computes as a product and an Add, which have a scale
    each: onnxruntime makes one Gemm of both, and its quantizer leaves the product in float."""
    from onnx import helper

    constants = {entry.name for entry in proto.graph.initializer}
    names = constants.union(*(node.output for node in proto.graph.node))
    nodes: list[Any] = []
    for node in proto.graph.node:
        nodes.append(node)
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        plain = node.op_type == "Gemm" and attributes.get("beta", 1.0) == 1.0
        if not plain or len(node.input) < 3 or node.input[2] in ("", *constants):
            continue
        bias, result, product = node.input[2], node.output[0], f"{node.output[0]}/product"
        while product in names:
            product += "_"
        del node.input[2:]
        node.output[0] = product
        nodes.append(helper.make_node("Add", [product, bias], [result], f"{node.name}/add"))
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)


def copy_constant_outputs(proto: Any) -> None:
    """A result that is a constant as the copy of one: the quantizer drops what no node reads."""
    from onnx import helper

    initializers = {entry.name: entry for entry in proto.graph.initializer}
    for output in proto.graph.output:
        if output.name not in initializers:
            continue
        stored = f"{output.name}/constant"
        initializers[output.name].name = stored
        for node in proto.graph.node:
            for place, name in enumerate(node.input):
                if name == output.name:
                    node.input[place] = stored
        name = f"{output.name}/copy"
        proto.graph.node.append(helper.make_node("Identity", [stored], [output.name], name))


def inferred(proto: Any) -> Any:
    import onnx

    try:
        return onnx.shape_inference.infer_shapes(proto, data_prop=True)
    except Exception:  # what cannot be inferred is found out by running it
        return proto
