"""The many-core compiler, top to bottom: from a Graph to a CoreProgram."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.model import Attrs, DType, Graph, Op, Tensor
from npuscope.many_core.compiler.draft import Context, Draft
from npuscope.many_core.compiler.emit import Emitter
from npuscope.many_core.compiler.finish import (
    add_outputs,
    add_warnings,
    assemble,
    mark_inputs,
    with_ends,
)
from npuscope.many_core.compiler.kinds import Group, core_kind, group_of
from npuscope.many_core.compiler.lower import lower_op
from npuscope.many_core.compiler.options import CompileOptions
from npuscope.many_core.compiler.vtcm import place
from npuscope.many_core.machine import CoreMachine
from npuscope.many_core.program import CoreProgram
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import GeluAttrs
from npuscope.ops.moves import SliceAttrs, SplitAttrs

# --- Simplify: one output per op, GELU in parts, clamps inside products ---


def simplified(graph: Graph) -> Graph:
    """A copy that is ready to be split."""
    graph = graph.copy()
    graph.ops = [new for op in graph.ops for new in _rewritten(graph, op)]
    _join_clamps(graph)
    graph.drop_unused()
    return graph


def _rewritten(graph: Graph, op: Op) -> Iterable[Op]:
    if op.kind == "Split":
        return _slices(graph, op)
    if op.kind == "Gelu":
        return _gelu(graph, op)
    return (op,)


def _slices(graph: Graph, op: Op) -> list[Op]:
    """A Split as one Slice per output."""
    attrs = op.attrs_as(SplitAttrs)
    source = graph.first_input(op).shape
    made, at = [], 0
    for number, (name, size) in enumerate(zip(op.outputs, attrs.sizes, strict=True)):
        starts = tuple(at if axis == attrs.axis else 0 for axis in range(len(source)))
        cut = SliceAttrs(starts, graph.tensors[name].shape, (1,) * len(source))
        made.append(Op("Slice", f"{op.name}_{number}", op.inputs, (name,), cut, op.origin))
        at += size
    return made


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
        made = output or self._tensor()
        attrs = BinaryAttrs() if len(inputs) == 2 else Attrs()
        name = f"{self.op.name}_{len(self.ops)}"
        self.ops.append(Op(kind, name, inputs, (made,), attrs, self.op.origin))
        return made

    def splat(self, value: float) -> str:
        name = self.graph.fresh_name(f"{self.op.name}_splat")
        data = np.array(value, np.float32)
        return self.graph.add(Tensor(name, (), DType.FLOAT32, data=data)).name

    def _tensor(self) -> str:
        like = self.graph.output_tensor(self.op)
        name = self.graph.fresh_name(f"{like.name}_part")
        return self.graph.add(replace(like, name=name)).name


def _join_clamps(graph: Graph) -> None:
    """A Clip behind a product is done where HMX stores its sums."""
    readers = graph.consumers()
    joined: list[Op] = []
    place: dict[str, int] = {}
    for op in graph.ops:
        before = place.get(op.inputs[0]) if op.kind == "Clip" else None
        if before is not None and _only_reader(graph, readers, op):
            product = joined[before]
            origin = (*product.origin, *op.origin)
            joined[before] = product.replace(outputs=op.outputs, origin=origin)
            place[op.outputs[0]] = before
            continue
        if group_of(core_kind(graph, op)) is Group.HMX:
            place[op.outputs[0]] = len(joined)
        joined.append(op)
    graph.ops = joined


def _only_reader(graph: Graph, readers: dict[str, list[Op]], op: Op) -> bool:
    value = op.inputs[0]
    same = graph.tensors[value].dtype is graph.output_tensor(op).dtype
    return same and len(readers[value]) == 1 and value not in graph.outputs


def compile_graph(
    graph: Graph, machine: CoreMachine, options: CompileOptions | None = None
) -> CoreProgram:
    """Split over cores, bring operands there, place, order and number; give it its id."""
    options = options or CompileOptions()
    options.check(machine)
    if not graph.ops:
        raise ModelError("the network has no ops", where=graph.name)
    graph = simplified(graph)
    draft = lower(graph, machine, options.cores or machine.cores.count, options.devices)
    if options.cores is None:
        draft = _on_busy_cores(graph, machine, options, draft)
    return _identified(finish(graph, draft, machine, options))


def lower(graph: Graph, machine: CoreMachine, cores: int, devices: int) -> Draft:
    """All steps of all cores, in units of work."""
    context = Context(graph, Draft(cores, devices), machine)
    for op in graph.ops:
        lower_op(context, op)
    add_outputs(context)
    mark_inputs(context)
    return context.draft


def finish(
    graph: Graph, draft: Draft, machine: CoreMachine, options: CompileOptions
) -> CoreProgram:
    """Places in VTCM, order of issue, waits, and the program around it."""
    placement = place(draft, machine)
    add_warnings(draft, placement, machine)
    emitter = Emitter(draft, placement, machine)
    pairs = zip(emitter.devices(), emitter.dependencies(), strict=True)
    parts = [with_ends(part, edges, machine, options) for part, edges in pairs]
    return assemble(graph, draft, parts, machine, options)


def _on_busy_cores(
    graph: Graph, machine: CoreMachine, options: CompileOptions, draft: Draft
) -> Draft:
    """Again without the cores that got nothing to do."""
    busy = 1 + max(draft.local(step.core) for step in draft.steps)
    return draft if busy == draft.cores else lower(graph, machine, busy, options.devices)


def _identified(program: CoreProgram) -> CoreProgram:
    from npuscope.many_core.container import with_program_id

    return with_program_id(program)
