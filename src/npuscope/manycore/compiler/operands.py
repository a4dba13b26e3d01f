"""Operands of ops: from other cores or from DDR, in rows or in blocks of channels."""

from __future__ import annotations

from npuscope.manycore.compiler.boxes import Box
from npuscope.manycore.compiler.context import Context, Operands, Origin
from npuscope.manycore.compiler.draft import Role
from npuscope.manycore.compiler.exchange import from_cores
from npuscope.manycore.compiler.kinds import TO_D32
from npuscope.manycore.compiler.loads import load_constant, load_input

Parts = dict[int, Box]  # by core


def operand(context: Context, name: str, boxes: Parts, origin: Origin, form: str = "") -> Operands:
    """By core what to read so as to have its box; `form` is a conversion to blocks."""
    values, graph = context.draft.values, context.graph
    if name in values:
        found = from_cores(context, name, boxes, origin)
        if form == TO_D32 and values[name].blocked:
            return found
    elif name in graph.inputs:
        found = load_input(context, name, boxes)
    else:
        return load_constant(context, name, boxes, origin)
    return _converted(context, name, boxes, found, origin, form) if form else found


def _converted(
    context: Context, name: str, boxes: Parts, found: Operands, origin: Origin, form: str
) -> Operands:
    """The same values in blocks of 32 channels, made once a core and part."""
    known = context.draft.loaded
    result: Operands = {}
    for core, box in boxes.items():
        key = (form, name, core, box)
        if key not in known:
            made = context.buffer(core, name, box, Role.BLOCKED)
            step = context.work(core, form, name, (name, box), found[core], made, origin)
            context.draft.add_work(step)
            known[key] = made.buffer
        result[core] = (context.whole(known[key]),)
    return result
