"""Kernels that move values: raw bytes where both sides share the quantization.

Moves whose places are known become blocks: how many values, and how far apart on either side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

import numpy as np
from msgspec import Struct

from npuscope.errors import ModelError
from npuscope.graph.model import Graph, Op
from npuscope.ops.images import BlockAttrs, DepthOrder
from npuscope.ops.kernels.moves import NUMPY_MODES
from npuscope.ops.kernels.step import Array
from npuscope.ops.moves import (
    ConcatAttrs,
    GatherAttrs,
    MirrorPadAttrs,
    PadAttrs,
    SliceAttrs,
    SplitAttrs,
    TileAttrs,
    TransposeAttrs,
)
from npuscope.program.addresses import Copy
from npuscope.program.kernel_calls.model import (
    PREFIX,
    ElementType,
    KernelCall,
    KernelOperand,
    KernelTask,
    NoKernel,
    prepared,
    snake,
    tensor_of,
    whole_numbers,
)
from npuscope.program.kernel_calls.moves_paths import ValuePath, Way, concat_path, path_of
from npuscope.program.model import Buffer, Call
from npuscope.structs import replace

# --- Blocks of values with separate steps on both sides and as few axes as possible ---


class MoveAxis(Struct, frozen=True):
    """A number of values, and the distances between them where they are read and written."""

    size: int
    read: int
    written: int


class MoveBlock(Struct, frozen=True):
    """Places count values, not bytes."""

    first_read: int
    first_written: int
    axes: tuple[MoveAxis, ...]

    def numbers(self) -> tuple[int, ...]:
        """As npuscope_move reads them."""
        return (
            self.first_read,
            self.first_written,
            len(self.axes),
            *(axis.size for axis in self.axes),
            *(axis.read for axis in self.axes),
            *(axis.written for axis in self.axes),
        )


def dense_steps(shape: Sequence[int]) -> list[int]:
    """Distances of neighbours along each axis, last axis fastest."""
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return steps[::-1]


def merged(block: MoveBlock) -> MoveBlock:
    """The same with axes of one left out and axes that follow on from each other made one."""
    axes: list[MoveAxis] = []
    for axis in (axis for axis in block.axes if axis.size != 1):
        whole = (axis.size * axis.read, axis.size * axis.written)
        if axes and (axes[-1].read, axes[-1].written) == whole:
            axes[-1] = replace(axis, size=axes[-1].size * axis.size)
        else:
            axes.append(axis)
    return replace(block, axes=tuple(axes) or (MoveAxis(1, 1, 1),))


# --- Strided copies of other compilers' calls, byte for byte ---

_BY_BYTES = {
    1: ElementType.uint8,
    2: ElementType.uint16,
    4: ElementType.int32,
    8: ElementType.int64,
}


def copied(call: Call, copies: Sequence[Copy], buffers: Mapping[str, Buffer]) -> KernelCall:
    """Blocks of elements, as large as all starts and steps allow."""
    distances = [
        distance
        for copy in copies
        for distance in (copy.start_in, copy.start_out, *copy.steps_in, *copy.steps_out)
    ]
    element = gcd(*distances, *(copy.element_bytes for copy in copies))
    numbers = [-1, len(copies)]
    for copy in copies:
        axes = [
            MoveAxis(size, read // element, written // element)
            for size, read, written in zip(copy.shape, copy.steps_in, copy.steps_out, strict=True)
        ]
        axes.append(MoveAxis(copy.element_bytes // element, 1, 1))
        block = MoveBlock(copy.start_in // element, copy.start_out // element, tuple(axes))
        path = ValuePath(Way.AS_BYTES).numbers([])
        numbers += [copy.source, copy.target, *path, *merged(block).numbers()]
    kind = _BY_BYTES[element]
    inputs, outputs = (
        tuple(
            KernelOperand((buffers[name].size_bytes // element,), kind, buffer=name)
            for name in names
        )
        for names in (call.inputs, call.outputs)
    )
    return KernelCall(f"{PREFIX}move", inputs, outputs, tuple(numbers))


# --- Pad: where the values go, and what surrounds them ---


def padded_block(work: KernelTask) -> MoveBlock:
    """Negative pads cut."""
    source, target = work.inputs[0], work.outputs[0]
    axes, first_read, first_written = [], 0, 0
    steps = zip(dense_steps(source.shape), dense_steps(target.shape), strict=True)
    for size, (before, after), (read, write) in zip(
        source.shape, work.attrs_as(PadAttrs).pads, steps, strict=True
    ):
        axes.append(MoveAxis(size + min(before, 0) + min(after, 0), read, write))
        first_read += max(-before, 0) * read
        first_written += max(before, 0) * write
    return MoveBlock(first_read, first_written, tuple(axes))


def fill_value(work: KernelTask) -> Array:
    """The reference kernel's own: it pads a tensor of one value, the first of two is the fill."""
    if any(o.quant is not None and o.quant.per_channel for o in (*work.inputs, *work.outputs)):
        raise NoKernel("Pad of a tensor with one scale per channel has no kernel")
    from npuscope.ops.run import run

    line = [
        tensor_of("x", replace(work.inputs[0], shape=(1,))),
        tensor_of("y", replace(work.outputs[0], shape=(2,))),
    ]
    attrs = replace(work.attrs_as(PadAttrs), pads=((1, 0),))
    graph = Graph("Pad", line, [Op("Pad", "Pad", ("x",), ("y",), attrs)], "x", "y", work.numerics)
    zero = np.zeros(1, line[0].dtype.numpy)
    try:
        return run(graph, {"x": zero})["y"][:1]
    except ModelError as error:
        raise NoKernel(f"Pad: {error.message}") from error


_MOST_INPUTS = 255


def _move(
    work: KernelTask,
    parts: list[tuple[int, int, ValuePath, MoveBlock]],
    fill: KernelOperand | None = None,
) -> KernelCall:
    """`parts` are (input, output, path, block)."""
    inputs = [*work.inputs, *([fill] if fill is not None else [])]
    nonempty = [part for part in parts if all(axis.size for axis in part[3].axes)]
    numbers = [len(work.inputs) if fill is not None else -1, len(nonempty)]
    for source, target, path, block in nonempty:
        numbers += [source, target, *path.numbers(inputs), *merged(block).numbers()]
    if len(inputs) > _MOST_INPUTS:
        raise NoKernel(f"{work.kind} of {len(work.inputs)} tensors: the kernel takes fewer")
    return KernelCall(
        f"{PREFIX}move", tuple(inputs), work.outputs, tuple(numbers), rounding=work.rounding
    )


def _one_block(work: KernelTask, start: int, axes: list[tuple[int, int]]) -> KernelCall:
    """`axes` are (size, step read); written densely."""
    steps = dense_steps([size for size, _ in axes])
    block_axes = tuple(
        MoveAxis(size, read, step) for (size, read), step in zip(axes, steps, strict=True)
    )
    path = path_of(work, work.inputs[0], work.outputs[0])
    return _move(work, [(0, 0, path, MoveBlock(start, 0, block_axes))])


def by_attributes(work: KernelTask) -> KernelCall:
    """A kernel of the op's own: its attributes as they are, then how values are moved."""
    path, inputs = path_of(work, work.inputs[0], work.outputs[0]), list(work.inputs)
    numbers = (*whole_numbers(work.attrs), *path.numbers(inputs))
    function = PREFIX + snake(work.kind)
    return KernelCall(function, tuple(inputs), work.outputs, numbers, rounding=work.rounding)


def straight(work: KernelTask) -> KernelCall:
    return _one_block(work, 0, [(int(np.prod(work.inputs[0].shape, dtype=np.int64)), 1)])


def _permuted(work: KernelTask, view: list[int], order: tuple[int, ...]) -> KernelCall:
    steps = dense_steps(view)
    return _one_block(work, 0, [(view[axis], steps[axis]) for axis in order])


def transpose(work: KernelTask) -> KernelCall:
    attrs = work.attrs_as(TransposeAttrs)
    return _permuted(work, list(work.inputs[0].shape), attrs.permutation)


def depth_to_space(work: KernelTask) -> KernelCall:
    attrs = work.attrs_as(BlockAttrs)
    (rows, columns), (n, height, width, channels) = attrs.sides, work.inputs[0].shape
    depth = channels // (rows * columns)
    if attrs.order == DepthOrder.DCR:
        return _permuted(work, [n, height, width, rows, columns, depth], (0, 1, 3, 2, 4, 5))
    return _permuted(work, [n, height, width, depth, rows, columns], (0, 1, 4, 2, 5, 3))


def space_to_depth(work: KernelTask) -> KernelCall:
    attrs = work.attrs_as(BlockAttrs)
    (rows, columns), (n, height, width, channels) = attrs.sides, work.inputs[0].shape
    view = [n, height // rows, rows, width // columns, columns, channels]
    crd = attrs.order == DepthOrder.CRD
    return _permuted(work, view, (0, 1, 3, 5, 2, 4) if crd else (0, 1, 3, 2, 4, 5))


def cut(work: KernelTask) -> KernelCall:
    attrs = work.attrs_as(SliceAttrs)
    steps = dense_steps(work.inputs[0].shape)
    start = sum(a * step for a, step in zip(attrs.starts, steps, strict=True))
    axes = zip(attrs.sizes, attrs.steps, steps, strict=True)
    return _one_block(work, start, [(size, every * step) for size, every, step in axes])


def split(work: KernelTask) -> KernelCall:
    attrs, source = work.attrs_as(SplitAttrs), work.inputs[0]
    steps, parts, first = dense_steps(source.shape), [], 0
    for number, (size, target) in enumerate(zip(attrs.sizes, work.outputs, strict=True)):
        target_steps = dense_steps(target.shape)
        axes = tuple(MoveAxis(*row) for row in zip(target.shape, steps, target_steps, strict=True))
        path = path_of(work, source, target, always_raw=True)
        parts.append((0, number, path, MoveBlock(first * steps[attrs.axis], 0, axes)))
        first += size
    return _move(work, parts)


def concat(work: KernelTask) -> KernelCall:
    axis, target = work.attrs_as(ConcatAttrs).axis, work.outputs[0]
    axis %= len(target.shape)
    steps, parts, first = dense_steps(target.shape), [], 0
    for number, source in enumerate(work.inputs):
        read = dense_steps(source.shape)
        axes = tuple(MoveAxis(*row) for row in zip(source.shape, read, steps, strict=True))
        path = concat_path(work, source)
        parts.append((number, 0, path, MoveBlock(0, first * steps[axis], axes)))
        first += source.shape[axis]
    return _move(work, parts)


def pad(work: KernelTask) -> KernelCall:
    path = path_of(work, work.inputs[0], work.outputs[0])
    return _move(work, [(0, 0, path, padded_block(work))], prepared(fill_value(work)))


def tile(work: KernelTask) -> KernelCall:
    repeats, shape = work.attrs_as(TileAttrs).repeats, work.inputs[0].shape
    rank = max(len(repeats), len(shape))
    repeats = (*[1] * (rank - len(repeats)), *repeats)
    sizes = (*[1] * (rank - len(shape)), *shape)
    axes = []
    for repeat, size, step in zip(repeats, sizes, dense_steps(sizes), strict=True):
        axes += [(repeat, 0), (size, step)]
    return _one_block(work, 0, axes)


def broadcast_to(work: KernelTask) -> KernelCall:
    shape, target = work.inputs[0].shape, work.outputs[0].shape
    sizes = (*[1] * (len(target) - len(shape)), *shape)
    rows = zip(target, sizes, dense_steps(sizes), strict=True)
    return _one_block(work, 0, [(count, step if size > 1 else 0) for count, size, step in rows])


def mirror_pad(work: KernelTask) -> KernelCall:
    """One index map per axis, made by numpy's own padding of the indices."""
    attrs, source = work.attrs_as(MirrorPadAttrs), work.inputs[0]
    path = path_of(work, source, work.outputs[0])
    rows = zip(source.shape, attrs.pads, strict=True)
    mode = NUMPY_MODES[attrs.mode]
    maps = [np.pad(np.arange(size, dtype=np.int32), pads, mode) for size, pads in rows]  # type: ignore[call-overload]
    inputs = [source, *map(prepared, maps)]
    numbers = path.numbers(inputs)
    return KernelCall(f"{PREFIX}take", tuple(inputs), work.outputs, numbers, rounding=work.rounding)


def gather(work: KernelTask) -> KernelCall:
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
