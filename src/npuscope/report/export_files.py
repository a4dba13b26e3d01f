"""What layers cost, as files for the viewers of others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from npuscope.bounded_file import MODEL, read_bytes
from npuscope.errors import FileError
from npuscope.graph.model import Graph
from npuscope.profile.model import Profile
from npuscope.report.export_costs import LayerCost, layer_costs
from npuscope.report.export_drawing import drawn_onnx
from npuscope.report.export_model_explorer import data_paths, node_data
from npuscope.report.export_netron import annotated_onnx
from npuscope.report.export_nodes import (
    SourceNode,
    is_tflite,
    onnx_nodes,
    onnx_proto,
    tflite_nodes,
)
from npuscope.report.figures import label, source_of
from npuscope.shown import Rows, Shown
from npuscope.whole_file import write_files


@dataclass(frozen=True, slots=True, repr=False)
class Export(Shown):
    """A model file with what its layers cost, and the files that tell it."""

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
        shown = {node.origin for node in self.nodes}
        placed = sum(cost.ms for origin, cost in self.costs.items() if origin in shown)
        return max(0.0, self.profile.total_ms - placed)

    def told(self) -> str:
        return f"{self.annotated} of {len(self.nodes)} nodes of {self.path.name} with times"

    def table(self) -> Rows:
        """A row a layer."""
        return [{"origin": origin, **asdict(cost)} for origin, cost in self.costs.items()]


def subject_of(path: Path, graph: Graph, profile: Profile) -> Export:
    data = read_bytes(path, MODEL)
    nodes = tflite_nodes(graph) if is_tflite(data) else onnx_nodes(onnx_proto(data))
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
        files += _write_node_data(subject, Path(model_explorer))
    if netron:
        files += _write_onnx(subject, Path(netron))
    return replace(subject, files=tuple(files))


def _write_node_data(subject: Export, path: Path) -> list[str]:
    made = node_data(subject.nodes, subject.costs, label(source_of(subject.profile)))
    data = {target.name: _dumped(made[name]) for name, target in data_paths(path).items()}
    return [str(file) for file in write_files(path.parent, data)]


def _dumped(result: Mapping[str, Any]) -> bytes:
    text = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace")


def _write_onnx(subject: Export, path: Path) -> list[str]:
    if is_tflite(subject.data):
        made = drawn_onnx(subject.graph, subject.costs)
    else:
        proto = onnx_proto(subject.data)
        made = annotated_onnx(proto, subject.costs, subject.path.parent)
    return [str(file) for file in write_files(path.parent, {path.name: made})]
