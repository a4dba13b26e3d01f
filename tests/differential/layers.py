"""Epochs of a Program against the reference executor, and how far two results are apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from differential.chains import chain_of, exact_result, reach, rounded_once
from differential.verdict import Verdict
from npuscope.graph.model import DType, Graph
from npuscope.ops.run import trace
from npuscope.program.model import Buffer, Epoch
from npuscope.sim.run import reads

EQUAL = 1e-3  # of a step: dequantized values are not exact multiples of one
_FEW_STEPS = 2.0  # how far a unit's rounding may be off
# Ties and coefficients of 16 bits move single values, either way. In the mean over the values that
# a result takes, bytes at an end of their range apart, this much is another offset or rounding.
# Means of two or four are ties as often as not, which the units decide otherwise than LiteRT.
_BIAS, _BIAS_OF_MEANS, _VALUES = 0.4, 0.6, 16
_MEANS = ("AveragePool", "Mean")

_COMPARISONS = {
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
}


def steps(found: np.ndarray, expected: np.ndarray, step: float) -> np.ndarray:
    """How far each element is off; infinities and NaN are equal to themselves."""
    x, y = (values.astype(np.float64) / step for values in (found, expected))
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.nan_to_num(np.abs(x - y), nan=np.inf))


def output_step(graph: Graph, name: str) -> float:
    """One step of an output; a real one counts in steps of what was dequantized."""
    maker = graph.producers().get(name)
    if graph.tensors[name].quant is not None or maker is None or maker.kind != "Dequantize":
        return 1.0
    quant = graph.first_input(maker).quant
    return quant.scale if quant else 1.0


def _bias(found: np.ndarray, expected: np.ndarray) -> float:
    if expected.dtype.kind not in "iu":
        return 0.0
    whole = np.iinfo(expected.dtype)
    within = (expected > whole.min) & (expected < whole.max)
    values, place, counts = np.unique(expected[within], return_inverse=True, return_counts=True)
    if len(values) < _VALUES:
        return 0.0
    apart = found[within].astype(np.float64) - expected[within]
    return float(abs((np.bincount(place.ravel(), apart.ravel()) / counts).mean()))


class Layers:
    """Epochs on the reference's own inputs, against its results."""

    def __init__(self, graph: Graph, sample: Mapping[str, np.ndarray], verdict: Verdict) -> None:
        self.graph, self.verdict = graph, verdict
        self.expected = {**sample, **trace(graph, sample)}
        self.off: list[Epoch] = []
        self.saturated: set[str] = set()  # ops whose sums left 16 bits
        self.own: dict[int, set[str]] = {}  # inputs of an epoch that are not the reference's
        self.sources: dict[str, set[str]] = {}  # by buffer, the reference's values behind it
        self.makers: dict[str, set[str]] = {}  # by buffer the reference lacks, the ops behind it

    def saturates(self, epoch: Epoch) -> bool:
        """Whether sums leave 16 bits in the epoch, or in one whose partial results it reads."""
        makers = set(epoch.origin).union(*(self.makers.get(name, ()) for name in reads(epoch)))
        return not self.saturated.isdisjoint(makers)

    def compare(
        self, epoch: Epoch, buffer: Buffer, found: np.ndarray, known: Mapping[str, np.ndarray]
    ) -> None:
        apart = steps(found, known[buffer.name], self._step(buffer, found))
        largest, close = float(apart.max(initial=0.0)), int((apart <= 1 + EQUAL).sum())
        kind = "units" if epoch.call is None else "CPU"
        self.verdict.counts[f"layers of {kind}"] += 1
        self.verdict.counts[f"layers of {kind}, exact"] += largest <= EQUAL
        equal = int((apart <= EQUAL).sum())
        limit = _BIAS_OF_MEANS if self._is_made_by(buffer, _MEANS) else _BIAS
        if self._is_made_by(buffer, _COMPARISONS):
            if equal == apart.size or np.array_equal(found, self._compared(buffer)):
                return
            size = "comparison differs"
        elif largest > (_FEW_STEPS if kind == "units" else 1 + EQUAL):
            if largest <= self._allowed(epoch, buffer):
                return
            size = "off by more than 8 LSB" if largest > 8 else "off by up to 8 LSB"
        elif (
            _bias(found, known[buffer.name]) > limit
            and not self._is_nearest(epoch, buffer, found, limit)
            and not self._is_of_few_values(epoch, buffer)
        ):
            size = "round otherwise"
        else:
            return
        self.off.append(epoch)
        self.verdict.add(
            "npu",
            f"{kind} {size}",
            f"{self.verdict.generation}: {epoch.name}, {largest:g} LSB, "
            f"{close} of {apart.size} within 1, {equal} equal",
            ", ".join(origin.partition(":")[0] for origin in epoch.origin),
            buffer.tensor,
            *reads(epoch),
        )

    def _is_nearest(self, epoch: Epoch, buffer: Buffer, found: np.ndarray, limit: float) -> bool:
        """Whether a chain's results are those of real numbers, rounded once.

        LiteRT rounds a product and then its shift. By a factor of a half to a quarter, that makes
        every second value a tie, which goes away from zero: a quarter of a step and more.
        """
        if self._is_nearest_mean(epoch, buffer, found):
            return True
        nearest = rounded_once(self.graph, buffer.tensor, self._given(epoch, buffer), self.expected)
        if nearest is None:
            return False
        shift = 128 if self.graph.tensors[buffer.tensor].dtype is DType.UINT8 else 0
        nearest = (nearest - shift).astype(found.dtype).reshape(found.shape)
        apart = float(steps(found, nearest, 1.0).max(initial=0.0))
        return apart <= _FEW_STEPS and _bias(found, nearest) <= limit

    def _is_nearest_mean(self, epoch: Epoch, buffer: Buffer, found: np.ndarray) -> bool:
        """Whether results are no further from exact means than half a step: every second mean of
        two is a tie, which LiteRT moves away from zero."""
        if buffer.tensor not in self.graph.tensors:
            return False
        chain = chain_of(self.graph, buffer.tensor, self._given(epoch, buffer))
        exact = exact_result(self.graph, chain[0], self.expected) if len(chain) == 1 else None
        if exact is None:
            return False
        output = self.graph.tensors[buffer.tensor]
        shift = 128 if output.dtype is DType.UINT8 and buffer.signed else 0
        exact = np.clip(exact, *output.dtype.limits) - shift
        return bool(steps(found, exact.reshape(found.shape), 1.0).max(initial=0.0) <= 0.5 + EQUAL)

    def _is_of_few_values(self, epoch: Epoch, buffer: Buffer) -> bool:
        """Whether a value inside the chain takes too few for a mean over its rounding: by constants
        of each channel they become many, which are off together."""
        if buffer.tensor not in self.graph.tensors:
            return False
        chain = chain_of(self.graph, buffer.tensor, self._given(epoch, buffer))
        inner = [name for op in chain for name in op.outputs if name != buffer.tensor]
        return any(len(np.unique(self.expected[name])) < _VALUES for name in inner)

    def _is_made_by(self, buffer: Buffer, kinds: Collection[str]) -> bool:
        maker = self.graph.producers().get(buffer.tensor)
        return maker is not None and maker.kind in kinds

    def _compared(self, buffer: Buffer) -> np.ndarray:
        """Of real numbers, as on the CPU; LiteRT compares bytes of two scales in steps of 1/256."""
        maker = self.graph.producers()[buffer.tensor]
        x, y = (self._real(name) for name in maker.inputs)
        return np.asarray(_COMPARISONS[maker.kind](x, y))

    def _real(self, name: str) -> np.ndarray:
        tensor = self.graph.tensors[name]
        values = tensor.data if tensor.data is not None else self.expected[name]
        if tensor.quant is None:
            return values
        zero, scale = tensor.quant.zero_point, np.float32(tensor.quant.scale)
        return np.asarray((values.astype(np.int32) - zero).astype(np.float32) * scale)

    def _allowed(self, epoch: Epoch, buffer: Buffer) -> float:
        """What a step of rounding between its ops can do."""
        name = buffer.tensor or buffer.name.removesuffix(".sub")  # its zero point shifted out
        if name not in self.graph.tensors:
            return 0.0
        given = self._given(epoch, buffer)
        return 1.5 * reach(self.graph, name, given, self.expected) + _FEW_STEPS

    def _given(self, epoch: Epoch, buffer: Buffer) -> set[str]:
        """The reference's values that this result comes from; another result of the epoch may
        come from more."""
        inputs = self.sources.get(buffer.name) or set(reads(epoch))
        return {n.removesuffix(".sub") for n in inputs - self.own.get(epoch.number, set())}

    def _step(self, buffer: Buffer, values: np.ndarray) -> float:
        if values.dtype.kind != "f" or buffer.tensor not in self.graph.outputs:
            return 1.0
        return output_step(self.graph, buffer.tensor)
