"""TFLite operators that move data or change shapes only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from npuscope.errors import ModelError, NotComputed
from npuscope.files.tflite.convert_values import activation
from npuscope.files.tflite.file import SourceOp
from npuscope.graph.model import Attrs, Tensor
from npuscope.ops.images import BlockAttrs, Coordinates, NearestRounding, ResizeAttrs, ResizeMode
from npuscope.ops.indexing import GatherNdAttrs
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
    TransposeAttrs,
)
from npuscope.ops.row import Shape

if TYPE_CHECKING:
    from npuscope.files.tflite.reader import Convert, TfliteReader


# --- SLICE and STRIDED_SLICE: masks and negative bounds become starts, sizes and steps ---


def cut(reader: TfliteReader, op: SourceOp) -> None:
    """SLICE: begins and sizes; size -1 is the rest."""
    x = reader.tensor(op, 0)
    starts, counts = (reader.integers(op, index).ravel().tolist() for index in (1, 2))
    if not len(starts) == len(counts) == len(x.shape):
        raise ModelError(
            f"begins {starts} and sizes {counts} do not fit shape {x.shape}", where=op.origin
        )
    rows = zip(x.shape, starts, counts, strict=True)
    sizes = tuple(dim - start if size == -1 else size for dim, start, size in rows)
    attrs = SliceAttrs(tuple(starts), sizes, (1,) * len(sizes))
    reader.emit(op, "Slice", (x.name,), attrs)


class _Cuts(Struct):
    """Per axis of the input; `shape` is the output's, with axes dropped and added."""

    starts: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    shape: list[int] = field(default_factory=list)

    def whole(self, dims: Shape) -> None:
        for dim in dims:
            self.add(0, dim, 1)
            self.shape.append(dim)

    def add(self, start: int, size: int, step: int) -> None:
        self.starts.append(start)
        self.sizes.append(size)
        self.steps.append(step)


def strided_slice(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    bounds = [reader.integers(op, index).ravel().tolist() for index in (1, 2, 3)]
    if len({len(part) for part in bounds}) != 1:
        raise ModelError(f"begin, end and strides differ in length: {bounds}", where=op.origin)
    # Walks the entries of the operator; all but added axes use one axis of the input.
    count = len(bounds[0])
    added = op.number("NewAxisMask") & ~op.number("EllipsisMask")
    cuts, axis = _Cuts(), 0
    for place in range(count):
        if op.number("EllipsisMask") >> place & 1:
            later = [p for p in range(place + 1, count) if not added >> p & 1]
            stop = max(len(x.shape) - len(later), axis)
            cuts.whole(x.shape[axis:stop])
            axis = stop
        elif added >> place & 1:
            cuts.shape.append(1)
        elif axis >= len(x.shape):
            raise ModelError(f"{count} entries do not fit shape {x.shape}", where=op.origin)
        else:
            _entry(op, cuts, x.shape[axis], place, bounds)
            axis += 1
    cuts.whole(x.shape[axis:])
    attrs = SliceAttrs(tuple(cuts.starts), tuple(cuts.sizes), tuple(cuts.steps))
    if attrs.sizes == tuple(cuts.shape):
        reader.emit(op, "Slice", (x.name,), attrs)
        return
    in_order = attrs.sizes == x.shape and min(attrs.steps, default=1) > 0
    name = x.name if in_order else reader.aside(op, "Slice", x, attrs).name
    reader.emit(op, "Reshape", (name,), Attrs(), tuple(cuts.shape))


def _entry(op: SourceOp, result: _Cuts, dim: int, place: int, bounds: list[list[int]]) -> None:
    begin, end, step = (part[place] for part in bounds)
    if step == 0:
        raise ModelError("a step of 0 is not allowed", where=op.origin)
    if op.number("Offset"):
        end += begin
    if op.number("ShrinkAxisMask") >> place & 1:
        start = begin + dim if begin < 0 else begin
        result.add(start, 1, 1)
        return
    first = None if op.number("BeginMask") >> place & 1 else begin
    last = None if op.number("EndMask") >> place & 1 else end
    elements = range(dim)[slice(first, last, step)]
    if not len(elements):
        raise ModelError(f"[{begin}:{end}:{step}] of {dim} elements is empty", where=op.origin)
    result.add(elements[0], len(elements), step)
    result.shape.append(len(elements))


_SYMMETRIC = 1


def _pad_table(reader: TfliteReader, op: SourceOp, x: Tensor) -> tuple[tuple[int, int], ...]:
    table = reader.integers(op, 1)
    if table.shape != (len(x.shape), 2):
        raise ModelError(f"pads {table.shape} do not fit shape {x.shape}", where=op.origin)
    return tuple((int(before), int(after)) for before, after in table)


def pad(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    value = reader.real_scalar(op, 2) if len(op.inputs) > 2 else 0.0
    reader.emit(op, "Pad", (x.name,), PadAttrs(_pad_table(reader, op, x), value))


def mirror_pad(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    symmetric = op.number("Mode") == _SYMMETRIC
    mode = MirrorMode.SYMMETRIC if symmetric else MirrorMode.REFLECT
    reader.emit(op, "MirrorPad", (x.name,), MirrorPadAttrs(_pad_table(reader, op, x), mode))


def transpose(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    order = tuple(reader.axis(op, axis, x) for axis in reader.integers(op, 1).ravel().tolist())
    reader.emit(op, "Transpose", (x.name,), TransposeAttrs(order))


def concat(reader: TfliteReader, op: SourceOp) -> None:
    tensors = [reader.tensor(op, index) for index in range(len(op.inputs))]
    if not tensors:
        raise ModelError("it has no parts to join", where=op.origin)
    axis = reader.axis(op, op.number("Axis"), tensors[0])
    names = tuple(tensor.name for tensor in tensors)
    reader.emit(op, "Concat", names, ConcatAttrs(axis, activation(op)))


def reshape(reader: TfliteReader, op: SourceOp) -> None:
    """The shape input is not read: the file states the output's shape."""
    x = reader.tensor(op, 0)
    reader.emit(op, "Reshape", (x.name,), Attrs(), reader.reshape_target(op, x))


def split(reader: TfliteReader, op: SourceOp) -> None:
    """SPLIT: axis, x; equal parts."""
    x, count = reader.tensor(op, 1), max(len(op.outputs), 1)
    axis = _only_axis(reader, op, 0, x)
    if x.shape[axis] % count:
        raise ModelError(
            f"axis {axis} of {x.shape} cannot be split into {count} equal parts", where=op.origin
        )
    sizes = (x.shape[axis] // count,) * count
    reader.emit_all(op, "Split", (x.name,), SplitAttrs(axis, sizes))


def split_v(reader: TfliteReader, op: SourceOp) -> None:
    """SPLIT_V: x, sizes, axis; one size may be -1, the rest."""
    x = reader.tensor(op, 0)
    axis = _only_axis(reader, op, 2, x)
    sizes = reader.integers(op, 1).ravel().tolist()
    stated_total = sum(size for size in sizes if size >= 0)
    sizes = [x.shape[axis] - stated_total if size < 0 else size for size in sizes]
    if 0 in sizes and sum(sizes) == x.shape[axis] and len(sizes) == len(op.outputs):
        # Empty parts have no tensor here; nothing can read a value of them.
        for place, size in enumerate(sizes):
            if size:
                starts, counts = [0] * len(x.shape), list(x.shape)
                starts[axis], counts[axis] = sum(sizes[:place]), size
                attrs = SliceAttrs(tuple(starts), tuple(counts), (1,) * len(x.shape))
                reader.emit(op, "Slice", (x.name,), attrs, tuple(counts), output=place)
        return
    reader.emit_all(op, "Split", (x.name,), SplitAttrs(axis, tuple(sizes)))


def _only_axis(reader: TfliteReader, op: SourceOp, position: int, x: Tensor) -> int:
    axes = reader.integers(op, position)
    if axes.size != 1:
        raise ModelError(f"{axes.size} axes, expected one", where=op.origin)
    return reader.axis(op, int(axes.ravel()[0]), x)


def pack(reader: TfliteReader, op: SourceOp) -> None:
    """Every part gets a new axis of size 1, along which they are joined."""
    parts = [reader.tensor(op, index) for index in range(len(op.inputs))]
    axis = reader.new_axis(op, op.number("Axis"), parts)
    shape = (*parts[0].shape[:axis], 1, *parts[0].shape[axis:])
    names = tuple(reader.reshaped(op, part, shape).name for part in parts)
    reader.emit(op, "Concat", names, ConcatAttrs(axis))


def unpack(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    axis = reader.axis(op, op.number("Axis"), x)
    if len(op.outputs) != x.shape[axis]:
        raise ModelError(f"{len(op.outputs)} outputs do not fit shape {x.shape}", where=op.origin)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    slices = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    parts = [x.name] if x.shape[axis] == 1 else reader.parts(op, x, axis, slices)
    for place, part in enumerate(parts):
        reader.emit(op, "Reshape", (part,), Attrs(), shape, output=place)


def gather(reader: TfliteReader, op: SourceOp) -> None:
    x, indices = reader.tensor(op, 0), reader.tensor(op, 1)
    axis = reader.axis(op, op.number("Axis"), x)
    batch = op.number("BatchDims")
    batch = batch + len(indices.shape) if batch < 0 else batch
    reader.emit(op, "Gather", (x.name, indices.name), GatherAttrs(axis, batch))


def along(kind: str, count: int, record: Callable[..., Attrs], fields: tuple[str, ...]) -> Convert:
    """An op whose options are axes, in the record's order."""

    def convert(reader: TfliteReader, op: SourceOp) -> None:
        tensors = [reader.tensor(op, index) for index in range(count)]
        axes = (reader.axis(op, op.number(field), tensors[0]) for field in fields)
        reader.emit(op, kind, tuple(tensor.name for tensor in tensors), record(*axes))

    return convert


def gather_nd(reader: TfliteReader, op: SourceOp) -> None:
    names = (reader.tensor(op, 0).name, reader.tensor(op, 1).name)
    reader.emit(op, "GatherND", names, GatherNdAttrs())


def tile(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    repeats = tuple(reader.integers(op, 1).ravel().tolist())
    reader.emit(op, "Tile", (x.name,), TileAttrs(repeats))


def broadcast_to(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    shape = tuple(reader.integers(op, 1).ravel().tolist())
    reader.emit(op, "BroadcastTo", (x.name,), BroadcastAttrs(shape))


def block(kind: str) -> Convert:
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH."""

    def convert(reader: TfliteReader, op: SourceOp) -> None:
        x = reader.tensor(op, 0)
        reader.emit(op, kind, (x.name,), BlockAttrs(op.number("BlockSize")))

    return convert


def resize(mode: ResizeMode) -> Convert:
    def convert(reader: TfliteReader, op: SourceOp) -> None:
        x = reader.tensor(op, 0)
        sizes = reader.integers(op, 1).ravel().tolist()
        if len(x.shape) != 4 or len(sizes) != 2 or min(x.shape) < 1 or min(sizes) < 1:
            raise ModelError(f"size {sizes} does not fit shape {x.shape}", where=op.origin)
        scales = sizes[0] / x.shape[1], sizes[1] / x.shape[2]
        places, rounding = _places(mode, op)
        attrs = ResizeAttrs((sizes[0], sizes[1]), scales, mode, places, rounding)
        reader.emit(op, "Resize", (x.name,), attrs)

    return convert


def _places(mode: ResizeMode, op: SourceOp) -> tuple[Coordinates, NearestRounding]:
    """TensorFlow's two flags in ONNX's terms; LiteRT's nearest rounds half away from zero."""
    if op.number("AlignCorners"):
        return Coordinates.ALIGN_CORNERS, NearestRounding.PREFER_CEIL
    if not op.number("HalfPixelCenters"):
        return Coordinates.ASYMMETRIC, NearestRounding.FLOOR
    if mode is ResizeMode.NEAREST:
        return Coordinates.TF_HALF_PIXEL_FOR_NN, NearestRounding.FLOOR
    return Coordinates.HALF_PIXEL, NearestRounding.FLOOR


def shape(reader: TfliteReader, op: SourceOp) -> None:
    """Sizes are fixed, so a tensor's shape is a constant."""
    sizes = reader.tensor(op, 0).shape
    reader.make_constant(op, np.array(sizes, np.int64))


def rank(reader: TfliteReader, op: SourceOp) -> None:
    reader.make_constant(op, np.array(len(reader.tensor(op, 0).shape), np.int64))


def fill(reader: TfliteReader, op: SourceOp) -> None:
    sizes, value = reader.integers(op, 0).ravel().tolist(), reader.tensor(op, 1)
    if value.data is None or value.elements != 1:
        raise NotComputed("the value must be a constant number", where=op.origin)
    reader.check_size(op, sizes)
    reader.make_constant(op, np.full(sizes, value.data.ravel()[0]))


def span(reader: TfliteReader, op: SourceOp) -> None:
    """RANGE: start, limit, step."""
    tensors = [reader.tensor(op, index) for index in range(3)]
    values = [t.data.ravel()[0] for t in tensors if t.data is not None and t.elements == 1]
    if len(values) != 3 or values[2] == 0:
        raise NotComputed("start, limit and step must be constant numbers", where=op.origin)
    start, limit, step = values
    count = max(int(np.ceil((float(limit) - float(start)) / float(step))), 0)
    reader.check_size(op, [count])
    reader.make_constant(op, start + step * np.arange(count, dtype=tensors[0].dtype.numpy))
