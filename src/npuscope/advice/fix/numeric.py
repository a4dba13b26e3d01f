"""What an edit does to the results: outputs before and after, on the same seeded data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log10

import numpy as np

from npuscope.advice.fix.pairs import Pair, pairs
from npuscope.advice.fix.seeded import real_outputs, seeded_inputs
from npuscope.graph.model import Graph, Tensor

_EQUAL = 1e-3  # of a step: dequantized outputs are no exact multiples of one
_NUDGED = 256  # of so many input values one moves, to see how restless a network is
_STEPS = 255  # of a float output that no quantization tells of


@dataclass(frozen=True, slots=True)
class Effect:
    """Of one output: the largest difference in steps (LSB), and signal to noise in dB.

    `reference` is the tensor of the original network that stands for it; None where there is
    none to compare with. Steps are those of the original's quantization, and 1/255 of the range
    that it takes where it is float.
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
    matched = pairs(before, after)
    known = [(pair, pair.before) for pair in matched if pair.before is not None]
    rows: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {p.output: [] for p in matched}
    for seed in range(seeds):
        reals = seeded_inputs(before, seed)
        old = real_outputs(before, reals, [found for _, found in known])
        new = real_outputs(after, reals, [pair.after for pair, _ in known])
        for pair, found in known:
            rows[pair.output].append((old[found].reshape(-1), new[pair.after].reshape(-1)))
    return tuple(effect(pair, before, rows[pair.output]) for pair in matched)


def effect(pair: Pair, before: Graph, rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> Effect:
    """From real values (before, after), sample by sample."""
    if pair.before is None:
        return Effect(pair.output, None, inf, 0.0, -inf)
    old = np.concatenate([row for row, _ in rows])
    new = np.concatenate([row for _, row in rows])
    steps = np.abs(old - new) / (step(before, before.tensor(pair.before)) or _float_step(old))
    return Effect(
        pair.output,
        pair.before,
        round(float(steps.max(initial=0.0)), 3),
        float(np.mean(steps < _EQUAL)),
        _decibels(old, new),
    )


def _float_step(values: np.ndarray) -> float:
    return float(np.ptp(values)) / _STEPS or 1.0


def step(graph: Graph, tensor: Tensor) -> float:
    """One step of a tensor; a dequantized one counts in steps of what was dequantized. 0 where
    no quantization tells."""
    if tensor.quant is not None and not tensor.dtype.is_float:
        return tensor.quant.scale
    maker = graph.producers().get(tensor.name)
    source = graph.first_input(maker) if maker and maker.kind == "Dequantize" else None
    return source.quant.scale if source and source.quant else 0.0


def _decibels(old: np.ndarray, new: np.ndarray) -> float:
    signal, noise = float(old @ old), float((old - new) @ (old - new))
    if noise == 0.0:
        return inf
    return round(10 * log10(signal / noise), 1) if signal else -inf


def unrest_db(graph: Graph, seed: int) -> float:
    """SQNR of the worst output when every 256th value of the inputs moves by one step."""
    calm = seeded_inputs(graph, seed)
    moved = [_nudged(graph, name, values) for name, values in zip(graph.inputs, calm, strict=True)]
    old, new = real_outputs(graph, calm, []), real_outputs(graph, moved, [])
    return min(_decibels(old[n].reshape(-1), new[n].reshape(-1)) for n in graph.outputs)


def _nudged(graph: Graph, name: str, values: np.ndarray) -> np.ndarray:
    found = values.astype(np.float64).reshape(-1).copy()
    found[::_NUDGED] += step(graph, graph.tensor(name)) or _float_step(values)
    return found.reshape(values.shape)
