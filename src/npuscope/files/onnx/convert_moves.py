"""ONNX ops that move data or change shapes only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.errors import ModelError, NotComputed
from npuscope.files.onnx.constants import Const, QuantType
from npuscope.files.onnx.fold import axes_of, resolve_shape, squeezed, unsqueezed
from npuscope.files.onnx.layout import (
    ADDED,
    LayoutValue,
    Shape,
    checked_axis,
    plain,
    relabel,
    stored_shape,
)
from npuscope.files.onnx.task import NodeTask
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
)
from npuscope.ops.row import broadcast

# --- Ops that slice, repeat and pad; they keep the storage of their input ---

Pads = tuple[tuple[int, int], ...]
_MIRRORS = {mode.value: mode for mode in MirrorMode}
_BOUNDS_ARE_INPUTS = 10  # opset from which Slice takes them as inputs
_PADS_ARE_INPUTS = 11  # the same for Pad


def pad(task: NodeTask) -> None:
    mode = task.node.text("mode", "constant")
    x = task.value(0)
    table = _pad_table(task, len(task.shape(x)))
    pads = tuple((0, 0) if axis == ADDED else table[axis] for axis in x.layout)
    if mode in _MIRRORS and mode != MirrorMode.SYMMETRIC:
        x, pads = _cut_off(task, x, pads)
        task.emit("MirrorPad", (x.tensor,), MirrorPadAttrs(pads, _MIRRORS[mode]), x.layout, x.via)
    elif mode == "constant":
        # The real value. A node between integers states one of them.
        number, quant = _stated_fill(task), task.tensor(x).quant
        if quant is None or task.node.input(0) in task.reader.integers:
            fill = number
        else:
            fill = (number - quant.zero_point) * quant.scale
        x = _on_the_final_grid(task, x) if fill else x
        task.emit("Pad", (x.tensor,), PadAttrs(pads, fill), x.layout, x.via)
    else:
        raise ModelError(
            f"padding mode '{mode}' is not supported",
            hint="supported modes: constant, reflect, edge, wrap",
        )


def _cut_off(task: NodeTask, x: LayoutValue, pads: Pads) -> tuple[LayoutValue, Pads]:
    """Negative pads take values away, before anything is repeated."""
    if min(map(min, pads), default=0) >= 0:
        return x, pads
    starts = tuple(max(0, -before) for before, _ in pads)
    sizes = tuple(
        size + min(0, before) + min(0, after)
        for size, (before, after) in zip(task.tensor(x).shape, pads, strict=True)
    )
    if min(sizes) < 1:
        raise ModelError(f"pads {pads} leave nothing of shape {task.tensor(x).shape}")
    cut = SliceAttrs(starts, sizes, (1,) * len(sizes))
    part = task.make("Slice", (x.tensor,), cut, x.layout, x.via)
    return part, tuple((max(0, before), max(0, after)) for before, after in pads)


def _on_the_final_grid(task: NodeTask, x: LayoutValue) -> LayoutValue:
    """The fill value may be rounded only once, so a change of scale comes before the padding."""
    grid = task.following_type() if task.moved else None
    if grid is None:
        return x
    return task.reader.quantize(x, grid, f"{task.node.output}_values", task.node.origin)


def _stated_fill(task: NodeTask) -> float:
    if task.opset < _PADS_ARE_INPUTS:
        return task.node.number("value", 0.0)
    fill = task.constant(2)
    if task.node.input(2) and (fill is None or fill.data.size != 1):
        raise NotComputed("the fill value must be a constant number")
    return float(fill.real().ravel()[0]) if fill is not None else 0.0


def _pad_table(task: NodeTask, rank: int) -> list[tuple[int, int]]:
    """(before, after) per source axis."""
    flat = task.whole(1) or []
    stated_axes = task.whole(3)
    if task.opset < _PADS_ARE_INPUTS:
        flat = list(task.node.integers("pads") or ())
    axes = list(range(rank))
    if stated_axes is not None:
        axes = [checked_axis(axis, rank) for axis in stated_axes]
    if len(flat) != 2 * len(axes):
        raise ModelError(f"{len(flat)} pads do not fit {len(axes)} axes")
    table = [(0, 0)] * rank
    for place, axis in enumerate(axes):
        table[axis] = (flat[place], flat[place + len(axes)])
    return table


def cut(task: NodeTask) -> None:
    """Slice: bounds from the back, beyond the end or INT64_MAX are resolved."""
    x = task.value(0)
    spans = [range(size) for size in task.shape(x)]
    if task.opset < _BOUNDS_ARE_INPUTS:
        lists = [task.node.integers(name) for name in ("starts", "ends", "axes")]
        starts, ends, axes = (list(part) if part is not None else None for part in lists)
        steps = None
    else:
        starts, ends, axes, steps = (task.whole(index) for index in (1, 2, 3, 4))
    starts, ends = starts or [], ends or []
    axes = axes if axes is not None else list(range(len(starts)))
    steps = steps if steps is not None else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ModelError(
            f"starts {starts}, ends {ends}, axes {axes} and steps {steps} do not fit together"
        )
    checked = [checked_axis(axis, len(spans)) for axis in axes]
    for axis, start, end, step in zip(checked, starts, ends, steps, strict=True):
        if step == 0:
            raise ModelError("a step of 0 is not allowed")
        spans[axis] = spans[axis][slice(start, end, step)]
        if not spans[axis]:
            raise ModelError(f"[{start}:{end}:{step}] of axis {axis} is empty")
    _emit_cut(task, x, spans)


def _emit_cut(task: NodeTask, x: LayoutValue, spans: Sequence[range]) -> None:
    if tuple(map(len, spans)) == task.shape(x) and all(span.step == 1 for span in spans):
        task.finish(x)
        return
    task.emit("Slice", (x.tensor,), _slice_attrs(x, spans), x.layout, x.via)


def _slice_attrs(x: LayoutValue, spans: Sequence[range]) -> SliceAttrs:
    stored = [range(1) if axis == ADDED else spans[axis] for axis in x.layout]
    return SliceAttrs(
        tuple(span[0] for span in stored),
        tuple(len(span) for span in stored),
        tuple(span.step for span in stored),
    )


def split(task: NodeTask) -> None:
    x = task.value(0)
    shape = task.shape(x)
    axis = checked_axis(task.node.integer("axis", 0), len(shape))
    names = tuple(name or f"{task.node.output}_unused" for name in task.node.outputs)
    total = shape[axis]
    count = len(names)
    stated = task.whole(1) or task.node.integers("split")
    if stated:
        sizes = tuple(stated)
    else:
        if task.node.integer("num_outputs", count) != count:
            raise ModelError(f"num_outputs does not fit {count} outputs")
        even = -(-total // count)
        sizes = (*[even] * (count - 1), total - even * (count - 1))
    if len(sizes) != len(names):
        raise ModelError(f"sizes {sizes} do not fit {len(names)} outputs")
    parts = task.emit_all("Split", x, SplitAttrs(x.layout.index(axis), sizes), names)
    for name, part in zip(task.node.outputs, parts, strict=True):
        if name:
            task.finish_as(name, part)


def gather(task: NodeTask) -> None:
    """Constant indices along one axis keep the storage; a range of them is a Slice."""
    places = task.constant(1)
    if places is None or places.data.ndim > 1 or task.constant(0) is not None:
        _gather_any(task)
        return
    x = task.value(0)
    shape = task.shape(x)
    axis = checked_axis(task.node.integer("axis", 0), len(shape))
    size = shape[axis]
    indices = places.integers()
    if not indices.size or indices.min() < -size or indices.max() >= size:
        raise ModelError(f"indices {indices[:8].tolist()} are outside an axis of {size} elements")
    # Counted from the front.
    indices = np.where(indices < 0, indices + size, indices) if indices.min() < 0 else indices
    spans = [range(size) for size in shape]
    even = _as_range(indices)
    if even is None:
        data = Const(indices, "int64")
        stored = task.store(data, (task.node.input(1), ("places", task.shape(x)[axis])))
        attrs = GatherAttrs(x.layout.index(axis))
        task.emit("Gather", (x.tensor, stored.name), attrs, x.layout, x.via)
    elif places.data.ndim:
        spans[axis] = even
        _emit_cut(task, x, spans)
    else:
        spans[axis] = even
        # A single index: the axis is removed.
        cut, name = _slice_attrs(x, spans), f"{task.node.output}_cut"
        one = task.make("Slice", (x.tensor,), cut, x.layout, x.via, name=name)
        task.finish(task.arranger.without_axis(one, axis, task.node.origin, task.node.output))


def _as_range(indices: np.ndarray) -> range | None:
    """Evenly spaced indices as a range; None for others."""
    first, last = int(indices[0]), int(indices[-1])
    step = int(indices[1]) - first if len(indices) > 1 else 1
    if step == 0 or last != first + step * (len(indices) - 1) or (np.diff(indices) != step).any():
        return None
    return range(first, last + (1 if step > 0 else -1), step)


def _gather_any(task: NodeTask) -> None:
    """Computed indices, or a constant table as data: in source order."""
    data, places = task.in_source_order(0), task.in_source_order(1)
    ranks = len(task.shape(data)), len(task.shape(places))
    attrs = GatherAttrs(checked_axis(task.node.integer("axis", 0), ranks[0]))
    inputs = (data.tensor, places.tensor)
    task.emit("Gather", inputs, attrs, plain(sum(ranks) - 1), (*data.via, *places.via))


def tile(task: NodeTask) -> None:
    x = task.value(0)
    repeats = task.whole(1) or []
    if len(repeats) != len(task.shape(x)):
        raise ModelError(f"repeats {repeats} do not fit shape {task.shape(x)}")
    stored = tuple(1 if axis == ADDED else repeats[axis] for axis in x.layout)
    task.emit("Tile", (x.tensor,), TileAttrs(stored), x.layout, x.via)


def expand(task: NodeTask) -> None:
    """BroadcastTo, after a Reshape where axes are added in front."""
    x = task.value(0)
    shape = task.shape(x)
    sizes = tuple(task.whole(1) or ())
    if min(sizes, default=1) < 1:
        raise ModelError(f"shape {sizes} has an empty axis")
    target = broadcast(shape, sizes) if shape or sizes else ()
    if target == shape:
        task.finish(x)
        return
    if len(target) > len(shape):
        wider = (*[1] * (len(target) - len(shape)), *shape)
        x = task.arranger.reshape(x, wider, task.node.origin, f"{task.node.output}_axes")
    attrs = BroadcastAttrs(stored_shape(x.layout, target))
    task.emit("BroadcastTo", (x.tensor,), attrs, x.layout, x.via)


# --- Ops that only change shapes or the order of axes ---

_MOST_ORIGINS = 16  # Transposes in a row; limits the work for a hostile file


def _to_shape(task: NodeTask, target: Shape) -> None:
    x = task.value(0)
    task.finish(task.arranger.reshape(x, target, task.node.origin, task.node.output))


def reshape(task: NodeTask) -> None:
    target = task.whole(1)
    if target is None:
        raise ModelError("the target shape is missing")
    source = task.shape(task.value(0))
    keep_zeros = task.node.integer("allowzero", 0) == 1
    _to_shape(task, resolve_shape(source, target, keep_zeros))


def flatten(task: NodeTask) -> None:
    source = task.shape(task.value(0))
    axis = task.node.integer("axis", 1)
    if not -len(source) <= axis <= len(source):
        raise ModelError(f"axis {axis} does not exist in a tensor with {len(source)} axes")
    cut = axis + len(source) if axis < 0 else axis
    rows = int(np.prod(source[:cut], dtype=object))
    _to_shape(task, (rows, int(np.prod(source[cut:], dtype=object))))


def squeeze(task: NodeTask) -> None:
    _to_shape(task, squeezed(task.shape(task.value(0)), _axes(task)))


def unsqueeze(task: NodeTask) -> None:
    _to_shape(task, unsqueezed(task.shape(task.value(0)), _axes(task) or ()))


def _axes(task: NodeTask) -> tuple[int, ...] | None:
    if task.node.input(1) and task.constant(1) is None:
        raise NotComputed("the axes must be constants")
    return axes_of(task.node, [None, task.constant(1)])


def transpose(task: NodeTask) -> None:
    """Nothing moves here: axes are renumbered; the next op that needs an order moves the data."""
    x = task.value(0)
    rank = len(task.shape(x))
    order = task.node.integers("perm") or tuple(reversed(range(rank)))
    if sorted(order) != list(range(rank)):
        raise ModelError(f"permutation {order} does not fit a tensor with {rank} axes")
    layout = relabel(x.layout, order)
    task.finish(LayoutValue(x.tensor, layout, (*x.via, task.node.origin)[-_MOST_ORIGINS:]))


def identity(task: NodeTask) -> None:
    """After a DequantizeLinear the value stays integer until an op needs floats."""
    name = task.node.input(0)
    if name not in task.reader.integers:
        task.finish(task.value(0))
        return
    task.reader.integers[task.node.output] = task.reader.integers[name]
    task.reader.shapes[task.node.output] = task.shape(task.reader.integers[name])


def concat(task: NodeTask) -> None:
    values = [task.value(index) for index in range(len(task.node.inputs))]
    if not values:
        raise ModelError("it has no parts to join")
    rearranged = [v.layout for v in values if v.layout != tuple(range(len(v.layout)))]
    layout = (rearranged or [values[0].layout])[0]
    rank = sum(axis != ADDED for axis in layout)
    axis = checked_axis(task.node.integer("axis", 0), rank)
    if any(len(task.shape(value)) != rank for value in values):
        raise ModelError("the parts have different numbers of axes")
    values = [task.arranger.arrange(value, layout, task.node.origin) for value in values]
    names = tuple(_same_type(task, values))
    attrs = ConcatAttrs(layout.index(axis))
    task.emit("Concat", names, attrs, layout, tuple(o for value in values for o in value.via))


def _same_type(task: NodeTask, values: list[LayoutValue]) -> list[str]:
    """Integer parts must share one quantization; those with another are requantized first."""
    if not task.moved:
        return [value.tensor for value in values]
    first = task.tensor(values[0])
    common = task.following_type()
    if common is None and first.quant is not None:
        common = QuantType(first.dtype, first.quant)
    if common is None:
        raise NotComputed("an integer part has no scale")
    stem = f"{task.node.output}_part"
    return [task.reader.quantize(value, common, stem, task.node.origin).tensor for value in values]
