"""Figures of a task with their 95 % intervals, and whether two arithmetics really differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb, sqrt

import numpy as np
from msgspec import Struct

_Z = 1.959964  # of 95 %, two-sided
_DRAWS = 400
_SURE = 0.05


class Figure(Struct, frozen=True):
    """A figure of a task over all samples, with the interval that holds it in 95 of 100 cases."""

    name: str
    value: float
    low: float
    high: float
    is_share: bool = True
    higher_is_better: bool = True

    def drop(self, other: Figure) -> float:
        """What the other loses: of shares the difference, of errors the part that it grows by."""
        if self.higher_is_better:
            return self.value - other.value
        return (other.value - self.value) / (abs(self.value) or 1.0)


def share(name: str, hits: int, count: int) -> Figure:
    """Hits of so many independent samples, with Wilson's interval."""
    if not count:
        return Figure(name, 0.0, 0.0, 1.0)
    rate, spread = hits / count, _Z * _Z / count
    middle = (rate + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * sqrt(rate * (1 - rate) / count + spread / (4 * count))
    low, high = middle - half, middle + half
    return Figure(name, rate, min(rate, max(0.0, low)), max(rate, min(1.0, high)))


def resampled(
    name: str,
    count: int,
    value: Callable[[np.ndarray], float],
    *,
    is_share: bool = True,
    higher_is_better: bool = True,
) -> Figure:
    """A figure of all samples, and of draws of as many with repeats: the interval.

    `value` takes places of samples."""
    generator = np.random.default_rng(0)
    draws = [value(generator.integers(0, count, count)) for _ in range(_DRAWS)] if count else []
    numbers = [draw for draw in draws if np.isfinite(draw)]
    whole = value(np.arange(count))
    low, high = np.quantile(numbers, (0.025, 0.975)) if numbers else (whole, whole)
    bounds = min(whole, float(low)), max(whole, float(high))
    return Figure(name, whole, *bounds, is_share, higher_is_better)


def surely_worse(before: Sequence[bool], after: Sequence[bool]) -> bool:
    """Of the same samples, right or wrong: are there more losses than chance gives? An exact test
    of those that changed."""
    lost = sum(b and not a for b, a in zip(before, after, strict=True))
    won = sum(a and not b for b, a in zip(before, after, strict=True))
    changed = lost + won
    tail = sum(comb(changed, k) for k in range(lost, changed + 1)) / 2**changed
    return lost > won and tail < _SURE
