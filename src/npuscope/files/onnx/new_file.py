"""An .onnx file from nothing: nodes and tensors in a domain of their own, for viewers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

_OPSET = 17  # declared because ONNX demands one; the file uses no standard op
_IR_VERSION = 8


class NewNode(Struct, frozen=True):
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str
    attributes: Mapping[str, Any]
    description: str


class NewTensor(Struct, frozen=True):
    """`values` where it is a constant."""

    name: str
    type: np.dtype[Any]
    shape: tuple[int, ...]
    description: str
    values: np.ndarray | None = None


def new_file(
    name: str,
    nodes: Sequence[NewNode],
    inputs: Sequence[NewTensor],
    outputs: Sequence[NewTensor],
    others: Sequence[NewTensor],
    domain: str,
) -> bytes:
    from onnx import helper

    graph = helper.make_graph(
        [_node(node, domain) for node in nodes],
        name,
        [_entry(tensor) for tensor in inputs],
        [_entry(tensor) for tensor in outputs],
        [_constant(tensor) for tensor in others if tensor.values is not None],
        value_info=[_entry(tensor) for tensor in others if tensor.values is None],
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(domain, 1)]
    model = helper.make_model(
        graph, producer_name="npuscope", opset_imports=opsets, ir_version=_IR_VERSION
    )
    return bytes(model.SerializeToString())


def _node(new: NewNode, domain: str) -> Any:
    from onnx import helper

    node = helper.make_node(new.kind, new.inputs, new.outputs, name=new.name, domain=domain)
    attributes = new.attributes.items()
    node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes)
    node.doc_string = new.description
    return node


def _entry(new: NewTensor) -> Any:
    from onnx import helper

    number = helper.np_dtype_to_tensor_dtype(new.type)
    return helper.make_tensor_value_info(new.name, number, new.shape, new.description)


def _constant(new: NewTensor) -> Any:
    from onnx import numpy_helper

    tensor = numpy_helper.from_array(np.asarray(new.values), new.name)
    tensor.doc_string = new.description
    return tensor
