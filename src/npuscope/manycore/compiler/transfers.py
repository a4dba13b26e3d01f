"""Transfers of DMA steps once it is known what lies in VTCM and what was spilled."""

from __future__ import annotations

from npuscope.manycore.compiler.draft import Access, Draft, Step
from npuscope.manycore.compiler.kinds import COPY_DDR, COPY_IN, COPY_OUT, MULTICAST
from npuscope.manycore.compiler.ports import arriving, leaving
from npuscope.manycore.compiler.vtcm import Placement
from npuscope.manycore.program import MulticastEntry, Space, Transfer


class Transfers:
    """Transfers of one device, and the multicast table that they fill."""

    def __init__(self, draft: Draft, placement: Placement) -> None:
        self.draft, self.placement = draft, placement
        self._entries: dict[int, int] = {}  # mask -> most bytes

    def of(self, step: Step) -> tuple[str, Transfer]:
        """The kind of op that the step has become, and what it moves."""
        if step.sends_to is not None:
            return step.kind, self._to_peer(step)
        if step.receives_from is not None:
            return step.kind, self._from_peer(step)
        source, target = self._space(step.reads), self._space(step.writes)
        kind = _kind(step.kind, source, target)
        if kind != MULTICAST:
            return kind, Transfer(step.out_bytes, source, target)
        return kind, self._spread(Transfer(step.out_bytes, source, target), step)

    @property
    def entries(self) -> tuple[MulticastEntry, ...]:
        return tuple(MulticastEntry(mask, size) for mask, size in self._entries.items())

    def _to_peer(self, step: Step) -> Transfer:
        assert step.sends_to is not None
        home, peer = self.draft.device(step.core), step.sends_to.device
        port = leaving(self.draft.devices, home, peer)
        space = self._space(step.reads)
        return Transfer(step.out_bytes, space, Space.PEER, port=port, peer=peer)

    def _from_peer(self, step: Step) -> Transfer:
        assert step.receives_from is not None
        home, peer = self.draft.device(step.core), step.receives_from.device
        port = arriving(self.draft.devices, peer, home)
        space = self._space(step.writes)
        made = Transfer(step.out_bytes, Space.PEER, space, port=port, peer=peer)
        return self._spread(made, step) if space is Space.VTCM else made

    def _spread(self, transfer: Transfer, step: Step) -> Transfer:
        """To all cores whose buffers are written."""
        buffers = self.draft.buffers
        mask = 0
        for access in step.writes:
            mask |= 1 << self.draft.local(buffers[access.buffer].core)
        self._entries[mask] = max(self._entries.get(mask, 0), transfer.bytes)
        entry = list(self._entries).index(mask)
        return Transfer(
            transfer.bytes,
            transfer.source,
            transfer.target,
            mask,
            entry,
            transfer.port,
            transfer.peer,
        )

    def _space(self, accesses: tuple[Access, ...]) -> Space:
        """Buffers of one tensor are spilled together, so that the first speaks for all."""
        inside = bool(accesses) and accesses[0].buffer in self.placement.offsets
        return Space.VTCM if inside else Space.DDR


def _kind(kind: str, source: Space, target: Space) -> str:
    if kind == MULTICAST and target is Space.VTCM:
        return MULTICAST
    if target is Space.VTCM:
        return COPY_IN
    return COPY_OUT if source is Space.VTCM else COPY_DDR
