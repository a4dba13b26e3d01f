"""TFLite operators: how each is added to a draft. A maker takes the draft and the operator.

What LiteRT has no quantized kernel for is computed in real numbers between DEQUANTIZE and QUANTIZE.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from differential.draft import LARGEST, Draft, Unsuitable
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
_SAME, _VALID = 0, 1
_KERNELS = (1, 1, 2, 3, 3, 3, 4, 5, 7)
_STRIDES = (1, 1, 1, 2, 2, 3)
_DILATIONS = (1, 1, 1, 2, 3)
_ACTIVATIONS = {0: (-np.inf, np.inf), 1: (0, np.inf), 2: (-1, 1), 3: (0, 6)}


def only(dtype: str, maker: Maker) -> Maker:
    """For networks of one type; LiteRT has no kernel of the other."""

    def make(draft: Draft, kind: str) -> object:
        if draft.dtype != dtype:
            raise Unsuitable
        return maker(draft, kind)

    return make


def seldom(maker: Maker) -> Maker:
    """LiteRT has no reference kernel: the network is then run by others, which choose by CPU."""

    def make(draft: Draft, kind: str) -> object:
        if not draft.chance(0.1):
            raise Unsuitable
        return maker(draft, kind)

    return make


def _activation(draft: Draft) -> int:
    return int(draft.choose(0, 0, 1, 2, 3))


def _result(draft: Draft, shape: Shape, reach: float, activation: int = 0) -> Value:
    """A result of about +-reach, of which the activation leaves a part."""
    low, high = _ACTIVATIONS[activation]
    return draft.value(shape, max(low, -reach), min(high, reach))


def _reach(x: Value) -> float:
    return float(np.abs(x.limits).max())


# --- Windows ---


def _window_size(size: int, kernel: int, stride: int, padding: int) -> int:
    return -(-size // stride) if padding == _SAME else -(-(size - kernel + 1) // stride)


def _window(draft: Draft, x: Value, dilated: bool) -> tuple[Shape, Shape, dict[str, int]]:
    """Kernel, output size (H, W) and options."""
    kernel = draft.choose(*_KERNELS), draft.choose(*_KERNELS)
    strides = draft.choose(*_STRIDES), draft.choose(*_STRIDES)
    dilations = (draft.choose(*_DILATIONS), draft.choose(*_DILATIONS)) if dilated else (1, 1)
    padding = draft.choose(_SAME, _SAME, _VALID)
    sizes = tuple(
        _window_size(x.shape[1 + n], (kernel[n] - 1) * dilations[n] + 1, strides[n], padding)
        for n in (0, 1)
    )
    if min(sizes) < 1:
        raise Unsuitable
    options = {"strideH": strides[0], "strideW": strides[1], "padding": padding}
    if dilated:
        options |= {"dilationHFactor": dilations[0], "dilationWFactor": dilations[1]}
    return kernel, sizes, options


def conv(draft: Draft, kind: str) -> Value:
    x = draft.image()
    kernel, sizes, options = _window(draft, x, dilated=True)
    channels, count = x.shape[3], draft.size()
    groups = 1
    if draft.dtype == "int8" and draft.chance(0.2):
        groups = draft.choose(*(n for n in range(1, channels + 1) if channels % n == 0))
        count = groups * draft.rng.randint(1, 4)
    inner = kernel[0] * kernel[1] * channels // groups
    shape = (x.shape[0], *sizes, count)
    draft.check_macs(int(np.prod(shape)) * inner)
    weights = draft.weights((count, *kernel, channels // groups), 0, inner)
    return _weighted(draft, kind, x, weights, shape, options)


def depthwise(draft: Draft, kind: str) -> Value:
    x = draft.image()
    kernel, sizes, options = _window(draft, x, dilated=True)
    multiplier = draft.choose(1, 1, 1, 2, 3)
    count = x.shape[3] * multiplier
    weights = draft.weights((1, *kernel, count), 3, kernel[0] * kernel[1])
    options |= {"depthMultiplier": multiplier}
    return _weighted(draft, kind, x, weights, (x.shape[0], *sizes, count), options)


def _weighted(
    draft: Draft, kind: str, x: Value, weights: Value, shape: Shape, options: dict[str, int]
) -> Value:
    activation = _activation(draft)
    needed = kind != "FULLY_CONNECTED"  # LiteRT refuses or ends without
    bias = [draft.bias(x, weights, shape[-1])] if needed or draft.chance(0.7) else []
    result = _result(draft, shape, _reach(x), activation)
    options = {**options, "fusedActivationFunction": activation}
    return draft.add(kind, (x, weights, *bias), result, **options)


def transpose_conv(draft: Draft, kind: str) -> Value:
    x = draft.image()
    n, height, width, channels = x.shape
    kernel = draft.choose(*_KERNELS), draft.choose(*_KERNELS)
    strides = draft.choose(1, 2, 2, 3), draft.choose(1, 2, 2, 3)
    padding, count = draft.choose(_SAME, _VALID), draft.size()
    rows = zip((height, width), kernel, strides, strict=True)
    sizes = [d * s if padding == _SAME else (d - 1) * s + max(k, s) for d, k, s in rows]
    draft.check_macs(n * height * width * channels * kernel[0] * kernel[1] * count)
    weights = draft.weights((count, *kernel, channels), 0, kernel[0] * kernel[1] * channels)
    shape = (n, *sizes, count)
    bias = [draft.bias(x, weights, count)] if draft.chance(0.5) else []
    inputs = [draft.constant(shape, "int32"), weights, x, *bias]
    result = _result(draft, shape, _reach(x))
    return draft.add(kind, inputs, result, padding=padding, strideH=strides[0], strideW=strides[1])


def pool(draft: Draft, kind: str) -> Value:
    x = draft.image()
    kernel, sizes, options = _window(draft, x, dilated=False)
    options |= {"filterHeight": kernel[0], "filterWidth": kernel[1]}
    result = draft.like(x, (x.shape[0], *sizes, x.shape[3]))
    return draft.add(kind, x, result, fusedActivationFunction=_activation(draft), **options)


def fully_connected(draft: Draft, kind: str) -> Value:
    """It keeps its axes or flattens all but the last."""
    x = draft.pick(fits=lambda v: len(v.shape) >= 1)
    inner, count = x.shape[-1], draft.size()
    keep = draft.chance(0.5)
    shape = (*x.shape[:-1], count) if keep else (x.elements // inner, count)
    draft.check_macs(x.elements * count)
    weights = draft.weights((count, inner), 0, inner, single=draft.chance(0.5))
    return _weighted(draft, kind, x, weights, shape, {"keepNumDims": keep})


def matmul(draft: Draft, kind: str) -> Value:
    """By a constant, or by another value of fitting shape."""
    x = draft.pick(2, 3, 4)
    turned, other = draft.chance(0.3), draft.chance(0.3)
    *lead, rows, inner = x.shape
    if turned:
        rows, inner = inner, rows
    last = draft.size()
    shape = (*lead, last, inner) if other else (*lead, inner, last)
    draft.check_macs(int(np.prod(lead, dtype=int)) * rows * inner * last)
    try:
        y = draft.pick(len(shape), fits=lambda v: v.shape == shape)
    except Unsuitable:
        y = draft.operand(shape, -1.0, 1.0)
    result = _result(draft, (*lead, rows, last), _reach(x) * _reach(y) * inner**0.5 / 2)
    return draft.add(kind, (x, y), result, adjX=turned, adjY=other)


# --- Element by element ---


def other_operand(draft: Draft, x: Value, like: bool = False) -> Value:
    """Another value that broadcasts with x, or a constant; `like` has the scale of x."""

    def fits(value: Value) -> bool:
        if like and (value.scales, value.zero_point) != (x.scales, x.zero_point):
            return False
        return value.shape == x.shape or (draft.chance(0.3) and _broadcasts(x, value))

    try:
        if draft.chance(0.5):
            return draft.pick(fits=fits)
    except Unsuitable:
        pass
    shape = broadcast_part(draft, x.shape)
    if like:
        return draft.with_noise(draft.like(x, shape))
    return draft.operand(shape, -draft.rng.uniform(0, 2), draft.rng.uniform(0.1, 2))


def _broadcasts(x: Value, y: Value) -> bool:
    rows = list(zip(reversed(x.shape), reversed(y.shape), strict=False))
    return (
        len(x.shape) <= 4
        and len(y.shape) <= 4
        and all(1 in row or row[0] == row[1] for row in rows)
    )


def _both(draft: Draft, like: bool = False) -> tuple[Value, Value, Shape]:
    x = draft.pick(1, 2, 3, 4)
    y = other_operand(draft, x, like)
    if draft.chance(0.2):
        x, y = y, x
    return x, y, np.broadcast_shapes(x.shape, y.shape)


def add(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft)
    activation = _activation(draft)
    result = _result(draft, shape, _reach(x) + _reach(y), activation)
    return draft.add(kind, (x, y), result, fusedActivationFunction=activation)


def multiply(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft)
    activation = _activation(draft)
    result = _result(draft, shape, _reach(x) * _reach(y), activation)
    return draft.add(kind, (x, y), result, fusedActivationFunction=activation)


def squared_difference(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft)
    return draft.add(kind, (x, y), draft.value(shape, 0, (_reach(x) + _reach(y)) ** 2 / 2))


def divide(draft: Draft, kind: str) -> Value:
    """By a constant without zeros."""
    x = draft.pick(1, 2, 3, 4)
    y = draft.fixed(broadcast_part(draft, x.shape), 0.01, -128)
    y = draft.with_noise(y)
    assert y.data is not None
    np.maximum(y.data, np.iinfo(y.dtype).min + 40, out=y.data)
    return draft.add(kind, (x, y), _result(draft, x.shape, _reach(x)))


def extreme(draft: Draft, kind: str) -> Value:
    x, y, shape = _both(draft, like=True)
    return draft.add(kind, (x, y), draft.like(x, shape))


def prelu(draft: Draft, kind: str) -> Value:
    x = draft.pick(3, 4)
    slopes = draft.operand((*[1] * (len(x.shape) - 2), x.shape[-1]), -0.5, 0.5)
    return draft.add(kind, (x, slopes), _result(draft, x.shape, _reach(x)))


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
        return draft.add(kind, x, _range_of(draft, f, x, x.shape))

    return make


def _range_of(draft: Draft, f: Function, x: Value, shape: Shape) -> Value:
    with np.errstate(all="ignore"):
        results = f(np.linspace(*x.limits, 256))
    finite = results[np.isfinite(results)]
    low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.1))
    return draft.value(shape, max(low, -100.0), min(high, 100.0))


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
    return draft.add(kind, x, _result(draft, x.shape, _reach(x)), alpha=alpha)


def gelu(draft: Draft, kind: str) -> Value:
    x = draft.pick()
    return draft.add(kind, x, draft.value(x.shape, -0.2, _reach(x)), approximate=draft.chance(0.5))


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
        return draft.add("QUANTIZE", real, _range_of(draft, f, x, x.shape))

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
        reach = _reach(x) * count
        if reach > LARGEST:
            raise Unsuitable
        result = draft.value(shape, -reach, reach, exact=True)
    else:
        result = _result(draft, shape, _reach(x))
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


# --- Moves: the result has the scale of what is moved ---


def reshape(draft: Draft, kind: str) -> Value:
    x = draft.pick(fits=lambda v: len(v.shape) >= 1)
    shape = reshaped(draft, x.shape)
    given = draft.constant(shape, "int32")
    return draft.add(kind, (x, given), draft.like(x, shape), newShape=list(shape))


def squeeze(draft: Draft, kind: str) -> Value:
    x = draft.pick(fits=lambda v: 1 in v.shape and len(v.shape) > 1)
    axis = draft.choose(*(n for n, dim in enumerate(x.shape) if dim == 1))
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return draft.add(kind, x, draft.like(x, shape), squeezeDims=[axis])


def expand_dims(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3)
    axis = draft.rng.randint(0, len(x.shape))
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    return draft.add(kind, (x, draft.constant(axis, "int32")), draft.like(x, shape))


def transpose(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4, 5)
    order = draft.rng.sample(range(len(x.shape)), len(x.shape))
    shape = tuple(x.shape[axis] for axis in order)
    return draft.add(kind, (x, draft.constant(order, "int32")), draft.like(x, shape))


def concat(draft: Draft, kind: str) -> Value:
    """Other parts are brought to the scale of the first; a part may come twice."""
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    parts = [x]
    for _ in range(draft.rng.randint(1, 3)):
        part = draft.pick(
            len(x.shape), fits=lambda v: replaced(v.shape, axis, 1) == replaced(x.shape, axis, 1)
        )
        if (part.scales, part.zero_point) != (x.scales, x.zero_point):
            part = draft.add("QUANTIZE", part, draft.like(x, part.shape))
        parts.append(part)
    shape = replaced(x.shape, axis, sum(part.shape[axis] for part in parts))
    given = axis - len(x.shape) if draft.chance(0.3) else axis
    return draft.add(kind, parts, draft.like(x, shape), axis=given)


def pack(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3)
    count, axis = draft.rng.randint(1, 3), draft.rng.randint(0, len(x.shape))
    shape = (*x.shape[:axis], count, *x.shape[axis:])
    return draft.add(kind, [x] * count, draft.like(x, shape), axis=axis, valuesCount=count)


def split(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = splittable_axis(draft, x)
    counts = [n for n in (2, 3, 4, 5) if x.shape[axis] % n == 0]
    if not counts:
        raise Unsuitable
    count = draft.rng.choice(counts)
    shape = replaced(x.shape, axis, x.shape[axis] // count)
    results = [draft.like(x, shape) for _ in range(count)]
    return draft.add(kind, (draft.constant(axis, "int32"), x), results, numSplits=count)


def split_v(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = splittable_axis(draft, x)
    sizes = cut_parts(draft, x.shape[axis])
    results = [draft.like(x, replaced(x.shape, axis, size)) for size in sizes]
    inputs = (x, draft.constant(sizes, "int32"), draft.constant(axis, "int32"))
    return draft.add(kind, inputs, results, numSplits=len(sizes))


def unpack(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4, fits=lambda v: min(v.shape) <= 4)
    axis = draft.choose(*(n for n, dim in enumerate(x.shape) if dim <= 4))
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    results = [draft.like(x, shape) for _ in range(x.shape[axis])]
    return draft.add(kind, x, results, axis=axis, num=x.shape[axis])


def cut(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    starts = [draft.rng.randrange(dim) for dim in x.shape]
    sizes = [draft.rng.randint(1, dim - at) for dim, at in zip(x.shape, starts, strict=True)]
    rows = zip(x.shape, starts, sizes, strict=True)
    asked = [-1 if at + n == dim and draft.chance(0.5) else n for dim, at, n in rows]
    inputs = (x, draft.constant(starts, "int32"), draft.constant(asked, "int32"))
    return draft.add(kind, inputs, draft.like(x, tuple(sizes)))


def strided_slice(draft: Draft, kind: str) -> Value:
    """Steps of both signs, masks that leave bounds open or drop an axis."""
    x = draft.pick(1, 2, 3, 4)
    begins, ends, steps, shape = [], [], [], []
    masks = {"beginMask": 0, "endMask": 0, "shrinkAxisMask": 0}
    for axis, dim in enumerate(x.shape):
        step = draft.choose(1, 1, 1, 2, 3, -1, -2)
        first, last = draft.rng.randrange(dim), draft.rng.randrange(dim)
        begin, end = (min(first, last), max(first, last) + 1)
        if step < 0:
            begin, end = end - 1, begin - 1 - dim
        mask = draft.choose("", "", "beginMask", "endMask", "shrinkAxisMask")
        if mask == "shrinkAxisMask" and len(x.shape) > 1:
            begin, end, step = first, first + 1, 1
        else:
            mask = mask.replace("shrinkAxisMask", "")
            bounds = (None if mask == "beginMask" else begin, None if mask == "endMask" else end)
            shape.append(len(range(dim)[slice(*bounds, step)]))
        if mask:
            masks[mask] |= 1 << axis
        begins.append(begin), ends.append(end), steps.append(step)
    inputs = (x, *(draft.constant(row, "int32") for row in (begins, ends, steps)))
    return draft.add(kind, inputs, draft.like(x, tuple(shape)), **masks)


def pad(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    pads = [[draft.choose(0, 0, 1, 2, 3), draft.choose(0, 0, 1, 2)] for _ in x.shape]
    if len(x.shape) == 4:
        pads[0] = [0, 0]
    shape = tuple(dim + sum(row) for dim, row in zip(x.shape, pads, strict=True))
    inputs = [x, draft.constant(pads, "int32")]
    if kind == "PADV2":
        inputs.append(draft.with_noise(draft.like(x, (1,))))
    return draft.add(kind, inputs, draft.like(x, shape))


def mirror_pad(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    mode = draft.choose(0, 1)
    pads = [[draft.rng.randint(0, min(2, dim - 1 + mode)) for _ in (0, 1)] for dim in x.shape]
    shape = tuple(dim + sum(row) for dim, row in zip(x.shape, pads, strict=True))
    return draft.add(kind, (x, draft.constant(pads, "int32")), draft.like(x, shape), mode=mode)


def gather(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    places = tuple(draft.size() for _ in range(draft.choose(0, 1, 1, 2)))
    indices = draft.constant(draft.noise.integers(0, x.shape[axis], places), "int32")
    shape = (*x.shape[:axis], *places, *x.shape[axis + 1 :])
    if not 1 <= len(shape) <= 5:
        raise Unsuitable
    return draft.add(kind, (x, indices), draft.like(x, shape), axis=axis)


def gather_nd(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    depth, count = draft.rng.randint(1, len(x.shape) - 1), draft.size()
    rows = [draft.noise.integers(0, dim, count) for dim in x.shape[:depth]]
    indices = draft.constant(np.stack(rows, axis=-1), "int32")
    return draft.add(kind, (x, indices), draft.like(x, (count, *x.shape[depth:])))


def tile(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    repeats = [draft.choose(1, 1, 2, 3) for _ in x.shape]
    shape = tuple(dim * count for dim, count in zip(x.shape, repeats, strict=True))
    return draft.add(kind, (x, draft.constant(repeats, "int32")), draft.like(x, shape))


def broadcast_to(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    shape = tuple(draft.size() if dim == 1 else dim for dim in x.shape)
    return draft.add(kind, (x, draft.constant(shape, "int32")), draft.like(x, shape))


def resize(draft: Draft, kind: str) -> Value:
    x = draft.pick(4)
    sizes = draft.size(), draft.size()
    corners, centers = draft.choose((False, False), (True, False), (False, True))
    result = draft.like(x, (x.shape[0], *sizes, x.shape[3]))
    inputs = (x, draft.constant(sizes, "int32"))
    return draft.add(kind, inputs, result, alignCorners=corners, halfPixelCenters=centers)


def depth_to_space(draft: Draft, kind: str) -> Value:
    x = draft.pick(4, fits=lambda v: v.shape[3] % 4 == 0)
    n, height, width, channels = x.shape
    result = draft.like(x, (n, height * 2, width * 2, channels // 4))
    return draft.add(kind, x, result, blockSize=2)


def space_to_depth(draft: Draft, kind: str) -> Value:
    blocks = (2, 3)
    x = draft.pick(4, fits=lambda v: any(v.shape[1] % b == v.shape[2] % b == 0 for b in blocks))
    n, height, width, channels = x.shape
    block = draft.choose(*(b for b in blocks if height % b == width % b == 0))
    result = draft.like(x, (n, height // block, width // block, channels * block**2))
    return draft.add(kind, x, result, blockSize=block)


int8, uint8 = partial(only, "int8"), partial(only, "uint8")
_POSITIVE = 0.0

MAKERS: dict[str, Maker] = {
    "CONV_2D": conv,
    "DEPTHWISE_CONV_2D": depthwise,
    "TRANSPOSE_CONV": transpose_conv,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": int8(matmul),
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
    **dict.fromkeys(("MAX_POOL_2D", "AVERAGE_POOL_2D"), pool),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), reduction),
    "REDUCE_PROD": real_product,
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), place),
    "SOFTMAX": softmax,
    "LOG_SOFTMAX": fixed_function(16 / 256, 127),
    "L2_NORMALIZATION": fixed_function(1 / 128, 0),
    "RESHAPE": reshape,
    "SQUEEZE": squeeze,
    "EXPAND_DIMS": expand_dims,
    "TRANSPOSE": transpose,
    "CONCATENATION": concat,
    "PACK": pack,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "UNPACK": unpack,
    "SLICE": cut,
    "STRIDED_SLICE": strided_slice,
    **dict.fromkeys(("PAD", "PADV2"), pad),
    "MIRROR_PAD": mirror_pad,
    "GATHER": gather,
    "GATHER_ND": gather_nd,
    "TILE": tile,
    "BROADCAST_TO": broadcast_to,
    **dict.fromkeys(("RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"), resize),
    "DEPTH_TO_SPACE": depth_to_space,
    "SPACE_TO_DEPTH": space_to_depth,
}
