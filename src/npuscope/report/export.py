"""What each layer of the model file costs, for other viewers: Model Explorer and Netron."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.graph.limits import MAX_NAME_BYTES
from npuscope.graph.model import Graph
from npuscope.ops.table import macs
from npuscope.profiling.model import EpochProfile, Profile
from npuscope.text import safe_terminal

# --- Costs: times of epochs, shared among the layers they came from ---


class LayerCost(Struct, frozen=True):
    """One source layer. `bound` is that of the epoch in which most of its time goes."""

    origin: str
    ms: float
    epochs: tuple[int, ...]
    kinds: tuple[str, ...]
    bound: str
    provenance: str

    @property
    def kind(self) -> str:
        return "+".join(self.kinds)

    @property
    def epoch(self) -> str:
        return ", ".join(map(str, self.epochs))


Part = tuple[EpochProfile, float]  # an epoch, and the milliseconds of it that a layer takes


def layer_costs(profile: Profile, graph: Graph) -> dict[str, LayerCost]:
    """Source layer -> its cost; the times add up to those of all epochs with known layers.

    Layers that run in one epoch share its time by their multiplications, evenly if none has any.
    """
    # Multiplications by source layer. The first origin is the layer itself, what was fused
    # behind it adds none.
    work: Counter[str] = Counter()
    for op in graph.ops:
        if op.origin:
            # The first origin is the layer itself, the others were fused behind it.
            work[op.origin[0]] += macs(graph, op)
    parts: dict[str, list[Part]] = {}
    for epoch in profile.epochs:
        names = list(dict.fromkeys(epoch.origin))
        total = sum(work.get(name, 0) for name in names)
        for name in names:
            share = work.get(name, 0) / total if total else 1 / len(names)
            parts.setdefault(name, []).append((epoch, epoch.ms * share))
    return {origin: _cost(origin, rows) for origin, rows in parts.items()}


def _cost(origin: str, parts: list[Part]) -> LayerCost:
    longest = max(parts, key=lambda part: part[1])[0]
    return LayerCost(
        origin,
        sum(ms for _, ms in parts),
        tuple(dict.fromkeys(epoch.first for epoch, _ in parts)),
        tuple(dict.fromkeys(epoch.kind.value for epoch, _ in parts)),
        longest.counters.bound.value,
        longest.provenance.value,
    )


# --- Nodes of a model file, named as other viewers name them ---


class SourceNode(Struct, frozen=True):
    """`key` is the node's id in Model Explorer, `index` its place in the file."""

    index: int
    key: str
    origin: str


def tflite_nodes(graph: Graph) -> tuple[SourceNode, ...]:
    """Operators that became ops; the viewer calls them by their place in the file."""
    origins = dict.fromkeys(origin for op in graph.ops for origin in op.origin)
    places = [(origin, origin.rpartition("#")[2]) for origin in origins]
    return tuple(
        SourceNode(int(place), place, origin) for origin, place in places if place.isdecimal()
    )


def onnx_nodes(data: bytes) -> tuple[SourceNode, ...]:
    """All nodes; the viewer's name for one without a name has its place."""
    from npuscope.files.onnx.stored_file import node_names

    nodes = []
    for index, (kind, name) in enumerate(node_names(data)):
        # The same text as the reader makes of it.
        origin = safe_terminal(f"{kind}:{name or f'#{index}'}"[:MAX_NAME_BYTES])
        nodes.append(SourceNode(index, name or f"<node_{index}>", origin))
    return tuple(nodes)


# --- Google's Model Explorer: one JSON file per figure ---

NodeData = dict[str, Any]
# Cheap to expensive; the viewer spreads them from the smallest value to the largest.
_GRADIENT = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e8590c"})
_COLOURS = {"HW": "#d0ebff", "SW": "#ffd8a8", "HYBRID": "#fff3bf"}
_MIXED = "#eebefa"
_TEXTS: dict[str, Callable[[LayerCost], str]] = {
    "kind": lambda cost: cost.kind,
    "epoch": lambda cost: cost.epoch,
    "bound": lambda cost: cost.bound,
}


def node_data(
    nodes: Sequence[SourceNode], costs: Mapping[str, LayerCost], provenance: str
) -> dict[str, NodeData]:
    """Figure -> what its file holds. A file shows one figure: the viewer loads several at once."""
    priced = [(node.key, costs[node.origin]) for node in nodes if node.origin in costs]
    times = {
        key: {
            "value": round(cost.ms, 6),
            # For other readers of the file; the viewer takes no notice.
            "kind": cost.kind,
            "epochs": list(cost.epochs),
            "bound": cost.bound,
        }
        for key, cost in priced
    }
    data: dict[str, NodeData] = {
        "ms": {"name": f"ms ({provenance})", "results": times, "gradient": list(_GRADIENT)}
    }
    for name, text in _TEXTS.items():
        results = {
            key: {"value": text(cost), "bgColor": _COLOURS.get(cost.kind, _MIXED)}
            for key, cost in priced
        }
        data[name] = {"name": name, "results": results}
    return data


def data_paths(path: Path) -> dict[str, Path]:
    """Figure -> its file: times under the name that was asked for, the others beside it."""
    beside = {name: path.with_name(f"{path.stem}.{name}{path.suffix}") for name in _TEXTS}
    return {"ms": path, **beside}


# --- Netron: a copy of the user's ONNX file, or a drawing of a Graph ---

_PREFIX = "npuscope."


def annotated_onnx(data: bytes, costs: Mapping[str, LayerCost], folder: Path) -> bytes:
    """The user's model with a description and properties at every node that costs time.

    Weights that lie in other files of the model's folder come along, for the copy may lie anywhere.
    """
    from npuscope.files.onnx.file_graph import OnnxFileGraph

    graph = OnnxFileGraph.parse(data, folder)
    for node in onnx_nodes(data):
        cost = costs.get(node.origin)
        if cost is not None:
            attributes = figures(cost)
            properties = {_PREFIX + name: value for name, value in attributes.items()}
            said = ", ".join(f"{name} {value}" for name, value in attributes.items())
            graph.remark(graph.nodes[node.index], properties, said)
    return graph.written()


def figures(cost: LayerCost) -> dict[str, str]:
    """What a viewer shows of a layer."""
    return {
        "ms": f"{cost.ms:.6f}",
        "kind": cost.kind,
        "epoch": cost.epoch,
        "bound": cost.bound,
        "provenance": cost.provenance,
    }
