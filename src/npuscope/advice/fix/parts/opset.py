"""Raising the opset of an .onnx file to 13, where DequantizeLinear learned scales per channel."""

from __future__ import annotations

import numpy as np

from npuscope.graph.edit.onnx_document import Node, OnnxDocument

PER_CHANNEL = 13
_FROM = 11  # older files differ in Clip, Pad, Resize and more
# Attributes that became inputs, by op: (attribute, place).
_MOVED = {
    "Squeeze": ("axes", 1),
    "Unsqueeze": ("axes", 1),
    "ReduceSum": ("axes", 1),
    "Split": ("split", 1),
}
_REDEFINED = ("Softmax", "LogSoftmax", "Hardmax", "Dropout")


def can_raise(document: OnnxDocument) -> bool:
    """Nothing in the file would mean something else."""
    if document.opset >= PER_CHANNEL:
        return True
    kinds = {node.op_type for node in document.nodes}
    nested = any(item.HasField("g") for node in document.nodes for item in node.attribute)
    return document.opset >= _FROM and not nested and not kinds.intersection(_REDEFINED)


def raise_opset(document: OnnxDocument) -> None:
    """The same network in opset 13; nothing happens to a newer one."""
    if document.opset >= PER_CHANNEL:
        return
    for node in document.nodes:
        if node.op_type in _MOVED and not node.domain:
            _attribute_to_input(document, node, *_MOVED[node.op_type])
    for entry in document.proto.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = PER_CHANNEL


def _attribute_to_input(document: OnnxDocument, node: Node, name: str, place: int) -> None:
    values = document.attribute(node, name)
    kept = [item for item in node.attribute if item.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    if values is not None:
        constant = document.add_constant(f"{node.output[0]}_{name}", np.array(values, np.int64))
        document.set_input(node, place, constant)
