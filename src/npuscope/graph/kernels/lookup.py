"""LiteRT's tables of 256 values: a function in float32, rounded to the output's grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from npuscope.graph.attrs import EluAttrs, GeluAttrs
from npuscope.graph.kernels.elementwise import centred
from npuscope.graph.kernels.requantize import round_half_away, saturate
from npuscope.graph.kernels.step import Array, Maker, Step, only_bytes, quant_of
from npuscope.graph.kernels.tabulate import tabulated
from npuscope.graph.model import Graph, Op

Function = Callable[[Array], Array]


def looked_up(function: Function) -> Maker:
    """`function` works in double: rounded to float32 it is what a good float32 one gives."""
    return lambda graph, op: _table(graph, op, function)


def _table(graph: Graph, op: Op, function: Function) -> Step:
    source, output = graph.first_input(op), graph.output_tensor(op)
    only_bytes(op, source, output)
    scale = np.float32(quant_of(source).scale)
    inverse = np.float32(1) / np.float32(quant_of(output).scale)

    def step(inputs: Sequence[Array]) -> Array:
        real = scale * centred(inputs[0], source).astype(np.float32)
        with np.errstate(all="ignore"):
            value = function(real.astype(np.float64)).astype(np.float32)
            whole = round_half_away(value * inverse) + quant_of(output).zero_point
        # C turns NaN into the smallest integer
        return saturate(np.where(np.isnan(whole), -np.inf, whole), output.dtype)

    return tabulated(step, source)


def elu(graph: Graph, op: Op) -> Step:
    alpha = op.attrs_as(EluAttrs).alpha
    return _table(graph, op, lambda x: np.where(x < 0, alpha * np.expm1(x), x))


def gelu(graph: Graph, op: Op) -> Step:
    exact = not op.attrs_as(GeluAttrs).approximate
    return _table(graph, op, _gelu if exact else _gelu_by_tanh)


def _gelu(x: Array) -> Array:
    phi = [0.5 * math.erfc(-value * math.sqrt(0.5)) for value in x.ravel()]
    return np.asarray(x * np.reshape(phi, x.shape))


def _gelu_by_tanh(x: Array) -> Array:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(0.5 * x * (1 + np.tanh(inner)))


def _sigmoid(x: Array) -> Array:
    """The sum and the quotient are float32 too."""
    power = np.exp(-x).astype(np.float32)
    return np.asarray(np.float32(1) / (np.float32(1) + power))


sigmoid = looked_up(_sigmoid)
tanh = looked_up(np.tanh)
exp = looked_up(np.exp)
log = looked_up(np.log)


def square_root(graph: Graph, op: Op) -> Step:
    """Cut off instead of rounded; LiteRT refuses values below the zero point, here they are 0."""
    source, output = graph.first_input(op), graph.output_tensor(op)
    scale = np.float32(quant_of(source).scale)
    out_scale = np.float32(quant_of(output).scale)

    def step(inputs: Sequence[Array]) -> Array:
        real = scale * np.maximum(centred(inputs[0], source), 0).astype(np.float32)
        whole = np.floor(np.sqrt(real) / out_scale) + quant_of(output).zero_point
        return saturate(whole, output.dtype)

    return tabulated(step, source)
