"""How a convolution is cut over the units: mode, kernels, depth, pipe, passes.

Rules read off 389 convolutions in public compiler output; they reproduce 387 of them, and the
two others are those in front of a pool (`max_kernels`).
"""

from __future__ import annotations

from enum import Enum
from math import ceil, prod

from msgspec import Struct

from npuscope.geometry.divisors import largest_divisor
from npuscope.machine.model import Machine, TileLimit
from npuscope.program.modes import Simd
from npuscope.program.unit_words import DEEP_BYTES
from npuscope.structs import replace

# Zero points, in int8 terms, that leave a layer in 8x8 mode: nothing to subtract, or the plain byte
# of uint8. Every other layer seen in vendor builds has its own in the unit, and is in 16x8 mode.
FREE_ZERO_POINTS = (0, -128)
# The level from which units in series that gain nothing are released, by mode. Builds at -O3 do so
# in both [code: 2.0 to 4.0]; published networks, whose level is lower, in 16x8 mode alone [fit:
# YOLOs of 3.0 and 4.0, six networks; against it: two st_resnets, 6 % too slow with it].
_RELEASES = {Simd.S16X8: 1}
_RELEASES_OTHERS = 3
_LONGEST_LINE = 65535  # values of a line, all channels of a tile: what the width register counts
_INFLATED_GROUP = 8  # channels of a depthwise layer whose kernels 2.x stores as one dense group


class ConvMode(Enum):
    """How a convolution uses the unit; the first four are keys of the machine's tile table."""

    PLAIN1X1 = "plain1x1"
    DEEP1X1 = "deep1x1"
    DENSE = "dense"
    ROW = "row"
    DEPTHWISE = "depthwise"
    DSS2 = "dss2"


class Tiling(Struct, frozen=True):
    """A convolution cut for the units: n units in series, nK kernels and B channels each.

    `passes` accumulation passes go through memory, `tiles` output tiles follow each other.
    """

    mode: ConvMode
    kernels: int
    depth: int
    pipe: int
    passes: int
    tiles: int

    @property
    def frames(self) -> int:
        return self.passes * self.tiles

    @property
    def deep(self) -> bool:
        return self.mode is ConvMode.DEEP1X1

    @property
    def grouped(self) -> bool:
        return self.mode in (ConvMode.DEPTHWISE, ConvMode.DSS2)


class ConvShape(Struct, frozen=True):
    """What the choice depends on: channels, kernel, and the maps going in and out."""

    inputs: int
    outputs: int
    window: tuple[int, int]
    in_size: tuple[int, int]
    out_size: tuple[int, int]
    strides: tuple[int, int] = (1, 1)


def runs_turned(window: tuple[int, int], size: tuple[int, int]) -> bool:
    """A kernel whose taps lie along the only long axis of a map one pixel wide runs as one row: the
    convolution alone is turned, what follows it is not [code: 28 layers of two networks of 2.2, 3.0
    and 4.0; no kernel of one column and several rows among 1,782 convolutions]."""
    return window[0] > 1 and window[1] == size[1] == 1


def simd_of(zero_point: int | None) -> Simd:
    """The mode that the zero point of its features puts a layer in; None where there are many."""
    return Simd.S8X8 if zero_point in FREE_ZERO_POINTS else Simd.S16X8


def choose_tiling(
    shape: ConvShape,
    simd: Simd,
    machine: Machine,
    optimization: int,
    max_kernels: int = 0,
    alone: bool = False,
) -> Tiling:
    """The tiling the machine's generation takes for a dense convolution; `alone`: no units in
    series."""
    if alone:
        machine = replace(machine, convacc=replace(machine.convacc, max_pipe=1))
    base = base_tiling(shape, simd, machine, max_kernels, optimization)
    if optimization < _RELEASES.get(simd, _RELEASES_OTHERS):
        return base
    return _reduced(base, shape, simd, machine, max_kernels)


def base_tiling(
    shape: ConvShape, simd: Simd, machine: Machine, max_kernels: int = 0, optimization: int = 0
) -> Tiling:
    """Units in series wherever they save passes, before any is released."""
    first, *deep = (
        _base_pipe(shape, mode, simd, machine, max_kernels) for mode in modes(shape, simd, machine)
    )
    better = bool(deep) and _is_better(deep[0], first, shape, machine, optimization)
    return deep[0] if better else first


def modes(shape: ConvShape, simd: Simd, machine: Machine) -> tuple[ConvMode, ...]:
    """Those that a dense convolution may be in, the plain one first."""
    if shape.window != (1, 1):
        return (ConvMode.ROW if shape.window[0] == 1 else ConvMode.DENSE,)
    if simd is not Simd.S8X8 or shape.inputs < machine.convacc.min_deep_channels:
        return (ConvMode.PLAIN1X1,)
    return ConvMode.PLAIN1X1, ConvMode.DEEP1X1


def depthwise_tiling(
    channels: int,
    window: tuple[int, int],
    strides: tuple[int, int],
    simd: Simd,
    machine: Machine,
    size: tuple[int, int] = (1, 1),
    frame: int = 0,
) -> Tiling:
    """The tiling of one kernel per channel on maps of `size`, by the generation's habit.

    `frame` is the number of channels that stream in from a convolution of the same epoch.
    """
    joins = machine.generation.depthwise_joins and (window, strides) == ((3, 3), (1, 1))
    mode, depth = ConvMode.DEPTHWISE, 0
    if frame and joins:
        group = frame
    elif machine.generation.depthwise == "inflated":
        if channels % _INFLATED_GROUP or window[0] > machine.convacc.max_kernel_height:
            group = 1
        else:
            # 16x8 mode has half the kernels of 8x8 mode.
            group = _INFLATED_GROUP // 2 if simd is Simd.S16X8 else _INFLATED_GROUP
            depth = machine.generation.inflated_depth_16x8 if simd is Simd.S16X8 else 0
    else:
        # Words of two channels exist for 3x3 kernels of stride 2 in 8x8 mode only (DSS2).
        pairs = (window, strides) == ((3, 3), (2, 2)) and simd is Simd.S8X8
        mode = ConvMode.DSS2 if pairs and channels % 2 == 0 else mode
        group = _balanced_group(channels, window, size, mode, simd, machine)
    pair = 2 if mode is ConvMode.DSS2 else 1
    while group > 1 and group * size[1] > _line_room(window, machine):
        if group == pair:  # lines too long even for one word of two channels
            mode, pair = ConvMode.DEPTHWISE, 1
        group, depth = pair * largest_divisor(channels // pair, max(1, group // pair - 1)), 0
    return Tiling(mode, group, max(group, depth), 1, 1, channels // group)


def grouped_tiling(groups: int, inputs: int, outputs: int, simd: Simd, machine: Machine) -> Tiling:
    """The tiling of groups with several channels each: one group a frame.

    Kernels beyond the unit's take another frame of the same channels.
    """
    kernels = largest_divisor(outputs, dense_limit(simd, machine).kernels)
    return Tiling(ConvMode.DEPTHWISE, kernels, inputs, 1, 1, groups * outputs // kernels)


def _balanced_group(
    channels: int,
    window: tuple[int, int],
    size: tuple[int, int],
    mode: ConvMode,
    simd: Simd,
    machine: Machine,
) -> int:
    """As many channels as keep the features longer under way than the group's weights.

    A group of g channels loads g x g kernels, most of them zeros: worth it on large maps alone.
    """
    limits = machine.convacc
    if window != (3, 3):
        return 1
    words = prod(size) * (2 if simd is Simd.S16X8 else 1) / (2 if mode is ConvMode.DSS2 else 1)
    room = ceil(words / (prod(window) * limits.depthwise_weight_cycles)) - 1
    room = min(room, limits.depthwise_channels)
    if mode is ConvMode.DSS2:
        return 2 * largest_divisor(channels // 2, max(1, room // 2))
    return largest_divisor(channels, max(1, room))


def dense_limit(simd: Simd, machine: Machine, wide: bool = False) -> TileLimit:
    """Of kernels of several rows, before the width of the map bounds it."""
    name = "dense8x8" if simd is Simd.S8X8 else "dense16x8"
    return machine.convacc.tiles[f"wide_{name}" if wide else name]


def tile_limit(shape: ConvShape, mode: ConvMode, simd: Simd, machine: Machine) -> TileLimit:
    """Kernels and channels that a tile holds at most."""
    limits = machine.convacc
    wide = shape.window[1] > limits.max_kernel_width
    if mode is ConvMode.DENSE:
        limit = dense_limit(simd, machine, wide)
        depth = limit.depth
    elif mode is ConvMode.ROW:
        limit = limits.tiles["wide_row" if wide else "row"]
        depth = limit.weights // (limit.kernels * shape.window[1])
    else:
        limit = limits.tiles[mode.value]
        depth = limit.depth
    in_line = _line_room(shape.window, machine) // shape.in_size[1]
    return TileLimit(limit.kernels, max(1, min(depth, in_line)))


def _line_room(window: tuple[int, int], machine: Machine) -> int:
    """Values of one line: a kernel of several rows keeps lines of the map in the unit, one of a
    single row works on the stream as it comes."""
    return machine.convacc.line_buffer_elements if window[0] > 1 else _LONGEST_LINE


def pool_limit(width: int, machine: Machine) -> int:
    """Most channels that a pool takes together: lines of all of them lie in the unit's buffer."""
    limits = machine.pool
    return max(1, min(limits.max_fused_channels, limits.line_buffer_elements // width))


def _base_pipe(
    shape: ConvShape, mode: ConvMode, simd: Simd, machine: Machine, max_kernels: int
) -> Tiling:
    """Fewest accumulation passes, then fewest units in series."""
    pipes = (n for n in range(1, machine.longest_pipe + 1) if shape.inputs % n == 0)
    tilings = [_with_pipe(shape, mode, simd, machine, n, max_kernels) for n in pipes]
    return min(tilings, key=lambda tiling: (tiling.passes, tiling.pipe))


def _with_pipe(
    shape: ConvShape, mode: ConvMode, simd: Simd, machine: Machine, pipe: int, max_kernels: int
) -> Tiling:
    limit = tile_limit(shape, mode, simd, machine)
    kernels = largest_divisor(shape.outputs, min(limit.kernels, max_kernels or limit.kernels))
    depth = largest_divisor(shape.inputs // pipe, limit.depth)
    passes = shape.inputs // (pipe * depth)
    return Tiling(mode, kernels, depth, pipe, passes, shape.outputs // kernels)


def _reduced(
    base: Tiling, shape: ConvShape, simd: Simd, machine: Machine, max_kernels: int
) -> Tiling:
    """Units that do not shorten the longest stream are released."""
    # Where weights are the longest stream, more units in series gain nothing.
    ceiling = _words(base, shape)
    for pipe in range(1, base.pipe):
        if shape.inputs % pipe == 0:
            tiling = _with_pipe(shape, base.mode, simd, machine, pipe, max_kernels)
            counted = tiling.passes <= max(base.passes, machine.convacc.max_passes)
            if counted and _words(tiling, shape) <= ceiling:
                return tiling
    return base


def _words(tiling: Tiling, shape: ConvShape) -> float:
    # How often features count was tried on the 389 convolutions: once per tile for deep ones alone
    # explains all of them, always once per tile 381, never 376.
    return longest_stream(tiling, shape, tiling.tiles if tiling.deep else 1)


def longest_stream(tiling: Tiling, shape: ConvShape, feature_repeats: int) -> float:
    """In words; a deep conv moves three bytes per word."""
    pack = DEEP_BYTES if tiling.deep else 1
    features = shape.inputs * prod(shape.in_size) * feature_repeats / tiling.pipe / pack
    kernels = shape.outputs * shape.inputs * prod(shape.window) / pack
    partial_sums = shape.outputs * tiling.passes * prod(shape.out_size)
    return max(features, kernels, partial_sums)


def _is_better(
    deep: Tiling, plain: Tiling, shape: ConvShape, machine: Machine, optimization: int
) -> bool:
    generation = machine.generation
    if generation.deep_from and optimization < _RELEASES_OTHERS:
        return shape.inputs >= generation.deep_from
    if deep.passes != plain.passes:
        return deep.passes < plain.passes
    if generation.deep_weight_words:
        words, others = (_features_or_weights(t, shape, machine) for t in (deep, plain))
    else:
        words, others = (longest_stream(t, shape, t.tiles) for t in (deep, plain))
    # At -O3 the one with fewer units wins a tie [code: 51 layers of YOLOX, OSNet and MobileNetV2].
    fewer = optimization >= _RELEASES_OTHERS and deep.pipe < plain.pipe
    return words <= others if generation.deep_on_tie or fewer else words < others


def _features_or_weights(tiling: Tiling, shape: ConvShape, machine: Machine) -> float:
    """What takes longer, in words, where weights count as they come from flash."""
    pack = DEEP_BYTES if tiling.deep else tiling.pipe
    features = shape.inputs * prod(shape.in_size) * tiling.tiles / pack
    return max(features, shape.outputs * shape.inputs * machine.generation.deep_weight_words)
