"""Moves in C against numpy: all element sizes, raw, by table and through real values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from firmware.host_kernels import c_call, check, one_op
from npuscope.graph.model import Activation, Attrs, DType, Graph, Numerics, Quant, Tensor
from npuscope.ops.images import BlockAttrs, DepthOrder
from npuscope.ops.indexing import ReverseAttrs
from npuscope.ops.moves import (
    BroadcastAttrs,
    ConcatAttrs,
    GatherAttrs,
    MirrorMode,
    MirrorPadAttrs,
    PadAttrs,
    SliceAttrs,
    SplitAttrs,
    TileAttrs,
    TransposeAttrs,
)
from npuscope.program.kernel_calls.model import NoKernel

Case = tuple[Graph, dict[str, np.ndarray]]
CASES: list[tuple[str, Callable[[], Case]]] = []

_TYPES = (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64)
_COARSE, _FINE = Quant((0.11,), (3,)), Quant((0.07,), (-5,))
_UNSIGNED = Quant((0.09,), (131,))


def values(seed: int, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Seeded; floats with both zeros, infinities and NaN, whole numbers with their limits."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        made = rng.normal(0, 5, shape).astype(np.float32)
        special = np.array([-0.0, np.inf, -np.inf, np.nan, 1e-42], np.float32)
    else:
        low, high = dtype.limits
        made = rng.integers(low, high, shape, dtype.numpy, endpoint=True)
        special = np.array([low, high], dtype.numpy)
    flat = made.reshape(-1)
    flat[: len(special)] = special[: flat.size]
    return made


def moved(
    kind: str,
    shape: tuple[int, ...],
    output: tuple[int, ...],
    attrs: Attrs,
    dtype: DType = DType.INT8,
    quants: tuple[Quant | None, Quant | None] = (_COARSE, _COARSE),
    numerics: Numerics = Numerics.QDQ,
    output_type: DType | None = None,
) -> Case:
    x = Tensor("x", shape, dtype, quants[0])
    y = Tensor("y", output, output_type or dtype, quants[1])
    return one_op(kind, [x], [y], attrs, numerics), {"x": values(len(shape), shape, dtype)}


# (name, kind, shape, output shape, attributes)
_SHAPES: list[tuple[str, str, tuple[int, ...], tuple[int, ...], Attrs]] = [
    ("reshape", "Reshape", (2, 3, 5), (6, 5), Attrs()),
    ("reshape to scalar", "Reshape", (1, 1), (), Attrs()),
    ("identity", "Identity", (7, 1, 3), (7, 1, 3), Attrs()),
    ("identity of nothing", "Identity", (3, 0, 2), (3, 0, 2), Attrs()),
    ("transpose", "Transpose", (2, 3, 5, 7), (7, 2, 5, 3), TransposeAttrs((3, 0, 2, 1))),
    ("transpose same", "Transpose", (2, 3, 5), (2, 3, 5), TransposeAttrs((0, 1, 2))),
    ("transpose pair", "Transpose", (11, 13), (13, 11), TransposeAttrs((1, 0))),
    ("transpose with ones", "Transpose", (1, 5, 1, 3), (3, 1, 1, 5), TransposeAttrs((3, 2, 0, 1))),
    ("slice", "Slice", (5, 7, 3), (2, 3, 3), SliceAttrs((1, 2, 0), (2, 3, 3), (2, 1, 1))),
    ("slice back", "Slice", (5, 7), (3, 7), SliceAttrs((4, 6), (3, 7), (-2, -1))),
    ("slice nothing", "Slice", (5, 7), (0, 7), SliceAttrs((1, 0), (0, 7), (1, 1))),
    ("pad", "Pad", (3, 5, 2), (6, 5, 7), PadAttrs(((1, 2), (0, 0), (3, 2)), 0.5)),
    ("pad and cut", "Pad", (5, 7), (6, 4), PadAttrs(((2, -1), (-3, 0)), -1.3)),
    ("pad nothing", "Pad", (0, 3), (2, 3), PadAttrs(((1, 1), (0, 0)), 2.0)),
    ("depth to space", "DepthToSpace", (2, 3, 5, 12), (2, 6, 10, 3), BlockAttrs(2)),
    (
        "depth to space crd",
        "DepthToSpace",
        (1, 2, 3, 18),
        (1, 6, 9, 2),
        BlockAttrs(3, DepthOrder.CRD),
    ),
    ("space to depth", "SpaceToDepth", (2, 6, 4, 3), (2, 3, 2, 12), BlockAttrs(2)),
    (
        "space to depth crd",
        "SpaceToDepth",
        (1, 6, 9, 2),
        (1, 2, 3, 18),
        BlockAttrs(3, DepthOrder.CRD),
    ),
    ("tile", "Tile", (2, 3, 1), (4, 3, 5), TileAttrs((2, 1, 5))),
    ("broadcast", "BroadcastTo", (3, 1), (2, 3, 5), BroadcastAttrs((2, 3, 5))),
    ("broadcast scalar", "BroadcastTo", (), (3, 2), BroadcastAttrs((3, 2))),
    *(
        (
            f"mirror {mode.value}",
            "MirrorPad",
            (5, 4, 3),
            (9, 6, 3),
            MirrorPadAttrs(((3, 1), (0, 2), (0, 0)), mode),
        )
        for mode in MirrorMode
    ),
]

for _name, _kind, _in, _out, _attrs in _SHAPES:
    _row = (_kind, _in, _out, _attrs)
    for _dtype in _TYPES:
        CASES.append(
            (
                f"{_name} {_dtype.value}",
                lambda row=_row, dtype=_dtype: moved(*row, dtype, (None, None)),
            )
        )
    CASES += [
        (f"{_name} raw", lambda row=_row: moved(*row)),
        (
            f"{_name} raw of litert",
            lambda row=_row: moved(*row, numerics=Numerics.LITERT, quants=(_COARSE, _COARSE)),
        ),
        (f"{_name} by table", lambda row=_row: moved(*row, quants=(_COARSE, _FINE))),
        (
            f"{_name} by table to uint8",
            lambda row=_row: moved(*row, quants=(_COARSE, _UNSIGNED), output_type=DType.UINT8),
        ),
        (
            f"{_name} to 16 bits",
            lambda row=_row: moved(*row, quants=(_FINE, _COARSE), output_type=DType.INT16),
        ),
        (f"{_name} as reals", lambda row=_row: moved(*row, DType.INT16, (_COARSE, _FINE))),
        (
            f"{_name} from floats",
            lambda row=_row: moved(*row, DType.FLOAT32, (None, _FINE), output_type=DType.INT8),
        ),
        (
            f"{_name} to floats",
            lambda row=_row: moved(*row, quants=(_FINE, None), output_type=DType.FLOAT32),
        ),
    ]


def joined(
    axis: int,
    sizes: tuple[int, ...],
    quants: tuple[Quant | None, ...],
    numerics: Numerics,
    dtype: DType = DType.INT8,
    activation: Activation = Activation.NONE,
) -> Case:
    """The last quantization is the output's."""
    shape = [3, 5, 2]
    parts, total = [], sum(sizes)
    for number, (size, quant) in enumerate(zip(sizes, quants, strict=False)):
        shape[axis] = size
        parts.append(Tensor(f"x{number}", tuple(shape), dtype, quant))
    shape[axis] = total
    y = Tensor("y", tuple(shape), dtype, quants[-1])
    feeds = {t.name: values(i, t.shape, dtype) for i, t in enumerate(parts)}
    return one_op("Concat", parts, [y], ConcatAttrs(axis, activation), numerics), feeds


for _axis in range(3):
    for _numerics in Numerics:
        _end = f"along {_axis}, {_numerics.value}"
        _mixed = (_COARSE, _FINE, Quant((0.3,), (0,)), _FINE)
        CASES += [
            (
                f"concat of one scale {_end}",
                lambda a=_axis, n=_numerics: joined(a, (1, 4, 2), (_COARSE,) * 4, n),
            ),
            (
                f"concat of many scales {_end}",
                lambda a=_axis, n=_numerics, q=_mixed: joined(a, (3, 0, 2), q, n),
            ),
            (
                f"concat with activation {_end}",
                lambda a=_axis, n=_numerics, q=_mixed: joined(
                    a, (3, 1, 2), q, n, activation=Activation.RELU6
                ),
            ),
            (
                f"concat of one scale with activation {_end}",
                lambda a=_axis, n=_numerics: joined(
                    a, (3, 1), (_FINE,) * 3, n, activation=Activation.RELU_N1_TO_1
                ),
            ),
            (
                f"concat of int64 {_end}",
                lambda a=_axis, n=_numerics: joined(a, (3, 1), (None,) * 3, n, DType.INT64),
            ),
        ]
    CASES += [
        (
            f"concat of int16 scales along {_axis}",
            lambda a=_axis: joined(
                a, (2, 3), (_COARSE, _FINE, _FINE), Numerics.QDQ, DType.INT16, Activation.RELU
            ),
        ),
        (
            f"concat of floats with activation along {_axis}",
            lambda a=_axis: joined(
                a, (2, 3), (None,) * 3, Numerics.QDQ, DType.FLOAT32, Activation.RELU_N1_TO_1
            ),
        ),
    ]


def parted(axis: int, sizes: tuple[int, ...], dtype: DType) -> Case:
    shape = [3, 4, 5]
    shape[axis] = sum(sizes)
    x = Tensor("x", tuple(shape), dtype)
    outputs = []
    for number, size in enumerate(sizes):
        shape[axis] = size
        outputs.append(Tensor(f"y{number}", tuple(shape), dtype))
    graph = one_op("Split", [x], outputs, SplitAttrs(axis, sizes))
    return graph, {"x": values(axis, x.shape, dtype)}


CASES += [
    (f"split along {axis} {dtype.value}", lambda a=axis, d=dtype: parted(a, (2, 1, 4), d))
    for axis in range(3)
    for dtype in _TYPES
]


def gathered(
    axis: int, batch: int, places: tuple[int, ...], dtype: DType, quants: tuple = (None, None)
) -> Case:
    shape = (2, 3, 7, 5)
    lead = (*shape[:batch], *places)
    output = (*shape[:axis], *places, *shape[axis + 1 :])
    rng = np.random.default_rng(axis + batch)
    size = shape[axis]
    indices = rng.integers(-size, size, lead).astype(np.int32 if batch else np.int64)
    x, y = Tensor("x", shape, dtype, quants[0]), Tensor("y", output, dtype, quants[1])
    chosen = Tensor("i", lead, DType(indices.dtype.name))
    graph = one_op("Gather", [x, chosen], [y], GatherAttrs(axis, batch), Numerics.QDQ)
    return graph, {"x": values(1, shape, dtype), "i": indices}


for _axis, _batch in ((0, 0), (2, 0), (3, 0), (2, 1), (2, 2), (3, 2)):
    for _dtype in _TYPES:
        CASES.append(
            (
                f"gather along {_axis} with {_batch} {_dtype.value}",
                lambda a=_axis, b=_batch, d=_dtype: gathered(a, b, (2, 3), d),
            )
        )
    CASES += [
        (
            f"gather by table along {_axis} with {_batch}",
            lambda a=_axis, b=_batch: gathered(a, b, (4,), DType.INT8, (_COARSE, _FINE)),
        ),
        (
            f"gather as reals along {_axis} with {_batch}",
            lambda a=_axis, b=_batch: gathered(a, b, (), DType.INT16, (_COARSE, _FINE)),
        ),
    ]


def turned(time: int, batch: int, dtype: DType, quants: tuple = (None, None)) -> Case:
    shape = (2, 3, 7, 5)
    lengths = np.random.default_rng(time).integers(0, shape[time] + 1, shape[batch])
    x, y = Tensor("x", shape, dtype, quants[0]), Tensor("y", shape, dtype, quants[1])
    steps = Tensor("n", lengths.shape, DType.INT64)
    attrs = ReverseAttrs(time, batch)
    graph = one_op("ReverseSequence", [x, steps], [y], attrs, Numerics.QDQ)
    return graph, {"x": values(1, shape, dtype), "n": lengths}


for _time, _batch in ((0, 1), (1, 0), (2, 0), (1, 3), (3, 2)):
    CASES += [
        (
            f"reverse along {_time} by {_batch} {_dtype.value}",
            lambda t=_time, b=_batch, d=_dtype: turned(t, b, d),
        )
        for _dtype in _TYPES
    ]
    CASES.append(
        (
            f"reverse by table along {_time} by {_batch}",
            lambda t=_time, b=_batch: turned(t, b, DType.INT8, (_COARSE, _FINE)),
        )
    )


def by_channel(numerics: Numerics) -> Case:
    """Scales along an axis that moves."""
    quant = Quant((0.1, 0.2, 0.05), (1, -2, 3), 1)
    turned = Quant((0.1, 0.2, 0.05), (1, -2, 3), 0)
    x, y = Tensor("x", (5, 3), DType.INT8, quant), Tensor("y", (3, 5), DType.INT8, turned)
    graph = one_op("Transpose", [x], [y], TransposeAttrs((1, 0)), numerics)
    return graph, {"x": values(3, (5, 3), DType.INT8)}


CASES += [(f"scales a channel {n.value}", lambda n=n: by_channel(n)) for n in Numerics]


@pytest.mark.parametrize("make", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_same_bits(make: Callable[[], Case]) -> None:
    check(*make())


def test_axes_that_follow_on_are_one_copy() -> None:
    graph, _ = moved("Slice", (4, 5, 6), (2, 5, 6), SliceAttrs((1, 0, 0), (2, 5, 6), (1, 1, 1)))
    assert c_call(graph).numbers == (-1, 1, 0, 0, 0, 0, 0, 30, 0, 1, 60, 1, 1)


def test_int16_parts_of_other_scales_are_refused_in_litert() -> None:
    graph, _ = joined(0, (1, 2), (_COARSE, _FINE, _FINE), Numerics.LITERT, DType.INT16)
    with pytest.raises(NoKernel, match="Concat of int16 parts needs one scale and no activation"):
        c_call(graph)


def test_types_that_differ_are_refused() -> None:
    quants = (_COARSE, _UNSIGNED)
    shape = (2, 3)
    graph, _ = moved(
        "Identity", shape, shape, Attrs(), DType.INT8, quants, Numerics.LITERT, DType.UINT8
    )
    with pytest.raises(NoKernel, match="Identity from int8 to uint8"):
        c_call(graph)
