"""From accumulators to outputs: what follows the sums of a conv or a fully connected layer.

An Emit takes sums of raw products (whole numbers held in float32 or float64, channels last) and
writes the op's output. The bias, with the input's zero point folded in, is added here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npuscope.graph.attrs import Activation
from npuscope.graph.kernels.requantize import (
    Multipliers,
    clamp_limits,
    real_limits,
    round_half_away,
)
from npuscope.graph.kernels.step import Array, quant_of
from npuscope.graph.model import DType, Tensor

Emit = Callable[[Array, Array], None]
Rule = Callable[[Array, Multipliers], Array]


@dataclass(frozen=True, slots=True)
class Target:
    """The integer output: its type, zero point and the range that the activation leaves."""

    dtype: DType
    zero_point: int
    low: int
    high: int


def litert_target(output: Tensor, activation: Activation) -> Target:
    low, high = clamp_limits(output, *real_limits(activation))
    return Target(output.dtype, quant_of(output).zero_point, low, high)


@dataclass(frozen=True, slots=True)
class ExactRescale:
    """Any fixed-point rule, in 64-bit integers."""

    rule: Rule
    factors: Multipliers
    bias: Array
    target: Target

    def __call__(self, sums: Array, out: Array) -> None:
        total = sums.astype(np.int64) + self.bias
        value = self.rule(total, self.factors) + self.target.zero_point
        value.clip(self.target.low, self.target.high, out=value)
        np.copyto(out, value.reshape(out.shape), casting="unsafe")


@dataclass(frozen=True, slots=True)
class RescaleInDouble:
    """LiteRT's fully connected: round(sum * factor) in double, half away from zero."""

    factors: Array
    bias: Array  # whole numbers as float64
    target: Target

    def __call__(self, sums: Array, out: Array) -> None:
        value = round_half_away((sums + self.bias) * self.factors)
        value += self.target.zero_point
        value.clip(self.target.low, self.target.high, out=value)
        np.copyto(out, value.reshape(out.shape), casting="unsafe")


@dataclass(frozen=True, slots=True)
class RescaleToEven:
    """onnxruntime: real value over the output's scale, rounded half to even.

    The float32 sums of onnxruntime scatter around the exact one, so the exact sum in double is
    the best guess of where they round.
    """

    factors: Array
    bias: Array  # real bias over the output's scale, float64
    target: Target

    def __call__(self, sums: Array, out: Array) -> None:
        value: Array = np.multiply(sums.reshape(-1, self.factors.size), self.factors)
        value += self.bias
        np.rint(value, out=value)
        zero = self.target.zero_point
        value.clip(self.target.low - zero, self.target.high - zero, out=value)
        value += zero
        np.copyto(out.reshape(value.shape), value, casting="unsafe")


@dataclass(frozen=True, slots=True)
class ToReal:
    """No quantization follows: real values, clamped by the activation."""

    factors: Array
    bias: Array  # real, float64
    limits: tuple[float, float]

    def __call__(self, sums: Array, out: Array) -> None:
        value = sums.reshape(-1, self.factors.size) * self.factors + self.bias
        value.clip(*self.limits, out=value)
        np.copyto(out.reshape(value.shape), value, casting="unsafe")
