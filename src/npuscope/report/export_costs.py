"""What each layer of the model file costs: times of epochs, shared among what they came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from npuscope.graph.model import Graph
from npuscope.ops.table import macs
from npuscope.profile.model import EpochProfile, Profile


@dataclass(frozen=True, slots=True)
class LayerCost:
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
    work = _work(graph)
    parts: dict[str, list[Part]] = {}
    for epoch in profile.epochs:
        for origin, share in _shares(epoch.origin, work):
            parts.setdefault(origin, []).append((epoch, epoch.ms * share))
    return {origin: _cost(origin, found) for origin, found in parts.items()}


def _work(graph: Graph) -> Mapping[str, int]:
    """Multiplications by source layer; what was fused behind a layer adds none."""
    found: Counter[str] = Counter()
    for op in graph.ops:
        if op.origin:
            found[op.origin[0]] += macs(graph, op)
    return found


def _shares(origins: Iterable[str], work: Mapping[str, int]) -> list[tuple[str, float]]:
    names = list(dict.fromkeys(origins))
    total = sum(work.get(name, 0) for name in names)
    return [(name, work.get(name, 0) / total if total else 1 / len(names)) for name in names]


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
