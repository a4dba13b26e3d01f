"""ONNX ops that compute value by value or along axes."""

from __future__ import annotations

import numpy as np

from differential.draft import Draft, Function, Maker, Unsuitable
from differential.makers.onnx_layers import clamped
from differential.makers.onnx_moves import moved
from differential.network import Shape, Value
from differential.shapes import (
    broadcast_part,
    broadcasts,
    reduced,
    replaced,
    some_axes,
)

_WITH_AXES = 18  # opset from which reductions take axes as an input; ReduceSum did before


def since(opset: int, maker: Maker) -> Maker:
    def make(draft: Draft, kind: str) -> object:
        if draft.opset < opset:
            raise Unsuitable
        return maker(draft, kind)

    return make


def _both(draft: Draft) -> tuple[Value, Value, Shape]:
    """A value and one that broadcasts with it: another, the same, or a constant."""
    x = draft.pick(fits=lambda v: len(v.shape) >= 1)
    try:
        y = draft.pick(
            fits=lambda v: v.shape == x.shape or (draft.chance(0.3) and broadcasts(x, v))
        )
    except Unsuitable:
        y = x
    if y is x or draft.chance(0.4):
        y = draft.operand(
            _part(draft, x.shape), -draft.rng.uniform(0, 2), draft.rng.uniform(0.1, 2)
        )
    if draft.chance(0.2):
        x, y = y, x
    return x, y, np.broadcast_shapes(x.shape, y.shape)


def _part(draft: Draft, shape: Shape) -> Shape:
    """Channels are the second axis."""
    if len(shape) > 2 and draft.chance(0.4):
        return (shape[1], *[1] * (len(shape) - 2))
    return broadcast_part(draft, shape)


def add(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft)
    return clamped(draft, kind, (x, y), draft.about(shape, x.reach + y.reach))


def multiply(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft)
    return clamped(draft, kind, (x, y), draft.about(shape, x.reach * y.reach))


def divide(draft: Draft, kind: str) -> Value:
    x = draft.pick()
    y = draft.with_noise(draft.fixed(_part(draft, x.shape), 0.01, -128))
    assert y.data is not None
    np.maximum(y.data, np.iinfo(y.dtype).min + 40, out=y.data)
    result = draft.about(x.shape, x.reach)
    return draft.add(kind, (x, y), result, **({"fmod": 1} if kind == "Mod" else {}))


def power(draft: Draft, kind: str) -> Value:
    x = draft.pick_within(0.0, 4.0)
    exponent = draft.choose(2.0, 0.5, 3.0, 1.7)
    y = draft.constant(np.float32(exponent))
    return draft.add(kind, (x, y), draft.results_of(lambda v: v**exponent, x))


def prelu(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    slopes = draft.operand((x.shape[1], *[1] * (len(x.shape) - 2)), -0.5, 0.5)
    return draft.add(kind, (x, slopes), draft.about(x.shape, x.reach))


def comparison(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft)
    return draft.add(kind, (x, y), draft.plain(shape, "bool"))


def _truth(draft: Draft) -> Value:
    try:
        return draft.pick_any(lambda v: v.dtype == "bool")
    except Unsuitable:
        return comparison(draft, "Greater")


def logic(draft: Draft, kind: str) -> Value:
    x = _truth(draft)
    y = draft.pick_any(lambda v: v.dtype == "bool" and v.shape == x.shape)
    return draft.add(kind, (x, y), draft.plain(x.shape, "bool"))


def negation(draft: Draft, kind: str) -> Value:
    x = _truth(draft)
    return draft.add(kind, x, draft.plain(x.shape, "bool"))


def where(draft: Draft, kind: str) -> Value:
    condition = _truth(draft)
    try:
        x = draft.pick(fits=lambda v: v.shape == condition.shape)
    except Unsuitable:
        x = draft.operand(condition.shape, -1, 1)
    y = draft.operand(broadcast_part(draft, x.shape), -1, 1)
    return draft.add(kind, (condition, x, y), draft.about(x.shape, x.reach))


def function(f: Function, low: float = -8.0, high: float = 8.0, **options: float) -> Maker:
    """A function of one value, defined from `low` to `high`."""

    def make(draft: Draft, kind: str) -> Value:
        x = draft.pick_within(low, high)
        return draft.add(kind, x, draft.results_of(f, x), **options)

    return make


def clip(draft: Draft, kind: str) -> Value:
    x = draft.pick()
    low, high = draft.choose((0.0, 6.0), (-1.0, 1.0), (0.1, 0.8), (-0.5, 2.0))
    limits = [draft.constant(np.float32(n)) for n in (low, high)]
    return draft.add(kind, (x, *limits), draft.value(x.shape, low, high))


def cast(draft: Draft, kind: str) -> Value:
    """Truth and places become real numbers."""
    x = draft.pick_any(lambda v: v.dtype in ("bool", "int64"))
    return draft.add(kind, x, draft.value(x.shape, 0.0, 1.0 if x.dtype == "bool" else 16.0), to=1)


def truth_of(draft: Draft, kind: str) -> Value:
    x = draft.pick()
    return draft.add(kind, x, draft.plain(x.shape, "bool"))


# --- Along axes ---


def reduction(draft: Draft, kind: str) -> Value:
    x = draft.pick_within(-1.0, 1.0, 1, 2, 3, 4) if kind == "ReduceProd" else draft.pick(1, 2, 3, 4)
    axes, keep = some_axes(draft, len(x.shape)), draft.chance(0.5)
    shape = reduced(x.shape, axes, keep)
    if not shape:
        raise Unsuitable
    if kind in ("ReduceMax", "ReduceMin"):
        result = moved(draft, x, shape)
    else:
        count = x.elements / np.prod(shape, dtype=int)
        result = draft.about(shape, x.reach * (1 if kind == "ReduceMean" else count**0.5))
    given = [axis - len(x.shape) if draft.chance(0.3) else axis for axis in axes]
    if kind == "ReduceSum" or draft.opset >= _WITH_AXES:
        inputs = (x, draft.constant(given, "int64"))
        return draft.add(kind, inputs, result, keepdims=int(keep))
    return draft.add(kind, x, result, axes=given, keepdims=int(keep))


def place(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis, keep = draft.rng.randrange(len(x.shape)), draft.chance(0.5)
    result = draft.plain(reduced(x.shape, [axis], keep), "int64")
    last = draft.choose(0, 0, 1)
    return draft.add(kind, x, result, axis=axis, keepdims=int(keep), select_last_index=last)


def softmax(draft: Draft, kind: str) -> Value:
    x = draft.pick(fits=lambda v: len(v.shape) > 0)
    low, high = (0.0, 1.0) if kind == "Softmax" else (-12.0, 0.0)
    result = draft.value(x.shape, low, high)
    return draft.add(kind, x, result, axis=draft.rng.randrange(-1, len(x.shape)))


def lp_norm(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    return draft.add(kind, x, draft.value(x.shape, -1.0, 1.0), axis=axis, p=2)


def _statistics(draft: Draft, count: int) -> list[Value]:
    rows = ((0.5, 1.5), (-0.5, 0.5))
    return [draft.constant(draft.noise.uniform(*row, count).astype(np.float32)) for row in rows]


def batch_norm(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    scale, bias = _statistics(draft, x.shape[1])
    variance, mean = _statistics(draft, x.shape[1])
    result = draft.about(x.shape, x.reach)
    return clamped(draft, kind, (x, scale, bias, mean, variance), result)


def channel_norm(draft: Draft, kind: str) -> Value:
    x = draft.pick(3, 4)
    inputs = (x, *_statistics(draft, x.shape[1]))
    return draft.add(kind, inputs, draft.about(x.shape, 2.5))


def group_norm(draft: Draft, kind: str) -> Value:
    x = draft.pick(3, 4)
    groups = draft.choose(*(n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0))
    inputs = (x, *_statistics(draft, x.shape[1]))
    return draft.add(kind, inputs, draft.about(x.shape, 2.5), num_groups=groups)


def layer_norm(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    inputs = (x, *_statistics(draft, x.shape[-1]))
    return draft.add(kind, inputs, draft.about(x.shape, 2.5), axis=-1)


def response(draft: Draft, kind: str) -> Value:
    x = draft.pick(4)
    return draft.add(kind, x, draft.like(x, x.shape), size=draft.choose(1, 3, 5), alpha=0.05)


def cumulative(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    options = {"exclusive": draft.choose(0, 1), "reverse": draft.choose(0, 1)}
    result = draft.about(x.shape, x.reach * x.shape[axis] ** 0.5)
    return draft.add(kind, (x, draft.constant(axis, "int64")), result, **options)


def top(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3)
    axis = draft.rng.randrange(len(x.shape))
    count = draft.rng.randint(1, x.shape[axis])
    shape = replaced(x.shape, axis, count)
    outputs = [draft.like(x, shape), draft.plain(shape, "int64")]
    inputs = (x, draft.constant([count], "int64"))
    return draft.add(kind, inputs, outputs, axis=axis, largest=draft.choose(0, 1))


def one_hot(draft: Draft, kind: str) -> Value:
    x = draft.pick_any(lambda v: v.dtype == "int64" and len(v.shape) < 4)
    depth = draft.rng.randint(2, 17)
    inputs = (x, draft.constant([depth], "int64"), draft.constant([0.0, 1.0], "float32"))
    return draft.add(kind, inputs, draft.value((*x.shape, depth), 0.0, 1.0))


_POSITIVE = 0.0
_CURVES: dict[str, Maker] = {
    "Sigmoid": function(lambda x: 1 / (1 + np.exp(-x))),
    "Tanh": function(np.tanh),
    "HardSwish": function(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "Softplus": function(lambda x: np.log1p(np.exp(x))),
    "Mish": since(18, function(lambda x: x * np.tanh(np.log1p(np.exp(x))))),
    "Erf": function(np.tanh),
    "LeakyRelu": function(lambda x: np.where(x < 0, 0.1 * x, x), alpha=0.1),
    "Elu": function(lambda x: np.where(x < 0, 1.5 * np.expm1(x), x), alpha=1.5),
    "HardSigmoid": function(lambda x: np.clip(0.25 * x + 0.4, 0, 1), alpha=0.25, beta=0.4),
    "Gelu": since(20, function(lambda x: x / (1 + np.exp(-1.7 * x)))),
    "com.microsoft.Gelu": function(lambda x: x / (1 + np.exp(-1.7 * x))),
    "Softsign": function(lambda x: x / (1 + np.abs(x))),
    "Selu": function(lambda x: np.where(x > 0, x, 1.7 * np.expm1(x))),
    "Celu": function(lambda x: np.where(x > 0, x, 0.7 * np.expm1(x / 0.7)), alpha=0.7),
    "ThresholdedRelu": function(lambda x: np.where(x > 0.4, x, 0), alpha=0.4),
    "Shrink": function(lambda x: x, lambd=0.6, bias=0.2),
    "Abs": function(np.abs),
    "Neg": function(np.negative),
    "Sign": function(np.sign),
    "Floor": function(np.floor),
    "Ceil": function(np.ceil),
    "Round": function(np.rint),
    "Sqrt": function(np.sqrt, _POSITIVE),
    "Reciprocal": function(lambda x: 1 / np.maximum(x, 0.1), _POSITIVE),
    "Exp": function(np.exp, -8.0, 3.0),
    "Log": function(lambda x: np.log(np.maximum(x, 0.01)), _POSITIVE),
    "Sin": function(np.sin),
    "Cos": function(np.cos),
    "Tan": function(np.tan, -1.2, 1.2),
    "Asin": function(np.arcsin, -1.0, 1.0),
    "Acos": function(np.arccos, -1.0, 1.0),
    "Atan": function(np.arctan),
    "Sinh": function(np.sinh, -4.0, 4.0),
    "Cosh": function(np.cosh, -4.0, 4.0),
    "Asinh": function(np.arcsinh),
    "Atanh": function(np.arctanh, -0.9, 0.9),
}


def acosh(draft: Draft, kind: str) -> Value:
    """Defined from 1 on: behind a Cosh."""
    x = _CURVES["Cosh"](draft, "Cosh")
    assert isinstance(x, Value)
    real = draft.plain(x.shape, "float32")
    draft.add("Clip", (x, draft.constant(np.float32(1.0))), real)
    draft.live.remove(real)
    return draft.add(kind, real, draft.value(x.shape, 0.0, 4.0))


MAKERS: dict[str, Maker] = {
    **dict.fromkeys(("Add", "Sub", "Min", "Max"), add),
    "Mul": multiply,
    **dict.fromkeys(("Div", "Mod"), divide),
    "Pow": power,
    "PRelu": prelu,
    "Where": where,
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), comparison),
    **dict.fromkeys(("And", "Or", "Xor"), logic),
    "Not": negation,
    **_CURVES,
    "Acosh": acosh,
    "Relu": function(lambda x: np.maximum(x, 0)),
    "Clip": clip,
    "Cast": cast,
    **dict.fromkeys(("IsNaN", "IsInf"), truth_of),
    **dict.fromkeys(
        ("ReduceMean", "ReduceSum", "ReduceProd", "ReduceL2", "ReduceMax", "ReduceMin"), reduction
    ),
    **dict.fromkeys(("ArgMax", "ArgMin"), place),
    **dict.fromkeys(("Softmax", "LogSoftmax"), softmax),
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "InstanceNormalization": channel_norm,
    "GroupNormalization": since(21, group_norm),
    "LpNormalization": lp_norm,
    "LRN": response,
    "CumSum": cumulative,
    "TopK": top,
    "OneHot": one_hot,
}
