"""ONNX files for Netron: a copy of the user's with our figures, or a drawing of a Graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuscope.errors import FileError
from npuscope.report.export_costs import LayerCost
from npuscope.report.export_nodes import onnx_nodes

_PREFIX = "npuscope."


def annotated_onnx(proto: Any, costs: Mapping[str, LayerCost], folder: Path) -> bytes:
    """The user's model with a description and properties at every node that costs time.

    Weights that lie in other files of the model's folder come along, for the copy may lie anywhere.
    """
    copy = type(proto)()
    copy.CopyFrom(proto)
    for node in onnx_nodes(copy):
        cost = costs.get(node.origin)
        if cost is not None:
            _annotate(copy.graph.node[node.index], cost)
    _take_weights_in(copy, folder)
    return _serialized(copy)


def _annotate(node: Any, cost: LayerCost) -> None:
    for name, value in figures(cost).items():
        entry = node.metadata_props.add()
        entry.key, entry.value = _PREFIX + name, value
    said = ", ".join(f"{name} {value}" for name, value in figures(cost).items())
    node.doc_string = f"{node.doc_string}\n{said}" if node.doc_string else said


def figures(cost: LayerCost) -> dict[str, str]:
    """What a viewer shows of a layer."""
    return {
        "ms": f"{cost.ms:.6f}",
        "kind": cost.kind,
        "epoch": cost.epoch,
        "bound": cost.bound,
        "provenance": cost.provenance,
    }


def _take_weights_in(proto: Any, folder: Path) -> None:
    from onnx.external_data_helper import load_external_data_for_model, uses_external_data

    if not any(uses_external_data(tensor) for tensor in proto.graph.initializer):
        return
    try:
        load_external_data_for_model(proto, str(folder))
    except (OSError, ValueError, RuntimeError) as error:
        raise FileError(f"the external weights cannot be read: {error}") from None


def _serialized(proto: Any) -> bytes:
    from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

    try:
        return bytes(proto.SerializeToString())
    except (EncodeError, ValueError):
        raise FileError("the annotated model is larger than an ONNX file can be") from None
