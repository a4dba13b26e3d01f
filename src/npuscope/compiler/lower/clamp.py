"""Fused activations as a clamp of the quantized output."""

from __future__ import annotations

from math import inf

import numpy as np

from npuscope.compiler.lower.context import quant_pair
from npuscope.compiler.stages import Value
from npuscope.graph.model import Activation

_RANGES = {
    Activation.NONE: (-inf, inf),
    Activation.RELU: (0.0, inf),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def clamp_range(activation: Activation, output: Value) -> tuple[int, int] | None:
    """The clamp in quantized steps; None when the byte's own range does the same."""
    return quantized_range(_RANGES[activation], output)


def quantized_range(limits: tuple[float, float], output: Value) -> tuple[int, int] | None:
    scale, zero = quant_pair(output)
    lowest, highest = (-128, 127) if output.signed else (0, 255)
    # limits may be infinite, or lie beyond the byte on either side
    steps = (zero + np.rint(np.asarray(limits) / scale)).clip(lowest, highest)
    low, high = int(steps[0]), int(steps[1])
    return None if (low, high) == (lowest, highest) else (low, high)
