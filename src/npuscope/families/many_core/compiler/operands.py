"""Operands of ops: from other cores or from DDR, in rows or in blocks of channels."""

from __future__ import annotations

from npuscope.families.many_core.compiler.boxes import Box, around, common, cut
from npuscope.families.many_core.compiler.draft import (
    BufferAccess,
    DraftContext,
    Operands,
    Origin,
    PeerEnd,
    Role,
    arriving,
)
from npuscope.families.many_core.compiler.kinds import FROM_D32, MULTICAST, RECEIVE, SEND, TO_D32
from npuscope.structs import replace

# --- Constants and inputs from DDR: per core, or once for many by multicast ---


def load_input(context: DraftContext, name: str, boxes: dict[int, Box]) -> Operands:
    """Host DMA has put inputs into DDR; every core fetches its part, once."""
    loaded = context.draft.loaded
    operands: Operands = {}
    for core, box in boxes.items():
        key = ("input", name, core, box)
        if key not in loaded:
            access = context.buffer(core, name, box, Role.INPUT)
            origin = (f"input:{name}",)
            context.draft.add_load(context.copy_in(core, name, box, access.buffer, origin))
            loaded[key] = access.buffer
        operands[core] = (context.whole(loaded[key]),)
    return operands


def load_constant(
    context: DraftContext, name: str, boxes: dict[int, Box], origin: Origin
) -> Operands:
    """Cores of a device that need the same part share the load."""
    alike: dict[tuple[int, Box], list[int]] = {}
    for core, box in boxes.items():
        alike.setdefault((context.draft.device(core), box), []).append(core)
    operands: Operands = {}
    loaded, memory = context.draft.loaded, context.machine.memory
    # Constants of layers that a batch goes through in parts stay for one part.
    chain, turn, number = context.draft.rank
    kept = (chain, turn) if number in context.draft.batch_parts else ()
    for (_, box), cores in alike.items():
        size = context.bytes_of(name, box)
        missing = [core for core in cores if ("constant", name, core, box, kept) not in loaded]
        buffers = {core: context.buffer(core, name, box, Role.CONSTANT) for core in missing}
        if len(missing) > 1 and size >= memory.multicast_min_bytes:
            _load_once(context, name, box, buffers, origin)
        else:
            for core, access in buffers.items():
                context.draft.add_load(context.copy_in(core, name, box, access.buffer, origin))
        if size > memory.keep_constant_bytes:
            operands |= {core: (access,) for core, access in buffers.items()}
            continue
        loaded.update(
            {("constant", name, core, box, kept): buffers[core].buffer for core in buffers}
        )
        for core in cores:
            operands[core] = (context.whole(loaded["constant", name, core, box, kept]),)
    return operands


def _load_once(
    context: DraftContext, name: str, box: Box, buffers: dict[int, BufferAccess], origin: Origin
) -> None:
    """One core after the other loads for all; of a large part every core loads a share."""
    draft = context.draft
    if context.bytes_of(name, box) <= context.machine.memory.weight_chunk_bytes:
        shares = {draft.next_loader(buffers): box}
    else:
        axis = max(range(len(box)), key=lambda a: box[a][1] - box[a][0])
        shares = dict(zip(buffers, cut(box, axis, len(buffers)), strict=False))
    for core, share in shares.items():
        draft.add_load(context.copy_in(core, name, share, buffers[core].buffer, origin))
    for core, share in shares.items():
        size = context.bytes_of(name, share)
        source = (BufferAccess(buffers[core].buffer, size),)
        targets = tuple(
            BufferAccess(buffers[other].buffer, size) for other in buffers if other != core
        )
        draft.add_load(context.move(core, MULTICAST, (name, share), source, targets, origin))


# --- Parts that other cores hold: sent by multicast, or through a port to a peer ---

# More different parts than this are sent as one part that holds them all.
_MOST_PARTS = 4


def from_cores(context: DraftContext, name: str, boxes: dict[int, Box], origin: Origin) -> Operands:
    """A core's own pieces, and buffers with what the others hold."""
    received = _exchange(context, name, boxes, origin)
    operands: Operands = {}
    for core, box in boxes.items():
        own = context.draft.values[name].pieces.get(core, ())
        mine = [
            BufferAccess(buffer, context.bytes_of(name, part), (name, piece))
            for piece, buffer in own
            if (part := common(piece, box))
        ]
        operands[core] = (*mine, *(context.whole(buffer) for buffer in received.get(core, ())))
    return operands


def _exchange(
    context: DraftContext, name: str, boxes: dict[int, Box], origin: Origin
) -> dict[int, list[int]]:
    """By core the buffers with the parts that others hold; the senders' steps are added."""
    received: dict[int, list[int]] = {}
    for sender, piece, buffer in context.draft.values[name].all_pieces():
        lacking: dict[int, Box] = {}
        for core, box in boxes.items():
            shared = common(piece, box)
            if core == sender or shared is None or _holds(context, name, core, shared):
                continue
            there = _there(context, name, core, buffer, shared)
            if there is None:
                lacking[core] = shared
            else:
                # Another op needed the same part before; it is still there.
                received.setdefault(core, []).append(there)
        for part, receivers in _parts(lacking):
            targets: list[int] = []
            for core in receivers:
                target = context.buffer(core, name, part, Role.RECEIVED).buffer
                context.draft.received.setdefault((core, buffer, name), []).append((part, target))
                received.setdefault(core, []).append(target)
                targets.append(target)
            source = BufferAccess(buffer, context.bytes_of(name, part), (name, piece))
            _send(context, (name, part), sender, source, targets, origin)
    return received


def _holds(context: DraftContext, name: str, core: int, part: Box) -> bool:
    """Whether a core made the part itself; a view may have it in several places."""
    own = context.draft.values[name].pieces.get(core, ())
    return any(common(box, part) == part for box, _ in own)


def _there(context: DraftContext, name: str, core: int, source: int, part: Box) -> int | None:
    """The buffer of a core into which the part was sent before."""
    for box, buffer in context.draft.received.get((core, source, name), ()):
        if common(box, part) == part:
            return buffer
    return None


def _parts(lacking: dict[int, Box]) -> list[tuple[Box, tuple[int, ...]]]:
    """Parts of a piece with the cores that lack them; many different ones become one."""
    parts: dict[Box, list[int]] = {}
    for core, shared in lacking.items():
        parts.setdefault(shared, []).append(core)
    if len(parts) > _MOST_PARTS:
        everyone = sorted(core for cores in parts.values() for core in cores)
        return [(around(parts), tuple(everyone))]
    return [(part, tuple(cores)) for part, cores in parts.items()]


def _send(
    context: DraftContext,
    part: tuple[str, Box],
    sender: int,
    source: BufferAccess,
    targets: list[int],
    origin: Origin,
) -> None:
    """Receivers of one device at a time."""
    draft, reads = context.draft, (source,)
    for device in range(draft.devices):
        there = [b for b in targets if draft.device(draft.buffers[b].core) == device]
        writes = tuple(context.whole(buffer) for buffer in there)
        if writes and device == draft.device(sender):
            draft.add_work(context.move(sender, MULTICAST, part, reads, writes, origin))
        elif writes:
            _send_to_peer(context, part, sender, device, reads, writes, origin)


def _send_to_peer(
    context: DraftContext,
    part: tuple[str, Box],
    sender: int,
    device: int,
    source: tuple[BufferAccess, ...],
    writes: tuple[BufferAccess, ...],
    origin: Origin,
) -> None:
    """The core of the same number receives it for all that need it."""
    draft = context.draft
    number, home = draft.transactions, draft.device(sender)
    draft.transactions += 1
    out = context.move(sender, SEND, part, source, (), origin)
    draft.add_work(replace(out, sends_to=PeerEnd(device, number)))
    receiver = device * draft.cores + draft.local(sender)
    arrival = context.move(receiver, RECEIVE, part, (), writes, origin)
    port = arriving(draft.devices, home, device)
    draft.add_work(replace(arrival, receives_from=PeerEnd(home, number), port_wait=port))


Parts = dict[int, Box]  # by core


def operand(
    context: DraftContext, name: str, boxes: Parts, origin: Origin, form: str = ""
) -> Operands:
    """By core what to read so as to have its box; `form` is a conversion to blocks or rows."""
    values, graph = context.draft.values, context.graph
    if name in values:
        operands = from_cores(context, name, boxes, origin)
        if form == (TO_D32 if values[name].blocked else FROM_D32):
            return operands
    elif name in graph.inputs:
        operands = load_input(context, name, boxes)
        if form == FROM_D32:
            return operands
    else:
        return load_constant(context, name, boxes, origin)
    return _converted(context, name, boxes, operands, origin, form) if form else operands


def _converted(
    context: DraftContext, name: str, boxes: Parts, operands: Operands, origin: Origin, form: str
) -> Operands:
    """The same values in the other layout, made once per core and part, in a unit of their own."""
    loaded = context.draft.loaded
    result: Operands = {}
    is_new = False
    for core, box in boxes.items():
        key = (form, name, core, box)
        if key not in loaded:
            target = context.buffer(core, name, box, Role.BLOCKED)
            step = context.work(core, form, name, (name, box), operands[core], target, origin)
            context.draft.add_work(step)
            loaded[key] = target.buffer
            is_new = True
        result[core] = (context.whole(loaded[key]),)
    if is_new:
        context.draft.next_unit()
    return result
