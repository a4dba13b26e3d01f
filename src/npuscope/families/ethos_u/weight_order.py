"""In which order a weight stream holds the weights of a layer: by output block, input block,
sub-kernel, and the micro-blocks that the MAC units work on. Places without a weight hold zeros.

An order is an array of flat indices into weights (outputs, rows, columns, inputs), -1 for padding;
depthwise weights have one input."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError

_Array = np.ndarray[Any, np.dtype[Any]]
_SUB_KERNEL = 8  # rows and columns; a kernel with dilation is cut into parts of 4
_INTERLEAVE = 4  # outputs that a decoder of U85 gets in a row


class WeightPlan(Struct, frozen=True):
    """All that the order depends on."""

    shape: tuple[int, int, int, int]  # outputs, rows, columns, inputs
    block_depth: int  # output channels in a block
    depthwise: bool = False
    part_kernel: bool = False
    wide: bool = False  # 16-bit inputs
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    streams: int = 1
    output_unit: int = 8  # output channels of a micro-block
    input_unit: int = 8
    # U85 alone
    input_block: int = 0
    macs: int = 0
    sparse: bool = False


def unordered(values: _Array, order: _Array, shape: tuple[int, ...]) -> _Array:
    """The weights by place, from those of a stream; what follows them is padding."""
    if len(values) < len(order):
        raise FileError(
            f"a weight stream has {len(values)} weights, expected {len(order)}",
            where="weight stream",
        )
    weights = np.zeros(prod(shape) + 1, np.int16)  # the last takes the padding
    weights[order] = values[: len(order)]
    return weights[:-1].reshape(shape)


def _spread(*axes: _Array) -> tuple[_Array, ...]:
    """Axes in the order of nested loops."""
    return tuple(np.meshgrid(*axes, indexing="ij", sparse=True))


def _flat(
    plan: WeightPlan, o: _Array, y: _Array, x: _Array, i: _Array, valid: Any = True
) -> _Array:
    outputs, rows, columns, inputs = plan.shape
    inside = (o < outputs) & (i < inputs) & valid
    return np.where(inside, ((o * rows + y) * columns + x) * inputs + i, -1).ravel()


def _blocks(starts: range, whole: int, shift: int, block: Callable[[int], _Array]) -> list[_Array]:
    """A row of blocks. The places of the first `whole` ones differ by a shift alone."""
    if whole < 2:
        return [block(start) for start in starts]
    first = block(starts[0])
    moved = first + shift * np.arange(whole)[:, None]
    moved[:, first < 0] = -1
    return [*moved, *(block(start) for start in starts[whole:])]


def _whole(size: int, block: int, reach: int) -> int:
    """Blocks that reach so far from their start, and stay inside."""
    return max(0, (size - reach) // block + 1)


# --- U55 and U65 ---


def order_u55(plan: WeightPlan, stream: int = 0) -> _Array:
    """With two cores, each has every second output channel."""
    outputs, _, _, inputs = plan.shape
    own = (outputs + plan.streams - 1 - stream) // plan.streams
    depth = (plan.block_depth + plan.streams - 1 - stream) // plan.streams
    step = 16 if plan.part_kernel or plan.wide else 32

    def outer(o: int) -> _Array:
        rows = (o, min(depth, own - o))
        starts = range(0, 1 if plan.depthwise else inputs, step)
        inner = _blocks(
            starts, inputs // step, step, lambda i: _sub_kernels_u55(plan, stream, rows, (i, step))
        )
        return np.concatenate(inner)

    reach = -(-depth // plan.output_unit) * plan.output_unit
    shift = depth * plan.streams * prod(plan.shape[1:])
    return np.concatenate(_blocks(range(0, own, depth), _whole(own, depth, reach), shift, outer))


def _sub_kernels_u55(
    plan: WeightPlan, stream: int, output_block: tuple[int, int], input_block: tuple[int, int]
) -> _Array:
    _, rows, columns, _ = plan.shape
    parts = [
        _sub_kernel_u55(plan, stream, output_block, input_block, (y, x))
        for y in range(0, rows, _SUB_KERNEL // plan.dilation[0])
        for x in range(0, columns, _SUB_KERNEL // plan.dilation[1])
    ]
    return np.concatenate(parts)


def _sub_kernel_u55(
    plan: WeightPlan,
    stream: int,
    output_block: tuple[int, int],
    input_block: tuple[int, int],
    corner: tuple[int, int],
) -> _Array:
    _, rows, columns, inputs = plan.shape
    height = min(rows - corner[0], _SUB_KERNEL // plan.dilation[0])
    width = min(columns - corner[1], _SUB_KERNEL // plan.dilation[1])
    rounding = 4 if plan.depthwise else (2 if plan.wide else 4) if plan.part_kernel else 1
    depth = input_block[1]
    if plan.part_kernel:
        depth = min(depth, inputs - input_block[0])
    if plan.depthwise:
        depth = 1
    elements = np.arange(-(-height * width // rounding) * rounding)
    units = np.arange(0, depth, plan.input_unit)
    blocks = np.arange(0, output_block[1], plan.output_unit)
    outputs = np.arange(plan.output_unit)
    inner = np.arange(1 if plan.depthwise else plan.input_unit)
    if plan.part_kernel and not plan.depthwise:
        unit, block, element, o, i = _spread(units, blocks, elements, outputs, inner)
    else:
        block, element, unit, o, i = _spread(blocks, elements, units, outputs, inner)
    own = output_block[0] + block + o
    return _flat(
        plan,
        # beyond the block's last channel stand those of the next one, unless there is none
        np.where(
            own * plan.streams + stream < plan.shape[0], own * plan.streams + stream, plan.shape[0]
        ),
        corner[0] + element // width,
        corner[1] + element % width,
        input_block[0] + unit + i,
        element < height * width,
    )


# --- U85 ---


def order_u85(plan: WeightPlan, stream: int = 0) -> _Array:
    outputs, _, _, inputs = plan.shape
    depth = plan.block_depth
    starts = range(1) if plan.depthwise else range(0, inputs, plan.input_block)
    full = 0 if plan.depthwise else inputs // plan.input_block

    def outer(o: int) -> _Array:
        blocks = _blocks(
            starts, full, plan.input_block, lambda i: _input_block_u85(plan, stream, o, i)
        )
        # every second output block begins with the inputs that are there
        return np.concatenate(blocks[::-1] if o // depth % 2 else blocks)

    reach = -(-depth // plan.output_unit) * plan.output_unit
    whole, shift = _whole(outputs, depth, reach), depth * prod(plan.shape[1:])
    rows = range(0, outputs, depth)
    turns = [
        _blocks(rows[turn::2], len(range(turn, whole, 2)), 2 * shift, outer) for turn in range(2)
    ]
    return np.concatenate([turns[number % 2][number // 2] for number in range(len(rows))])


def order_u85_fast(plan: WeightPlan) -> _Array:
    """The fast decoder's one stream: those of all decoders, a micro-block of each in turn."""
    rounding = (10 if plan.wide or plan.sparse else 5) if plan.part_kernel else 1
    size = plan.output_unit * _input_unit_u85(plan) * rounding // plan.streams
    streams = [order_u85(plan, stream).reshape(-1, size) for stream in range(plan.streams)]
    return np.stack(streams, axis=1).ravel()


def _input_unit_u85(plan: WeightPlan) -> int:
    if plan.depthwise:
        return 1
    return 8 if plan.part_kernel and plan.wide and not plan.sparse else plan.input_block


def _input_block_u85(plan: WeightPlan, stream: int, o: int, i: int) -> _Array:
    _, rows, columns, inputs = plan.shape
    depth = 1 if plan.depthwise else min(plan.input_block, inputs - i)
    parts = [
        _micro_blocks_u85(plan, stream, (o, i + unit), (y, x))
        for x in range(0, columns, _SUB_KERNEL // plan.dilation[1])
        for y in range(0, rows, _SUB_KERNEL // plan.dilation[0])
        for unit in range(0, depth, _input_unit_u85(plan))
    ]
    return np.concatenate(parts)


def _micro_blocks_u85(
    plan: WeightPlan, stream: int, first: tuple[int, int], corner: tuple[int, int]
) -> _Array:
    outputs, rows, columns, _ = plan.shape
    height = min(rows - corner[0], _SUB_KERNEL // plan.dilation[0])
    width = min(columns - corner[1], _SUB_KERNEL // plan.dilation[1])
    taps = _taps_u85(plan, height, width)
    step = 1 if plan.depthwise else 16 if plan.sparse else 8
    depth = min(plan.block_depth, outputs - first[0])
    block, tap, inner, group, o, i = _spread(
        np.arange(0, depth, plan.output_unit),
        np.arange(len(taps)),
        np.arange(0, _input_unit_u85(plan), step),
        np.arange(stream * _INTERLEAVE, plan.output_unit, _INTERLEAVE * plan.streams),
        np.arange(_INTERLEAVE),
        np.arange(step),
    )
    own = first[0] + block + group + o
    y, x = corner[0] + taps[tap, 0], corner[1] + taps[tap, 1]
    weights = _flat(plan, own, y, x, first[1] + inner + i).reshape(block.size, len(taps), -1)
    rounding = 10 if plan.depthwise else (10 if plan.wide or plan.sparse else 5)
    if not plan.depthwise and not plan.part_kernel:
        return weights.ravel()
    return _padded_u85(plan, weights, rounding).ravel()


def _padded_u85(plan: WeightPlan, weights: _Array, rounding: int) -> _Array:
    """Taps are filled up to whole groups; depthwise groups of wide machines have more padding."""
    blocks, taps, size = weights.shape
    extra = 0
    if plan.depthwise and (plan.wide or plan.macs > 256):
        extra = 2 if plan.macs <= 512 else 6
    groups = -(-taps // rounding)
    padded = np.full((blocks, groups * rounding, size), -1, weights.dtype)
    padded[:, :taps] = weights
    grouped = padded.reshape(blocks, groups, rounding, size)
    return np.concatenate((grouped, np.full((blocks, groups, extra, size), -1)), axis=2)


def _taps_u85(plan: WeightPlan, height: int, width: int) -> _Array:
    """Rows and columns of a sub-kernel in order: by stride, in lines to and fro."""
    down, right = plan.stride if plan.part_kernel or plan.depthwise else (1, 1)
    taps = [
        (y, x)
        for stride_y in range(down)
        for stride_x in range(right)
        for line, y in enumerate(range(stride_y, height, down))
        for x in (range(stride_x, width, right), range(stride_x, width, right)[::-1])[line % 2]
    ]
    return np.array(taps)
