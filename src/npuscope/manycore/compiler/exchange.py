"""Parts of activations that other cores hold: sent by multicast, or through a port to a peer."""

from __future__ import annotations

from dataclasses import replace

from npuscope.manycore.compiler.boxes import Box, around, common
from npuscope.manycore.compiler.context import Context, Operands, Origin
from npuscope.manycore.compiler.draft import Access, Peer, Role
from npuscope.manycore.compiler.kinds import MULTICAST, RECEIVE, SEND
from npuscope.manycore.compiler.ports import arriving

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
