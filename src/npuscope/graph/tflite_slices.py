"""SLICE and STRIDED_SLICE: masks and negative bounds resolved to starts, sizes and steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npuscope.errors import ModelError
from npuscope.graph.attrs import Attrs
from npuscope.graph.attrs_moves import SliceAttrs
from npuscope.graph.shapes import Shape
from npuscope.graph.tflite_file import SourceOp

if TYPE_CHECKING:
    from npuscope.graph.tflite_reader import TfliteReader


def cut(reader: TfliteReader, op: SourceOp) -> None:
    """SLICE: begins and sizes; size -1 is the rest."""
    x = reader.tensor(op, 0)
    starts, asked = (reader.integers(op, index).ravel().tolist() for index in (1, 2))
    if not len(starts) == len(asked) == len(x.shape):
        raise ModelError(f"begins {starts} and sizes {asked} for {x.shape}", where=op.origin)
    rows = zip(x.shape, starts, asked, strict=True)
    sizes = tuple(dim - start if size == -1 else size for dim, start, size in rows)
    attrs = SliceAttrs(tuple(starts), sizes, (1,) * len(sizes))
    reader.emit(op, "Slice", (x.name,), attrs)


@dataclass(slots=True)
class _Cuts:
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
    cuts = _cuts(op, x.shape, bounds)
    attrs = SliceAttrs(tuple(cuts.starts), tuple(cuts.sizes), tuple(cuts.steps))
    if attrs.sizes == tuple(cuts.shape):
        reader.emit(op, "Slice", (x.name,), attrs)
        return
    name = x.name if attrs.sizes == x.shape else reader.aside(op, "Slice", x, attrs).name
    reader.emit(op, "Reshape", (name,), Attrs(), tuple(cuts.shape))


def _cuts(op: SourceOp, shape: Shape, bounds: list[list[int]]) -> _Cuts:
    """Walks the entries of the operator; each but an added axis uses up one axis of the input."""
    count = len(bounds[0])
    added = op.number("NewAxisMask") & ~op.number("EllipsisMask")
    result, axis = _Cuts(), 0
    for place in range(count):
        if op.number("EllipsisMask") >> place & 1:
            later = [p for p in range(place + 1, count) if not added >> p & 1]
            stop = max(len(shape) - len(later), axis)
            result.whole(shape[axis:stop])
            axis = stop
        elif added >> place & 1:
            result.shape.append(1)
        elif axis >= len(shape):
            raise ModelError(f"{count} entries for shape {shape}", where=op.origin)
        else:
            _entry(op, result, shape[axis], place, bounds)
            axis += 1
    result.whole(shape[axis:])
    return result


def _entry(op: SourceOp, result: _Cuts, dim: int, place: int, bounds: list[list[int]]) -> None:
    begin, end, step = (part[place] for part in bounds)
    if step == 0:
        raise ModelError("a step of 0", where=op.origin)
    if op.number("Offset"):
        end += begin
    if op.number("ShrinkAxisMask") >> place & 1:
        start = begin + dim if begin < 0 else begin
        result.add(start, 1, 1)
        return
    first = None if op.number("BeginMask") >> place & 1 else begin
    last = None if op.number("EndMask") >> place & 1 else end
    chosen = range(dim)[slice(first, last, step)]
    if not len(chosen):
        raise ModelError(f"[{begin}:{end}:{step}] of {dim} elements is empty", where=op.origin)
    result.add(chosen[0], len(chosen), step)
    result.shape.append(len(chosen))
