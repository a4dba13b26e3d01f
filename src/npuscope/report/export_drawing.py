"""A Graph as an ONNX file to look at: our ops in a domain of their own, with what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any

from npuscope.graph.model import DType, Graph, Op, Tensor
from npuscope.report.export_costs import LayerCost
from npuscope.report.export_netron import figures
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    import onnx

DOMAIN = "npuscope"
_OPSET = 17
_IR_VERSION = 8


def drawn_onnx(graph: Graph, costs: Mapping[str, LayerCost]) -> bytes:
    """For viewers alone: no runtime knows these ops. Tensors are channel-last."""
    from onnx import helper

    names = _names(graph)
    constants = [t for t in graph.tensors.values() if t.is_constant]
    values = [t for t in graph.tensors.values() if not t.is_constant]
    ends = {*graph.inputs, *graph.outputs}
    made = helper.make_graph(
        [_node(op, costs, names) for op in graph.ops],
        safe_terminal(graph.name) or "graph",
        [_value(graph.tensor(name), names) for name in graph.inputs],
        [_value(graph.tensor(name), names) for name in graph.outputs],
        [_constant(tensor, names) for tensor in constants],
        value_info=[_value(tensor, names) for tensor in values if tensor.name not in ends],
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(
        made, producer_name="npuscope", opset_imports=opsets, ir_version=_IR_VERSION
    )
    return bytes(model.SerializeToString())


def _names(graph: Graph) -> dict[str, str]:
    """Printable names; those that become equal are told apart by a number."""
    names = {"": ""}
    taken = {""}
    for number, name in enumerate(graph.tensors):
        plain = safe_terminal(name)
        names[name] = plain if plain not in taken else f"{plain} ({number})"
        taken.add(names[name])
    return names


def _node(op: Op, costs: Mapping[str, LayerCost], names: Mapping[str, str]) -> onnx.NodeProto:
    from onnx import helper

    cost = _cost_of(op, costs)
    shown = figures(cost) if cost else {}
    attributes = {**_attributes(op), **shown, **({"ms": cost.ms} if cost else {})}
    node = helper.make_node(
        op.kind,
        [names[name] for name in op.inputs],
        [names[name] for name in op.outputs],
        name=safe_terminal(op.name),
        domain=DOMAIN,
    )
    node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    node.doc_string = ", ".join(map(safe_terminal, op.origin))
    return node


def _cost_of(op: Op, costs: Mapping[str, LayerCost]) -> LayerCost | None:
    return next((costs[origin] for origin in op.origin if origin in costs), None)


def _attributes(op: Op) -> dict[str, Any]:
    values = {field.name: getattr(op.attrs, field.name) for field in fields(op.attrs)}
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: object) -> object:
    """Numbers and lists of whole numbers as they are, all else as text."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, tuple) and value and all(isinstance(item, int) for item in value):
        return list(value)
    return safe_terminal(str(value))


def _value(tensor: Tensor, names: Mapping[str, str]) -> onnx.ValueInfoProto:
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(tensor.dtype.numpy)
    return helper.make_tensor_value_info(names[tensor.name], kind, tensor.shape, _quant(tensor))


def _constant(tensor: Tensor, names: Mapping[str, str]) -> onnx.TensorProto:
    import numpy as np
    from onnx import numpy_helper

    data = np.ascontiguousarray(tensor.data, tensor.dtype.numpy)
    made = numpy_helper.from_array(data.reshape(tensor.shape), names[tensor.name])
    made.doc_string = _quant(tensor)
    return made


def _quant(tensor: Tensor) -> str:
    """How the numbers are meant; a viewer shows it as the tensor's description."""
    word = "int4 in bytes; " if tensor.dtype is DType.INT4 else ""
    quant = tensor.quant
    if quant is None:
        return word
    if quant.per_channel:
        return f"{word}{len(quant.scales)} scales on axis {quant.axis}"
    return f"{word}{quant.scale:.6g} * (q - {quant.zero_point})"
