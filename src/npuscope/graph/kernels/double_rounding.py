"""gemmlowp's double rounding of conv sums, by float64 arithmetic that is proven exact.

With z = sum * mantissa / 2**31 and e = -shift > 0 the rule is y = floor(z + 1/2), then y / 2**e
with ties away from zero. For y >= 0 the result is
    floor((y + 2**(e-1)) / 2**e) = floor(z / 2**e + 1/2 + d)  with d = 2**-(e+1),
because floor(floor(a) / n) = floor(a / n). For y < 0 one unit less is added before the division,
which gives floor(z / 2**e + 1/2 - d). For -1/2 <= z < 0 both are 0, so the sign of z may choose.
Without a right shift there is no second rounding, and d = 0.

So one multiply, one add and one floor do, if floats are exact enough. Two proofs are accepted, a
channel each: a bound on all terms, or a check of every sum at which the output changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npuscope.graph.kernels.emit import Emit, ExactRescale, Target
from npuscope.graph.kernels.requantize import Multipliers, quantized_multipliers, scale_twice
from npuscope.graph.kernels.step import Array

_EXACT = 2.0**53  # whole numbers up to here are exact in float64
_LONG_ROW = 1024  # numpy pays per inner loop: rows of few channels are handled several at a time


@dataclass(frozen=True, slots=True)
class Sums:
    """What is known of the accumulators before a run: bias and bound of |sum|, per channel."""

    bias: Array  # int64
    reach: Array  # float64
    row: int = 1  # sums come in multiples of this many pixels


def rescale_twice(factors: Array, sums: Sums, target: Target) -> Emit:
    """The rule by floats where that is proven exact, else by integers."""
    multipliers = quantized_multipliers(np.broadcast_to(factors, sums.bias.shape))
    exact = ExactRescale(scale_twice, multipliers, sums.bias, target)
    doubtful = np.flatnonzero(~_bounded(multipliers, sums, target))
    if len(doubtful) and not _agree(_channels(exact, doubtful), sums.reach[doubtful]):
        return exact
    return float_rescale(exact, sums.row)


def _bounded(factors: Multipliers, sums: Sums, target: Target) -> Array:
    """All terms are multiples of 2**(shift - 31): exact, if none passes 2**53 of these units."""
    largest = (sums.reach + np.abs(sums.bias)) * factors.mantissa
    constants = 2.0 ** (target.dtype.bits + 1) * np.exp2(31.0 - factors.shift)
    bounded: Array = (largest + constants <= _EXACT) & (factors.shift <= 30)
    return bounded


def _channels(exact: ExactRescale, chosen: Array) -> ExactRescale:
    factors = Multipliers(exact.factors.mantissa[chosen], exact.factors.shift[chosen])
    return replace(exact, factors=factors, bias=exact.bias[chosen])


def _agree(exact: ExactRescale, reach: Array) -> bool:
    """Both ways give the same for all sums within reach.

    Both are monotone. So they agree everywhere if they agree on points such that the exact
    result does not change between neighbours that are more than 1 apart.
    """
    if exact.target.dtype.bits > 8:
        return False  # too many steps to look at
    points = _around_steps(exact, reach)
    wanted, found = (np.empty(points.shape, exact.target.dtype.numpy) for _ in range(2))
    exact(points, wanted)
    float_rescale(exact, 1)(points, found)
    covered = (np.diff(points, axis=0) <= 1) | (wanted[1:] == wanted[:-1])
    return bool(np.array_equal(wanted, found) and covered.all())


def _around_steps(exact: ExactRescale, reach: Array) -> Array:
    """Sums next to where the output changes, sorted, one column a channel."""
    target = exact.target
    steps = np.arange(target.low, target.high)[:, np.newaxis] + 0.5 - target.zero_point
    with np.errstate(divide="ignore"):
        places = np.rint(steps / _scale(exact.factors) - exact.bias)
    window = np.arange(-2.0, 3.0)[:, np.newaxis, np.newaxis]
    points = (places + window).reshape(-1, places.shape[1])
    points = np.clip(points, -reach, reach)
    return np.sort(np.concatenate((points, [-reach, reach])), axis=0)


def _scale(factors: Multipliers) -> Array:
    return factors.mantissa * np.exp2(factors.shift - 31.0)


def float_rescale(exact: ExactRescale, row: int) -> FloatRescale:
    """If the activation clamps at the zero point, negative results vanish and +d serves all."""
    target, scale = exact.target, _scale(exact.factors)
    nudge = np.where(exact.factors.shift < 0, np.exp2(exact.factors.shift - 1.0), 0.0)
    offset = exact.bias * scale
    lowest = target.dtype.limits[0]
    base = target.zero_point - lowest + 0.5
    one_sided = target.low >= target.zero_point or not nudge.any()
    if one_sided:
        offset = offset + (base + nudge)
    repeat = _pixels_a_row(len(scale), row)
    return FloatRescale(
        np.tile(scale, repeat),
        np.tile(offset, repeat),
        None if one_sided else np.tile(nudge, repeat),
        base,
        (float(target.low - lowest), target.high - lowest + 0.5),
    )


def _pixels_a_row(channels: int, row: int) -> int:
    """The largest divisor of `row` that keeps a row of numbers below _LONG_ROW."""
    most = max(1, min(row, _LONG_ROW // channels))
    return next(count for count in range(most, 0, -1) if row % count == 0)


@dataclass(frozen=True, slots=True)
class FloatRescale:
    """Values are counted from the type's smallest one, so that a cast, which truncates, floors."""

    scale: Array
    offset: Array
    nudge: Array | None
    base: float
    limits: tuple[float, float]

    def __call__(self, sums: Array, out: Array) -> None:
        value: Array = np.multiply(sums.reshape(-1, self.scale.size), self.scale)
        value += self.offset
        if self.nudge is not None:
            value += np.copysign(self.nudge, value)
            value += self.base
        value.clip(*self.limits, out=value)
        whole = out.view(f"u{out.itemsize}").reshape(value.shape)
        np.copyto(whole, value, casting="unsafe")
        if out.dtype.kind == "i":
            whole ^= whole.dtype.type(1 << (8 * out.itemsize - 1))
