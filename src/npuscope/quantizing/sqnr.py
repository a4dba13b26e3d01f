"""Signal to noise: the float network against the quantized one, on samples that were held out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf, log10

import numpy as np
from msgspec import Struct, field

from npuscope.quantizing.plan import ActivationRange, FloatLayer, RangePlan

Values = Mapping[str, np.ndarray]
MOST_DB = 150.0  # equal to within float rounding; JSON has no infinity
_LEAST_DB = -150.0


class Noise(Struct):
    """Sums over samples, by tensor."""

    signal: dict[str, float] = field(default_factory=dict)
    noise: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, reals: np.ndarray, values: np.ndarray) -> None:
        real, other = (np.ravel(v).astype(np.float64) for v in (reals, values))
        ok = np.isfinite(real) & np.isfinite(other)  # masks of attention are -inf in both
        gap = real[ok] - other[ok]
        self.signal[name] = self.signal.get(name, 0.0) + float(real[ok] @ real[ok])
        self.noise[name] = self.noise.get(name, 0.0) + float(gap @ gap)

    def db(self, name: str) -> float:
        return decibels(self.signal.get(name, 0.0), self.noise.get(name, 0.0))

    def all_db(self) -> dict[str, float]:
        return {name: self.db(name) for name in self.signal}


def pair_db(real: np.ndarray, other: np.ndarray) -> float:
    """Of one tensor."""
    noise = Noise()
    noise.add("", real, other)
    return noise.db("")


def decibels(signal: float, noise: float) -> float:
    if noise == 0.0:
        return MOST_DB
    share = signal / noise
    ratio = 10 * log10(share) if share > 0 else -inf  # also where one of both has overflown
    return round(min(max(ratio, _LEAST_DB), MOST_DB), 2)


class LayerLoss(Struct, frozen=True):
    """How far a layer's result is from the float one, and what it adds by itself.

    `drop_db` is what is lost between the worst of its operands and its result. `steps_db` is what
    rounding the exact result to its steps alone would leave, `weights_db` the same of weights.
    """

    name: str
    kind: str
    tensor: str
    sqnr_db: float
    drop_db: float
    steps_db: float
    weights_db: float | None
    peak_ratio: float  # largest magnitude over the root of the mean square


def layer_losses(
    layers: Iterable[FloatLayer],
    plan: RangePlan,
    pairs: Iterable[tuple[Values, Values]],
    weights: Callable[[str], tuple[np.ndarray, np.ndarray] | None],
) -> tuple[LayerLoss, ...]:
    """`pairs` are all tensors of the float and of the quantized network, sample by sample;
    `weights` gives a constant as it was and as it is."""
    sums = _Seen(plan)
    for real, quantized in pairs:
        sums.add(real, quantized)
    layers = tuple(layers)
    makers = {name: layer for layer in layers for name in layer.outputs}
    return tuple(
        LayerLoss(
            layer.name,
            layer.kind,
            layer.outputs[0],
            sums.total.db(layer.outputs[0]),
            round(sums.before(layer, makers) - sums.total.db(layer.outputs[0]), 2),
            sums.rounding.db(layer.outputs[0]),
            pair_db(*pair) if layer.weights and (pair := weights(layer.weights)) else None,
            sums.peak_ratio(layer.outputs[0]),
        )
        for layer in layers
        if layer.outputs[0] in sums.total.signal
    )


class _Seen:
    """What was found over all samples."""

    def __init__(self, plan: RangePlan) -> None:
        self.plan = plan
        self.total, self.rounding = Noise(), Noise()
        self.peaks: dict[str, float] = {}
        self.sizes: dict[str, int] = {}

    def add(self, real: Values, quantized: Values) -> None:
        for name, values in real.items():
            if name not in self.plan.ranges:
                continue
            steps = rounded(values, self.plan.ranges[name])
            self.rounding.add(name, values, steps)
            # An input is in neither network's results: it is what its steps leave of it.
            self.total.add(name, values, quantized.get(name, steps))
            self.peaks[name] = max(self.peaks.get(name, 0.0), float(np.abs(values).max(initial=0)))
            self.sizes[name] = self.sizes.get(name, 0) + values.size

    def before(self, layer: FloatLayer, makers: Mapping[str, FloatLayer]) -> float:
        """The worst operand; one without steps of its own is as good as what it is made from."""
        worst = MOST_DB
        for name in layer.inputs:
            if name in self.total.signal:
                worst = min(worst, self.total.db(name))
            elif name in makers:
                worst = min(worst, self.before(makers[name], makers))
        return worst

    def peak_ratio(self, name: str) -> float:
        mean = self.total.signal[name] / max(self.sizes[name], 1)
        return round(self.peaks[name] / mean**0.5, 1) if mean > 0 else 0.0


def rounded(values: np.ndarray, range: ActivationRange) -> np.ndarray:
    """To the int8 steps of a range and back."""
    steps = np.clip(np.rint(values / range.scale) + range.zero_point, -128, 127)
    return np.asarray((steps - range.zero_point) * range.scale)
