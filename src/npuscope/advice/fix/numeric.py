"""What an edit does to the results: outputs before and after, on the same seeded data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log10

import numpy as np

from npuscope.advice.fix.seeded import real_outputs, seeded_inputs
from npuscope.graph.model import Graph, Tensor

_EQUAL = 1e-3  # of a step: float outputs are no exact multiples of one


@dataclass(frozen=True, slots=True)
class Effect:
    """Of one output: the largest difference in steps (LSB), and signal to noise in dB.

    `reference` is the tensor of the original network that stands for it; None where there is
    none to compare with. Steps are those of the original, real units where it is float.
    """

    output: str
    reference: str | None
    max_lsb: float
    exact_share: float
    sqnr_db: float

    @property
    def exact(self) -> bool:
        return self.reference is not None and self.max_lsb < _EQUAL


def effects(before: Graph, after: Graph, seeds: int) -> tuple[Effect, ...]:
    """One for each output of the edited network."""
    pairs = [(name, _counterpart(before, after, n, name)) for n, name in enumerate(after.outputs)]
    keep = [found for _, found in pairs if found is not None]
    rows: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name, _ in pairs}
    for seed in range(seeds):
        reals = seeded_inputs(before, seed)
        old, new = real_outputs(before, reals, keep), real_outputs(after, reals, [])
        for name, found in pairs:
            if found is not None:
                rows[name].append((old[found].reshape(-1), new[name].reshape(-1)))
    return tuple(_effect(name, found, before, rows[name]) for name, found in pairs)


def _counterpart(before: Graph, after: Graph, place: int, name: str) -> str | None:
    """The same output; where the network was cut, the tensor that is an output now."""
    elements = after.tensor(name).elements
    if name in before.tensors and before.tensor(name).elements == elements:
        return name
    same_count = len(before.outputs) == len(after.outputs)
    other = before.outputs[place] if same_count else ""
    return other if other and before.tensor(other).elements == elements else None


def _effect(
    name: str,
    found: str | None,
    before: Graph,
    rows: Sequence[tuple[np.ndarray, np.ndarray]],
) -> Effect:
    if found is None:
        return Effect(name, None, inf, 0.0, -inf)
    old = np.concatenate([row for row, _ in rows])
    new = np.concatenate([row for _, row in rows])
    steps = np.abs(old - new) / step(before, before.tensor(found))
    return Effect(
        name,
        found,
        round(float(steps.max(initial=0.0)), 3),
        float(np.mean(steps < _EQUAL)),
        _decibels(old, new),
    )


def step(graph: Graph, tensor: Tensor) -> float:
    """One step of a tensor; a dequantized one counts in steps of what was dequantized."""
    if tensor.quant is not None and not tensor.dtype.is_float:
        return tensor.quant.scale
    maker = graph.producers().get(tensor.name)
    source = graph.first_input(maker) if maker and maker.kind == "Dequantize" else None
    return source.quant.scale if source and source.quant else 1.0


def _decibels(old: np.ndarray, new: np.ndarray) -> float:
    signal, noise = float(old @ old), float((old - new) @ (old - new))
    if noise == 0.0:
        return inf
    return round(10 * log10(signal / noise), 1) if signal else -inf
