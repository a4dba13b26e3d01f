"""ONNX ops: how each is added to a draft. Channels come second, as in files of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from differential.draft import Draft, Unsuitable
from differential.network import Shape, Value
from differential.shapes import (
    broadcast_part,
    cut_parts,
    reduced,
    replaced,
    reshaped,
    some_axes,
    splittable_axis,
)

Maker = Callable[[Draft, str], object]
Function = Callable[[np.ndarray], np.ndarray]
_WITH_AXES = 18  # opset from which reductions take axes as an input; ReduceSum did before
_KERNELS = (1, 1, 2, 3, 3, 3, 4, 5, 7)
_STRIDES = (1, 1, 1, 2, 2, 3)
_DILATIONS = (1, 1, 1, 2, 3)


def since(opset: int, maker: Maker) -> Maker:
    def make(draft: Draft, kind: str) -> object:
        if draft.opset < opset:
            raise Unsuitable
        return maker(draft, kind)

    return make


def _reach(x: Value) -> float:
    return float(np.abs(x.limits).max())


def _result(draft: Draft, shape: Shape, reach: float) -> Value:
    return draft.value(shape, -reach, reach)


def moved(draft: Draft, x: Value, shape: Shape) -> Value:
    """Mostly with the scale of x; a QuantizeLinear behind a move may also have another."""
    if draft.chance(0.8):
        return draft.like(x, shape)
    return draft.value(shape, *x.limits)


def move(draft: Draft, kind: str, x: Value, inputs: Any, shape: Shape, **options: Any) -> Value:
    """Now and then the node moves the integers themselves."""
    result = moved(draft, x, shape)
    same = (x.scales, x.zero_point) == (result.scales, result.zero_point)
    return draft.add(kind, inputs, result, raw=same and draft.chance(0.15), **options)


def clamped(draft: Draft, kind: str, inputs: Any, result: Value, **options: Any) -> Value:
    """The node with a Relu or Clip between it and its QuantizeLinear, or none."""
    tail = draft.choose("", "", "Relu", "Clip")
    if not tail:
        return draft.add(kind, inputs, result, **options)
    low = 0.0 if tail == "Relu" else draft.choose(0.0, 0.0, -1.0)
    high = result.limits[1] if tail == "Relu" else draft.choose(6.0, 1.0)
    result = draft.value(result.shape, low, min(high, result.limits[1]))
    real = draft.plain(result.shape, "float32")
    draft.add(kind, inputs, real, **options)
    draft.live.remove(real)
    limits = (draft.constant(np.float32(n)) for n in ((low, high) if tail == "Clip" else ()))
    return draft.add(tail, (real, *limits), result)


# --- Windows ---


def _window(
    draft: Draft, sizes: Shape, dilated: bool = True, pooling: bool = False
) -> tuple[Shape, Shape, dict[str, Any]]:
    """Kernel, output sizes and attributes of a window over some spatial axes."""
    kernel = tuple(draft.choose(*_KERNELS) for _ in sizes)
    strides = [draft.choose(*_STRIDES) for _ in sizes]
    dilations = [draft.choose(*_DILATIONS) if dilated else 1 for _ in sizes]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    options: dict[str, Any] = {"kernel_shape": list(kernel), "strides": strides}
    if dilated:
        options["dilations"] = dilations
    # onnxruntime knows SAME without dilations, and without windows that leave something out.
    plain = max(dilations) == 1 and all(s <= k for s, k in zip(strides, kernel, strict=True))
    same = ("SAME_UPPER", "SAME_LOWER") if plain else ()
    auto = draft.choose("", "", "", "VALID", *same)
    if auto.startswith("SAME"):
        results = [-(-n // s) for n, s in zip(sizes, strides, strict=True)]
        options["auto_pad"] = auto
        return kernel, tuple(results), options
    # onnxruntime pools no window that lies outside of the picture.
    most = [k - 1 if pooling else k // 2 * d for k, d in zip(kernel, dilations, strict=True)]
    before = [0 if auto else draft.rng.randint(0, n) for n in most]
    after = [0 if auto else draft.choose(n, n, 0) for n in before]
    rows = zip(sizes, before, after, reach, strides, strict=True)
    results = [(n + a + b - r) // s + 1 for n, a, b, r, s in rows]
    if min(results) < 1 or any(
        n + a + b < r for n, a, b, r in zip(sizes, before, after, reach, strict=True)
    ):
        raise Unsuitable
    options |= {"auto_pad": auto} if auto else {"pads": [*before, *after]}
    return kernel, tuple(results), options


def conv(draft: Draft, kind: str) -> Value:
    x = draft.image(3, 4, 4)
    n, channels, *sizes = x.shape
    kernel, results, options = _window(draft, tuple(sizes))
    groups, count = 1, draft.size()
    if draft.chance(0.4):  # depthwise more often than other groups
        divisors = [n for n in range(1, channels + 1) if channels % n == 0]
        groups = draft.choose(channels, channels, *divisors)
        count = groups * draft.choose(1, 1, 2, 3)
    inner = int(np.prod(kernel)) * channels // groups
    shape = (n, count, *results)
    draft.check_macs(int(np.prod(shape)) * inner)
    weights = draft.weights((count, channels // groups, *kernel), 0, inner)
    inputs = [x, weights, *_bias(draft, x, weights, count)]
    return clamped(draft, kind, inputs, _result(draft, shape, _reach(x)), group=groups, **options)


def _bias(draft: Draft, x: Value, weights: Value, count: int) -> list[Value]:
    """None, int32 with the product's scale, or real."""
    form = draft.choose("none", "whole", "whole", "real")
    if form == "none":
        return []
    if form == "real":
        return [draft.constant(draft.noise.uniform(-0.5, 0.5, count).astype(np.float32))]
    return [draft.bias(x, weights, count)]


def conv_transpose(draft: Draft, kind: str) -> Value:
    x = draft.image(3, 4, 4)
    n, channels, *sizes = x.shape
    kernel = [draft.choose(*_KERNELS) for _ in sizes]
    strides = [draft.choose(1, 2, 2, 3) for _ in sizes]
    dilations = [draft.choose(1, 1, 2) for _ in sizes]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before = [draft.rng.randint(0, r // 2) for r in reach]
    after = [draft.rng.randint(0, r // 2) for r in reach]
    more = [draft.rng.randint(0, s - 1) if draft.chance(0.3) else 0 for s in strides]
    rows = zip(sizes, strides, reach, before, after, more, strict=True)
    results = [(size - 1) * s + r - a - b + m for size, s, r, a, b, m in rows]
    groups = draft.choose(1, 1, *(g for g in range(1, channels + 1) if channels % g == 0))
    count = draft.rng.randint(1, 5)
    inner = int(np.prod(kernel)) * channels // groups
    draft.check_macs(n * int(np.prod(sizes)) * inner * count * groups)
    weights = draft.weights((channels, count, *kernel), 1, inner)
    options = {
        "kernel_shape": kernel,
        "strides": strides,
        "dilations": dilations,
        "pads": [*before, *after],
        "output_padding": more,
        "group": groups,
    }
    shape = (n, count * groups, *results)
    single = len(weights.scales) == 1 or groups == 1
    bias = _bias(draft, x, weights, count * groups) if single else []
    return clamped(draft, kind, [x, weights, *bias], _result(draft, shape, _reach(x)), **options)


def max_pool(draft: Draft, kind: str) -> Value:
    x = draft.image(3, 4, 4)
    _, results, options = _window(draft, x.shape[2:], draft.chance(0.3), pooling=True)
    return move(draft, kind, x, x, (*x.shape[:2], *results), **options)


def average_pool(draft: Draft, kind: str) -> Value:
    x = draft.image(3, 4, 4)
    _, results, options = _window(draft, x.shape[2:], dilated=False, pooling=True)
    options["count_include_pad"] = draft.choose(0, 1)
    result = moved(draft, x, (*x.shape[:2], *results))
    return clamped(draft, kind, x, result, **options)


def global_pool(draft: Draft, kind: str) -> Value:
    x = draft.pick(3, 4)
    return draft.add(kind, x, moved(draft, x, (*x.shape[:2], *[1] * (len(x.shape) - 2))))


# --- Matrices ---


def gemm(draft: Draft, kind: str) -> Value:
    x = draft.pick(2)
    turned, other = draft.chance(0.3), draft.chance(0.5)
    rows, inner = reversed(x.shape) if turned else x.shape
    count = draft.size()
    draft.check_macs(rows * inner * count)
    weights = draft.weights((count, inner) if other else (inner, count), 0 if other else 1, inner)
    options: dict[str, Any] = {"transA": int(turned), "transB": int(other)}
    bias = _bias(draft, x, weights, count)
    if draft.chance(0.4):
        options |= {"alpha": draft.choose(0.5, 1.0, 1.5, -0.5), "beta": draft.choose(1.0, 0.5)}
        shape = draft.choose((count,), (1, count), (rows, count), (rows, 1), (1,))
        bias = [draft.constant(draft.noise.uniform(-1, 1, shape).astype(np.float32))]
    if draft.chance(0.2):
        weights = draft.pick(2, fits=lambda v: v.shape[1 if other else 0] == inner)
        count = weights.shape[0 if other else 1]
        bias = []
    return clamped(
        draft, kind, [x, weights, *bias], _result(draft, (rows, count), _reach(x)), **options
    )


def matmul(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    *lead, rows, inner = x.shape
    count = draft.size()
    draft.check_macs(x.elements * count)
    if draft.chance(0.5):
        y = draft.weights((inner, count), 1, inner)
        reach = _reach(x)
    else:
        shapes = [(*lead, inner, count), (inner, count)]
        try:
            y = draft.pick(fits=lambda v: len(v.shape) > 1 and v.shape[:-1] == (*lead, inner))
        except Unsuitable:
            y = draft.operand(draft.rng.choice(shapes), -1, 1)
        reach = _reach(x) * _reach(y) * inner**0.5 / 2
    return draft.add(kind, (x, y), _result(draft, (*lead, rows, y.shape[-1]), reach))


def einsum(draft: Draft, kind: str) -> Value:
    x = draft.pick(3)
    b, i, k = x.shape
    count = draft.size()
    draft.check_macs(x.elements * count)
    equation, shape = draft.choose(("bik,bkj->bij", (b, k, count)), ("bik,bjk->bij", (b, count, k)))
    y = draft.operand(shape, -1, 1)
    result = _result(draft, (b, i, count), _reach(x) * _reach(y) * k**0.5 / 2)
    return draft.add(kind, (x, y), result, equation=equation)


# --- Element by element ---


def _both(draft: Draft) -> tuple[Value, Value, Shape]:
    """A value and one that broadcasts with it: another, the same, or a constant."""
    x = draft.pick(fits=lambda v: len(v.shape) >= 1)
    try:
        y = draft.pick(
            fits=lambda v: v.shape == x.shape or (draft.chance(0.3) and _broadcasts(x, v))
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


def _broadcasts(x: Value, y: Value) -> bool:
    rows = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return all(1 in row or row[0] == row[1] for row in rows)


def add(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft)
    return clamped(draft, kind, (x, y), _result(draft, shape, _reach(x) + _reach(y)))


def multiply(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft)
    return clamped(draft, kind, (x, y), _result(draft, shape, _reach(x) * _reach(y)))


def divide(draft: Draft, kind: str) -> Value:
    x = draft.pick()
    y = draft.with_noise(draft.fixed(_part(draft, x.shape), 0.01, -128))
    assert y.data is not None
    np.maximum(y.data, np.iinfo(y.dtype).min + 40, out=y.data)
    result = _result(draft, x.shape, _reach(x))
    return draft.add(kind, (x, y), result, **({"fmod": 1} if kind == "Mod" else {}))


def power(draft: Draft, kind: str) -> Value:
    x = draft.pick_within(0.0, 4.0)
    exponent = draft.choose(2.0, 0.5, 3.0, 1.7)
    y = draft.constant(np.float32(exponent))
    return draft.add(kind, (x, y), _range_of(draft, lambda v: v**exponent, x))


def prelu(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    slopes = draft.operand((x.shape[1], *[1] * (len(x.shape) - 2)), -0.5, 0.5)
    return draft.add(kind, (x, slopes), _result(draft, x.shape, _reach(x)))


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
    return draft.add(kind, (condition, x, y), _result(draft, x.shape, _reach(x)))


def function(f: Function, low: float = -8.0, high: float = 8.0, **options: float) -> Maker:
    """A function of one value, defined from `low` to `high`."""

    def make(draft: Draft, kind: str) -> Value:
        x = draft.pick_within(low, high)
        return draft.add(kind, x, _range_of(draft, f, x), **options)

    return make


def _range_of(draft: Draft, f: Function, x: Value) -> Value:
    with np.errstate(all="ignore"):
        results = f(np.linspace(*x.limits, 256))
    finite = results[np.isfinite(results)]
    low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.1))
    return draft.value(x.shape, max(low, -100.0), min(high, 100.0))


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
        result = _result(draft, shape, _reach(x) * (1 if kind == "ReduceMean" else count**0.5))
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
    result = _result(draft, x.shape, _reach(x))
    return clamped(draft, kind, (x, scale, bias, mean, variance), result)


def channel_norm(draft: Draft, kind: str) -> Value:
    x = draft.pick(3, 4)
    inputs = (x, *_statistics(draft, x.shape[1]))
    return draft.add(kind, inputs, _result(draft, x.shape, 2.5))


def group_norm(draft: Draft, kind: str) -> Value:
    x = draft.pick(3, 4)
    groups = draft.choose(*(n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0))
    inputs = (x, *_statistics(draft, x.shape[1]))
    return draft.add(kind, inputs, _result(draft, x.shape, 2.5), num_groups=groups)


def layer_norm(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    inputs = (x, *_statistics(draft, x.shape[-1]))
    return draft.add(kind, inputs, _result(draft, x.shape, 2.5), axis=-1)


def response(draft: Draft, kind: str) -> Value:
    x = draft.pick(4)
    return draft.add(kind, x, draft.like(x, x.shape), size=draft.choose(1, 3, 5), alpha=0.05)


def cumulative(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    options = {"exclusive": draft.choose(0, 1), "reverse": draft.choose(0, 1)}
    result = _result(draft, x.shape, _reach(x) * x.shape[axis] ** 0.5)
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


# --- Recurrent layers ---


def recurrent(gates: int) -> Maker:
    """On (time, batch, features), with real weights."""

    def make(draft: Draft, kind: str) -> Value:
        x = draft.pick(3, fits=lambda v: v.shape[0] <= 9)
        time, batch, features = x.shape
        units = draft.rng.randint(1, 7)
        shapes = (1, gates * units, features), (1, gates * units, units), (1, 2 * gates * units)
        parts = [
            draft.constant(draft.noise.uniform(-0.5, 0.5, s).astype(np.float32)) for s in shapes
        ]
        result = draft.value((time, 1, batch, units), -1.0, 1.0)
        options: dict[str, Any] = {"hidden_size": units}
        if kind == "GRU":
            options["linear_before_reset"] = draft.choose(0, 1)
        return draft.add(kind, (x, *parts), result, **options)

    return make


# --- Moves ---


def reshape(draft: Draft, kind: str) -> Value:
    x = draft.pick(fits=lambda v: len(v.shape) > 0)
    shape = reshaped(draft, x.shape)
    asked = list(shape)
    if draft.chance(0.4):
        asked[draft.rng.randrange(len(asked))] = -1
    return move(draft, kind, x, (x, draft.constant(asked, "int64")), shape)


def flatten(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    axis = draft.rng.randint(0, len(x.shape))
    rows = int(np.prod(x.shape[:axis], dtype=int))
    return move(draft, kind, x, x, (rows, x.elements // rows), axis=axis)


def squeeze(draft: Draft, kind: str) -> Value:
    x = draft.pick(fits=lambda v: 1 in v.shape and len(v.shape) > 1)
    axis = draft.choose(*(n for n, dim in enumerate(x.shape) if dim == 1))
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return move(draft, kind, x, (x, draft.constant([axis], "int64")), shape)


def unsqueeze(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3)
    axis = draft.rng.randint(0, len(x.shape))
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    return move(draft, kind, x, (x, draft.constant([axis], "int64")), shape)


def transpose(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4, 5)
    order = draft.rng.sample(range(len(x.shape)), len(x.shape))
    return move(draft, kind, x, x, tuple(x.shape[axis] for axis in order), perm=order)


def concat(draft: Draft, kind: str) -> Value:
    """Parts of unequal scales."""
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    rest = replaced(x.shape, axis, 1)
    parts = [x]
    for _ in range(draft.rng.randint(1, 3)):
        parts.append(draft.pick(len(x.shape), fits=lambda v: replaced(v.shape, axis, 1) == rest))
    shape = replaced(x.shape, axis, sum(part.shape[axis] for part in parts))
    low, high = zip(*(part.limits for part in parts), strict=True)
    given = axis - len(x.shape) if draft.chance(0.3) else axis
    return draft.add(kind, parts, draft.value(shape, min(low), max(high)), axis=given)


def split(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = splittable_axis(draft, x)
    sizes = cut_parts(draft, x.shape[axis])
    results = [moved(draft, x, replaced(x.shape, axis, size)) for size in sizes]
    return draft.add(kind, (x, draft.constant(sizes, "int64")), results, axis=axis)


def cut(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axes = some_axes(draft, len(x.shape))
    shape, starts, ends, steps = list(x.shape), [], [], []
    for axis in axes:
        dim, step = x.shape[axis], draft.choose(1, 1, 1, 2, 3, -1, -2)
        first, last = sorted((draft.rng.randrange(dim), draft.rng.randrange(dim)))
        start, end = (first, last + 1) if step > 0 else (last, first - 1 - dim)
        shape[axis] = len(range(dim)[start:end:step])
        starts.append(start), ends.append(end), steps.append(step)
    inputs = (x, *(draft.constant(row, "int64") for row in (starts, ends, axes, steps)))
    return move(draft, kind, x, inputs, tuple(shape))


def pad(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    mode = draft.choose("constant", "constant", "reflect", "edge")
    most = [dim - 1 if mode == "reflect" else 3 for dim in x.shape]
    rows = [[min(draft.choose(0, 0, 1, 2), n) for n in most] for _ in (0, 1)]
    shape = tuple(dim + a + b for dim, a, b in zip(x.shape, *rows, strict=True))
    inputs = [x, draft.constant([*rows[0], *rows[1]], "int64")]
    if mode == "constant" and draft.chance(0.5):
        inputs.append(draft.constant(np.float32(draft.rng.uniform(*x.limits))))
    return draft.add(kind, inputs, moved(draft, x, shape), mode=mode)


def gather(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    places = tuple(draft.size() for _ in range(draft.choose(0, 1, 1, 2)))
    dim = x.shape[axis]
    indices = draft.constant(
        draft.noise.integers(-dim if draft.chance(0.3) else 0, dim, places), "int64"
    )
    shape = (*x.shape[:axis], *places, *x.shape[axis + 1 :])
    if not 1 <= len(shape) <= 5:
        raise Unsuitable
    return move(draft, kind, x, (x, indices), shape, axis=axis)


def gather_elements(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    shape = replaced(x.shape, axis, draft.size())
    indices = draft.constant(draft.noise.integers(0, x.shape[axis], shape), "int64")
    return draft.add(kind, (x, indices), draft.like(x, shape), axis=axis)


def _rows_of_places(draft: Draft, x: Value, distinct: bool) -> np.ndarray:
    depth = draft.rng.randint(1, len(x.shape))
    spots = int(np.prod(x.shape[:depth]))
    count = min(draft.size(), spots)
    flat = draft.noise.choice(spots, count, replace=not distinct)
    return np.stack(np.unravel_index(flat, x.shape[:depth]), axis=-1)


def gather_nd(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    rows = _rows_of_places(draft, x, distinct=False)
    shape = (len(rows), *x.shape[rows.shape[1] :])
    return draft.add(kind, (x, draft.constant(rows, "int64")), draft.like(x, shape))


def scatter_nd(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    rows = _rows_of_places(draft, x, distinct=True)
    updates = draft.operand((len(rows), *x.shape[rows.shape[1] :]), *x.limits)
    return draft.add(kind, (x, draft.constant(rows, "int64"), updates), draft.like(x, x.shape))


def scatter(draft: Draft, kind: str) -> Value:
    """Every place along the axis once."""
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    order = np.argsort(draft.noise.random(x.shape), axis=axis)
    count = draft.rng.randint(1, x.shape[axis])
    places = draft.constant(order.take(range(count), axis), "int64")
    updates = draft.operand(places.shape, *x.limits)
    return draft.add(kind, (x, places, updates), draft.like(x, x.shape), axis=axis)


def triangle(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    inputs = (x, draft.constant(draft.rng.randint(-2, 2), "int64"))
    return draft.add(kind, inputs, draft.like(x, x.shape), upper=draft.choose(0, 1))


def tile(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    repeats = [draft.choose(1, 1, 2, 3) for _ in x.shape]
    shape = tuple(dim * count for dim, count in zip(x.shape, repeats, strict=True))
    return move(draft, kind, x, (x, draft.constant(repeats, "int64")), shape)


def expand(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    shape = tuple(draft.size() if dim == 1 else dim for dim in x.shape)
    if draft.chance(0.2):
        shape = (draft.rng.randint(1, 3), *shape)
    return move(draft, kind, x, (x, draft.constant(shape, "int64")), shape)


def identity(draft: Draft, kind: str) -> Value:
    x = draft.pick()
    return draft.add(kind, x, moved(draft, x, x.shape))


_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def resize(draft: Draft, kind: str) -> Value:
    """To sizes, or by factors that need not be whole; nearest along any axes."""
    x = draft.pick(2, 3, 4, 4, 5)
    mode = draft.choose("nearest", "linear")
    options = {"mode": mode, "coordinate_transformation_mode": draft.choose(*_COORDINATES)}
    if mode == "nearest":
        options["nearest_mode"] = draft.choose(*_ROUNDINGS)
    rank = len(x.shape)
    axes = set(
        some_axes(draft, rank) if mode == "nearest" and draft.chance(0.3) else range(2, rank)
    )
    if rank in (2, 5) and mode == "linear":
        axes = {rank - 1}
    if draft.chance(0.5):
        sizes = [draft.size() if axis in axes else dim for axis, dim in enumerate(x.shape)]
        inputs = (x, None, None, draft.constant(sizes, "int64"))
    else:
        choices = (0.5, 1.0, 1.5, 2.0, 2.0, 3.0)
        factors = [draft.choose(*choices) if axis in axes else 1.0 for axis in range(rank)]
        sizes = [int(np.floor(dim * f)) for dim, f in zip(x.shape, factors, strict=True)]
        inputs = (x, None, draft.constant(factors, "float32"))
    return draft.add(kind, inputs, moved(draft, x, tuple(sizes)), **options)


def depth_to_space(draft: Draft, kind: str) -> Value:
    x = draft.pick(4, fits=lambda v: v.shape[1] % 4 == 0)
    n, channels, height, width = x.shape
    shape = (n, channels // 4, height * 2, width * 2)
    return move(draft, kind, x, x, shape, blocksize=2, mode=draft.choose("DCR", "CRD"))


def space_to_depth(draft: Draft, kind: str) -> Value:
    x = draft.pick(4, fits=lambda v: v.shape[2] % 2 == v.shape[3] % 2 == 0)
    n, channels, height, width = x.shape
    return draft.add(
        kind, x, moved(draft, x, (n, channels * 4, height // 2, width // 2)), blocksize=2
    )


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
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Gemm": gemm,
    "MatMul": matmul,
    "Einsum": einsum,
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
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), global_pool),
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
    "LSTM": recurrent(4),
    "GRU": recurrent(3),
    "RNN": recurrent(1),
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Concat": concat,
    "Split": split,
    "Slice": cut,
    "Pad": pad,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter,
    "ScatterND": scatter_nd,
    "Trilu": triangle,
    "Tile": tile,
    "Expand": expand,
    "Identity": identity,
    "Resize": resize,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
}
