"""Ops of two and three operands, conversions and clamps in C against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from firmware.host_kernels import c_call, check, one_op
from firmware.seeded_values import BOTH, Case, channel_scales, scale_of, seeded, tensor
from npuscope.graph.model import Activation, Attrs, DType, Numerics, Quant
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import ClipAttrs
from npuscope.program.kernel_calls.model import NoKernel

CASES: list[tuple[str, Callable[[], Case]]] = []

Shape = tuple[int, ...]
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Min", "Max", "SquaredDifference")
_COMPARISONS = ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual")
_SHAPES: list[tuple[Shape, Shape]] = [
    ((1, 5, 7, 3), (1, 5, 7, 3)),
    ((2, 3, 1, 13), (5, 1)),
    ((), (1, 11)),
    ((3, 1, 2), (1, 5, 2)),
    ((7,), (2, 1, 7)),
]


def pair(
    kind: str,
    seed: int,
    types: tuple[DType, DType, DType],
    attrs: Attrs,
    numerics: Numerics = Numerics.QDQ,
) -> Case:
    shapes = _SHAPES[seed % len(_SHAPES)]
    made = np.broadcast_shapes(*shapes)
    a, b, y = (
        tensor(name, shape, dtype, scale_of(seed + place, dtype))
        for place, (name, shape, dtype) in enumerate(
            zip("aby", (*shapes, made), types, strict=True)
        )
    )
    feeds = {"a": seeded(seed, shapes[0], types[0]), "b": seeded(seed + 50, shapes[1], types[1])}
    if kind == "Equal":  # equal values are rare otherwise
        feeds = {
            name: np.where(v == v, np.trunc(v), v).astype(v.dtype) for name, v in feeds.items()
        }
    return one_op(kind, [a, b], [y], attrs, numerics), feeds


def add(name: str, make: Callable[[], Case]) -> None:
    CASES.append((name, make))


for _seed in range(len(_SHAPES)):
    for _kind in (*_ARITHMETIC, "Pow"):
        _active = list(Activation)[_seed % 4]
        add(
            f"{_kind}-float-{_seed}",
            lambda k=_kind, s=_seed, a=_active: pair(k, s, (DType.FLOAT32,) * 3, BinaryAttrs(a)),
        )
        for _dtype in (DType.INT8, DType.UINT8, DType.INT16):
            add(
                f"{_kind}-{_dtype.value}-{_seed}",
                lambda k=_kind, s=_seed, t=_dtype, a=_active: pair(k, s, (t,) * 3, BinaryAttrs(a)),
            )
    for _kind in _ARITHMETIC:
        for _dtype in (DType.INT32, DType.INT64):
            add(
                f"{_kind}-{_dtype.value}-{_seed}",
                lambda k=_kind, s=_seed, t=_dtype: pair(k, s, (t,) * 3, BinaryAttrs()),
            )
    for _kind in _COMPARISONS:
        for _dtype in (DType.FLOAT32, DType.INT8, DType.INT32, DType.INT64):
            add(
                f"{_kind}-{_dtype.value}-{_seed}",
                lambda k=_kind, s=_seed, t=_dtype: truth(k, s, t),
            )
    add(f"PRelu-float-{_seed}", lambda s=_seed: pair("PRelu", s, (DType.FLOAT32,) * 3, Attrs()))
    add(f"PRelu-int8-{_seed}", lambda s=_seed: pair("PRelu", s, (DType.INT8,) * 3, Attrs()))
    add(
        f"mixed-{_seed}",
        lambda s=_seed: pair("Mul", s, (DType.FLOAT32, DType.INT16, DType.INT8), BinaryAttrs()),
    )


def truth(kind: str, seed: int, dtype: DType) -> Case:
    """Programs keep truth in bytes, which have no scale."""
    graph, feeds = pair(kind, seed, (dtype, dtype, DType.INT8), Attrs())
    made = tensor("y", graph.tensors["y"].shape, DType.INT8)
    operands = [graph.tensors[name] for name in "ab"]
    return one_op(kind, operands, [made], Attrs(), Numerics.QDQ), feeds


def raw_extreme(kind: str, dtype: DType) -> Case:
    """LiteRT compares raw values, whatever their scales."""
    return pair(kind, 0, (dtype,) * 3, BinaryAttrs(Activation.RELU), Numerics.LITERT)


def logic(kind: str, seed: int) -> Case:
    shapes = _SHAPES[seed % len(_SHAPES)][: 1 if kind == "Not" else 2]
    made = tensor("y", np.broadcast_shapes(*shapes), DType.INT8)
    names = "ab"[: len(shapes)]
    feeds = {
        name: np.random.default_rng(seed).integers(0, 3, shape).astype(np.int8)
        for name, shape in zip(names, shapes, strict=True)
    }
    operands = [tensor(name, feeds[name].shape, DType.INT8) for name in names]
    return one_op(kind, operands, [made], Attrs()), feeds


def choice(seed: int, dtype: DType, numerics: Numerics, quantized: bool) -> Case:
    shapes = ((2, 1, 5), (3, 5), (2, 3, 1))
    quants = [scale_of(seed + place, dtype) if quantized else None for place in range(3)]
    condition = np.random.default_rng(seed).integers(0, 2, shapes[0]).astype(np.int8)
    a = tensor("a", shapes[1], dtype, quants[0])
    b = tensor("b", shapes[2], dtype, quants[1])
    y = tensor("y", (2, 3, 5), dtype, quants[2])
    feeds = {"c": condition, "a": seeded(1, shapes[1], dtype), "b": seeded(2, shapes[2], dtype)}
    return one_op(
        "Where", [tensor("c", shapes[0], DType.INT8), a, b], [y], Attrs(), numerics
    ), feeds


def converted(
    kind: str,
    source: DType,
    made: DType,
    quants: tuple[Quant | None, Quant | None],
    numerics: Numerics = Numerics.QDQ,
    shape: Shape = (3, 5, 7),
    attrs: Attrs | None = None,
) -> Case:
    x, y = tensor("x", shape, source, quants[0]), tensor("y", shape, made, quants[1])
    values = seeded(11, shape, source)
    if source is DType.FLOAT32:  # on and beside the ties of a scale of 0.25
        values.reshape(-1)[::3] = np.arange(values.reshape(-1)[::3].size) * 0.125 - 3
    return one_op(kind, [x], [y], attrs or Attrs(), numerics), {"x": values}


for _kind in ("Min", "Max"):
    for _dtype in (DType.INT8, DType.UINT8, DType.INT16):
        add(f"raw-{_kind}-{_dtype.value}", lambda k=_kind, t=_dtype: raw_extreme(k, t))
for _kind in ("And", "Or", "Not"):
    for _seed in range(3):
        add(f"{_kind}-{_seed}", lambda k=_kind, s=_seed: logic(k, s))
for _dtype in (DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.INT64):
    add(f"Where-{_dtype.value}", lambda t=_dtype: choice(1, t, Numerics.QDQ, False))
for _dtype in (DType.INT8, DType.INT16):
    for _numerics in BOTH:
        add(
            f"Where-{_numerics.value}-{_dtype.value}",
            lambda t=_dtype, n=_numerics: choice(2, t, n, True),
        )

_WHOLE = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.INT64)
for _source in (DType.FLOAT32, *_WHOLE):
    for _made in (DType.FLOAT32, *_WHOLE):
        add(
            f"Cast-{_source.value}-{_made.value}",
            lambda s=_source, m=_made: converted("Cast", s, m, (None, None)),
        )
_TIES = Quant((0.25,), (3,))
for _numerics in BOTH:
    for _made in (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16):
        add(
            f"Quantize-{_numerics.value}-{_made.value}",
            lambda m=_made, n=_numerics: converted("Quantize", DType.FLOAT32, m, (None, _TIES), n),
        )
add(
    "Quantize-channels",
    lambda: converted(
        "Quantize", DType.FLOAT32, DType.INT8, (None, channel_scales(1, (3, 5, 7), 1))
    ),
)
for _source in (DType.INT8, DType.INT16, DType.INT32):
    for _axis in range(3):
        add(
            f"Dequantize-{_source.value}-{_axis}",
            lambda s=_source, a=_axis: converted(
                "Dequantize", s, DType.FLOAT32, (channel_scales(1, (3, 5, 7), a), None)
            ),
        )
add(
    "Dequantize-int16",
    lambda: converted("Dequantize", DType.INT16, DType.FLOAT32, (_TIES, None), Numerics.LITERT),
)
for _limits in ((0.0, 6.0), (-0.0, np.inf), (-np.inf, 1.5), (-1.25, 0.75), (2.0, 1.0)):
    for _source in (DType.FLOAT32, DType.INT8, DType.INT32):
        add(
            f"Clip-{_source.value}-{_limits}",
            lambda s=_source, c=_limits: converted("Clip", s, s, (None, None), attrs=ClipAttrs(*c)),
        )
add(
    "Clip-int16-scaled",
    lambda: converted("Clip", DType.INT16, DType.INT16, (_TIES, _TIES), attrs=ClipAttrs(-9.1, 8.3)),
)
for _kind in ("Abs", "Neg", "Sign", "Square"):
    for _dtype in _WHOLE:
        add(
            f"{_kind}-{_dtype.value}",
            lambda k=_kind, t=_dtype: converted(k, t, t, (None, None)),
        )
for _kind in ("Sigmoid", "Softplus", "Erf", "Abs", "Round"):
    add(
        f"{_kind}-int16-scaled",
        lambda k=_kind: converted(
            k, DType.INT16, DType.INT16, (Quant((0.0003,), (11,)), Quant((0.0004,), (-7,)))
        ),
    )
for _kind in ("Softplus", "Sin", "Reciprocal"):
    add(
        f"{_kind}-int16-litert",
        lambda k=_kind: converted(
            k,
            DType.INT16,
            DType.INT16,
            (Quant((0.0003,), (0,)), Quant((0.0004,), (0,))),
            Numerics.LITERT,
        ),
    )
add("empty", lambda: converted("Abs", DType.FLOAT32, DType.FLOAT32, (None, None), shape=(0, 3)))
add("scalar", lambda: converted("Exp", DType.FLOAT32, DType.FLOAT32, (None, None), shape=()))


@pytest.mark.parametrize("make", [make for _, make in CASES], ids=[name for name, _ in CASES])
def test_values_give_the_same_bits(make: Callable[[], Case]) -> None:
    graph, feeds = make()
    with np.errstate(all="ignore"):
        check(graph, feeds)


@pytest.mark.parametrize(
    ("kind", "types", "attrs", "text"),
    [
        ("Pow", (DType.INT32,) * 3, BinaryAttrs(), "Pow on int32 has no kernel"),
        (
            "Add",
            (DType.INT32,) * 3,
            BinaryAttrs(Activation.RELU6),
            "Add on integers without a scale takes no activation",
        ),
        (
            "Equal",
            (DType.INT32, DType.FLOAT32, DType.INT32),
            Attrs(),
            "Equal on float32 and int32 has no kernel",
        ),
    ],
)
def test_what_has_no_kernel_says_so(
    kind: str, types: tuple[DType, DType, DType], attrs: Attrs, text: str
) -> None:
    with pytest.raises(NoKernel, match=text):
        c_call(pair(kind, 0, types, attrs)[0])


def test_real_numbers_are_not_stored_in_whole_types() -> None:
    graph, _ = converted("Round", DType.FLOAT32, DType.INT32, (None, None))
    with pytest.raises(NoKernel, match="Round cannot store real numbers as int32"):
        c_call(graph)


def test_litert_sums_of_integers_are_refused() -> None:
    graph, _ = pair("Add", 0, (DType.INT8,) * 3, BinaryAttrs(), Numerics.LITERT)
    with pytest.raises(NoKernel):
        c_call(graph)
