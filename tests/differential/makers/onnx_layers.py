"""ONNX ops with windows, weights or a state; channels come second, as in files of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.draft import Draft, Maker, Unsuitable
from differential.makers.onnx_moves import move, moved
from differential.network import Shape, Value

_KERNELS = (1, 1, 2, 3, 3, 3, 4, 5, 7)
_STRIDES = (1, 1, 1, 2, 2, 3)
_DILATIONS = (1, 1, 1, 2, 3)


def clamped(draft: Draft, kind: str, inputs: Any, result: Value, **options: Any) -> Value:
    """The node with a Relu or Clip between it and its QuantizeLinear, or none."""
    tail = draft.choose("", "", "Relu", "Clip")
    if not tail:
        return draft.add(kind, inputs, result, **options)
    low = 0.0 if tail == "Relu" else draft.choose(0.0, 0.0, -1.0)
    # At least a quarter of the range stays: sums of units have 16 bits.
    high = result.limits[1] if tail == "Relu" else max(draft.choose(6.0, 1.0), result.reach / 2)
    result = draft.value(result.shape, low, min(high, result.limits[1]))
    real = draft.plain(result.shape, "float32")
    draft.add(kind, inputs, real, **options)
    draft.live.remove(real)
    limits = (draft.constant(np.float32(n)) for n in ((low, high) if tail == "Clip" else ()))
    return draft.add(tail, (real, *limits), result)


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
    return clamped(draft, kind, inputs, draft.about(shape, x.reach), group=groups, **options)


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
    return clamped(draft, kind, [x, weights, *bias], draft.about(shape, x.reach), **options)


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
    return clamped(draft, kind, [x, weights, *bias], draft.about((rows, count), x.reach), **options)


def matmul(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    *lead, rows, inner = x.shape
    count = draft.size()
    draft.check_macs(x.elements * count)
    if draft.chance(0.5):
        y = draft.weights((inner, count), 1, inner)
        reach = x.reach
    else:
        shapes = [(*lead, inner, count), (inner, count)]
        try:
            y = draft.pick(fits=lambda v: len(v.shape) > 1 and v.shape[:-1] == (*lead, inner))
        except Unsuitable:
            y = draft.operand(draft.rng.choice(shapes), -1, 1)
        reach = x.reach * y.reach * inner**0.5 / 2
    return draft.add(kind, (x, y), draft.about((*lead, rows, y.shape[-1]), reach))


def einsum(draft: Draft, kind: str) -> Value:
    x = draft.pick(3)
    b, i, k = x.shape
    count = draft.size()
    draft.check_macs(x.elements * count)
    equation, shape = draft.choose(("bik,bkj->bij", (b, k, count)), ("bik,bjk->bij", (b, count, k)))
    y = draft.operand(shape, -1, 1)
    result = draft.about((b, i, count), x.reach * y.reach * k**0.5 / 2)
    return draft.add(kind, (x, y), result, equation=equation)


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


MAKERS: dict[str, Maker] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Gemm": gemm,
    "MatMul": matmul,
    "Einsum": einsum,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), global_pool),
    "LSTM": recurrent(4),
    "GRU": recurrent(3),
    "RNN": recurrent(1),
}
