"""Ops that read or write single places, and those along an axis that no unit of an NPU has."""

from __future__ import annotations

from enum import StrEnum

from npuscope.errors import ModelError
from npuscope.graph.model import Attrs, Graph, Op
from npuscope.ops.elementwise import makes_truth
from npuscope.ops.moves import reads_places
from npuscope.ops.row import (
    WHOLE,
    Kernel,
    Onnx,
    Row,
    Shapes,
    Tflite,
    check_axis,
    input_shape,
    real_type,
    same_shape,
    wrong_type,
)
from npuscope.ops.traits import Trait


class Joining(StrEnum):
    """What becomes of a place that is written to."""

    NONE = "none"  # replaced
    ADD = "add"
    MUL = "mul"
    MIN = "min"
    MAX = "max"


class AxisAttrs(Attrs, frozen=True):
    axis: int


class ReverseAttrs(Attrs, frozen=True):
    """Inputs: data, how many steps at the start of each batch are turned around."""

    time_axis: int
    batch_axis: int


class GatherNdAttrs(Attrs, frozen=True):
    """The first `batch_axes` axes of data and indices go together."""

    batch_axes: int = 0


class ScatterAttrs(Attrs, frozen=True):
    axis: int = 0
    joining: Joining = Joining.NONE


class CumulativeAttrs(Attrs, frozen=True):
    """Sums of all values up to a place, without its own if `exclusive`, from the end if `back`."""

    axis: int
    exclusive: bool = False
    back: bool = False


class TriangleAttrs(Attrs, frozen=True):
    """Zeros on one side of a diagonal, `offset` to the right of the main one."""

    upper: bool = True
    offset: int = 0


class OneHotAttrs(Attrs, frozen=True):
    axis: int
    depth: int
    off: float = 0.0
    on: float = 1.0


class TopAttrs(Attrs, frozen=True):
    """The `count` first values in order, or with `places` where they are."""

    axis: int
    count: int
    largest: bool = True
    places: bool = False


class ResponseAttrs(Attrs, frozen=True):
    """x / (bias + alpha / size * sum of squares of `size` neighbouring channels) ** beta."""

    size: int
    alpha: float
    beta: float
    bias: float


def indices_shape(graph: Graph, op: Op) -> Shapes:
    data, places = input_shape(graph, op, 0), input_shape(graph, op, 1)
    axis = op.attrs_as(AxisAttrs).axis
    check_axis(axis, data)
    fits = len(data) == len(places) and all(
        place <= size for n, (place, size) in enumerate(zip(places, data, strict=True)) if n != axis
    )
    if not fits:
        raise ModelError(f"indices {places} do not fit {data}")
    return (places,)


def gather_nd_shape(graph: Graph, op: Op) -> Shapes:
    data, places = input_shape(graph, op, 0), input_shape(graph, op, 1)
    batch = op.attrs_as(GatherNdAttrs).batch_axes
    if not places or places[-1] + batch > len(data) or data[:batch] != places[:batch]:
        raise ModelError(f"indices {places} do not fit {data}")
    return ((*places[:-1], *data[batch + places[-1] :]),)


def reverse_shape(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(ReverseAttrs)
    data, lengths = input_shape(graph, op, 0), input_shape(graph, op, 1)
    for axis in (attrs.time_axis, attrs.batch_axis):
        check_axis(axis, data)
    if attrs.time_axis == attrs.batch_axis or lengths != (data[attrs.batch_axis],):
        raise ModelError(f"lengths {lengths} do not fit axis {attrs.batch_axis} of {data}")
    return (data,)


def scatter_shape(graph: Graph, op: Op) -> Shapes:
    data, places, values = (input_shape(graph, op, index) for index in range(3))
    check_axis(op.attrs_as(ScatterAttrs).axis, data)
    if places != values or len(places) != len(data):
        raise ModelError(f"indices {places} and values {values} do not fit {data}")
    return (data,)


def scatter_nd_shape(graph: Graph, op: Op) -> Shapes:
    data, places, values = (input_shape(graph, op, index) for index in range(3))
    if not places or places[-1] > len(data) or values != (*places[:-1], *data[places[-1] :]):
        raise ModelError(f"indices {places} and values {values} do not fit {data}")
    return (data,)


def cumulative_shape(graph: Graph, op: Op) -> Shapes:
    source = input_shape(graph, op, 0)
    check_axis(op.attrs_as(CumulativeAttrs).axis, source)
    return (source,)


def triangle_shape(graph: Graph, op: Op) -> Shapes:
    source = input_shape(graph, op, 0)
    if len(source) < 2:
        raise ModelError(f"a tensor of shape {source} has no diagonal")
    return (source,)


def one_hot_shape(graph: Graph, op: Op) -> Shapes:
    attrs, source = op.attrs_as(OneHotAttrs), input_shape(graph, op, 0)
    if not 0 <= attrs.axis <= len(source) or attrs.depth < 1:
        raise ModelError(f"axis {attrs.axis} of {attrs.depth} places cannot be added to {source}")
    return ((*source[: attrs.axis], attrs.depth, *source[attrs.axis :]),)


def top_shape(graph: Graph, op: Op) -> Shapes:
    attrs, source = op.attrs_as(TopAttrs), input_shape(graph, op, 0)
    check_axis(attrs.axis, source)
    if not 1 <= attrs.count <= source[attrs.axis]:
        raise ModelError(f"{attrs.count} of {source[attrs.axis]} values are requested")
    return ((*source[: attrs.axis], attrs.count, *source[attrs.axis + 1 :]),)


def whole_places(graph: Graph, op: Op) -> str:
    return wrong_type(graph, op.inputs[0], WHOLE, "index")


ROWS = (
    Row(
        "GatherElements",
        AxisAttrs,
        inputs=(2, 2),
        shape=indices_shape,
        types=reads_places,
        kernel=Kernel("moves", "indexing:gather_elements"),
        traits={Trait.MOVES, Trait.INDEXED, Trait.INTEGER_FORM},
        data_inputs=1,
        onnx={
            "GatherElements": Onnx(
                "convert_indexing:along", ("GatherElements", 2, AxisAttrs, {"axis": 0})
            )
        },
    ),
    Row(
        "GatherND",
        GatherNdAttrs,
        inputs=(2, 2),
        shape=gather_nd_shape,
        types=reads_places,
        kernel=Kernel("moves", "indexing:gather_nd"),
        traits={Trait.MOVES, Trait.INDEXED, Trait.INTEGER_FORM},
        data_inputs=1,
        tflite={"GATHER_ND": Tflite("convert_moves:gather_nd")},
        onnx={"GatherND": Onnx("convert_indexing:gather_nd")},
    ),
    Row(
        "ReverseSequence",
        ReverseAttrs,
        inputs=(2, 2),
        shape=reverse_shape,
        types=reads_places,
        kernel=Kernel("moves", "indexing:reverse_sequence"),
        traits={Trait.MOVES, Trait.INTEGER_FORM},
        data_inputs=1,
        tflite={
            "REVERSE_SEQUENCE": Tflite(
                "convert_moves:along",
                ("ReverseSequence", 2, ReverseAttrs, ("SeqDim", "BatchDim")),
                ("ReverseSequenceOptions", "SeqDim", "BatchDim"),
            )
        },
        onnx={
            "ReverseSequence": Onnx(
                "convert_indexing:along",
                ("ReverseSequence", 2, ReverseAttrs, {"time_axis": 0, "batch_axis": 1}),
            )
        },
    ),
    Row(
        "ScatterElements",
        ScatterAttrs,
        inputs=(3, 3),
        shape=scatter_shape,
        types=reads_places,
        kernel=Kernel("raw", "indexing:scatter_elements"),
        traits={Trait.INDEXED},
        onnx={
            "ScatterElements": Onnx("convert_indexing:scatter", ("ScatterElements",)),
            "Scatter": Onnx("convert_indexing:scatter", ("ScatterElements",)),
        },
    ),
    Row(
        "ScatterND",
        ScatterAttrs,
        inputs=(3, 3),
        shape=scatter_nd_shape,
        types=reads_places,
        kernel=Kernel("raw", "indexing:scatter_nd"),
        traits={Trait.INDEXED},
        onnx={"ScatterND": Onnx("convert_indexing:scatter", ("ScatterND",))},
    ),
    Row(
        "CumSum",
        CumulativeAttrs,
        inputs=(1, 1),
        shape=cumulative_shape,
        kernel=Kernel("whole", "indexing:cumulative"),
        onnx={"CumSum": Onnx("convert_indexing:cumulative")},
    ),
    Row(
        "Trilu",
        TriangleAttrs,
        inputs=(1, 1),
        shape=triangle_shape,
        kernel=Kernel("raw", "indexing:triangle"),
        onnx={"Trilu": Onnx("convert_indexing:triangle")},
    ),
    Row(
        "OneHot",
        OneHotAttrs,
        inputs=(1, 1),
        shape=one_hot_shape,
        types=whole_places,
        kernel=Kernel("plain", "indexing:one_hot"),
        traits={Trait.INDEXED},
        onnx={"OneHot": Onnx("convert_indexing:one_hot")},
    ),
    Row(
        "TopK",
        TopAttrs,
        inputs=(1, 1),
        shape=top_shape,
        kernel=Kernel("raw", "indexing:top"),
        onnx={"TopK": Onnx("convert_indexing:top")},
    ),
    Row(
        "LRN",
        ResponseAttrs,
        inputs=(1, 1),
        shape=same_shape,
        types=real_type,
        kernel=Kernel("whole", "indexing:response"),
        onnx={"LRN": Onnx("convert_indexing:response")},
    ),
    *(
        Row(
            kind,
            Attrs,
            inputs=(1, 1),
            shape=same_shape,
            types=makes_truth,
            kernel=Kernel("raw", f"indexing:{kernel}"),
            traits={Trait.ELEMENTWISE, Trait.KEEPS_CHANNELS},
            onnx={kind: Onnx("convert_indexing:truth", (kind,), any_order=True)},
        )
        for kind, kernel in (("IsNaN", "is_nan"), ("IsInf", "is_infinite"))
    ),
)
