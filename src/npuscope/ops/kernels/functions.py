"""Functions of one real value in float32, and LiteRT's tables of 256 values made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from npuscope.graph.model import DType, Graph, Op
from npuscope.ops.functions import (
    CeluAttrs,
    EluAttrs,
    GeluAttrs,
    HardSigmoidAttrs,
    LeakyReluAttrs,
    SeluAttrs,
    ShrinkAttrs,
    ThresholdAttrs,
)
from npuscope.ops.kernels.elementwise import centred
from npuscope.ops.kernels.real_math import (
    erf,
    exp,
    expm1_below,
    log1p_fraction,
    tanh,
)
from npuscope.ops.kernels.requantize import round_half_away, saturate
from npuscope.ops.kernels.step import Array, Maker, Step, only_bytes, quant_of, settled, tabulated

# --- Functions of one real value: float32 in, float32 out ---

Function = Callable[[Array], Array]


def of(function: Function) -> Maker:
    """The kernel of a function without attributes."""
    return lambda graph, op: quiet(function)


def quiet(function: Function) -> Step:
    """Infinities and NaN are ordinary results: no warnings from numpy."""

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


def softsign(x: Array) -> Array:
    return np.asarray(x / (1 + np.abs(x)))


def selu(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(SeluAttrs)
    alpha, gamma = np.float32(attrs.alpha), np.float32(attrs.gamma)
    return quiet(lambda x: gamma * np.where(x > 0, x, alpha * expm1_below(x)))


def celu(graph: Graph, op: Op) -> Step:
    alpha = np.float32(op.attrs_as(CeluAttrs).alpha)
    return quiet(lambda x: np.where(x >= 0, x, alpha * expm1_below(x / alpha)))


def thresholded_relu(graph: Graph, op: Op) -> Step:
    alpha = np.float32(op.attrs_as(ThresholdAttrs).alpha)
    return quiet(lambda x: np.where(x > alpha, x, np.float32(0)))


def shrink(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(ShrinkAttrs)
    bias, limit = np.float32(attrs.bias), np.float32(attrs.limit)
    above = quiet(lambda x: np.where(x > limit, x - bias, np.float32(0)))
    return lambda inputs: np.where(inputs[0] < -limit, inputs[0] + bias, above(inputs))


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
    """Floats out of range become the limits of the type, NaN becomes 0: CPUs differ here."""
    low, high = dtype.limits
    inside = np.where((x > low) & (x < high), x, np.float32(0)).astype(dtype.numpy)
    limit = np.where(x >= high, dtype.numpy.type(high), inside)
    return np.where(x <= low, dtype.numpy.type(low), limit)


# --- LiteRT's tables of 256 values: a float32 function, rounded to the output's grid ---


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


def litert_elu(graph: Graph, op: Op) -> Step:
    alpha = op.attrs_as(EluAttrs).alpha
    return _table(graph, op, lambda x: np.where(x < 0, alpha * np.expm1(x), x))


def litert_gelu(graph: Graph, op: Op) -> Step:
    exact = not op.attrs_as(GeluAttrs).approximate
    return _table(graph, op, _gelu_in_double if exact else _gelu_by_tanh_in_double)


def _gelu_in_double(x: Array) -> Array:
    phi = [0.5 * math.erfc(-value * math.sqrt(0.5)) for value in x.ravel()]
    return np.asarray(x * np.reshape(phi, x.shape))


def _gelu_by_tanh_in_double(x: Array) -> Array:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(0.5 * x * (1 + np.tanh(inner)))


@looked_up
def litert_sigmoid(x: Array) -> Array:
    """The sum and the quotient are float32 too."""
    power = np.exp(-x).astype(np.float32)
    return np.asarray(np.float32(1) / (np.float32(1) + power))


litert_tanh = looked_up(np.tanh)
litert_exp = looked_up(np.exp)
litert_log = looked_up(np.log)


def litert_sqrt(graph: Graph, op: Op) -> Step:
    """Truncated, not rounded; LiteRT rejects values below the zero point, here they give 0."""
    source, output = graph.first_input(op), graph.output_tensor(op)
    scale = np.float32(quant_of(source).scale)
    out_scale = np.float32(quant_of(output).scale)

    def step(inputs: Sequence[Array]) -> Array:
        real = scale * np.maximum(centred(inputs[0], source), 0).astype(np.float32)
        whole = np.floor(np.sqrt(real) / out_scale) + quant_of(output).zero_point
        return saturate(whole, output.dtype)

    return tabulated(step, source)
