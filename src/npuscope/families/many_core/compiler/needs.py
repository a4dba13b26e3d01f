"""Which part of every input a part of an output needs, and along which axes an op may be split.

One function per family of ops, from (graph, op, box of the output) to boxes of the inputs; None
stands for an input of which nothing is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

from npuscope.families.many_core.compiler.boxes import (
    Box,
    Shape,
    common,
    cut,
    elements,
    full,
    shape_of,
    with_axis,
)
from npuscope.families.many_core.compiler.draft import Draft, Piece
from npuscope.families.many_core.compiler.kinds import (
    D32,
    KERNELS,
    GroupNumber,
    WholeAxes,
    core_kind,
    device_dtype,
    group_of,
    is_splat,
    size_bytes,
)
from npuscope.families.many_core.machine import CoreMachine
from npuscope.graph.model import Graph, Op
from npuscope.ops.layers import MatMulAttrs
from npuscope.ops.moves import ConcatAttrs, GatherAttrs, PadAttrs, SliceAttrs, TransposeAttrs
from npuscope.ops.reduce import ArgAttrs, ReduceAttrs
from npuscope.ops.row import named
from npuscope.ops.table import macs

Needs = tuple[Box | None, ...]


def needs(graph: Graph, op: Op, box: Box) -> Needs:
    """Boxes of the inputs for `box` of the output."""
    boxes = _needs_of(op.kind)(graph, op, box)
    return tuple(need if name else None for need, name in zip(boxes, op.inputs, strict=True))


@cache
def _needs_of(kind: str) -> Callable[[Graph, Op, Box], Needs]:
    function: Callable[[Graph, Op, Box], Needs] = named(__package__, KERNELS[kind].needs)
    return function


def split_axes(graph: Graph, op: Op) -> tuple[int, ...]:
    """Axes of the output along which cores can work side by side."""
    rank = len(graph.output_tensor(op).shape)
    whole = _whole_axes(graph, op)
    return tuple(axis for axis in range(rank) if axis not in whole)


def _whole_axes(graph: Graph, op: Op) -> set[int]:
    rank = len(graph.output_tensor(op).shape)
    axis = getattr(op.attrs, "axis", 0)
    match KERNELS[op.kind].whole:
        case WholeAxes.OWN:
            return {axis}
        case WholeAxes.FROM_OWN:
            return set(range(axis, rank))
        case WholeAxes.PICTURE:
            return set(range(1, rank - 1))
        case WholeAxes.ALL:
            return set(range(1, rank))
        case WholeAxes.NONE:
            return set()


def parallel(graph: Graph, op: Op, box: Box) -> Needs:
    """Element by element with broadcasting, all of the axes that must be whole."""
    whole = _whole_axes(graph, op)
    wide = full(graph.output_tensor(op).shape)
    grown = tuple(wide[a] if a in whole else bounds for a, bounds in enumerate(box))
    return tuple(
        _broadcast(grown, graph.output_tensor(op).shape, graph.tensors[name].shape)
        if name
        else None
        for name in op.inputs
    )


def _broadcast(box: Box, shape: Shape, operand: Shape) -> Box:
    """The part of an operand that numpy's rule pairs with `box` of a result of `shape`."""
    skipped = len(shape) - len(operand)
    if skipped < 0:
        return full(operand)
    pairs = zip(box[skipped:], shape[skipped:], operand, strict=True)
    return tuple(bounds if size == own else (0, own) for bounds, size, own in pairs)


def everything(graph: Graph, op: Op, box: Box) -> Needs:
    """Reordered too much to say more."""
    return tuple(full(graph.tensors[name].shape) if name else None for name in op.inputs)


def dense(graph: Graph, op: Op, box: Box) -> Needs:
    source = (*box[:-1], (0, graph.first_input(op).shape[-1]))
    weights = (box[-1], (0, graph.tensors[op.inputs[1]].shape[1]))
    return source, weights, *((box[-1],) for _ in op.inputs[2:])


def transpose_conv(graph: Graph, op: Op, box: Box) -> Needs:
    source, weights = graph.first_input(op).shape, graph.tensors[op.inputs[1]].shape
    whole = (box[0], *full(source)[1:])
    return whole, with_axis(full(weights), 0, *box[-1]), *((box[-1],) for _ in op.inputs[2:])


def matmul(graph: Graph, op: Op, box: Box) -> Needs:
    attrs = op.attrs_as(MatMulAttrs)
    shape = graph.output_tensor(op).shape
    a, b = (graph.tensors[name].shape for name in op.inputs)
    rows, columns = box[-2:]
    inner = (0, a[-2] if attrs.transpose_a else a[-1])
    first = (inner, rows) if attrs.transpose_a else (rows, inner)
    right = (columns, inner) if attrs.transpose_b else (inner, columns)
    lead = box[:-2]
    return (
        (*_broadcast(lead, shape[:-2], a[:-2]), *first),
        (*_broadcast(lead, shape[:-2], b[:-2]), *right),
    )


def reduced(graph: Graph, op: Op, box: Box) -> Needs:
    axes: tuple[int, ...]
    if isinstance(op.attrs, ArgAttrs):
        axes, keep = (op.attrs.axis,), op.attrs.keep_dims
    else:
        attrs = op.attrs_as(ReduceAttrs)
        axes, keep = attrs.axes, attrs.keep_dims
    source = graph.first_input(op).shape
    rest = iter(box)
    bounds: list[tuple[int, int]] = []
    for axis, size in enumerate(source):
        if axis not in axes:
            bounds.append(next(rest))
            continue
        if keep:
            next(rest)
        bounds.append((0, size))
    return (tuple(bounds),)


def transpose(graph: Graph, op: Op, box: Box) -> Needs:
    order = op.attrs_as(TransposeAttrs).permutation
    source = dict(zip(order, box, strict=True))
    return (tuple(source[axis] for axis in range(len(order))),)


def concat(graph: Graph, op: Op, box: Box) -> Needs:
    axis = op.attrs_as(ConcatAttrs).axis
    boxes: list[Box | None] = []
    at = 0
    for name in op.inputs:
        size = graph.tensors[name].shape[axis]
        start, stop = max(box[axis][0] - at, 0), min(box[axis][1] - at, size)
        boxes.append(with_axis(box, axis, start, stop) if start < stop else None)
        at += size
    return tuple(boxes)


def cut_out(graph: Graph, op: Op, box: Box) -> Needs:
    attrs = op.attrs_as(SliceAttrs)
    bounds = []
    for (start, stop), first, step in zip(box, attrs.starts, attrs.steps, strict=True):
        ends = (first + start * step, first + (stop - 1) * step)
        bounds.append((min(ends), max(ends) + 1))
    return (tuple(bounds),)


def padded(graph: Graph, op: Op, box: Box) -> Needs:
    """A part that is padding only still names one element, so that every box is valid."""
    bounds = []
    source = graph.first_input(op).shape
    pads = op.attrs_as(PadAttrs).pads
    for (start, stop), (before, _), size in zip(box, pads, source, strict=True):
        low = min(max(start - before, 0), size - 1)
        bounds.append((low, max(min(stop - before, size), low + 1)))
    return (tuple(bounds),)


def gather(graph: Graph, op: Op, box: Box) -> Needs:
    """Axes before and behind the gathered one go with the data, the others with the indices."""
    attrs = op.attrs_as(GatherAttrs)
    data, indices = (graph.tensors[name].shape for name in op.inputs)
    inner = len(indices) - attrs.batch_axes
    behind = box[attrs.axis + inner :]
    source = (*box[: attrs.axis], (0, data[attrs.axis]), *behind)
    places = (*box[: attrs.batch_axes], *box[attrs.axis : attrs.axis + inner])
    return source, places


# --- Splitting an op: the axis with which the cores finish first ---

Pieces = dict[int, tuple[Piece, ...]]  # by core, as a Value has them


def partition(
    graph: Graph, op: Op, cores: tuple[int, ...], draft: Draft, machine: CoreMachine
) -> dict[int, Box]:
    """Boxes of the output by core; the last of `cores` may have no part."""
    wide = len(cores)
    if draft.most_splits is not None and group_of(core_kind(graph, op)) is GroupNumber.HMX:
        wide = min(wide, draft.most_splits)
    choices = [
        dict(zip(cores, boxes, strict=False)) for boxes in _choices(graph, op, len(cores), wide)
    ]
    return min(choices, key=lambda boxes: _cycles(graph, op, boxes, draft, machine))


def _choices(graph: Graph, op: Op, cores: int, wide: int) -> Iterator[tuple[Box, ...]]:
    """`wide` is how many cores may share the channels."""
    whole = full(graph.output_tensor(op).shape)
    for axis in split_axes(graph, op):
        # A part of a block of channels would cost as much as the whole block.
        last = axis == len(whole) - 1
        granule = D32 if last else 1
        if whole[axis][1] > granule:
            yield cut(whole, axis, wide if last else cores, granule)
    yield from _grids(whole, split_axes(graph, op), cores, wide)
    # One core alone is always possible, and best for tiny tensors.
    yield (whole,)


def _grids(whole: Box, axes: tuple[int, ...], cores: int, wide: int) -> Iterator[tuple[Box, ...]]:
    """Along two axes, where the first has fewer places than there are cores."""
    for place, outer in enumerate(axes):
        rows = whole[outer][1]
        if not 1 < rows < cores:
            continue
        for inner in axes[place + 1 :]:
            last = inner == len(whole) - 1
            granule = D32 if last else 1
            count = min(cores // rows, wide) if last else cores // rows
            if count > 1 and whole[inner][1] > granule:
                parts = cut(whole, outer, rows)
                yield tuple(b for part in parts for b in cut(part, inner, count, granule))


def _cycles(
    graph: Graph, op: Op, boxes: dict[int, Box], draft: Draft, machine: CoreMachine
) -> float:
    """Of the core with most work, with what it has to be sent; loads run beside the work."""
    needs_of = {core: needs(graph, op, box) for core, box in boxes.items()}
    out, largest = graph.output_tensor(op), max(boxes.values(), key=elements)
    count = elements(largest)
    products = macs(graph, op) * count // max(out.elements, 1)
    dtype, out_bytes = device_dtype(graph.first_input(op)), size_bytes(out, count)
    work = machine.pcycles(core_kind(graph, op), out_bytes, products, dtype, shape_of(largest))
    exchanged = loaded = 0.0
    for number, name in enumerate(op.inputs):
        parts = {core: need[number] for core, need in needs_of.items()}
        if not name or is_splat(graph.tensors[name]):
            continue
        size = _Sizes(graph, name)
        if name in draft.values:
            exchanged += _exchange(draft, name, parts, size, machine)
        else:
            loaded += _load(list(parts.values()), size, machine)
    return exchanged + max(work, loaded)


class _Sizes:
    def __init__(self, graph: Graph, name: str) -> None:
        self.tensor = graph.tensors[name]

    def __call__(self, box: Box | None) -> int:
        return 0 if box is None else size_bytes(self.tensor, elements(box))


def _exchange(
    draft: Draft, name: str, parts: dict[int, Box | None], size: _Sizes, machine: CoreMachine
) -> float:
    """What the worst core receives from its neighbours, the worst device from its peers."""
    pieces = draft.values[name].pieces
    near = max(size(part) - _held(pieces, [core], part, size) for core, part in parts.items())
    cycles = near * _per_byte(machine, machine.multicast_bytes_per_s())
    if draft.devices == 1:
        return cycles
    far = max(_from_peers(draft, pieces, device, parts, size) for device in range(draft.devices))
    return cycles + far * _per_byte(machine, machine.peer.gb_per_s * 1e9)


def _from_peers(
    draft: Draft, pieces: Pieces, device: int, parts: dict[int, Box | None], size: _Sizes
) -> int:
    """Bytes that no core of the device holds; what several of them need comes once."""
    home = range(device * draft.cores, (device + 1) * draft.cores)
    distinct = dict.fromkeys(parts[core] for core in home if core in parts)
    return sum(size(part) - _held(pieces, home, part, size) for part in distinct)


def _held(pieces: Pieces, cores: Iterable[int], part: Box | None, size: _Sizes) -> int:
    """Bytes of a part that some cores have."""
    if part is None:
        return 0
    return sum(size(common(box, part)) for core in cores for box, _ in pieces.get(core, ()))


def _load(parts: list[Box | None], size: _Sizes, machine: CoreMachine) -> float:
    """From DDR: what all cores need together by its rate, the largest share by a core's own."""
    distinct = sum(size(part) for part in dict.fromkeys(parts))
    largest = max(size(part) for part in parts)
    shared = _per_byte(machine, machine.ddr.effective_gb_per_s * 1e9)
    spread = _per_byte(machine, machine.multicast_bytes_per_s())
    # Each part is read from DDR once and then spread by multicast.
    return distinct * shared + largest * spread


def _per_byte(machine: CoreMachine, bytes_per_s: float) -> float:
    return machine.core_hz / bytes_per_s
