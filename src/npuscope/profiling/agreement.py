"""How far two results are from each other, in steps of the quantization."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import numpy as np
from msgspec import Struct, field

from npuscope.blas_threads import one_thread
from npuscope.errors import ModelError
from npuscope.graph.model import DType, Graph, Tensor
from npuscope.ops.table import OPS, having
from npuscope.ops.traits import Trait
from npuscope.program.model import Buffer, Epoch, Program
from npuscope.text import safe_terminal

# --- Seeded inputs over the whole range of their type ---


_PASSES_ON = having(Trait.MOVES) | {"Cast"}  # places stay places
_WHOLE = (DType.INT32, DType.INT64)
_MOST_ELEMENTS = 1 << 27  # of one tensor; some steps keep eight bytes for each


def random_sample(graph: Graph, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """One value for each input; indices stay inside of the tables that they are looked up in."""
    refuse_large(graph)
    sample: dict[str, np.ndarray] = {}
    for name in graph.inputs:
        tensor = graph.tensor(name)
        if tensor.dtype in _WHOLE and tensor.quant is None:
            most = _table_size(graph, name)
            sample[name] = generator.integers(0, most, tensor.shape).astype(tensor.dtype.numpy)
        else:
            sample[name] = noise(tensor, generator)
    return sample


def refuse_large(graph: Graph) -> None:
    """A network that this computer could not run."""
    largest = max(graph.tensors.values(), key=lambda tensor: tensor.elements)
    if largest.elements > _MOST_ELEMENTS:
        raise ModelError(
            f"tensor '{safe_terminal(largest.name)}' has {largest.elements:,} values: too many to "
            "run the network here",
            hint="give smaller sizes with --shape, or export the model with them",
        )


def _table_size(graph: Graph, name: str) -> int:
    """How many places a table has that is read with these indices; 2 where there is none."""
    same, sizes = {name}, []
    for op in graph.ops:
        if OPS[op.kind].has(Trait.INDEXED) and len(op.inputs) > 1 and op.inputs[1] in same:
            sizes.append(min(graph.tensors[op.inputs[0]].shape, default=1))
            if op.kind == "Gather":
                axis = getattr(op.attrs, "axis", 0)
                sizes[-1] = graph.tensors[op.inputs[0]].shape[axis]
        elif op.inputs and op.inputs[0] in same and op.kind in _PASSES_ON:
            same.update(op.outputs)
    return min(sizes, default=2)


def noise(tensor: Tensor, generator: np.random.Generator) -> np.ndarray:
    if tensor.dtype is DType.FLOAT32:
        return generator.uniform(-1, 1, tensor.shape).astype(np.float32)
    low, high = (0, 1) if tensor.dtype is DType.BOOL else tensor.dtype.limits
    return generator.integers(low, high, tensor.shape, endpoint=True).astype(tensor.dtype.numpy)


class InputKind(StrEnum):
    """What a sample is like. Random values everywhere hide weights whose sums they average out."""

    SMOOTH = "smooth"  # waves along every axis, as pictures and spectra have
    SPARSE = "sparse"  # zero but for one value of twenty
    EXTREME = "extreme"  # the smallest and the largest value, in turns
    CALIBRATED = "calibrated"  # around the middle of the range that quantization states


_FILLED = 0.05  # of a sparse sample
_SPREAD = 6.0  # standard deviations in the range of a calibrated one


def sample_of(
    graph: Graph, kind: InputKind, generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """One value for each input, of a kind; indices and truth values stay random."""
    sample = random_sample(graph, generator)
    readers = graph.consumers()
    for name, values in sample.items():
        tensor = graph.tensor(name)
        behind = [graph.output_tensor(op) for op in readers[name] if op.kind == "Quantize"]
        stated = next((one for one in (tensor, *behind) if one.quant is not None), None)
        if tensor.dtype is DType.BOOL or (tensor.dtype in _WHOLE and tensor.quant is None):
            continue
        low, high, zero = -1.0, 1.0, 0.0
        if stated is not None and stated.quant is not None:
            quant = stated.quant
            low, high = (float(limit) for limit in stated.dtype.limits)
            zero = float(quant.zero_point)
            if tensor.dtype is DType.FLOAT32:
                low, high, zero = ((n - zero) * quant.scale for n in (low, high, zero))
        elif tensor.dtype is not DType.FLOAT32:
            low, high = (float(limit) for limit in tensor.dtype.limits)
        shape, middle = tensor.shape, (low + high) / 2
        if kind is InputKind.SMOOTH:
            waves = np.zeros(shape)
            for axis, size in enumerate(shape):
                turns, phase = generator.uniform(0.5, 2.0), generator.uniform(0, 2 * np.pi)
                line = np.sin(np.linspace(0, 2 * np.pi * turns, size) + phase)
                waves = waves + line.reshape([-1 if n == axis else 1 for n in range(len(shape))])
            drawn = middle + (high - low) / 2 * waves / max(1.0, float(np.abs(waves).max()))
        elif kind is InputKind.SPARSE:
            drawn = np.where(
                generator.random(shape) < _FILLED, generator.uniform(low, high, shape), zero
            )
        elif kind is InputKind.EXTREME:
            drawn = np.where(generator.random(shape) < 0.5, low, high)
        else:
            drawn = generator.normal(middle, (high - low) / _SPREAD, shape)
        whole = tensor.dtype is not DType.FLOAT32
        clipped = np.clip(np.rint(drawn) if whole else drawn, low, high)
        sample[name] = clipped.astype(values.dtype)
    return sample


Array = np.ndarray


class Agreement(Struct, frozen=True):
    """Over all samples: shares of elements, differences in LSB, and what was found."""

    name: str
    exact_share: float
    within_1_lsb_share: float
    max_lsb: float
    mean_lsb: float
    cosine: float
    mean: float
    std: float
    rms_lsb: float = 0.0
    rounding_rms_lsb: float = 0.0  # the same of the reference with rounding in every layer
    top1_same_share: float | None = None  # of the answers, where the output gives classes


class LayerAgreement(Struct, frozen=True):
    """One epoch's result when it is given the reference's inputs."""

    epoch: str
    ops: tuple[str, ...]
    origin: tuple[str, ...]
    exact_share: float
    within_1_lsb_share: float
    max_lsb: float
    near_share: float = 1.0  # as near as the rounding of ops inside the epoch explains
    channel_near_share: float = 1.0  # the same of the channel that is furthest off
    bias: float = 0.0  # mean signed difference, in parts of what counts as near


_LOST_LSB = 1e6
_FEWEST_FOR_A_MEAN = 64  # elements, of _FEWEST values: equal ones are rounded once
_MOST_VALUES = 1 << 16
_FEWEST = 16  # elements of a layer or a channel; of fewer a single one would decide


class AgreementTally(Struct):
    """Running sums for an Agreement. `lsb` is the size of one step, `near_lsb` how many of them
    count as near, of all channels or of each."""

    lsb: float
    near_lsb: float | Array = 1.0
    elements: int = 0
    equal: int = 0
    close: int = 0
    largest: float = 0.0
    total: float = 0.0
    squares: float = 0.0
    # Elements of each channel that are near, and how many it has.
    near: Array = field(default_factory=lambda: np.zeros(1))
    channel_elements: int = 0
    signed: float = 0.0  # differences in parts of what is near; one further off counts as 1
    # The same by what was expected, in steps: sums and counts.
    by_value: dict[int, tuple[float, int]] = field(default_factory=dict)
    # Sums for the cosine, and for mean and standard deviation of what was found.
    products: Array = field(default_factory=lambda: np.zeros(5))

    @one_thread()
    def add(self, values: Array, expected: Array) -> None:
        y = expected.astype(np.float64).ravel()
        # What is no number at all is far from every number.
        lost = ~np.isfinite(values.ravel())
        x = np.where(lost, y + _LOST_LSB * self.lsb, values.ravel()).astype(np.float64)
        # Steps of a float output are not exact multiples: a thousandth of a step is equal.
        steps = np.abs(x - y) / self.lsb
        self.elements += x.size
        self.equal += int((steps < 1e-3).sum())
        self.close += int((steps < 1 + 1e-3).sum())
        self.largest = max(self.largest, float(steps.max(initial=0.0)))
        self.total += float(steps.sum())
        self.squares += float(steps @ steps)
        # A row of values is one channel, unless each value has a limit of its own.
        one_channel = expected.ndim < 2 and np.size(self.near_lsb) != expected.size
        channels = 1 if one_channel or expected.ndim == 0 else expected.shape[-1]
        by_channel = steps.reshape(-1, max(1, channels))
        self.near = self.near + (by_channel < self.near_lsb + 1e-3).sum(0)
        parts = np.minimum(by_channel / self.near_lsb, 1).ravel()
        signed = np.copysign(parts, x - y)
        self.signed += float(signed.sum())
        self._add_by_value(signed, y)
        self.channel_elements += x.size // max(1, channels)
        self.products += (x @ y, x @ x, y @ y, x.sum(), x.size)

    def _add_by_value(self, signed: Array, expected: Array) -> None:
        values = np.rint(expected / self.lsb)
        if not values.size or not np.ptp(values) < _MOST_VALUES:  # real numbers of a wide range
            return
        low = values.min()
        places = (values - low).astype(np.int64)
        counts = np.bincount(places)
        sums = np.bincount(places, signed)
        for place in np.flatnonzero(counts).tolist():
            total, count = self.by_value.get(int(low) + place, (0.0, 0))
            self.by_value[int(low) + place] = total + sums[place], count + int(counts[place])

    @property
    def rms(self) -> float:
        return float(np.sqrt(self.squares / max(self.elements, 1)))

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
            self.rms,
        )

    @property
    def near_share(self) -> float:
        return float(self.near.sum()) / self.elements if self.elements >= _FEWEST else 1.0

    @property
    def bias(self) -> float:
        """Rounding goes up as often as down. One value that occurs often, as the end of a range
        does, may be a tie: it is one tie, so the mean over all values has to be off as well."""
        if self.elements < _FEWEST_FOR_A_MEAN:
            return 0.0
        means = [total / count for total, count in self.by_value.values()]
        if 0 < len(means) < _FEWEST:
            return 0.0
        of_values = sum(means) / len(means) if means else self.signed / self.elements
        return float(min(self.signed / self.elements, of_values, key=abs))

    @property
    def channel_near_share(self) -> float:
        """Of the channel that is furthest off."""
        if self.channel_elements < _FEWEST:
            return 1.0
        return float(self.near.min()) / self.channel_elements


def layer_agreement(epoch: Epoch, tallies: Sequence[AgreementTally]) -> LayerAgreement:
    """Of an epoch that writes one buffer or several."""
    elements = max(1, sum(tally.elements for tally in tallies))
    return LayerAgreement(
        epoch.name,
        epoch.operators,
        epoch.origin,
        sum(tally.equal for tally in tallies) / elements,
        sum(tally.close for tally in tallies) / elements,
        round(max(tally.largest for tally in tallies), 3),
        min(tally.near_share for tally in tallies),
        min(tally.channel_near_share for tally in tallies),
        max((tally.bias for tally in tallies), key=abs),
    )


# --- Values between a network and a program: inputs, outputs, reference tensors ---

Values = Mapping[str, Array]


class NetworkBridge(Protocol):
    def inputs(self, sample: Values) -> dict[str, Array]:
        """A sample of the network as values of the program's input buffers."""
        ...

    def outputs(self, values: Values) -> dict[str, Array]:
        """The program's outputs under the network's names and shapes."""
        ...

    def forced(self, expected: Values) -> dict[str, Array]:
        """Reference values for the buffers that carry a tensor of the network."""
        ...

    def tensor(self, buffer: str) -> str:
        """The tensor that such a buffer carries."""
        ...


class OwnBridge(Struct, frozen=True):
    """Our own compiler keeps the network's names."""

    program: Program
    graph: Graph

    def inputs(self, sample: Values) -> dict[str, Array]:
        return dict(sample)

    def outputs(self, values: Values) -> dict[str, Array]:
        return {name: values[name] for name in self.graph.outputs}

    def forced(self, expected: Values) -> dict[str, Array]:
        return dict(_forced(self.program.buffers, expected))

    def tensor(self, buffer: str) -> str:
        return self.program.buffer_map()[buffer].tensor or buffer.removesuffix(".sub")


def _forced(buffers: Iterable[Buffer], expected: Values) -> Iterator[tuple[str, Array]]:
    """All buffers that carry a tensor of the graph, or its bytes with the zero point shifted
    out."""
    for buffer in buffers:
        shifted = buffer.name.endswith(".sub") and not buffer.signed
        value = expected.get(buffer.name.removesuffix(".sub") if shifted else buffer.tensor)
        if value is None or buffer.is_param or value.size * value.itemsize != buffer.size_bytes:
            continue
        if shifted and value.dtype == np.int8:
            value = (value.astype(np.int16) + 128).astype(np.uint8)
        elif buffer.signed and value.dtype == np.uint8:  # uint8 networks are compiled as int8 ones
            value = (value.astype(np.int16) - 128).astype(np.int8)
        yield buffer.name, value.reshape(buffer.shape)
