"""Operands of ops: from other cores or from DDR, in rows or in blocks of channels."""

from __future__ import annotations

from dataclasses import replace

from npuscope.many_core.compiler.boxes import Box, around, common, cut
from npuscope.many_core.compiler.draft import (
    Access,
    Context,
    Operands,
    Origin,
    Peer,
    Role,
    arriving,
)
from npuscope.many_core.compiler.kinds import MULTICAST, RECEIVE, SEND, TO_D32

# --- Constants and inputs from DDR: per core, or once for many by multicast ---


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


# --- Parts that other cores hold: sent by multicast, or through a port to a peer ---

# More different parts than this are sent as one part that holds them all.
_MOST_PARTS = 4


def from_cores(context: Context, name: str, boxes: dict[int, Box], origin: Origin) -> Operands:
    """A core's own part, and a buffer with what the others hold."""
    received = _exchange(context, name, boxes, origin)
    found: Operands = {}
    for core, box in boxes.items():
        own = context.draft.values[name].pieces.get(core)
        shared = common(own[0], box) if own else None
        reads = [Access(own[1], context.bytes_of(name, shared))] if own and shared else []
        if core in received:
            reads.append(context.whole(received[core]))
        found[core] = tuple(reads)
    return found


def _exchange(context: Context, name: str, boxes: dict[int, Box], origin: Origin) -> dict[int, int]:
    """By core the buffer with the parts that others hold; the senders' steps are added."""
    known, pieces = context.draft.loaded, context.draft.values[name].pieces
    found: dict[int, int] = {}
    wanted: dict[int, Box] = {}
    for core, box in boxes.items():
        key = ("received", name, core, box)
        # Another op needed the same part before; it is still there.
        if key in known:
            found[core] = known[key]
        elif _lacks(context, name, core, box):
            wanted[core] = box
            found[core] = known[key] = _receive_buffer(context, name, core, box)
    for sender, (piece, buffer) in pieces.items():
        for part, receivers in _parts(sender, piece, wanted):
            targets = [found[core] for core in receivers]
            _send(context, (name, part), sender, buffer, targets, origin)
    return found


def _lacks(context: Context, name: str, core: int, box: Box) -> bool:
    own = context.draft.values[name].pieces.get(core)
    return own is None or common(own[0], box) != box


def _receive_buffer(context: Context, name: str, core: int, box: Box) -> int:
    """Room for what is not the core's own."""
    own = context.draft.values[name].pieces.get(core)
    shared = common(own[0], box) if own else None
    size = context.bytes_of(name, box) - context.bytes_of(name, shared)
    return context.buffer(core, name, box, Role.RECEIVED, size).buffer


def _parts(sender: int, piece: Box, wanted: dict[int, Box]) -> list[tuple[Box, tuple[int, ...]]]:
    """Parts of a piece with the cores that lack them; many different ones become one."""
    parts: dict[Box, list[int]] = {}
    for core, box in wanted.items():
        shared = common(piece, box)
        if core != sender and shared is not None:
            parts.setdefault(shared, []).append(core)
    if len(parts) > _MOST_PARTS:
        everyone = sorted(core for cores in parts.values() for core in cores)
        return [(around(parts), tuple(everyone))]
    return [(part, tuple(cores)) for part, cores in parts.items()]


def _send(
    context: Context,
    part: tuple[str, Box],
    sender: int,
    buffer: int,
    targets: list[int],
    origin: Origin,
) -> None:
    """Receivers of one device at a time."""
    draft = context.draft
    source = (Access(buffer, context.bytes_of(*part)),)
    for device in range(draft.devices):
        there = [b for b in targets if draft.device(draft.buffers[b].core) == device]
        writes = tuple(Access(b, _kept(context, part, b)) for b in there)
        if writes and device == draft.device(sender):
            draft.add_work(context.move(sender, MULTICAST, part, source, writes, origin))
        elif writes:
            _send_to_peer(context, part, sender, device, source, writes, origin)


def _kept(context: Context, part: tuple[str, Box], buffer: int) -> int:
    """Of a part that is sent, what the receiver has a place for."""
    name, box = part
    return context.bytes_of(name, common(box, context.draft.buffers[buffer].box))


def _send_to_peer(
    context: Context,
    part: tuple[str, Box],
    sender: int,
    device: int,
    source: tuple[Access, ...],
    writes: tuple[Access, ...],
    origin: Origin,
) -> None:
    """The core of the same number receives it for all that need it."""
    draft = context.draft
    number, home = draft.transactions, draft.device(sender)
    draft.transactions += 1
    out = context.move(sender, SEND, part, source, (), origin)
    draft.add_work(replace(out, sends_to=Peer(device, number)))
    receiver = device * draft.cores + draft.local(sender)
    arrival = context.move(receiver, RECEIVE, part, (), writes, origin)
    port = arriving(draft.devices, home, device)
    draft.add_work(replace(arrival, receives_from=Peer(home, number), port_wait=port))


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
    """The same values in blocks of 32 channels, made once per core and part."""
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
