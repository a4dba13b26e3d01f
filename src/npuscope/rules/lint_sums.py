"""Sums that leave 16 bits: where the vendor's shift rule and the weights do not go together."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log2

import numpy as np

from npuscope.graph.model import DType, Graph, Op, Tensor
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit
from npuscope.rules.lint import lint
from npuscope.rules.queries import hit, layers

_INT16_MAX = 32767
_GAIN_BITS = 7  # the shift leaves room for a constant input of this many bits
_BYTE_SPREAD = 256 / 12**0.5  # standard deviation of bytes that fill their range
_RARE = 4  # deviations
_CLIPS = 1.25  # sums that much beyond the limit: what is clipped shows


@lint("LINT-SATURATING-SUM")
def balanced_weights_overflow(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Weights nearly cancel in sum: the shift chosen for them lets real sums saturate.

    The vendor's compiler shifts sums so that a constant input fits 16 bits. A kernel of balanced
    weights has a small gain for constants and a large one for edges.
    """
    for op, weights in layers(graph):
        needed = _largest_sum_that_matters(graph, op, weights)
        if needed is None:
            continue
        shift = _shift(_rows(weights))
        if needed > _CLIPS * _INT16_MAX * 2**shift:
            yield hit(
                op,
                f"sums up to {round(needed)}",
                _INT16_MAX * 2**shift,
                shift=shift,
                reachable_share=round(_INT16_MAX * 2**shift / needed, 3),
            )


def _rows(weights: Tensor) -> np.ndarray:
    assert weights.data is not None
    return weights.data.reshape(weights.shape[0], -1).astype(np.float64)


def _shift(rows: np.ndarray) -> int:
    """Room for the gain of a constant input, by the largest plain sum of weights."""
    largest = float(np.abs(rows.sum(axis=1)).max())
    return max(0, ceil(log2(largest)) - _GAIN_BITS) if largest else 0


def _largest_sum_that_matters(graph: Graph, op: Op, weights: Tensor) -> float | None:
    """Over all channels: the largest sum that will occur and that the output can still tell.

    None where the layer is not plain int8.
    """
    source, target = graph.first_input(op), graph.output_tensor(op)
    plain = all(t.dtype is DType.INT8 and t.quant is not None for t in (source, target))
    if not plain or weights.quant is None or any(weights.quant.zero_points):
        return None
    assert source.quant is not None and target.quant is not None
    rows = _rows(weights)
    unit = source.quant.scale * np.broadcast_to(np.array(weights.quant.scales), len(rows))
    likely = _likely(rows, source.quant.zero_point)
    told = _told(target, unit, _bias(graph, op, unit))
    return float(np.minimum(likely, told).max())


def _likely(rows: np.ndarray, zero: int) -> np.ndarray:
    """By channel: what independent bytes make it in all but rare cases, within its reach."""
    mean = np.abs(rows.sum(axis=1) * (zero + 0.5))
    spread = _BYTE_SPREAD * np.sqrt((rows**2).sum(axis=1))
    return np.asarray(np.minimum(mean + _RARE * spread, _reach(rows, zero)))


def _reach(rows: np.ndarray, zero: int) -> np.ndarray:
    """The largest sum that bytes of the input can make, by channel."""
    low, high = -128 - zero, 127 - zero
    positive, negative = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    above, below = positive * high + negative * low, positive * low + negative * high
    return np.asarray(np.maximum(above, -below))


def _told(target: Tensor, unit: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The sum at the far end of the output's range; beyond it the output clamps anyway."""
    assert target.quant is not None
    scale, zero = target.quant.scale, target.quant.zero_point
    with np.errstate(divide="ignore", invalid="ignore"):
        above = ((127 - zero) * scale - bias) / unit
        below = ((128 + zero) * scale + bias) / unit
    return np.asarray(np.nan_to_num(np.maximum(above, below), nan=0.0))


def _bias(graph: Graph, op: Op, unit: np.ndarray) -> np.ndarray:
    """The bias in real values."""
    tensor = graph.tensor(op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else None
    if tensor is None or tensor.data is None:
        return np.zeros(len(unit))
    data = tensor.data.reshape(-1).astype(np.float64)
    return data if tensor.dtype.is_float else np.asarray(data * unit)
