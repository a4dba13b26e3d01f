"""Pooling, reductions over axes, ArgMax and ArgMin."""

from __future__ import annotations

from collections.abc import Mapping, Set

from npuscope.graph.model import Activation, Attrs, Graph, Op
from npuscope.ops.row import (
    WHOLE,
    Kernel,
    Onnx,
    Row,
    Shapes,
    Tflite,
    check_axis,
    input_shape,
    number_type,
    rank4,
    real_type,
    window_output,
    wrong_type,
)
from npuscope.ops.traits import Trait


class PoolAttrs(Attrs, frozen=True):
    """Windowed pooling; an average ignores padded positions unless `count_pads`."""

    window: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    count_pads: bool = False
    activation: Activation = Activation.NONE


class ReduceAttrs(Attrs, frozen=True):
    """Reductions over `axes` (non-negative, sorted)."""

    axes: tuple[int, ...]
    keep_dims: bool


class ArgAttrs(Attrs, frozen=True):
    """ArgMax and ArgMin; of equal values the first is taken unless `last`."""

    axis: int
    keep_dims: bool = False
    last: bool = False


def makes_places(graph: Graph, op: Op) -> str:
    """ArgMax and ArgMin."""
    return wrong_type(graph, op.outputs[0], WHOLE, "output")


def pool_shape(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(PoolAttrs)
    n, height, width, channels = rank4(input_shape(graph, op, 0))
    top, left, bottom, right = attrs.pads
    rows = window_output(height, attrs.window[0], attrs.strides[0], 1, top + bottom)
    columns = window_output(width, attrs.window[1], attrs.strides[1], 1, left + right)
    return ((n, rows, columns, channels),)


def reduce_shape(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(ReduceAttrs)
    source = input_shape(graph, op, 0)
    for axis in attrs.axes:
        check_axis(axis, source)
    if attrs.keep_dims:
        return (tuple(1 if axis in attrs.axes else dim for axis, dim in enumerate(source)),)
    return (tuple(dim for axis, dim in enumerate(source) if axis not in attrs.axes),)


def arg_shape(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(ArgAttrs)
    source = input_shape(graph, op, 0)
    check_axis(attrs.axis, source)
    reduced_axis = (1,) if attrs.keep_dims else ()
    return ((*source[: attrs.axis], *reduced_axis, *source[attrs.axis + 1 :]),)


_EXTREME = {Trait.PICKS, Trait.MOVES, Trait.INTEGER_FORM}
_POOL_OPTIONS = (
    "Pool2DOptions",
    *("Padding", "StrideH", "StrideW"),
    *("FilterHeight", "FilterWidth", "FusedActivationFunction"),
)


def _reduction(
    kind: str,
    kernel: Kernel,
    operator: str = "",
    name: str = "",
    onnx: Mapping[str, Onnx] = {},
    traits: Set[Trait] = frozenset(),
) -> Row:
    """`operator` and `name` are what TFLite and ONNX call it."""
    options = ("ReducerOptions", "KeepDims")
    how = Onnx(
        "convert_values:reduction", (kind,), parameters=() if Trait.PICKS in traits else (1,)
    )
    return Row(
        kind,
        ReduceAttrs,
        inputs=(1, 1),
        shape=reduce_shape,
        types=number_type,
        kernel=kernel,
        traits={Trait.REDUCES, Trait.KEEPS_CHANNELS, *traits},
        sign="kept",
        tflite={operator: Tflite("convert_values:reduction", (kind,), options)} if operator else {},
        onnx={name or kind: how, **onnx},
    )


def _place(kind: str, operator: str, kernel: str) -> Row:
    return Row(
        kind,
        ArgAttrs,
        inputs=(1, 1),
        shape=arg_shape,
        types=makes_places,
        kernel=Kernel("plain", kernel, kernel, kernel),
        traits={Trait.FINDS_PLACES},
        tflite={operator: Tflite("convert_values:place", (kind,))},
        onnx={kind: Onnx("convert_values:place", (kind,))},
    )


ROWS = (
    Row(
        "MaxPool",
        PoolAttrs,
        inputs=(1, 1),
        shape=pool_shape,
        kernel=Kernel("moves", "float_ops:max_pool", "reduce:max_pool"),
        traits={Trait.POOL, Trait.KEEPS_CHANNELS, *_EXTREME},
        tflite={"MAX_POOL_2D": Tflite("convert_values:pool", ("MaxPool",), _POOL_OPTIONS)},
        onnx={"MaxPool": Onnx("convert_pools:pool", ("MaxPool",), windowed=True)},
    ),
    Row(
        "AveragePool",
        PoolAttrs,
        inputs=(1, 1),
        shape=pool_shape,
        types=real_type,
        kernel=Kernel("whole", "float_ops:average_pool", "reduce:litert_average_pool"),
        traits={Trait.POOL, Trait.KEEPS_CHANNELS, Trait.INTEGER_FORM},
        sign="kept",
        tflite={"AVERAGE_POOL_2D": Tflite("convert_values:pool", ("AveragePool",), _POOL_OPTIONS)},
        onnx={"AveragePool": Onnx("convert_pools:pool", ("AveragePool",), windowed=True)},
    ),
    _reduction(
        "Mean",
        Kernel("whole", "reduce:reduce_mean", "reduce:litert_mean"),
        operator="MEAN",
        name="ReduceMean",
        onnx={"GlobalAveragePool": Onnx("convert_values:global_pool", ("Mean",), windowed=True)},
        traits={Trait.INTEGER_FORM},
    ),
    _reduction(
        "ReduceSum",
        Kernel("whole", "reduce:reduce_sum", "reduce:litert_sum"),
        operator="SUM",
        traits={Trait.INTEGER_FORM},
    ),
    _reduction("ReduceProd", Kernel("whole", "reduce:product"), "REDUCE_PROD"),
    _reduction("ReduceL2", Kernel("whole", "reduce:length")),
    _reduction(
        "ReduceMax",
        Kernel("moves", "reduce:largest"),
        operator="REDUCE_MAX",
        onnx={"GlobalMaxPool": Onnx("convert_values:global_pool", ("ReduceMax",), windowed=True)},
        traits=_EXTREME,
    ),
    _reduction("ReduceMin", Kernel("moves", "reduce:smallest"), "REDUCE_MIN", traits=_EXTREME),
    _place("ArgMax", "ARG_MAX", "reduce:arg_max"),
    _place("ArgMin", "ARG_MIN", "reduce:arg_min"),
)
