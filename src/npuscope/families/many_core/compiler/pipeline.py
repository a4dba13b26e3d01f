"""The many-core compiler, top to bottom: from a Graph to a CoreProgram."""

from __future__ import annotations

from npuscope.collector import without_collector
from npuscope.errors import ModelError
from npuscope.families.many_core.compiler.depth_first import batch_of, batch_parts
from npuscope.families.many_core.compiler.draft import Draft, DraftContext
from npuscope.families.many_core.compiler.emit import Emitter
from npuscope.families.many_core.compiler.finish import (
    add_outputs,
    add_warnings,
    assemble,
    mark_inputs,
    with_ends,
)
from npuscope.families.many_core.compiler.lower import lower_op
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.schedule import schedule
from npuscope.families.many_core.compiler.simplify import Prepared, prepared
from npuscope.families.many_core.compiler.stages import stage_devices
from npuscope.families.many_core.compiler.vtcm import place
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.program import CoreProgram
from npuscope.graph.model import Graph
from npuscope.structs import replace


def compile_graph(
    graph: Graph, machine: CoreMachine, options: CoreCompileOptions | None = None
) -> CoreProgram:
    """Split over cores, bring operands there, place, order and number; give it its id."""
    options = options or CoreCompileOptions()
    options.check(machine)
    machine = options.on(machine)
    if not graph.ops:
        raise ModelError("the network has no ops", where=graph.name)
    from npuscope.families.many_core.container import with_program_id
    from npuscope.families.many_core.pace import paced

    with without_collector():
        ready = prepared(graph)
        cores = options.cores or machine.cores.count
        draft = lower(ready.graph, machine, cores, options.devices, options)
        if options.cores is None:
            busy = 1 + max(draft.local(step.core) for step in draft.steps)
            if busy != draft.cores:  # again without the cores that got nothing to do
                draft = lower(ready.graph, machine, busy, options.devices, options)
        program = finish(ready, draft, machine, options)
        return with_program_id(paced(program, graph, machine))


def lower(
    graph: Graph,
    machine: CoreMachine,
    cores: int,
    devices: int,
    options: CoreCompileOptions | None = None,
) -> Draft:
    """All steps of all cores, in units of work, in the order in which they are worked on."""
    options = options or CoreCompileOptions()
    parts = {}
    if options.depth_first and (batch := batch_of(graph)) > 1:
        together = min((len(stage.devices) for stage in options.stages), default=devices)
        room = options.depth_first_room(machine)
        parts = batch_parts(graph, batch, room * cores * together)
    stages = stage_devices(graph, options.stages)
    context = DraftContext(graph, Draft(cores, devices, options.mos, parts, stages), machine)
    for number, op in enumerate(graph.ops):
        lower_op(context, op, number)
    add_outputs(context)
    schedule(context.draft, machine)
    mark_inputs(context)
    return context.draft


def finish(
    ready: Prepared, draft: Draft, machine: CoreMachine, options: CoreCompileOptions
) -> CoreProgram:
    """Places in VTCM, order of issue, waits, and the program around it."""
    placement = place(draft, machine)
    add_warnings(draft, placement, machine)
    emitter = Emitter(draft, placement, machine)
    pairs = zip(emitter.devices(), emitter.dependencies(), strict=True)
    parts = [with_ends(part, edges, machine, options) for part, edges in pairs]
    program = assemble(ready.graph, draft, parts, emitter.held(), machine, options)
    return replace(program, code=emitter.code(ready), spilled=placement.spilled)
