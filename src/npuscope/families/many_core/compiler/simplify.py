"""Before a network is split: one output per op, GELU in parts, moves joined, ends of products."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.compiler.boxes import matching_axes
from npuscope.families.many_core.compiler.islands import join_islands
from npuscope.families.many_core.compiler.kinds import GroupNumber, core_kind, group_of, is_splat
from npuscope.graph.model import Attrs, DType, Graph, Op, Tensor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import GeluAttrs
from npuscope.ops.moves import SliceAttrs, SplitAttrs, TransposeAttrs
from npuscope.structs import replace


class Prepared(Struct, frozen=True):
    """A copy of the network that is ready to be split. `ends` are the ops that a product does
    where it stores its sums, by its output; `tensors` has what is between them."""

    graph: Graph
    ends: dict[str, tuple[Op, ...]]
    tensors: dict[str, Tensor]


def prepared(graph: Graph) -> Prepared:
    graph = graph.copy()
    join_islands(graph)
    simpler = {"Split": _slices, "Gelu": _gelu}
    graph.ops = [
        new
        for op in graph.ops
        for new in (simpler[op.kind](graph, op) if op.kind in simpler else (op,))
    ]
    # A Transpose, a Reshape that joins axes, and a Transpose are one Transpose.
    makers, readers = graph.producers(), graph.consumers()
    for place, op in enumerate(graph.ops):
        chain = _transpose_chain(graph, makers, readers, op)
        if chain is not None:
            graph.ops[place] = chain
            makers[op.outputs[0]] = chain
    # What nobody reads any more goes.
    read = {name for op in graph.ops for name in op.inputs} | set(graph.outputs)
    graph.ops = [op for op in graph.ops if any(name in read for name in op.outputs)]
    ends = _join_ends(graph)
    tensors = {n: graph.tensors[n] for ops in ends.values() for op in ops for n in op.inputs}
    graph.drop_unused()
    return Prepared(graph, ends, tensors)


def simplified(graph: Graph) -> Graph:
    return prepared(graph).graph


def _slices(graph: Graph, op: Op) -> list[Op]:
    """A Split as one Slice per output."""
    attrs = op.attrs_as(SplitAttrs)
    source = graph.first_input(op).shape
    slices, at = [], 0
    for number, (name, size) in enumerate(zip(op.outputs, attrs.sizes, strict=True)):
        starts = tuple(at if axis == attrs.axis else 0 for axis in range(len(source)))
        cut = SliceAttrs(starts, graph.tensors[name].shape, (1,) * len(source))
        slices.append(Op("Slice", f"{op.name}_{number}", op.inputs, (name,), cut, op.origin))
        at += size
    return slices


def _gelu(graph: Graph, op: Op) -> list[Op]:
    """0.5 x (1 + f(x)), with the error function or the tanh of its approximation."""
    chain = _Chain(graph, op)
    x = op.inputs[0]
    if op.attrs_as(GeluAttrs).approximate:
        cube = chain.add("Mul", chain.add("Mul", x, x), x)
        inner = chain.add("Add", x, chain.add("Mul", cube, chain.splat(0.044715)))
        curve = chain.add("Tanh", chain.add("Mul", inner, chain.splat(math.sqrt(2 / math.pi))))
    else:
        curve = chain.add("Erf", chain.add("Mul", x, chain.splat(math.sqrt(0.5))))
    raised = chain.add("Mul", x, chain.add("Add", curve, chain.splat(1.0)))
    chain.add("Mul", raised, chain.splat(0.5), output=op.outputs[0])
    return chain.ops


class _Chain:
    """Element-wise ops that stand for one op."""

    def __init__(self, graph: Graph, op: Op) -> None:
        self.graph, self.op = graph, op
        self.ops: list[Op] = []

    def add(self, kind: str, *inputs: str, output: str = "") -> str:
        if not output:
            like = self.graph.output_tensor(self.op)
            name = self.graph.fresh_name(f"{like.name}_part")
            output = self.graph.add(replace(like, name=name)).name
        attrs = BinaryAttrs() if len(inputs) == 2 else Attrs()
        name = f"{self.op.name}_{len(self.ops)}"
        self.ops.append(Op(kind, name, inputs, (output,), attrs, self.op.origin))
        return output

    def splat(self, value: float) -> str:
        name = self.graph.fresh_name(f"{self.op.name}_splat")
        data = np.array(value, np.float32)
        return self.graph.add(Tensor(name, (), DType.FLOAT32, data=data)).name


def _transpose_chain(
    graph: Graph, makers: dict[str, Op], readers: dict[str, list[Op]], op: Op
) -> Op | None:
    """The second Transpose as a Reshape of one that has the first's work too."""
    shape = makers.get(op.inputs[0]) if op.kind == "Transpose" else None
    first = makers.get(shape.inputs[0]) if shape is not None and shape.kind == "Reshape" else None
    if shape is None or first is None or first.kind != "Transpose":
        return None
    if not all(_read_once(graph, readers, one.outputs[0]) for one in (first, shape)):
        return None
    old, new = (graph.tensors[one.outputs[0]].shape for one in (first, shape))
    groups = matching_axes(old, new)
    if any(len(right) != 1 for _, right in groups):
        return None
    inner = first.attrs_as(TransposeAttrs).permutation
    order = [groups[axis][0] for axis in op.attrs_as(TransposeAttrs).permutation]
    moved = tuple(inner[axis] for axes in order for axis in axes)
    return _moved(graph, op, first, moved, (*first.origin, *shape.origin, *op.origin))


def _moved(graph: Graph, op: Op, first: Op, order: tuple[int, ...], origin: tuple[str, ...]) -> Op:
    """One Transpose in the place of the first; its reshaped output is what `op` made."""
    source = graph.first_input(first)
    name = graph.fresh_name(f"{op.outputs[0]}_moved")
    graph.add(replace(source, name=name, shape=tuple(source.shape[a] for a in order)))
    transpose = Op("Transpose", first.name, first.inputs, (name,), TransposeAttrs(order), origin)
    graph.ops[graph.ops.index(first)] = transpose
    return Op("Reshape", op.name, (name,), op.outputs, Attrs(), op.origin)


def _read_once(graph: Graph, readers: dict[str, list[Op]], name: str) -> bool:
    return len(readers[name]) == 1 and name not in graph.outputs


# --- Ends of products: what HMX does where it stores its sums ---


def _join_ends(graph: Graph) -> dict[str, tuple[Op, ...]]:
    """A clamp or a factor behind a product; gives what was joined, by the product's output."""
    readers = graph.consumers()
    joined: list[Op] = []
    place: dict[str, int] = {}
    ends: dict[str, tuple[Op, ...]] = {}
    for op in graph.ops:
        before = place.get(op.inputs[0]) if _is_end(graph, op) else None
        value = op.inputs[0]
        same = before is not None and graph.tensors[value].dtype is graph.output_tensor(op).dtype
        if before is not None and same and _read_once(graph, readers, value):
            product = joined[before]
            ends[op.outputs[0]] = (*ends.pop(op.inputs[0], ()), op)
            origin = (*product.origin, *op.origin)
            joined[before] = product.replace(outputs=op.outputs, origin=origin)
            place[op.outputs[0]] = before
            continue
        if group_of(core_kind(graph, op)) is GroupNumber.HMX:
            place[op.outputs[0]] = len(joined)
        joined.append(op)
    graph.ops = joined
    return ends


def _is_end(graph: Graph, op: Op) -> bool:
    if op.kind in ("Mul", "Div"):
        factor = graph.tensors[op.inputs[1]]
        return is_splat(factor) and graph.output_tensor(op).dtype.is_float
    return op.kind in ("Clip", "Relu")
