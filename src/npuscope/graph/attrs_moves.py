"""Attributes of ops that move values: cut, repeat, reorder, resize. Axes are the stored ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from npuscope.graph.attrs import Attrs


@dataclass(frozen=True, slots=True)
class SliceAttrs(Attrs):
    """Per axis: the elements start, start + step, ... of which there are `sizes`.

    Bounds are resolved: 0 <= start, and the last element lies inside; a step may be negative.
    """

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SplitAttrs(Attrs):
    """One output a size, side by side along `axis`."""

    axis: int
    sizes: tuple[int, ...]


class MirrorMode(StrEnum):
    """Where the values of a padding that is no constant come from."""

    REFLECT = "reflect"  # c b | a b c | b a
    SYMMETRIC = "symmetric"  # b a | a b c | c b
    EDGE = "edge"  # a a | a b c | c c
    WRAP = "wrap"  # b c | a b c | a b


@dataclass(frozen=True, slots=True)
class MirrorPadAttrs(Attrs):
    """`pads` is ((before, after), ...) per axis; filled with values of the tensor itself."""

    pads: tuple[tuple[int, int], ...]
    mode: MirrorMode = MirrorMode.REFLECT


class ResizeMode(StrEnum):
    NEAREST = "nearest"
    LINEAR = "linear"


class Coordinates(StrEnum):
    """Which place x of the input an output place i stands for; r = output / input size."""

    ASYMMETRIC = "asymmetric"  # i / r
    HALF_PIXEL = "half_pixel"  # (i + 1/2) / r - 1/2
    HALF_PIXEL_SYMMETRIC = "half_pixel_symmetric"  # the same about the middle of the image
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"  # half_pixel, but 0 for an output of one
    ALIGN_CORNERS = "align_corners"  # i * (input - 1) / (output - 1)
    TF_HALF_PIXEL_FOR_NN = "tf_half_pixel_for_nn"  # (i + 1/2) / r


class NearestRounding(StrEnum):
    """How a place becomes a whole number."""

    FLOOR = "floor"
    CEIL = "ceil"
    PREFER_FLOOR = "round_prefer_floor"
    PREFER_CEIL = "round_prefer_ceil"


@dataclass(frozen=True, slots=True)
class ResizeAttrs(Attrs):
    """Resize of (N, H, W, C) to `sizes` (H, W).

    `scales` are the ratios output / input that coordinates are computed with: files may state
    others than the sizes give. `rounding` counts for nearest only.
    """

    sizes: tuple[int, int]
    scales: tuple[float, float]
    mode: ResizeMode = ResizeMode.NEAREST
    coordinates: Coordinates = Coordinates.ASYMMETRIC
    rounding: NearestRounding = NearestRounding.FLOOR


class DepthOrder(StrEnum):
    """Order of the parts of a channel number: d is down, r is right, c the channel."""

    DCR = "dcr"  # (d, r, c)
    CRD = "crd"  # (c, d, r)


@dataclass(frozen=True, slots=True)
class BlockAttrs(Attrs):
    """DepthToSpace and SpaceToDepth with square blocks of `block` pixels a side."""

    block: int
    order: DepthOrder = DepthOrder.DCR


@dataclass(frozen=True, slots=True)
class GatherAttrs(Attrs):
    """Inputs: data, indices. The first `batch_axes` axes of both are walked together."""

    axis: int
    batch_axes: int = 0


@dataclass(frozen=True, slots=True)
class TileAttrs(Attrs):
    repeats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BroadcastAttrs(Attrs):
    """BroadcastTo a shape, by numpy's rule."""

    shape: tuple[int, ...]
