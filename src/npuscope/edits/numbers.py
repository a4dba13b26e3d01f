"""Numbers of new tensors: steps from the real range that an op can reach and from constants, the
nearest fast zero point, and channels of constants in another order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add, mul, sub

import numpy as np

from npuscope.edits.records import HIGHEST, LOWEST, Interval, NotFitting
from npuscope.edits.request import NetworkFacts
from npuscope.graph.model import Quant

Numbers = Mapping[str, np.ndarray]

FREE = (LOWEST, 0)  # zero points that cost nothing
_NEAR = 4  # steps of the range that may be cut off rather than made coarser
_MARGIN = 1.1  # real data may reach further than seeded data
_FILLED = 0.8  # of its range that an operand must use before seeded data say what follows
_POINTS = 257  # where a function is looked at between two ends


def int8_quant(low: float, high: float) -> Quant:
    """Steps that cover a range and hold zero exactly."""
    if not np.isfinite([low, high]).all():
        raise NotFitting("its range is not finite")
    low, high = min(low, 0.0), max(high, 0.0)
    scale = float(np.float32((high - low) / (HIGHEST - LOWEST))) or 1.0
    return Quant((scale,), (int(np.clip(LOWEST - round(low / scale), LOWEST, HIGHEST)),))


def fast_quant(quant: Quant, offset: int = 0) -> Quant:
    """The nearest quantization whose zero point leaves the convolution unit in its fast mode.

    `offset` is 128 for uint8. Near a free zero point the steps stay and a few values at one end
    are cut; else they grow until both sides of zero fit.
    """
    zero = quant.zero_point - offset
    if zero in FREE:
        raise NotFitting(f"zero point {quant.zero_point} already costs nothing")
    near = min(FREE, key=lambda free: abs(free - zero))
    if abs(near - zero) <= _NEAR:
        return Quant(quant.scales, (near + offset,))
    lowest, highest = (LOWEST - zero) * quant.scale, (HIGHEST - zero) * quant.scale
    return Quant((max(lowest / LOWEST, highest / HIGHEST),), (offset,))


def ends(name: str, values: np.ndarray) -> Interval:
    """The least and the largest of some constants."""
    if not values.size or not np.isfinite(values).all():
        raise NotFitting(f"'{name}' does not hold plain numbers")
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


# Functions whose reach is found from that of their operand.
FUNCTIONS: dict[str, Callable[[np.ndarray, Numbers], np.ndarray]] = {
    "Sigmoid": lambda x, _: 1 / (1 + np.exp(-x)),
    "HardSigmoid": lambda x, _: np.clip(x, 0, 1),
    "Tanh": lambda x, _: np.tanh(x),
    "HardSwish": lambda x, _: x * np.clip(x / 6 + 0.5, 0, 1),
    "LeakyRelu": _slope,
    "PRelu": _slope,
    "Elu": lambda x, numbers: np.where(x < 0, numbers["slope"] * np.expm1(x), x),
    "Clip": lambda x, numbers: np.clip(x, numbers["low"], numbers["high"]),
    "BatchNormalization": _affine,
    "Abs": lambda x, _: np.abs(x),
    "Neg": lambda x, _: -x,
}
_BINARY: dict[str, Callable[[float, float], float]] = {"Add": add, "Sub": sub, "Mul": mul}


def reached(kind: str, inputs: Sequence[Interval], numbers: Numbers) -> Interval:
    """What an op can make of operands within these ranges."""
    if kind in _BINARY:
        ends = [_BINARY[kind](a, b) for a in inputs[0] for b in inputs[1]]
        return min(ends), max(ends)
    if kind not in FUNCTIONS:  # values of the inputs, or means of them
        return min(low for low, _ in inputs), max(high for _, high in inputs)
    results = FUNCTIONS[kind](np.linspace(*inputs[0], _POINTS), numbers)
    return float(results.min()), float(results.max())


def seen(network: NetworkFacts, output: str, operands: Mapping[str, Interval]) -> Interval | None:
    """The range of a tensor on real data, with a margin; None unless its operands filled
    their ranges, for then more may come."""
    for name, (low, high) in operands.items():
        reach = network.range(name)
        if reach is None or reach[1] - reach[0] < _FILLED * (high - low):
            return None
    reach = network.range(output)
    return (reach[0] * _MARGIN, reach[1] * _MARGIN) if reach else None


def common(a: Interval, b: Interval | None) -> Interval:
    return a if b is None else (max(a[0], b[0]), min(a[1], b[1]))


def parts_of(count: int, text: str) -> list[range] | None:
    """Channel ranges by their sizes, as in '144+113'; None where they do not add up."""
    sizes = [int(size) for size in text.split("+") if size.strip().isdecimal()]
    if sum(sizes) != count or len(sizes) < 2 or 0 in sizes:
        return None
    ends = np.cumsum(sizes)
    return [range(int(end) - size, int(end)) for end, size in zip(ends, sizes, strict=True)]
