"""Kernels that move values: raw bytes where both sides share the quantization.

Moves whose places are known become blocks: how many values, and how far apart on either side.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuscope.ops.images import BlockAttrs, DepthOrder
from npuscope.ops.kernels.moves import NUMPY_MODES
from npuscope.ops.moves import (
    ConcatAttrs,
    GatherAttrs,
    MirrorPadAttrs,
    SliceAttrs,
    SplitAttrs,
    TileAttrs,
    TransposeAttrs,
)
from npuscope.program.kernel_calls.model import PREFIX, KernelCall, NoKernel, Operand, prepared
from npuscope.program.kernel_calls.moves_blocks import Axis, Block, dense_steps, merged
from npuscope.program.kernel_calls.moves_pad import fill_value, padded_block
from npuscope.program.kernel_calls.moves_paths import Path, concat_path, path_of
from npuscope.program.kernel_calls.resize import resize_call
from npuscope.program.kernel_calls.work import Work

Builder = Callable[[Work], KernelCall]

_MOST_INPUTS = 255


def _move(
    work: Work,
    parts: list[tuple[int, int, Path, Block]],
    fill: Operand | None = None,
) -> KernelCall:
    """`parts` are (input, output, path, block)."""
    inputs = [*work.inputs, *([fill] if fill is not None else [])]
    written = [part for part in parts if all(axis.size for axis in part[3].axes)]
    numbers = [len(work.inputs) if fill is not None else -1, len(written)]
    for source, target, path, block in written:
        numbers += [source, target, *path.numbers(inputs), *merged(block).numbers()]
    if len(inputs) > _MOST_INPUTS:
        raise NoKernel(f"{work.kind} of {len(work.inputs)} tensors: a kernel takes fewer")
    return KernelCall(
        f"{PREFIX}move", tuple(inputs), work.outputs, tuple(numbers), rounding=work.rounding
    )


def _one_block(work: Work, start: int, axes: list[tuple[int, int]]) -> KernelCall:
    """`axes` are (size, step read); written densely."""
    steps = dense_steps([size for size, _ in axes])
    made = tuple(Axis(size, read, step) for (size, read), step in zip(axes, steps, strict=True))
    path = path_of(work, work.inputs[0], work.outputs[0])
    return _move(work, [(0, 0, path, Block(start, 0, made))])


def _straight(work: Work) -> KernelCall:
    return _one_block(work, 0, [(int(np.prod(work.inputs[0].shape, dtype=np.int64)), 1)])


def _permuted(work: Work, view: list[int], order: tuple[int, ...]) -> KernelCall:
    steps = dense_steps(view)
    return _one_block(work, 0, [(view[axis], steps[axis]) for axis in order])


def _transpose(work: Work) -> KernelCall:
    attrs = work.attrs_as(TransposeAttrs)
    return _permuted(work, list(work.inputs[0].shape), attrs.permutation)


def _depth_to_space(work: Work) -> KernelCall:
    attrs = work.attrs_as(BlockAttrs)
    block, (n, height, width, channels) = attrs.block, work.inputs[0].shape
    depth = channels // block**2
    if attrs.order == DepthOrder.DCR:
        return _permuted(work, [n, height, width, block, block, depth], (0, 1, 3, 2, 4, 5))
    return _permuted(work, [n, height, width, depth, block, block], (0, 1, 4, 2, 5, 3))


def _space_to_depth(work: Work) -> KernelCall:
    attrs = work.attrs_as(BlockAttrs)
    block, (n, height, width, channels) = attrs.block, work.inputs[0].shape
    view = [n, height // block, block, width // block, block, channels]
    crd = attrs.order == DepthOrder.CRD
    return _permuted(work, view, (0, 1, 3, 5, 2, 4) if crd else (0, 1, 3, 2, 4, 5))


def _slice(work: Work) -> KernelCall:
    attrs = work.attrs_as(SliceAttrs)
    steps = dense_steps(work.inputs[0].shape)
    start = sum(a * step for a, step in zip(attrs.starts, steps, strict=True))
    axes = zip(attrs.sizes, attrs.steps, steps, strict=True)
    return _one_block(work, start, [(size, every * step) for size, every, step in axes])


def _split(work: Work) -> KernelCall:
    attrs, source = work.attrs_as(SplitAttrs), work.inputs[0]
    steps, parts, first = dense_steps(source.shape), [], 0
    for number, (size, target) in enumerate(zip(attrs.sizes, work.outputs, strict=True)):
        written = dense_steps(target.shape)
        axes = tuple(Axis(*row) for row in zip(target.shape, steps, written, strict=True))
        path = path_of(work, source, target, always_raw=True)
        parts.append((0, number, path, Block(first * steps[attrs.axis], 0, axes)))
        first += size
    return _move(work, parts)


def _concat(work: Work) -> KernelCall:
    axis, target = work.attrs_as(ConcatAttrs).axis, work.outputs[0]
    axis %= len(target.shape)
    steps, parts, first = dense_steps(target.shape), [], 0
    for number, source in enumerate(work.inputs):
        read = dense_steps(source.shape)
        axes = tuple(Axis(*row) for row in zip(source.shape, read, steps, strict=True))
        path = concat_path(work, source)
        parts.append((number, 0, path, Block(0, first * steps[axis], axes)))
        first += source.shape[axis]
    return _move(work, parts)


def _pad(work: Work) -> KernelCall:
    path = path_of(work, work.inputs[0], work.outputs[0])
    return _move(work, [(0, 0, path, padded_block(work))], prepared(fill_value(work)))


def _tile(work: Work) -> KernelCall:
    repeats, shape = work.attrs_as(TileAttrs).repeats, work.inputs[0].shape
    rank = max(len(repeats), len(shape))
    repeats = (*[1] * (rank - len(repeats)), *repeats)
    sizes = (*[1] * (rank - len(shape)), *shape)
    axes = []
    for repeat, size, step in zip(repeats, sizes, dense_steps(sizes), strict=True):
        axes += [(repeat, 0), (size, step)]
    return _one_block(work, 0, axes)


def _broadcast_to(work: Work) -> KernelCall:
    shape, wanted = work.inputs[0].shape, work.outputs[0].shape
    sizes = (*[1] * (len(wanted) - len(shape)), *shape)
    rows = zip(wanted, sizes, dense_steps(sizes), strict=True)
    return _one_block(work, 0, [(count, step if size > 1 else 0) for count, size, step in rows])


def _mirror_pad(work: Work) -> KernelCall:
    """One map an axis: numpy's own padding of the places."""
    attrs, source = work.attrs_as(MirrorPadAttrs), work.inputs[0]
    path = path_of(work, source, work.outputs[0])
    rows = zip(source.shape, attrs.pads, strict=True)
    mode = NUMPY_MODES[attrs.mode]
    maps = [np.pad(np.arange(size, dtype=np.int32), pads, mode) for size, pads in rows]  # type: ignore[call-overload]
    inputs = [source, *map(prepared, maps)]
    numbers = path.numbers(inputs)
    return KernelCall(f"{PREFIX}take", tuple(inputs), work.outputs, numbers, rounding=work.rounding)


def _gather(work: Work) -> KernelCall:
    attrs, (data, places) = work.attrs_as(GatherAttrs), work.inputs
    axis, batch = attrs.axis % max(len(data.shape), 1), attrs.batch_axes
    path = path_of(work, data, work.outputs[0])
    inputs = [data, places]
    sizes = (
        _count(data.shape[:batch]),
        _count(data.shape[batch:axis]),
        data.shape[axis],
        _count(data.shape[axis + 1 :]),
        _count(places.shape[batch:]),
    )
    numbers = (*sizes, *path.numbers(inputs))
    return KernelCall(
        f"{PREFIX}gather", tuple(inputs), work.outputs, numbers, rounding=work.rounding
    )


def _count(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


MOVES: dict[str, Builder] = {
    "Reshape": _straight,
    "Identity": _straight,
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Pad": _pad,
    "MirrorPad": _mirror_pad,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Gather": _gather,
    "Tile": _tile,
    "BroadcastTo": _broadcast_to,
    "Resize": resize_call,
}
