"""A Graph as an ONNX file to look at: our ops in a domain of their own, with what they cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import asdict

from npuscope.bounded_file import MODEL, read_bytes
from npuscope.errors import FileError
from npuscope.files.load import is_tflite
from npuscope.files.onnx.new_file import NewNode, NewTensor, new_file
from npuscope.graph.model import DType, Graph, Op, Tensor
from npuscope.profiling.model import Profile
from npuscope.report.export import (
    LayerCost,
    SourceNode,
    annotated_onnx,
    data_paths,
    figures,
    layer_costs,
    node_data,
    onnx_nodes,
    tflite_nodes,
)
from npuscope.report.figures import label, source_of
from npuscope.shown import Rows, ShownRecord
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.whole_file import write_files

DOMAIN = "npuscope"


def drawn_onnx(graph: Graph, costs: Mapping[str, LayerCost]) -> bytes:
    """For viewers alone: no runtime knows these ops. Tensors are channel-last."""
    names = _names(graph)
    tensors = {t.name: _drawn_tensor(t, names) for t in graph.tensors.values()}
    ends = {*graph.inputs, *graph.outputs}
    return new_file(
        safe_terminal(graph.name) or "graph",
        [_drawn_node(op, costs, names) for op in graph.ops],
        [tensors[name] for name in graph.inputs],
        [tensors[name] for name in graph.outputs],
        [tensors[t.name] for t in graph.tensors.values() if t.is_constant or t.name not in ends],
        DOMAIN,
    )


def _names(graph: Graph) -> dict[str, str]:
    """Printable names; those that become equal are told apart by a number."""
    names = {"": ""}
    unique = {""}
    for number, name in enumerate(graph.tensors):
        plain = safe_terminal(name)
        names[name] = plain if plain not in unique else f"{plain} ({number})"
        unique.add(names[name])
    return names


def _drawn_node(op: Op, costs: Mapping[str, LayerCost], names: Mapping[str, str]) -> NewNode:
    cost = next((costs[origin] for origin in op.origin if origin in costs), None)
    costs_shown = figures(cost) if cost else {}
    values = asdict(op.attrs)
    return NewNode(
        op.kind,
        tuple(names[name] for name in op.inputs),
        tuple(names[name] for name in op.outputs),
        safe_terminal(op.name),
        {
            **{name: _plain(value) for name, value in values.items() if value is not None},
            **costs_shown,
            **({"ms": cost.ms} if cost else {}),
        },
        ", ".join(map(safe_terminal, op.origin)),
    )


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


def _drawn_tensor(tensor: Tensor, names: Mapping[str, str]) -> NewTensor:
    type, values = tensor.dtype.numpy, None
    if tensor.data is not None:
        values = np.ascontiguousarray(tensor.data, type).reshape(tensor.shape)
    return NewTensor(names[tensor.name], np.dtype(type), tensor.shape, _quant(tensor), values)


def _quant(tensor: Tensor) -> str:
    """How the numbers are meant; a viewer shows it as the tensor's description."""
    word = "int4 in bytes; " if tensor.dtype is DType.INT4 else ""
    quant = tensor.quant
    if quant is None:
        return word
    if quant.per_channel:
        return f"{word}{len(quant.scales)} scales on axis {quant.axis}"
    return f"{word}{quant.scale:.6g} * (q - {quant.zero_point})"


# --- The result of `export` ---


class Export(ShownRecord, frozen=True):
    """A model file with what its layers cost, and the files that show it."""

    path: Path
    data: bytes
    graph: Graph
    nodes: tuple[SourceNode, ...]
    profile: Profile
    costs: dict[str, LayerCost]
    files: tuple[str, ...] = ()

    @property
    def annotated(self) -> int:
        return sum(node.origin in self.costs for node in self.nodes)

    @property
    def unassigned_ms(self) -> float:
        """Time that no node of the file stands for, such as turning an input channel-last."""
        drawn_ops = {node.origin for node in self.nodes}
        placed = sum(cost.ms for origin, cost in self.costs.items() if origin in drawn_ops)
        return max(0.0, self.profile.total_ms - placed)

    def told(self) -> str:
        return f"{self.annotated} of {len(self.nodes)} nodes of {self.path.name} with times"

    def table(self) -> Rows:
        """One row per layer."""
        return [{"origin": origin, **asdict(cost)} for origin, cost in self.costs.items()]


def subject_of(path: Path, graph: Graph, profile: Profile) -> Export:
    data = read_bytes(path, MODEL)
    nodes = tflite_nodes(graph) if is_tflite(data) else onnx_nodes(data)
    subject = Export(path, data, graph, nodes, profile, layer_costs(profile, graph))
    if not subject.annotated:
        raise FileError(
            "no layer of this model is in the program",
            where=str(path),
            hint="give the model that it was compiled from",
        )
    return subject


def export_files(
    subject: Export, model_explorer: str | Path | None, netron: str | Path | None
) -> Export:
    files: list[str] = []
    if model_explorer:
        path = Path(model_explorer)
        tables = node_data(subject.nodes, subject.costs, label(source_of(subject.profile)))
        data = {target.name: _dumped(tables[name]) for name, target in data_paths(path).items()}
        files += [str(file) for file in write_files(path.parent, data)]
    if netron:
        path = Path(netron)
        if is_tflite(subject.data):
            content = drawn_onnx(subject.graph, subject.costs)
        else:
            content = annotated_onnx(subject.data, subject.costs, subject.path.parent)
        files += [str(file) for file in write_files(path.parent, {path.name: content})]
    return replace(subject, files=tuple(files))


def _dumped(result: Mapping[str, Any]) -> bytes:
    text = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace")
