"""TFLite operators with windows or weights."""

from __future__ import annotations

import numpy as np

from differential.draft import Draft, Maker, Unsuitable, only
from differential.network import Shape, Value

_SAME, _VALID = 0, 1
_KERNELS = (1, 1, 2, 3, 3, 3, 4, 5, 7)
_STRIDES = (1, 1, 1, 2, 2, 3)
_DILATIONS = (1, 1, 1, 2, 3)
_ACTIVATIONS = {0: (-np.inf, np.inf), 1: (0, np.inf), 2: (-1, 1), 3: (0, 6)}


def activation_of(draft: Draft, reach: float) -> int:
    """Of results of about +-reach at least a quarter stays: sums of units have 16 bits."""
    wide = (
        n
        for n, (low, high) in _ACTIVATIONS.items()
        if min(high, reach) - max(low, -reach) >= reach / 2
    )
    return int(draft.choose(0, *wide))


def clamped(draft: Draft, shape: Shape, reach: float, activation: int) -> Value:
    """A result of about +-reach, of which the activation leaves a part."""
    low, high = _ACTIVATIONS[activation]
    return draft.value(shape, max(low, -reach), min(high, reach))


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
    activation = activation_of(draft, x.reach)
    needed = kind != "FULLY_CONNECTED"  # LiteRT refuses or ends without
    bias = [draft.bias(x, weights, shape[-1])] if needed or draft.chance(0.7) else []
    result = clamped(draft, shape, x.reach, activation)
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
    result = draft.about(shape, x.reach)
    return draft.add(kind, inputs, result, padding=padding, strideH=strides[0], strideW=strides[1])


def pool(draft: Draft, kind: str) -> Value:
    x = draft.image()
    kernel, sizes, options = _window(draft, x, dilated=False)
    options |= {"filterHeight": kernel[0], "filterWidth": kernel[1]}
    result = draft.like(x, (x.shape[0], *sizes, x.shape[3]))
    return draft.add(
        kind, x, result, fusedActivationFunction=activation_of(draft, x.reach), **options
    )


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
    result = draft.about((*lead, rows, last), x.reach * y.reach * inner**0.5 / 2)
    return draft.add(kind, (x, y), result, adjX=turned, adjY=other)


MAKERS: dict[str, Maker] = {
    "CONV_2D": conv,
    "DEPTHWISE_CONV_2D": depthwise,
    "TRANSPOSE_CONV": transpose_conv,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": only("int8", matmul),
    **dict.fromkeys(("MAX_POOL_2D", "AVERAGE_POOL_2D"), pool),
}
