"""Ranges from what tensors held: all of it, all but outliers, or what loses least in rounding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from npuscope.quantizing.plan import ActivationRange

METHODS = ("minmax", "percentile", "mse", "entropy")
_BINS = 4096  # from -reach to reach
_PERCENTILE = 99.99
_STEPS = 255
_SHARES = np.linspace(0.25, 1.0, 46)  # of the range, for searches
_LARGEST = 1e4  # masks of attention are full of -inf
_TINY = 1e-12


class Histogram:
    """Counts of one tensor. The reach doubles when a larger value comes: neighbours are merged, so
    no value has to be kept and the order of samples does not matter."""

    __slots__ = ("counts", "high", "low", "reach")

    def __init__(self) -> None:
        self.low, self.high, self.reach = 0.0, 0.0, 0.0
        self.counts = np.zeros(_BINS, np.int64)

    def add(self, values: np.ndarray) -> None:
        flat = np.nan_to_num(np.ravel(values), posinf=_LARGEST, neginf=-_LARGEST)
        if not flat.size:
            return
        self.low = min(self.low, float(flat.min()))
        self.high = max(self.high, float(flat.max()))
        # A power of two, so that merged bins fit.
        reach = 2.0 ** np.ceil(np.log2(max(-self.low, self.high, _TINY)))
        while self.reach and self.reach < reach:
            pairs = self.counts.reshape(-1, 2).sum(1)
            quarter = _BINS // 4
            self.counts = np.pad(pairs, (quarter, quarter))
            self.reach *= 2
        self.reach = self.reach or reach
        scale = _BINS / (2 * self.reach)
        places = ((flat + self.reach) * scale).astype(np.int32)
        self.counts += np.bincount(np.minimum(places, _BINS - 1), minlength=_BINS)

    def range(self, method: str) -> ActivationRange:
        whole = ActivationRange(self.low, self.high)
        if method == "minmax" or not self.counts.any():
            return whole
        methods = {"percentile": self._percentile, "mse": self._mse, "entropy": self._entropy}
        return methods[method](whole)

    @property
    def _middles(self) -> np.ndarray:
        width = 2 * self.reach / _BINS
        return -self.reach + width * (np.arange(_BINS) + 0.5)

    def _percentile(self, whole: ActivationRange) -> ActivationRange:
        share = np.cumsum(self.counts) / self.counts.sum()
        out = (1 - _PERCENTILE / 100) / 2
        edges = np.linspace(-self.reach, self.reach, _BINS + 1)
        low = float(edges[np.searchsorted(share, out)])
        high = float(edges[np.searchsorted(share, 1 - out) + 1])
        return _within(low, high, whole)

    def _mse(self, whole: ActivationRange) -> ActivationRange:
        """The end that is wider is cut first."""
        low, high = whole.low, whole.high
        for side in ("high", "low") if high > -low else ("low", "high"):
            if side == "high":
                high = float(min(_SHARES * whole.high, key=lambda end: self._error(low, end)))
            else:
                low = float(min(_SHARES * whole.low, key=lambda end: self._error(end, high)))
        return _within(low, high, whole)

    def _error(self, low: float, high: float) -> float:
        """Mean square of rounding inside of a range and of cutting outside."""
        middles = self._middles
        cut = middles - np.clip(middles, low, high)
        inside = (cut == 0.0) & (middles != 0.0)
        step = (high - low) / _STEPS
        return float(self.counts @ (cut * cut) + self.counts[inside].sum() * step * step / 12)

    def _entropy(self, whole: ActivationRange) -> ActivationRange:
        best = min(_SHARES[::3], key=lambda s: self._divergence(s * whole.low, s * whole.high))
        return _within(float(best * whole.low), float(best * whole.high), whole)

    def _divergence(self, low: float, high: float) -> float:
        """Of what was seen from what 256 steps can tell apart (Kullback and Leibler)."""
        middles, counts = self._middles, self.counts.astype(np.float64)
        counts[_BINS // 2] = 0.0  # what a ReLU cuts off says nothing of the range
        inside = (middles >= low) & (middles <= high)
        inner = np.where(inside, counts, 0.0)
        if not inner.sum():
            return np.inf
        ends = np.flatnonzero(inside)[[0, -1]]
        clipped = inner.copy()
        clipped[ends[0]] += counts[: ends[0]].sum()
        clipped[ends[1]] += counts[ends[1] + 1 :].sum()
        steps = np.rint((middles - low) / max((high - low) / _STEPS, _TINY)).astype(np.int64)
        steps = np.clip(steps, 0, _STEPS)
        totals = np.bincount(steps, weights=inner, minlength=_STEPS + 1)
        filled = np.bincount(steps, weights=inner > 0, minlength=_STEPS + 1)
        spread = np.where(inner > 0, (totals / np.maximum(filled, 1))[steps], 0.0)
        p, q = clipped / clipped.sum(), spread / spread.sum()
        both = (p > 0) & (q > 0)
        missed = float(p[(p > 0) & (q == 0)].sum())
        return float((p[both] * np.log(p[both] / q[both])).sum()) + missed * 10


def _within(low: float, high: float, whole: ActivationRange) -> ActivationRange:
    """No method may widen what was seen: a ReLU's range starts at 0 in all of them."""
    low, high = max(min(low, 0.0), whole.low), min(max(high, 0.0), whole.high)
    return ActivationRange(low, high) if high > low else whole


class Histograms:
    """Of all tensors of a network."""

    def __init__(self) -> None:
        self.found: dict[str, Histogram] = {}

    def add(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if value.dtype.kind == "f":
                self.found.setdefault(name, Histogram()).add(value)

    def ranges(self, method: str) -> dict[str, ActivationRange]:
        return {name: histogram.range(method) for name, histogram in self.found.items()}
