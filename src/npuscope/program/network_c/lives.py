"""How long the buffers of a network.c live, and which of them are names for bytes of another."""

from __future__ import annotations

from collections.abc import Iterable

from npuscope.program.model import Buffer, Epoch
from npuscope.program.network_c.read_head import FOR_EVER
from npuscope.program.network_c.read_units import engines
from npuscope.structs import replace


def settled(
    buffers: Iterable[Buffer], epochs: Iterable[Epoch], outputs: Iterable[str]
) -> tuple[Buffer, ...]:
    """Lives that no file states, from the epochs' use; then who owns the bytes."""
    return _aliases(_with_lives(tuple(buffers), tuple(epochs), outputs))


def _with_lives(
    buffers: tuple[Buffer, ...], epochs: tuple[Epoch, ...], outputs: Iterable[str]
) -> tuple[Buffer, ...]:
    """From the epoch that makes a buffer to the last one that uses it; outputs to the end."""
    last: dict[str, int] = {}
    for epoch in epochs:
        names = {engine.addr_base.buffer for engine in engines(epoch.groups or ())}
        names |= {*epoch.call.inputs, *epoch.call.outputs} if epoch.call else set()
        last |= dict.fromkeys(names, epoch.last_number)
    final = max((epoch.last_number for epoch in epochs), default=0)
    last |= dict.fromkeys(outputs, final)
    last |= {b.name: final for b in buffers if b.is_param}
    return tuple(
        replace(b, last=max(b.first, last.get(b.name, 0))) if b.last >= FOR_EVER else b
        for b in buffers
    )


def _aliases(buffers: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
    """Another name for bytes of a buffer that is alive owns no memory of its own."""
    owners: dict[str, list[Buffer]] = {}
    views = []
    for buffer in sorted(buffers, key=lambda b: (b.first, -b.size_bytes)):
        if buffer.view_of:
            views.append(buffer)
            continue
        owner = next((o for o in owners.get(buffer.pool, ()) if _holds(o, buffer)), None)
        if owner is None:
            owners.setdefault(buffer.pool, []).append(buffer)
        views.append(replace(buffer, view_of=owner.name) if owner else buffer)
    return tuple(views)


def _holds(owner: Buffer, other: Buffer) -> bool:
    inside = owner.offset <= other.offset
    inside &= other.offset + other.size_bytes <= owner.offset + owner.size_bytes
    return inside and owner.first <= other.first <= owner.last
