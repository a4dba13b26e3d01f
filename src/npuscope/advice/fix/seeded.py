"""Seeded data for a network whose border types an edit may change: real values, then steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npuscope.graph.model import DType, Graph, Tensor
from npuscope.ops.run import run, trace
from npuscope.profile.noise import noise

Arrays = Mapping[str, np.ndarray]


def seeded_inputs(graph: Graph, seed: int) -> list[np.ndarray]:
    """Real values for each input, over the whole range that its type can hold."""
    generator = np.random.default_rng(seed)
    tensors = [graph.tensor(name) for name in graph.inputs]
    return [real(tensor, noise(tensor, generator)) for tensor in tensors]


def real(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    """What the values of a tensor stand for."""
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


def given(graph: Graph, reals: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Values for all inputs of a graph from real ones; layouts of the border may differ."""
    named = zip(graph.inputs, reals, strict=True)
    return {n: as_given(graph.tensor(n), v.reshape(graph.tensor(n).shape)) for n, v in named}


def real_outputs(graph: Graph, reals: list[np.ndarray], keep: list[str]) -> dict[str, np.ndarray]:
    """Real values of the outputs, and of the tensors named in `keep`."""
    made = run(graph, given(graph, reals), keep)
    return {name: real(graph.tensor(name), values) for name, values in made.items()}


def all_values(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Real values of every tensor that an op makes, and of the inputs."""
    inputs = given(graph, seeded_inputs(graph, seed))
    made = {**inputs, **trace(graph, inputs)}
    return {name: real(graph.tensor(name), values) for name, values in made.items()}
