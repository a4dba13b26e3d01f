"""TFLite operators that compute value by value or along axes.

What LiteRT has no quantized kernel for is computed in real numbers between DEQUANTIZE and QUANTIZE.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from differential.draft import LARGEST, Draft, Function, Maker, Unsuitable, only
from differential.makers.tflite_layers import activation_of, clamped
from differential.network import Shape, Value
from differential.shapes import (
    broadcast_part,
    broadcasts,
    reduced,
    some_axes,
)

_POSITIVE = 0.0
int8, uint8 = partial(only, "int8"), partial(only, "uint8")


def seldom(maker: Maker) -> Maker:
    """LiteRT has no reference kernel: the network is then run by others, which choose by CPU."""

    def make(draft: Draft, kind: str) -> object:
        if not draft.chance(0.1):
            raise Unsuitable
        return maker(draft, kind)

    return make


def other_operand(draft: Draft, x: Value, like: bool = False) -> Value:
    """Another value that broadcasts with x, or a constant; `like` has the scale of x."""

    def fits(value: Value) -> bool:
        if like and (value.scales, value.zero_point) != (x.scales, x.zero_point):
            return False
        return value.shape == x.shape or (draft.chance(0.3) and broadcasts(x, value))

    try:
        if draft.chance(0.5):
            return draft.pick(fits=fits)
    except Unsuitable:
        pass
    shape = broadcast_part(draft, x.shape)
    if like:
        return draft.with_noise(draft.like(x, shape))
    return draft.operand(shape, -draft.rng.uniform(0, 2), draft.rng.uniform(0.1, 2))


def _both(draft: Draft, like: bool = False) -> tuple[Value, Value, Shape]:
    x = draft.pick(1, 2, 3, 4)
    y = other_operand(draft, x, like)
    if draft.chance(0.2):
        x, y = y, x
    return x, y, np.broadcast_shapes(x.shape, y.shape)


def add(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft)
    activation = activation_of(draft, x.reach + y.reach)
    result = clamped(draft, shape, x.reach + y.reach, activation)
    return draft.add(kind, (x, y), result, fusedActivationFunction=activation)


def multiply(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft)
    activation = activation_of(draft, x.reach * y.reach)
    result = clamped(draft, shape, x.reach * y.reach, activation)
    return draft.add(kind, (x, y), result, fusedActivationFunction=activation)


def squared_difference(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft)
    return draft.add(kind, (x, y), draft.value(shape, 0, (x.reach + y.reach) ** 2 / 2))


def divide(draft: Draft, kind: str) -> Value:
    """By a constant without zeros."""
    x = draft.pick(1, 2, 3, 4)
    y = draft.fixed(broadcast_part(draft, x.shape), 0.01, -128)
    y = draft.with_noise(y)
    assert y.data is not None
    np.maximum(y.data, np.iinfo(y.dtype).min + 40, out=y.data)
    return draft.add(kind, (x, y), draft.about(x.shape, x.reach))


def extreme(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft, like=True)
    return draft.add(kind, (x, y), draft.like(x, shape))


def prelu(draft: Draft, kind: str) -> Value:
    x = draft.pick(3, 4)
    slopes = draft.operand((*[1] * (len(x.shape) - 2), x.shape[-1]), -0.5, 0.5)
    return draft.add(kind, (x, slopes), draft.about(x.shape, x.reach))


def comparison(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft)
    return draft.add(kind, (x, y), draft.plain(shape, "bool"))


def logic(draft: Draft, kind: str) -> Value:
    x = _truth(draft)
    y = draft.pick_any(lambda v: v.dtype == "bool" and v.shape == x.shape)
    return draft.add(kind, (x, y), draft.plain(x.shape, "bool"))


def negation(draft: Draft, kind: str) -> Value:
    x = _truth(draft)
    return draft.add(kind, x, draft.plain(x.shape, "bool"))


def _truth(draft: Draft) -> Value:
    try:
        return draft.pick_any(lambda v: v.dtype == "bool")
    except Unsuitable:
        return comparison(draft, "GREATER")


def select(draft: Draft, kind: str) -> Value:
    condition = _truth(draft)
    try:
        x = draft.pick(fits=lambda v: v.shape == condition.shape)
    except Unsuitable:
        x = draft.operand(condition.shape, -1, 1)
    y = draft.with_noise(draft.like(x, x.shape))
    return draft.add(kind, (condition, x, y), draft.like(x, x.shape))


def function(f: Function, low: float = -8.0, high: float = 8.0) -> Maker:
    """A quantized function of one value, defined from `low` to `high`."""

    def make(draft: Draft, kind: str) -> Value:
        x = draft.pick_within(low, high)
        return draft.add(kind, x, draft.results_of(f, x))

    return make


def fixed_function(scale: float, zero: int) -> Maker:
    """LiteRT fixes the scale of the result."""

    def make(draft: Draft, kind: str) -> Value:
        x = draft.pick(1, 2, 3, 4)
        return draft.add(kind, x, draft.fixed(x.shape, scale, zero))

    return make


def softmax(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    beta = draft.choose(1.0, 1.0, 0.5)
    return draft.add(kind, x, draft.fixed(x.shape, 1 / 256, -128), beta=beta)


def leaky_relu(draft: Draft, kind: str) -> Value:
    x = draft.pick()
    alpha = draft.choose(0.01, 0.1, 0.3)
    return draft.add(kind, x, draft.about(x.shape, x.reach), alpha=alpha)


def gelu(draft: Draft, kind: str) -> Value:
    x = draft.pick()
    return draft.add(kind, x, draft.value(x.shape, -0.2, x.reach), approximate=draft.chance(0.5))


def same_scale(draft: Draft, kind: str) -> Value:
    x = draft.pick()
    return draft.add(kind, x, draft.like(x, x.shape))


def clamp(low: float, high: float) -> Maker:
    def make(draft: Draft, kind: str) -> Value:
        x = draft.pick()
        return draft.add(
            kind, x, draft.value(x.shape, max(low, x.limits[0]), min(high, x.limits[1]))
        )

    return make


def quantize(draft: Draft, kind: str) -> Value:
    """To another scale, now and then by way of the other 8-bit type."""
    x = draft.pick()
    if draft.chance(0.3):
        other = {"int8": "uint8", "uint8": "int8"}[x.dtype]
        x = draft.add(kind, x, draft.value(x.shape, *x.limits, dtype=other))
    return draft.add(kind, x, draft.value(x.shape, *x.limits))


# --- In real numbers ---


def _real(draft: Draft, x: Value) -> Value:
    return draft.add("DEQUANTIZE", x, draft.plain(x.shape, "float32"))


def _quantized(draft: Draft, real: Value, low: float, high: float) -> Value:
    return draft.add("QUANTIZE", real, draft.value(real.shape, low, high))


def real_function(f: Function, low: float = -8.0, high: float = 8.0) -> Maker:
    def make(draft: Draft, kind: str) -> Value:
        x = draft.pick_within(low, high)
        real = draft.add(kind, _real(draft, x), draft.plain(x.shape, "float32"))
        return draft.add("QUANTIZE", real, draft.results_of(f, x))

    return make


def dequantize(draft: Draft, kind: str) -> Value:
    x = draft.pick()
    return draft.add(kind, x, draft.plain(x.shape, "float32"))


def real_pair(low: float, high: float) -> Maker:
    """POW, FLOOR_DIV, FLOOR_MOD by a positive constant."""

    def make(draft: Draft, kind: str) -> Value:
        x = draft.pick_within(low, high, 1, 2, 3, 4)
        shape = broadcast_part(draft, x.shape)
        y = draft.constant(draft.noise.uniform(0.5, 2.0, shape).astype(np.float32))
        real = draft.add(kind, (_real(draft, x), y), draft.plain(x.shape, "float32"))
        return _quantized(draft, real, -8.0 if low < 0 else 0.0, 8.0)

    return make


def cast(draft: Draft, kind: str) -> Value:
    """Truth and places become real numbers."""
    x = draft.pick_any(lambda v: v.dtype in ("bool", "int32", "int64") and not v.scales)
    real = draft.add(kind, x, draft.plain(x.shape, "float32"))
    return _quantized(draft, real, 0.0, 1.0 if x.dtype == "bool" else 16.0)


def real_product(draft: Draft, kind: str) -> Value:
    x = draft.pick_within(-1.0, 1.0, 1, 2, 3, 4)
    axes, keep = some_axes(draft, len(x.shape)), draft.chance(0.5)
    shape = reduced(x.shape, axes, keep)
    inputs = (_real(draft, x), draft.constant(axes, "int32"))
    real = draft.add(kind, inputs, draft.plain(shape, "float32"), keepDims=keep)
    return _quantized(draft, real, -1.0, 1.0)


# --- Along axes ---


def reduction(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axes, keep = some_axes(draft, len(x.shape)), draft.chance(0.5)
    shape = reduced(x.shape, axes, keep)
    count = x.elements / max(np.prod(shape, dtype=int), 1)
    if kind in ("REDUCE_MAX", "REDUCE_MIN") or (kind == "MEAN" and draft.chance(0.3)):
        result = draft.like(x, shape)
    elif kind == "SUM":  # LiteRT does not cut off what leaves the range
        reach = x.reach * count
        if reach > LARGEST:
            raise Unsuitable
        result = draft.value(shape, -reach, reach, exact=True)
    else:
        result = draft.about(shape, x.reach)
    given = draft.constant(
        [axis - len(x.shape) if draft.chance(0.3) else axis for axis in axes], "int32"
    )
    return draft.add(kind, (x, given), result, keepDims=keep)


def place(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    result = draft.plain(reduced(x.shape, [axis], keep=False), draft.choose("int32", "int64"))
    code = {"int32": 2, "int64": 4}[result.dtype]
    return draft.add(kind, (x, draft.constant(axis, "int32")), result, outputType=code)


MAKERS: dict[str, Maker] = {
    **dict.fromkeys(("ADD", "SUB"), add),
    "MUL": multiply,
    "DIV": uint8(divide),
    **dict.fromkeys(("MINIMUM", "MAXIMUM"), extreme),
    "POW": real_pair(_POSITIVE, 4.0),
    "SQUARED_DIFFERENCE": int8(squared_difference),
    **dict.fromkeys(("FLOOR_MOD", "FLOOR_DIV"), real_pair(-8.0, 8.0)),
    "PRELU": prelu,
    **dict.fromkeys(("SELECT", "SELECT_V2"), select),
    **dict.fromkeys(
        ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), comparison
    ),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR"), logic),
    "LOGICAL_NOT": negation,
    "LOGISTIC": fixed_function(1 / 256, -128),
    "TANH": fixed_function(1 / 128, 0),
    "HARD_SWISH": function(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "LEAKY_RELU": leaky_relu,
    "ELU": seldom(int8(function(lambda x: np.where(x < 0, np.expm1(x), x)))),
    "GELU": gelu,
    "ABS": int8(function(np.abs)),
    "NEG": int8(function(np.negative)),
    "SIGN": real_function(np.sign),
    "SQUARE": real_function(np.square),
    "FLOOR": real_function(np.floor),
    "CEIL": seldom(real_function(np.ceil)),
    "ROUND": seldom(real_function(np.rint)),
    "SQRT": real_function(np.sqrt, _POSITIVE),
    "RSQRT": int8(function(lambda x: 1 / np.sqrt(np.maximum(x, 0.05)), _POSITIVE)),
    "EXP": int8(function(np.exp, -8.0, 3.0)),
    "LOG": int8(function(lambda x: np.log(np.maximum(x, 0.01)), _POSITIVE)),
    "SIN": real_function(np.sin),
    "COS": real_function(np.cos),
    "RELU": clamp(0, np.inf),
    "RELU6": clamp(0, 6),
    "RELU_N1_TO_1": clamp(-1, 1),
    "RELU_0_TO_1": clamp(0, 1),
    "QUANTIZE": quantize,
    "DEQUANTIZE": dequantize,
    "CAST": cast,
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), reduction),
    "REDUCE_PROD": real_product,
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), place),
    "SOFTMAX": softmax,
    "LOG_SOFTMAX": fixed_function(16 / 256, 127),
    "L2_NORMALIZATION": fixed_function(1 / 128, 0),
}
