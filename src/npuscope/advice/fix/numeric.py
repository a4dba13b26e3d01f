"""What an edit does to the results: outputs before and after, on the same seeded data, and what
changes for the application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, log10

import numpy as np
from msgspec import Struct

from npuscope.advice.fix.results import Results
from npuscope.graph.model import DType, Graph, Numerics, Op, Tensor
from npuscope.profiling.agreement import noise, refuse_large
from npuscope.shown import counted

Arrays = Mapping[str, np.ndarray]  # real values by the name of an input


class InputData(Struct, frozen=True):
    """What networks are compared on; random numbers show a difference, never that there is none."""

    samples: tuple[Arrays, ...]
    told: str
    is_real: bool = False


def random_data(graph: Graph, seeds: int) -> InputData:
    samples = tuple(seeded_inputs(graph, seed) for seed in range(seeds))
    return InputData(samples, counted(seeds, "random input"))


def seeded_inputs(graph: Graph, seed: int) -> Arrays:
    """Real values for each input, over the whole range that its type can hold."""
    refuse_large(graph)
    generator = np.random.default_rng(seed)
    tensors = [graph.tensor(name) for name in graph.inputs]
    return {tensor.name: real(tensor, noise(tensor, generator)) for tensor in tensors}


def real(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    """Real values of a tensor."""
    quant = tensor.quant
    if quant is None or tensor.dtype.is_float:
        return values.astype(np.float64)
    shape = [1] * values.ndim
    if quant.axis is not None:
        shape[quant.axis] = -1
    zeros, scales = (np.array(v, np.float64) for v in (quant.zero_points, quant.scales))
    return (values - zeros.reshape(shape)) * scales.reshape(shape)


def as_given(tensor: Tensor, reals: np.ndarray) -> np.ndarray:
    """Real values in the tensor's own type; what lies outside its range is cut off."""
    if tensor.dtype.is_float or tensor.dtype is DType.BOOL:
        return reals.astype(tensor.dtype.numpy)
    quant = tensor.quant
    steps = reals if quant is None else np.rint(reals / quant.scale) + quant.zero_point
    return np.asarray(np.clip(steps, *tensor.dtype.limits), tensor.dtype.numpy)


def input_values(graph: Graph, reals: Arrays) -> dict[str, np.ndarray]:
    """Values for all inputs of a graph from real ones; layouts and names of the border may differ,
    and inputs that nothing reads may be gone."""
    values = {name: reals[name] for name in graph.inputs if name in reals}
    if len(values) < len(graph.inputs):
        values = dict(zip(graph.inputs, reals.values(), strict=True))
    tensors = {name: graph.tensor(name) for name in graph.inputs}
    return {n: as_given(t, values[n].reshape(t.shape)) for n, t in tensors.items()}


def real_outputs(
    graph: Graph, reals: Arrays, keep: list[str], results: Results
) -> dict[str, np.ndarray]:
    """Real values of the outputs, and of the tensors named in `keep`."""
    raw = results.run(graph, input_values(graph, reals), keep)
    return {name: real(graph.tensor(name), values) for name, values in raw.items()}


def all_values(graph: Graph, reals: Arrays, results: Results) -> dict[str, np.ndarray]:
    """Real values of every tensor that an op makes, and of the inputs."""
    inputs = input_values(graph, reals)
    raw = {**inputs, **results.trace(graph, inputs)}
    return {name: real(graph.tensor(name), values) for name, values in raw.items()}


_BORDER = "output:"  # layout changes that the reader adds at the network's border


class OutputPair(Struct, frozen=True):
    """An output, and the two tensors to compare for it; `before` is None for a new one.

    Where an inner tensor became an output, both are in front of the layout change at the border.
    """

    output: str
    after: str
    before: str | None

    @property
    def is_output(self) -> bool:
        return self.after == self.output == self.before


def pairs(before: Graph, after: Graph) -> tuple[OutputPair, ...]:
    return tuple(_pair(before, after, name) for name in after.outputs)


def _pair(before: Graph, after: Graph, name: str) -> OutputPair:
    if name in before.outputs and before.tensor(name).shape == after.tensor(name).shape:
        return OutputPair(name, name, name)
    # The op of the file that makes an output
    makers = after.producers()
    op = makers.get(name)
    while op is not None and op.origin and all(o.startswith(_BORDER) for o in op.origin):
        op = makers.get(op.inputs[0])
    maker = op if op is not None and len(op.outputs) == 1 else None
    if maker is None:
        return OutputPair(name, name, None)
    inner = maker.outputs[0]
    return OutputPair(name, inner, _inside(before, after, maker, name))


def _inside(before: Graph, after: Graph, maker: Op, name: str) -> str | None:
    """By the tensor's name, else by the op of the file that makes it: a name may have moved from a
    float tensor to its integers."""
    shape = after.output_tensor(maker).shape
    if name in before.tensors and before.tensor(name).shape == shape:
        return name
    same = [op for op in before.ops if op.origin[-1:] == maker.origin[-1:]]
    names = [n for op in same for n in op.outputs if before.tensor(n).shape == shape]
    return names[-1] if names else None


_EQUAL = 1e-3  # of a step: dequantized outputs are not exact multiples of one
_NUDGED = 256  # of so many input values one moves, to see how sensitive a network is
_STEPS = 255  # of a float output without a quantization
_IMAGE = 4  # axes


class OutputEffect(Struct, frozen=True):
    """Of one output: the largest difference in steps (LSB), and signal to noise in dB.

    `reference` is the tensor of the original network that stands for it; None where there is
    none to compare with. Steps are those of the original's quantization, and 1/255 of the range
    that it takes where it is float.
    """

    output: str
    reference: str | None
    max_lsb: float
    exact_share: float
    sqnr_db: float
    same_answers: float | None = None  # share of places where the same channel has the top score

    @property
    def exact(self) -> bool:
        return self.reference is not None and self.max_lsb < _EQUAL


def effects(before: Graph, after: Graph, seeds: int) -> tuple[OutputEffect, ...]:
    """On random numbers."""
    return effects_on(random_data(before, seeds), before, after, Results())


def effects_on(
    data: InputData, before: Graph, after: Graph, results: Results
) -> tuple[OutputEffect, ...]:
    """One for each output of the edited network."""
    matched = pairs(before, after)
    both = [(pair, pair.before) for pair in matched if pair.before is not None]
    rows: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {p.output: [] for p in matched}
    for reals in data.samples:
        old = real_outputs(before, reals, [name for _, name in both], results)
        new = real_outputs(after, reals, [pair.after for pair, _ in both], results)
        for pair, name in both:
            rows[pair.output].append((old[name], new[pair.after]))
    return tuple(effect(pair, before, rows[pair.output]) for pair in matched)


def effect(
    pair: OutputPair, before: Graph, rows: Sequence[tuple[np.ndarray, np.ndarray]]
) -> OutputEffect:
    """From real values (before, after), sample by sample."""
    if pair.before is None:
        return OutputEffect(pair.output, None, inf, 0.0, -inf)
    old = np.concatenate([row.reshape(-1) for row, _ in rows])
    new = np.concatenate([row.reshape(-1) for _, row in rows])
    steps = np.abs(old - new) / (step(before, before.tensor(pair.before)) or _float_step(old))
    return OutputEffect(
        pair.output,
        pair.before,
        round(float(steps.max(initial=0.0)), 3),
        float(np.mean(steps < _EQUAL)),
        _decibels(old, new),
        _same_answers(before, rows),
    )


def _same_answers(graph: Graph, rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> float | None:
    """None for outputs of one channel, and for those that hold something else than scores."""
    shape = rows[0][0].shape
    # Images of ONNX files have their channels second.
    axis = 1 if graph.numerics is Numerics.QDQ and len(shape) == _IMAGE else -1
    if len(shape) < 2 or shape[axis] < 2 or any(old.shape != new.shape for old, new in rows):
        return None
    same = [np.argmax(old, axis) == np.argmax(new, axis) for old, new in rows]
    return float(np.mean(same))


def _float_step(values: np.ndarray) -> float:
    return float(np.ptp(values)) / _STEPS or 1.0


def step(graph: Graph, tensor: Tensor) -> float:
    """One step of a tensor; a dequantized one counts in steps of what was dequantized. 0 where
    there is no quantization."""
    if tensor.quant is not None and not tensor.dtype.is_float:
        return tensor.quant.scale
    maker = graph.producers().get(tensor.name)
    source = graph.first_input(maker) if maker and maker.kind == "Dequantize" else None
    return source.quant.scale if source and source.quant else 0.0


def _decibels(old: np.ndarray, new: np.ndarray) -> float:
    signal, noise = float(old @ old), float((old - new) @ (old - new))
    if noise == 0.0:
        return inf
    return round(10 * log10(signal / noise), 1) if signal else -inf


def unrest_db(graph: Graph, calm: Arrays, results: Results) -> float:
    """SQNR of the worst output when every 256th value of the inputs moves by one step."""
    inputs = input_values(graph, calm)
    moved = {
        name: _nudged(graph, name, real(graph.tensor(name), values))
        for name, values in inputs.items()
    }
    old, new = (real_outputs(graph, values, [], results) for values in (calm, moved))
    return min(_decibels(old[n].reshape(-1), new[n].reshape(-1)) for n in graph.outputs)


def _nudged(graph: Graph, name: str, values: np.ndarray) -> np.ndarray:
    flat = values.astype(np.float64).reshape(-1).copy()
    flat[::_NUDGED] += step(graph, graph.tensor(name)) or _float_step(values)
    return flat.reshape(values.shape)


def border_notes(before: Graph, after: Graph) -> tuple[str, ...]:
    """A sentence for every input and output that changed."""
    same_count = len(before.inputs) == len(after.inputs)
    inputs = list(zip(before.inputs, after.inputs, strict=True)) if same_count else []
    outputs = [(name, name) for name in after.outputs if name in before.outputs]
    return (*_changes("input", before, after, inputs), *_changes("output", before, after, outputs))


def _changes(side: str, before: Graph, after: Graph, names: list[tuple[str, str]]) -> Iterator[str]:
    for old, new in names:
        was, now = before.tensor(old), after.tensor(new)
        if (was.dtype, was.quant) != (now.dtype, now.quant):
            yield f"{side} {new} is {_format(now)} now, was {_format(was)}"


def _format(tensor: Tensor) -> str:
    quant = tensor.quant
    if quant is None or quant.per_channel:
        return tensor.dtype.value
    return f"{tensor.dtype.value} (scale {quant.scale:.6g}, zero point {quant.zero_point})"
