"""What is left of each output: signal to noise, and whether its columns still tell values apart.

One int8 tensor has one step. Where columns of an output differ by orders of magnitude (boxes in
pixels beside scores from 0 to 1), the step of the large ones swallows the small ones, and a mean
over both hides it. So columns are taken in groups by their size, and judged by group.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from npuscope.quantizing.choices import MOST_UNLIKE, fixed_range
from npuscope.quantizing.plan import MOVES, FloatLayer
from npuscope.quantizing.sqnr import decibels, pair_db

# Fewer steps over the whole range tell no two results apart that a task wants apart.
_FEWEST_STEPS = 4.0
# Below it the error is as large as what the values tell, give or take 3 dB.
_LEAST_DB = 3.0
# Below it the error is more than a sixth of that: a task may stand it, and may not.
_GOOD_DB = 15.0
# Values of a function that has a range of its own may be near zero in all samples: an error of this
# share of the range is small, however large it is beside them.
_SMALL_SHARE = 0.05
_BYTE = 256.0
_MOST_COLUMNS = 4096  # an axis that is longer counts places, not kinds


class ColumnGroup(Struct, frozen=True):
    """Columns along an axis, all of them where the output is of one kind; `steps` are those of the
    integers over the range that the values have, None where the output is float.

    `sqnr_db` is beside the values themselves, `spread_db` beside their spread: a mean that all
    samples share tells nothing, however large it is. `error` is the root of the mean square;
    `bounded` is the result of a function that has a range of its own (Sigmoid), which is `width`.
    """

    axis: int | None  # of the output itself
    first: int
    last: int
    width: float
    steps: float | None
    sqnr_db: float
    spread_db: float
    error: float
    bounded: bool = False

    @property
    def useless(self) -> bool:
        few = self.steps is not None and self.steps < _FEWEST_STEPS
        small = self.bounded and self.error <= _SMALL_SHARE * self.width
        return self.width > 0 and (few or (self.spread_db < _LEAST_DB and not small))

    @property
    def doubtful(self) -> bool:
        """Not lost, but no success either: only the task can tell."""
        one_step = self.bounded and self.error * (self.steps or _BYTE) <= self.width
        large = self.spread_db < _GOOD_DB and not one_step
        return self.width > 0 and large and not self.useless


class OutputLoss(Struct, frozen=True):
    """`joined` are the tensors that a Concat makes the output of."""

    name: str
    sqnr_db: float
    groups: tuple[ColumnGroup, ...]
    joined: tuple[str, ...] = ()

    @property
    def useless(self) -> tuple[ColumnGroup, ...]:
        return tuple(group for group in self.groups if group.useless)

    @property
    def doubtful(self) -> tuple[ColumnGroup, ...]:
        return tuple(group for group in self.groups if group.doubtful)


def output_loss(
    name: str,
    real: np.ndarray,
    quantized: np.ndarray,
    scale: float | None,
    layers: Sequence[FloatLayer],
) -> OutputLoss:
    """Of one output over all samples, which an axis in front of both arrays counts."""
    makers = {output: one for one in layers for output in one.outputs}
    layer = makers.get(name)
    while layer is not None and layer.kind in MOVES and layer.inputs:  # what only moves values
        layer = makers.get(layer.inputs[0])
    fixed = fixed_range(layer.kind) if layer else None
    natural = fixed.high - fixed.low if fixed else None
    spans = [(None, 0, 0)] if fixed else column_spans(real)
    groups = tuple(_group(real, quantized, span, scale, natural) for span in spans)
    joined = layer.inputs if layer is not None and layer.kind == "Concat" else ()
    return OutputLoss(name, pair_db(real, quantized), groups, joined)


Span = tuple[int | None, int, int]


def column_spans(real: np.ndarray) -> list[Span]:
    """Runs of columns along the axis whose columns differ most; the whole where none does."""
    best: list[Span] = [(None, 0, 0)]
    largest = MOST_UNLIKE  # between columns of one kind (classes, coordinates) is no such gap
    for axis, count in enumerate(real.shape[1:]):
        if not 1 < count <= _MOST_COLUMNS:
            continue
        others = tuple(n for n in range(real.ndim) if n != axis + 1)
        peaks = np.abs(real).max(axis=others)
        order = np.sort(peaks)
        gaps = order[1:] / np.maximum(order[:-1], np.finfo(np.float32).tiny)
        place = int(np.argmax(gaps))
        if order[place] > 0 and gaps[place] >= largest:
            largest = float(gaps[place])
            turns = np.flatnonzero(np.diff((peaks > order[place]).astype(np.int8))) + 1
            ends = pairwise([0, *turns.tolist(), peaks.size])
            best = [(axis, first, last - 1) for first, last in ends]
    return best


def _group(
    real: np.ndarray, quantized: np.ndarray, span: Span, scale: float | None, natural: float | None
) -> ColumnGroup:
    axis, first, last = span
    if axis is not None:
        places = range(first, last + 1)
        real, quantized = (np.take(values, places, axis + 1) for values in (real, quantized))
    both = np.isfinite(real) & np.isfinite(quantized)
    values, gap = real[both].astype(np.float64), (real - quantized)[both].astype(np.float64)
    width = natural or (float(np.ptp(values)) if values.size else 0.0)
    spread = values - values.mean() if values.size else values
    return ColumnGroup(
        axis,
        first,
        last,
        width,
        steps=width / scale if scale else None,
        sqnr_db=pair_db(real, quantized),
        spread_db=decibels(float(spread @ spread), float(gap @ gap)),
        error=float(np.sqrt(np.mean(gap**2))) if gap.size else 0.0,
        bounded=natural is not None,
    )
