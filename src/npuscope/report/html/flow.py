"""Which epoch uses what another one made."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.profile.model import Profile
from npuscope.program.model import Epoch, Program
from npuscope.program.units import Streng


def epoch_edges(profile: Profile, program: Program) -> list[tuple[int, int]]:
    """(producer, consumer) as places in the profile; a block that covers many counts as one.

    Several epochs may fill one buffer, each a part: all of them are producers.
    """
    place = _places(profile)
    owners = {buffer.name: buffer.view_of or buffer.name for buffer in program.buffers}
    writers: dict[str, dict[int, None]] = {}
    found: dict[tuple[int, int], None] = {}
    for epoch in program.executed:
        here = place.get(epoch.number)
        if here is None:
            continue
        for name in _reads(epoch):
            sources = writers.get(owners.get(name, name), {})
            found |= {(source, here): None for source in sources if source != here}
        for name in _writes(epoch):
            writers.setdefault(owners.get(name, name), {})[here] = None
    return list(found)


def _places(profile: Profile) -> dict[int, int]:
    return {
        number: index
        for index, epoch in enumerate(profile.epochs)
        for number in range(epoch.first, epoch.last + 1)
    }


def _reads(epoch: Epoch) -> Iterator[str]:
    yield from epoch.call.inputs if epoch.call else ()
    yield from (unit.addr_base.buffer for unit in _engines(epoch) if not unit.dir)


def _writes(epoch: Epoch) -> Iterator[str]:
    yield from epoch.call.outputs if epoch.call else ()
    yield from (unit.addr_base.buffer for unit in _engines(epoch) if unit.dir)


def _engines(epoch: Epoch) -> Iterator[Streng]:
    return (unit for unit in epoch.units if isinstance(unit, Streng))
