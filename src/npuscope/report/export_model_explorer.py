"""Node data for Google's Model Explorer: one JSON file a figure, a value for each node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from npuscope.report.export_costs import LayerCost
from npuscope.report.export_nodes import SourceNode

NodeData = dict[str, Any]
# Cheap to dear; the viewer stretches them from the smallest value to the largest.
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
    known = [(node.key, costs[node.origin]) for node in nodes if node.origin in costs]
    times = {key: {"value": round(cost.ms, 6), **_beside(cost)} for key, cost in known}
    found: dict[str, NodeData] = {
        "ms": {"name": f"ms ({provenance})", "results": times, "gradient": list(_GRADIENT)}
    }
    for name, text in _TEXTS.items():
        results = {key: {"value": text(cost), "bgColor": _colour(cost)} for key, cost in known}
        found[name] = {"name": name, "results": results}
    return found


def _beside(cost: LayerCost) -> dict[str, Any]:
    """For other readers of the file; the viewer takes no notice."""
    return {"kind": cost.kind, "epochs": list(cost.epochs), "bound": cost.bound}


def _colour(cost: LayerCost) -> str:
    return _COLOURS.get(cost.kind, _MIXED)


def data_paths(path: Path) -> dict[str, Path]:
    """Figure -> its file: times under the name that was asked for, the others beside it."""
    beside = {name: path.with_name(f"{path.stem}.{name}{path.suffix}") for name in _TEXTS}
    return {"ms": path, **beside}
