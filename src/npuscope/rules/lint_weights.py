"""Weights: how they are quantized, and what they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npuscope.graph.model import Graph, Tensor
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit
from npuscope.rules.lint import lint
from npuscope.rules.queries import hit, layers

_FOUR_BITS = 16  # a channel whose largest weight is below this uses four bits of its eight
_NARROW_SHARE = 0.25
_DEAD_SHARE = 1 / 16


@lint("LINT-PER-TENSOR")
def one_scale_for_unlike_channels(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """One scale serves all output channels, and many of them use a few bits of it only."""
    for op, weights in layers(graph):
        if weights.quant is None or weights.quant.per_channel or weights.dtype.bits != 8:
            continue
        peaks = _peaks(weights)
        narrow = int(((peaks > 0) & (peaks < _FOUR_BITS)).sum())
        if len(peaks) > 1 and narrow >= max(1, _NARROW_SHARE * len(peaks)):
            text = f"{narrow} of {len(peaks)} channels within {_FOUR_BITS} steps"
            yield hit(op, text, "one scale per channel")


@lint("LINT-ASYMMETRIC")
def weights_have_a_zero_point(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Weights have a zero point; the units multiply plain int8."""
    for op, weights in layers(graph):
        if weights.quant is not None and any(weights.quant.zero_points):
            largest = max(weights.quant.zero_points, key=abs)
            yield hit(op, f"zero point {largest}", "0")


@lint("LINT-DEAD-CHANNELS")
def channels_are_all_zero(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Output channels whose weights are all zero: they cost time and give constants."""
    for op, weights in layers(graph):
        if weights.dtype.is_float:
            continue
        peaks = _peaks(weights)
        dead = int((peaks == 0).sum())
        if dead and dead >= _DEAD_SHARE * len(peaks):
            yield hit(op, f"{dead} of {len(peaks)} channels", 0)


def _peaks(weights: Tensor) -> np.ndarray:
    """Largest magnitude of each output channel, in steps."""
    assert weights.data is not None
    data = weights.data.reshape(weights.shape[0], -1).astype(np.int64)
    zeros = np.array(weights.quant.zero_points if weights.quant else (0,))
    if len(zeros) not in (1, len(data)):
        return np.asarray(np.abs(data).max(axis=1))
    return np.asarray(np.abs(data - zeros[:, None]).max(axis=1))
