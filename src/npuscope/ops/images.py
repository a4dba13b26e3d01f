"""Resize, DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from npuscope.errors import ModelError
from npuscope.graph.model import Attrs, Graph, Op
from npuscope.ops.row import Kernel, Onnx, Row, Shapes, Tflite, input_shape, rank4, real_type
from npuscope.ops.traits import Trait


class ResizeMode(StrEnum):
    NEAREST = "nearest"
    LINEAR = "linear"


class Coordinates(StrEnum):
    """Input position x of output position i; r = output size / input size."""

    ASYMMETRIC = "asymmetric"  # i / r
    HALF_PIXEL = "half_pixel"  # (i + 1/2) / r - 1/2
    HALF_PIXEL_SYMMETRIC = "half_pixel_symmetric"  # half_pixel from the middle
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"  # half_pixel, but 0 when the output has one element
    ALIGN_CORNERS = "align_corners"  # i * (input - 1) / (output - 1)
    TF_HALF_PIXEL_FOR_NN = "tf_half_pixel_for_nn"  # (i + 1/2) / r


class NearestRounding(StrEnum):
    """How a position is rounded to an integer."""

    FLOOR = "floor"
    CEIL = "ceil"
    PREFER_FLOOR = "round_prefer_floor"
    PREFER_CEIL = "round_prefer_ceil"


class ResizeAttrs(Attrs, frozen=True):
    """Resize of (N, H, W, C) to `sizes` (H, W).

    `scales` are the ratios output / input that coordinates are computed with: a file may state
    ratios that differ from those of the sizes. `rounding` matters for nearest only.
    """

    sizes: tuple[int, int]
    scales: tuple[float, float]
    mode: ResizeMode = ResizeMode.NEAREST
    coordinates: Coordinates = Coordinates.ASYMMETRIC
    rounding: NearestRounding = NearestRounding.FLOOR


class DepthOrder(StrEnum):
    """How a channel index is composed: d is down, r is right, c the channel."""

    DCR = "dcr"  # (d, r, c)
    CRD = "crd"  # (c, d, r)


class BlockAttrs(Attrs, frozen=True):
    """DepthToSpace and SpaceToDepth with blocks of `block` pixels a side.

    `width` is the other side of a block that is not square: no file has one, compilers make them.
    """

    block: int
    order: DepthOrder = DepthOrder.DCR
    width: int = 0

    @property
    def sides(self) -> tuple[int, int]:
        """(rows, columns) of a block."""
        return self.block, self.width or self.block


def resizable(graph: Graph, op: Op) -> str:
    """Nearest only copies values, so any type is allowed."""
    linear = op.attrs_as(ResizeAttrs).mode == ResizeMode.LINEAR
    return real_type(graph, op) if linear else ""


def resize_shape(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(ResizeAttrs)
    n, _, _, channels = rank4(input_shape(graph, op, 0))
    if min(attrs.sizes) < 1 or not all(0 < scale < float("inf") for scale in attrs.scales):
        raise ModelError(f"sizes {attrs.sizes} and scales {attrs.scales} must be positive")
    return ((n, *attrs.sizes, channels),)


def depth_to_space_shape(graph: Graph, op: Op) -> Shapes:
    rows, columns = op.attrs_as(BlockAttrs).sides
    n, height, width, channels = rank4(input_shape(graph, op, 0))
    if rows < 1 or columns < 1 or channels % (rows * columns):
        raise ModelError(f"{channels} channels cannot be spread over blocks of {rows}x{columns}")
    return ((n, height * rows, width * columns, channels // (rows * columns)),)


def space_to_depth_shape(graph: Graph, op: Op) -> Shapes:
    rows, columns = op.attrs_as(BlockAttrs).sides
    n, height, width, channels = rank4(input_shape(graph, op, 0))
    if rows < 1 or columns < 1 or height % rows or width % columns:
        raise ModelError(f"{height}x{width} pixels do not divide into blocks of {rows}x{columns}")
    return ((n, height // rows, width // columns, channels * rows * columns),)


_PLACES = ("AlignCorners", "HalfPixelCenters")


def _block(
    kind: str,
    shape: Callable[[Graph, Op], Shapes],
    kernel: str,
    operator: str,
    table: str,
    converter: str,
) -> Row:
    return Row(
        kind,
        BlockAttrs,
        inputs=(1, 1),
        shape=shape,
        kernel=Kernel("moves", kernel),
        traits={Trait.MOVES, Trait.INTEGER_FORM},
        tflite={operator: Tflite("convert_moves:block", (kind,), (table, "BlockSize"))},
        onnx={kind: Onnx(converter, windowed=True)},
    )


ROWS = (
    Row(
        "Resize",
        ResizeAttrs,
        inputs=(1, 1),
        shape=resize_shape,
        types=resizable,
        kernel=Kernel("plain", "resize:real_resize", "resize:litert_resize", "resize:qdq_resize"),
        traits={Trait.KEEPS_CHANNELS, Trait.INTEGER_FORM},
        sign="kept",
        tflite={
            "RESIZE_NEAREST_NEIGHBOR": Tflite(
                "convert_moves:resize",
                (ResizeMode.NEAREST,),
                ("ResizeNearestNeighborOptions", *_PLACES),
            ),
            "RESIZE_BILINEAR": Tflite(
                "convert_moves:resize", (ResizeMode.LINEAR,), ("ResizeBilinearOptions", *_PLACES)
            ),
        },
        onnx={
            "Resize": Onnx("convert_images:resize", parameters=(1, 2, 3), windowed=True),
            "Upsample": Onnx("convert_images:resize", parameters=(1,), windowed=True),
        },
    ),
    _block(
        "DepthToSpace",
        depth_to_space_shape,
        "moves:depth_to_space",
        "DEPTH_TO_SPACE",
        "DepthToSpaceOptions",
        "convert_images:depth_to_space",
    ),
    _block(
        "SpaceToDepth",
        space_to_depth_shape,
        "moves:space_to_depth",
        "SPACE_TO_DEPTH",
        "SpaceToDepthOptions",
        "convert_images:space_to_depth",
    ),
)
