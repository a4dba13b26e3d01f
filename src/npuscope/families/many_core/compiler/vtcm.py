"""Places in VTCM by lifetime. What does not fit goes to DDR, a tensor at a time."""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import count

from msgspec import Struct, field

from npuscope.families.many_core.compiler.draft import Draft, DraftBuffer, Role
from npuscope.families.many_core.machine import CoreMachine

_PATIENCE = 64  # of 8 attempts each spills one more family, then more and more
_LONG = 32  # what lives for so much of the order lies apart
_SPILLED_FIRST = (Role.OUTPUT, Role.RECEIVED, Role.BLOCKED)


class Lifetime(Struct, frozen=True):
    first: int  # position of the step that writes it first
    last: int  # of the last one that reads or writes it


class VtcmPlacement(Struct, frozen=True):
    """By buffer its offset, absent where it lies in DDR, and the buffers whose place it takes."""

    order: tuple[int, ...]  # steps
    offsets: dict[int, int]
    replaces: dict[int, tuple[int, ...]]
    most_bytes: dict[int, int]  # by core
    spilled: tuple[str, ...] = ()  # families


def place(draft: Draft, machine: CoreMachine) -> VtcmPlacement:
    """With loads as far ahead as fits; if nothing else helps, activations leave VTCM."""
    # Loads give way first; activations leave VTCM only if that is not enough.
    ahead = machine.memory.prefetch
    while True:
        order = issue_order(draft, ahead)
        for apart in (False, True):
            attempt = _Attempt(draft, order, machine, frozenset(), apart)
            if attempt.victim is None:
                return attempt.result()
        if not ahead:
            break
        ahead //= 2
    spilled: set[str] = set()
    order = issue_order(draft, min(machine.memory.prefetch, 1))
    for tried in count():
        attempt = _Attempt(draft, order, machine, frozenset(spilled), True)
        if attempt.victim is None:
            break
        # A network that spills much would be walked along a thousand times, one by one.
        spilled |= {attempt.victim, *attempt.largest(tried * tried // _PATIENCE)}
    return attempt.result()


def issue_order(draft: Draft, ahead: int) -> tuple[int, ...]:
    """All steps in one order; loads stand `ahead` units before the work that needs them."""
    units = draft.units
    order = [step for unit in units[:ahead] for step in unit.loads]
    for number, unit in enumerate(units):
        if number + ahead < len(units):
            order += units[number + ahead].loads
        order += unit.work
    return tuple(order)


def lifetimes(draft: Draft, order: tuple[int, ...]) -> dict[int, Lifetime]:
    lives: dict[int, Lifetime] = {}
    for position, number in enumerate(order):
        step = draft.steps[number]
        for access in (*step.writes, *step.reads):
            before = lives.get(access.buffer)
            first = before.first if before else position
            lives[access.buffer] = Lifetime(first, position)
    return lives


class _Core(Struct):
    """VTCM of one core: what is in it, what was, and where the search continues."""

    live: list[tuple[int, int, int]] = field(default_factory=list)  # start, stop, buffer
    former: list[tuple[int, int, int]] = field(default_factory=list)  # apart, in order
    hand: int = 0
    used: int = 0
    most: int = 0


class _Attempt:
    """One walk along the order; `victim` is the family to spill if it fails.

    With `apart` what stays long lies at the end of VTCM: gaps between it would be of no use.
    """

    def __init__(
        self,
        draft: Draft,
        order: tuple[int, ...],
        machine: CoreMachine,
        spilled: frozenset[str],
        apart: bool,
    ) -> None:
        self.draft, self.order, self.spilled = draft, order, spilled
        self.long = len(order) // _LONG if apart else len(order)
        self.size = machine.memory.vtcm_bytes
        self.alignment = machine.memory.vtcm_alignment_bytes
        self.cores: dict[int, _Core] = {}
        self.offsets: dict[int, int] = {}
        self.replaces: dict[int, tuple[int, ...]] = {}
        self.victim = self._walk()

    def result(self) -> VtcmPlacement:
        most = {core: memory.most for core, memory in sorted(self.cores.items())}
        spilled = tuple(sorted(self.spilled))
        return VtcmPlacement(self.order, self.offsets, self.replaces, most, spilled)

    def largest(self, most: int) -> list[str]:
        """Families of the largest activations that are in VTCM where the walk ended."""
        places = [owner for core in self.cores.values() for _, _, owner in core.live]
        there = [self.draft.buffers[owner] for owner in places]
        sizes = {one.family: one.bytes for one in there if one.role in _SPILLED_FIRST}
        return sorted(sizes, key=lambda family: (-sizes[family], family))[:most]

    def _walk(self) -> str | None:
        lives = lifetimes(self.draft, self.order)
        ends: dict[int, list[int]] = {}
        for buffer, life in lives.items():
            ends.setdefault(life.last, []).append(buffer)
        for position, number in enumerate(self.order):
            for access in self.draft.steps[number].writes:
                life = lives[access.buffer]
                if life.first == position and not self._enter(
                    access.buffer, life.last - life.first > self.long
                ):
                    return self._choose(self.draft.buffers[access.buffer])
            for buffer in ends.get(position, ()):
                core = self.cores.get(self.draft.buffers[buffer].core)
                if core is None or buffer not in self.offsets:
                    continue
                place = next(live for live in core.live if live[2] == buffer)
                core.live.remove(place)
                insort(core.former, place)
                core.used -= place[1] - place[0]
        return None

    def _enter(self, number: int, stays: bool) -> bool:
        buffer = self.draft.buffers[number]
        if buffer.role is Role.IN_DDR or buffer.family in self.spilled or number in self.offsets:
            return True
        core = self.cores.setdefault(buffer.core, _Core())
        size = -(-max(buffer.bytes, 1) // self.alignment) * self.alignment
        start = self._last_gap(core, size) if stays else self._gap(core, size)
        if start is None:
            return False
        stop = start + size
        self.offsets[number] = start
        here = _ordered_touching(core.former, start, stop)
        before = core.former[here]
        self.replaces[number] = tuple(sorted(owner for _, _, owner in before))
        core.former[here] = [rest for old in before for rest in _without(old, start, stop)]
        core.live.append((start, stop, number))
        if not stays:
            core.hand = stop % self.size
        core.used += stop - start
        core.most = max(core.most, core.used)
        return True

    def _last_gap(self, core: _Core, size: int) -> int | None:
        stop = self.size
        for begin, end, _ in sorted(core.live, reverse=True):
            if end <= stop - size:
                break
            stop = min(stop, begin)
        return stop - size if stop >= size else None

    def _gap(self, core: _Core, size: int) -> int | None:
        """The next one behind what was placed last: fresh places need not be waited for."""
        starts = sorted({core.hand, 0, *(stop for _, stop, _ in core.live)})
        ahead = [s for s in starts if s >= core.hand] + [s for s in starts if s < core.hand]
        for start in ahead:
            stop = start + size
            if stop <= self.size and not any(a < stop and start < b for a, b, _ in core.live):
                return start
        return None

    def _choose(self, buffer: DraftBuffer) -> str:
        """The largest activation that is there now, or else the largest of all."""
        there = [self.draft.buffers[owner] for _, _, owner in self.cores[buffer.core].live]
        # Constants come from DDR anyway, so activations are chosen first; the name makes ties
        # stable.
        most = max((buffer, *there), key=lambda b: (b.role in _SPILLED_FIRST, b.bytes, b.family))
        return most.family


_Place = tuple[int, int, int]


def _ordered_touching(places: list[_Place], start: int, stop: int) -> slice:
    """Those of places, apart and in order, that overlap a range."""
    first = bisect_left(places, (start,))
    if first and places[first - 1][1] > start:
        first -= 1
    return slice(first, bisect_left(places, (stop,)))


def _without(place: _Place, start: int, stop: int) -> list[_Place]:
    """What is left of a place when another takes [start, stop)."""
    low, high, owner = place
    if high <= start or stop <= low:
        return [place]
    before = [(low, start, owner)] if low < start else []
    return before + ([(stop, high, owner)] if stop < high else [])
