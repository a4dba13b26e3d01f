"""Steps of new 8-bit tensors: from the real range that an op can reach, and from constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from npuscope.advice.fix.request import Network
from npuscope.graph.edit.document import NotFitting
from npuscope.graph.model import Quant

Interval = tuple[float, float]
Numbers = Mapping[str, np.ndarray]

LOWEST, HIGHEST = -128, 127
_MARGIN = 1.1  # real data may reach further than seeded data
_FILLED = 0.8  # of its range that an operand must use before seeded data say what follows
_POINTS = 257  # where a function is looked at between two ends

# LiteRT has no kernels for other steps, and no others use the byte better.
FIXED = {
    "Sigmoid": Quant((1 / 256,), (LOWEST,)),
    "HardSigmoid": Quant((1 / 256,), (LOWEST,)),
    "Tanh": Quant((1 / 128,), (0,)),
}


def int8_quant(low: float, high: float) -> Quant:
    """Steps that cover a range and hold zero exactly."""
    if not np.isfinite([low, high]).all():
        raise NotFitting("its range has no end")
    low, high = min(low, 0.0), max(high, 0.0)
    scale = float(np.float32((high - low) / (HIGHEST - LOWEST))) or 1.0
    return Quant((scale,), (int(np.clip(LOWEST - round(low / scale), LOWEST, HIGHEST)),))


def ends(name: str, values: np.ndarray) -> Interval:
    """The least and the largest of some constants."""
    if not values.size or not np.isfinite(values).all():
        raise NotFitting(f"'{name}' holds no plain numbers")
    return float(values.min()), float(values.max())


def symmetric_steps(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Constants as int8 about zero, and their step."""
    largest = float(np.abs(values).max(initial=0.0))
    scale = float(np.float32(largest / HIGHEST)) or 1.0
    steps = np.clip(np.rint(values / scale), -HIGHEST, HIGHEST)
    return steps.astype(np.int8), scale


def covered(quant: Quant, low: int = LOWEST, high: int = HIGHEST) -> Interval:
    """The real values between the first and the last step."""
    zero = quant.zero_point
    return (low - zero) * quant.scale, (high - zero) * quant.scale


def _slope(x: np.ndarray, numbers: Numbers) -> np.ndarray:
    slopes = numbers["slope"].reshape(-1, 1)
    return np.where(x < 0, slopes * x, x)


def _affine(x: np.ndarray, numbers: Numbers) -> np.ndarray:
    return np.asarray(numbers["gain"].reshape(-1, 1) * x + numbers["offset"].reshape(-1, 1))


_FUNCTIONS: dict[str, Callable[[np.ndarray, Numbers], np.ndarray]] = {
    "Sigmoid": lambda x, _: 1 / (1 + np.exp(-x)),
    "HardSigmoid": lambda x, _: np.clip(x, 0, 1),
    "Tanh": lambda x, _: np.tanh(x),
    "HardSwish": lambda x, _: x * np.clip(x / 6 + 0.5, 0, 1),
    "LeakyRelu": _slope,
    "PRelu": _slope,
    "Elu": lambda x, numbers: np.where(x < 0, numbers["slope"] * np.expm1(x), x),
    "Clip": lambda x, numbers: np.clip(x, numbers["low"], numbers["high"]),
    "Affine": _affine,
    "Abs": lambda x, _: np.abs(x),
    "Neg": lambda x, _: -x,
}


def reached(kind: str, inputs: Sequence[Interval], numbers: Numbers) -> Interval:
    """What an op can make of operands within these ranges."""
    if kind in ("Add", "Sub", "Mul"):
        ends = [_binary(kind, a, b) for a in inputs[0] for b in inputs[1]]
        return min(ends), max(ends)
    if kind not in _FUNCTIONS:  # values of the inputs, or means of them
        return min(low for low, _ in inputs), max(high for _, high in inputs)
    made = _FUNCTIONS[kind](np.linspace(*inputs[0], _POINTS), numbers)
    return float(made.min()), float(made.max())


def _binary(kind: str, a: float, b: float) -> float:
    return a * b if kind == "Mul" else a + b if kind == "Add" else a - b


def seen(network: Network, output: str, operands: Mapping[str, Interval]) -> Interval | None:
    """The range of a tensor on seeded data, with a margin; None unless its operands filled
    their ranges, for then more may come."""
    for name, (low, high) in operands.items():
        found = network.range(name)
        if found is None or found[1] - found[0] < _FILLED * (high - low):
            return None
    found = network.range(output)
    return (found[0] * _MARGIN, found[1] * _MARGIN) if found else None


def common(a: Interval, b: Interval | None) -> Interval:
    return a if b is None else (max(a[0], b[0]), min(a[1], b[1]))
