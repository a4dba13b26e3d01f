"""A network over several devices, stage by stage: which of them work on which op."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from npuscope.graph.model import Graph


class PipelineStage(Struct, frozen=True):
    """Nodes of the model's file by name, and the numbers of the devices that share each of them."""

    devices: tuple[int, ...]
    nodes: tuple[str, ...] = ()


def stage_numbers(graph: Graph, stages: Sequence[PipelineStage]) -> list[int]:
    """By op; one that no stage names (a compiler's own) belongs to the last stage of its inputs."""
    by_node = {name: number for number, stage in enumerate(stages) for name in stage.nodes}
    by_tensor: dict[str, int] = {}
    numbers = []
    for op in graph.ops:
        named = [by_node[name] for name in (op.name, *op.origin) if name in by_node]
        before = (by_tensor[name] for name in op.inputs if name in by_tensor)
        number = max(named) if named else max(before, default=0)
        by_tensor.update(dict.fromkeys(op.outputs, number))
        numbers.append(number)
    return numbers


def stage_devices(graph: Graph, stages: Sequence[PipelineStage]) -> dict[int, tuple[int, ...]]:
    """By number of an op; empty where all devices share every op."""
    if len(stages) < 2:
        return {}
    return {i: stages[stage].devices for i, stage in enumerate(stage_numbers(graph, stages))}
