"""Constants and inputs from DDR: by every core for itself, or once for many by multicast."""

from __future__ import annotations

from npuscope.manycore.compiler.boxes import Box, cut
from npuscope.manycore.compiler.context import Context, Operands, Origin
from npuscope.manycore.compiler.draft import Access, Role
from npuscope.manycore.compiler.kinds import MULTICAST


def load_input(context: Context, name: str, boxes: dict[int, Box]) -> Operands:
    """Host DMA has put inputs into DDR; every core fetches its part, once."""
    return {core: (_input(context, name, core, box),) for core, box in boxes.items()}


def _input(context: Context, name: str, core: int, box: Box) -> Access:
    known, key = context.draft.loaded, ("input", name, core, box)
    if key not in known:
        made = context.buffer(core, name, box, Role.INPUT)
        origin = (f"input:{name}",)
        context.draft.add_load(context.copy_in(core, name, box, made.buffer, origin))
        known[key] = made.buffer
    return context.whole(known[key])


def load_constant(context: Context, name: str, boxes: dict[int, Box], origin: Origin) -> Operands:
    """Cores of a device that need the same part share the load."""
    alike: dict[tuple[int, Box], list[int]] = {}
    for core, box in boxes.items():
        alike.setdefault((context.draft.device(core), box), []).append(core)
    found: Operands = {}
    for (_, box), cores in alike.items():
        found |= _constant(context, name, box, cores, origin)
    return found


def _constant(context: Context, name: str, box: Box, cores: list[int], origin: Origin) -> Operands:
    known, memory = context.draft.loaded, context.machine.memory
    size = context.bytes_of(name, box)
    missing = [core for core in cores if ("constant", name, core, box) not in known]
    made = {core: context.buffer(core, name, box, Role.CONSTANT) for core in missing}
    if len(missing) > 1 and size >= memory.multicast_min_bytes:
        _load_once(context, name, box, made, origin)
    else:
        for core, access in made.items():
            context.draft.add_load(context.copy_in(core, name, box, access.buffer, origin))
    if size > memory.keep_constant_bytes:
        return {core: (access,) for core, access in made.items()}
    known.update({("constant", name, core, box): made[core].buffer for core in made})
    return {core: (context.whole(known["constant", name, core, box]),) for core in cores}


def _load_once(
    context: Context, name: str, box: Box, made: dict[int, Access], origin: Origin
) -> None:
    """Every core loads a share and sends it to the others."""
    axis = max(range(len(box)), key=lambda a: box[a][1] - box[a][0])
    shares = dict(zip(made, cut(box, axis, len(made)), strict=False))
    draft = context.draft
    for core, share in shares.items():
        draft.add_load(context.copy_in(core, name, share, made[core].buffer, origin))
    for core, share in shares.items():
        size = context.bytes_of(name, share)
        source = (Access(made[core].buffer, size),)
        targets = tuple(Access(made[other].buffer, size) for other in made if other != core)
        draft.add_load(context.move(core, MULTICAST, (name, share), source, targets, origin))
