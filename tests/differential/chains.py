"""How far a result may move when values inside a chain of ops are a step off.

Units hand values on without writing them down. A step of rounding inside such a chain is the
hardware's, and an op behind it may make it larger: that much is no fault of the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npuscope.graph.model import Graph, Numerics, Op
from npuscope.ops.kernels.float_ops import average_pool
from npuscope.ops.kernels.reduce import reduce_mean
from npuscope.ops.kernels.resize import real_resize
from npuscope.ops.run import run_once

_RUNS = 4


def chain_of(graph: Graph, name: str, given: set[str]) -> list[Op]:
    """The ops between values that are given and this one, in order."""
    producers = graph.producers()
    needed, chain = [name], dict[str, Op]()
    while needed:
        op = producers.get(needed.pop())
        if op is not None and op.name not in chain:
            chain[op.name] = op
            needed += [n for n in op.inputs if n and n not in given]
    return [op for op in graph.ops if op.name in chain]


def reach(graph: Graph, name: str, given: set[str], values: Mapping[str, np.ndarray]) -> float:
    """The largest change of `name`, in steps, by one step either way in all values of its chain."""
    chain = chain_of(graph, name, given)
    noise = np.random.default_rng(0)
    return max(_moved(graph, chain, name, values, noise) for _ in range(_RUNS))


def rounded_once(
    graph: Graph, name: str, given: set[str], values: Mapping[str, np.ndarray]
) -> np.ndarray | None:
    """The chain in real numbers, with one rounding behind each op; None where there is no chain."""
    held = dict(values)
    chain = chain_of(graph, name, given)
    for op in chain:
        held.update(_alone(graph, op, held, Numerics.QDQ))
    return held[name] if chain else None


# Sums with few different weights: every second or fourth result is a tie.
_WEIGHTED = {"AveragePool": average_pool, "Mean": reduce_mean, "Resize": real_resize}


def exact_result(graph: Graph, op: Op, values: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The result of a mean or an interpolation in steps, before it is rounded; None of others."""
    if op.kind not in _WEIGHTED:
        return None
    x, y = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    if x.quant is None or y.quant is None:
        return None
    real = (values[x.name].astype(np.float64) - x.quant.zero_point) * x.quant.scale
    result = _WEIGHTED[op.kind](graph, op)([real])
    return np.asarray(result / y.quant.scale + y.quant.zero_point)


def _moved(
    graph: Graph,
    chain: list[Op],
    name: str,
    values: Mapping[str, np.ndarray],
    noise: np.random.Generator,
) -> float:
    held = dict(values)
    for op in chain:
        for made, result in _alone(graph, op, held, graph.numerics).items():
            held[made] = result if made == name else _off_by_one(result, noise)
    return float(np.abs(held[name].astype(np.float64) - values[name].astype(np.float64)).max())


def _alone(
    graph: Graph, op: Op, held: Mapping[str, np.ndarray], numerics: Numerics
) -> dict[str, np.ndarray]:
    inputs = [n for n in op.inputs if n and not graph.tensors[n].is_constant]
    tensors = [graph.tensors[n] for n in dict.fromkeys((*op.inputs, *op.outputs)) if n]
    alone = Graph(op.name, tensors, [op], inputs, op.outputs, numerics)
    return run_once(alone, {n: held[n] for n in inputs})


def _off_by_one(values: np.ndarray, noise: np.random.Generator) -> np.ndarray:
    if values.dtype not in (np.int8, np.uint8):
        return values
    whole = np.iinfo(values.dtype)
    wide = values.astype(np.int16) + noise.integers(-1, 2, values.shape)
    return np.clip(wide, whole.min, whole.max).astype(values.dtype)
