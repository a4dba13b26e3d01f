"""Functions of one real value: float32 in, float32 out, a maker each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from npuscope.graph.attrs import EluAttrs, GeluAttrs, HardSigmoidAttrs, LeakyReluAttrs
from npuscope.graph.kernels.in_order import settled
from npuscope.graph.kernels.real_math import (
    cos,
    erf,
    exp,
    expm1_below,
    log,
    log1p_fraction,
    sin,
    tanh,
)
from npuscope.graph.kernels.step import Array, Maker, Step
from npuscope.graph.model import DType, Graph, Op

Function = Callable[[Array], Array]


def of(function: Function) -> Maker:
    """The kernel of a function without attributes."""
    return lambda graph, op: quiet(function)


def quiet(function: Function) -> Step:
    """Infinities and NaN are results like any other."""

    def step(inputs: Sequence[Array]) -> Array:
        with np.errstate(all="ignore"):
            return function(inputs[0])

    return step


def sigmoid(x: Array) -> Array:
    power = exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1 / (1 + power), power / (1 + power))


def hard_swish(x: Array) -> Array:
    return np.asarray(x * np.clip(x * np.float32(1 / 6) + np.float32(0.5), 0, 1))


def softplus(x: Array) -> Array:
    return np.asarray(log1p_fraction(exp(-np.abs(x))) + np.maximum(x, 0))


def mish(x: Array) -> Array:
    return np.asarray(x * tanh(softplus(x)))


def reciprocal(x: Array) -> Array:
    return np.asarray(x.dtype.type(1) / x)


def rsqrt(x: Array) -> Array:
    return np.asarray(x.dtype.type(1) / np.sqrt(x))


def leaky_relu(graph: Graph, op: Op) -> Step:
    alpha = np.float32(op.attrs_as(LeakyReluAttrs).alpha)
    return quiet(lambda x: np.where(x >= 0, x, alpha * x))


def elu(graph: Graph, op: Op) -> Step:
    alpha = np.float32(op.attrs_as(EluAttrs).alpha)
    return quiet(lambda x: np.where(x >= 0, x, alpha * expm1_below(x)))


def hard_sigmoid(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(HardSigmoidAttrs)
    alpha, beta = np.float32(attrs.alpha), np.float32(attrs.beta)
    return quiet(lambda x: settled(np.clip(alpha * x + beta, np.float32(0), np.float32(1))))


def gelu(graph: Graph, op: Op) -> Step:
    return quiet(_gelu_by_tanh if op.attrs_as(GeluAttrs).approximate else _gelu)


def _gelu(x: Array) -> Array:
    return np.asarray(np.float32(0.5) * x * (1 + erf(x * np.float32(math.sqrt(0.5)))))


def _gelu_by_tanh(x: Array) -> Array:
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    return np.asarray(np.float32(0.5) * x * (1 + tanh(inner)))


def cast(graph: Graph, op: Op) -> Step:
    """Truncates towards zero; numbers become true unless they are 0."""
    dtype = graph.output_tensor(op).dtype
    whole = not dtype.is_float and dtype is not DType.BOOL
    return quiet(
        lambda x: _cut(x, dtype) if whole and x.dtype.kind == "f" else x.astype(dtype.numpy)
    )


def _cut(x: Array, dtype: DType) -> Array:
    """Floats beyond the type become its limits and NaN 0, which CPUs do in several ways."""
    low, high = dtype.limits
    inside = np.where((x > low) & (x < high), x, np.float32(0)).astype(dtype.numpy)
    limit = np.where(x >= high, dtype.numpy.type(high), inside)
    return np.where(x <= low, dtype.numpy.type(low), limit)


REAL: dict[str, Maker] = {
    "Sigmoid": of(sigmoid),
    "Tanh": of(tanh),
    "HardSwish": of(hard_swish),
    "Softplus": of(softplus),
    "Mish": of(mish),
    "Erf": of(erf),
    "Abs": of(np.abs),
    "Neg": of(np.negative),
    "Sign": of(np.sign),
    "Floor": of(np.floor),
    "Ceil": of(np.ceil),
    "Round": of(np.rint),
    "Square": of(np.square),
    "Sqrt": of(np.sqrt),
    "Rsqrt": of(rsqrt),
    "Reciprocal": of(reciprocal),
    "Exp": of(exp),
    "Log": of(log),
    "Sin": of(sin),
    "Cos": of(cos),
    "LeakyRelu": leaky_relu,
    "Elu": elu,
    "HardSigmoid": hard_sigmoid,
    "Gelu": gelu,
}
