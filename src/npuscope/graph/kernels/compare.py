"""Comparisons, logic and choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuscope.graph.kernels.elementwise import centred
from npuscope.graph.kernels.requantize import quantized_multipliers, scale_twice
from npuscope.graph.kernels.step import Array, Maker, Step, only_bytes, quant_of
from npuscope.graph.kernels.tabulate import tabulated
from npuscope.graph.model import Graph, Op

Compare = Callable[[Array, Array], Array]
_FINER = 8  # bits that LiteRT adds before it brings both operands to real units


def litert(compare: Compare) -> Maker:
    """Both operands as fixed-point reals, which makes close values of small scales equal."""

    def make(graph: Graph, op: Op) -> Step:
        a, b = (graph.tensors[name] for name in op.inputs)
        only_bytes(op, a, b)
        scale_a, scale_b = (quantized_multipliers(quant_of(t).scale) for t in (a, b))

        def step(inputs: Sequence[Array]) -> Array:
            left = scale_twice(centred(inputs[0], a) << _FINER, scale_a)
            right = scale_twice(centred(inputs[1], b) << _FINER, scale_b)
            return compare(left, right)

        return tabulated(step, a, b)

    return make


def real(compare: Compare) -> Maker:
    """Truth comes in the type that the output has: programs keep it in bytes."""

    def make(graph: Graph, op: Op) -> Step:
        made = graph.output_tensor(op).dtype.numpy
        return lambda inputs: compare(inputs[0], inputs[1]).astype(made, copy=False)

    return make


def negation(graph: Graph, op: Op) -> Step:
    made = graph.output_tensor(op).dtype.numpy
    return lambda inputs: np.logical_not(inputs[0]).astype(made, copy=False)


def choose(graph: Graph, op: Op) -> Step:
    """Raw values pass as they are."""
    return lambda inputs: np.where(inputs[0], inputs[1], inputs[2])
