"""How far two results are from each other, in steps of the quantization."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Agreement:
    """Over all samples: shares of elements, differences in LSB, and what was found."""

    name: str
    exact_share: float
    within_1_lsb_share: float
    max_lsb: float
    mean_lsb: float
    cosine: float
    mean: float
    std: float


@dataclass(slots=True)
class Tally:
    """Running sums for an Agreement. `lsb` is the size of one step."""

    lsb: float
    elements: int = 0
    equal: int = 0
    close: int = 0
    largest: float = 0.0
    total: float = 0.0
    # Sums for the cosine, and for mean and standard deviation of what was found.
    products: Array = field(default_factory=lambda: np.zeros(5))

    def add(self, found: Array, expected: Array) -> None:
        x = found.astype(np.float64).ravel()
        y = expected.astype(np.float64).ravel()
        # Steps of a float output are not exact multiples: a thousandth of a step is equal.
        steps = np.abs(x - y) / self.lsb
        self.elements += x.size
        self.equal += int((steps < 1e-3).sum())
        self.close += int((steps < 1 + 1e-3).sum())
        self.largest = max(self.largest, float(steps.max(initial=0.0)))
        self.total += float(steps.sum())
        self.products += (x @ y, x @ x, y @ y, x.sum(), x.size)

    def agreement(self, name: str) -> Agreement:
        xy, xx, yy, x, n = self.products
        count = max(self.elements, 1)
        mean = x / max(n, 1)
        return Agreement(
            name,
            self.equal / count,
            self.close / count,
            round(self.largest, 3),
            self.total / count,
            float(xy / np.sqrt(xx * yy)) if xx and yy else 1.0,
            float(mean),
            float(np.sqrt(max(xx / max(n, 1) - mean**2, 0.0))),
        )
