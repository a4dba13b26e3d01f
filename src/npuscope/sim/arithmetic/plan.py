"""How many frames each unit of a group gives, and of how many words: geometry alone, no values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from npuscope.program import unit_words
from npuscope.program.model import Group
from npuscope.program.unit_words import FeaturePort, KernelPort, word_bytes
from npuscope.program.units import Activ, Arith, Convacc, PoolUnit, Streng, Unit
from npuscope.sim.arithmetic.group import RunningUnit, connect
from npuscope.sim.arithmetic.streams import Contexts, Inbox, Words

Index = NDArray[np.intp]

# A unit's frames all at once may take this many words.
_MOST_WORDS = 1 << 26
# Frames of a source that are looked at until a link has let enough pass.
_MOST_FRAMES = 1 << 16


# Numbers of elements, bytes from one to the next, type.
Walk = tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]


class ByFramesError(Exception):
    """This group has to be run frame by frame."""


class Frames(Struct, frozen=True):
    """What a unit gave: (frames, ...), or different frames and which of them each one is."""

    values: Words
    which: Index | None = None

    @property
    def all(self) -> Words:
        return self.values if self.which is None else self.values[self.which]

    def first(self, count: int) -> Frames:
        if self.which is not None:
            return Frames(self.values, self.which[:count])
        return self if len(self.values) == count else Frames(self.values[:count])

    def at(self, numbers: Index) -> Frames:
        which = numbers if self.which is None else self.which[numbers]
        return Frames(self.values, which)


class UnitPlan(Struct, eq=False):
    """A unit, the words of one of its frames, how many it gives, and those."""

    unit: Unit
    inboxes: dict[int, Inbox]
    sources: dict[int, UnitPlan] = field(default_factory=dict)
    takers: list[UnitPlan] = field(default_factory=list)
    words: int = 0
    frames: int = 0
    output: Frames | None = None
    walk: Walk | None = None  # of an engine
    view: np.ndarray | None = None  # of memory along it

    @property
    def conv(self) -> Convacc:
        if not isinstance(self.unit, Convacc):
            raise ByFramesError
        return self.unit

    @property
    def engine(self) -> Streng:
        if not isinstance(self.unit, Streng):
            raise ByFramesError
        return self.unit

    @property
    def is_engine(self) -> bool:
        return isinstance(self.unit, Streng)

    @property
    def is_sink(self) -> bool:
        return isinstance(self.unit, Streng) and bool(self.unit.dir)

    def width(self, port: int, default: int) -> int:
        """Bytes per word of the link at a port."""
        return word_bytes(self.sources[port].unit) if port in self.sources else default

    def inlet(self, port: int, words: int, count: int) -> Frames:
        """`count` frames of `words` words as they arrive at a port."""
        source = self.sources[port]
        inlet = source.output
        if inlet is None:
            raise ByFramesError
        # Numbers of the frames that a link's contexts let pass; None for all.
        if self.is_plain(port):
            passing = None
        else:
            contexts = Contexts(self.inboxes[port].contexts.link)
            passing = np.array(
                [frame for frame in range(source.frames) if contexts.let_pass()], np.intp
            )
        if passing is not None:
            inlet = inlet.at(passing)
        if source.words == words:
            return inlet.first(count)
        return Frames(inlet.all.reshape(-1)[: count * words].reshape(count, words))

    def is_plain(self, port: int) -> bool:
        """Every frame of the source arrives."""
        link = self.inboxes[port].contexts.link
        return not link.frames0 and link.enable0

    def source_frames(self, port: int, count: int) -> int:
        """Frames of the source until the link has let that many pass."""
        if self.is_plain(port):
            return count
        contexts = Contexts(self.inboxes[port].contexts.link)
        for frame in range(_MOST_FRAMES):
            if not count:
                return frame
            count -= contexts.let_pass()
        raise ByFramesError


# Plans of groups that ran before, for the next inference. Whoever runs a group takes its plan
# out, so that nobody else writes to it.
_MOST_KEPT = 1 << 12
_kept: dict[int, tuple[Group, list[UnitPlan]]] = {}


@contextmanager
def planned(group: Group) -> Iterator[list[UnitPlan]]:
    """Units with all that is known before a value is read, sources before what they feed."""
    earlier = _kept.pop(id(group), None)
    plans = earlier[1] if earlier is not None and earlier[0] is group else plan_group(group)
    try:
        yield plans
    finally:
        for plan in plans:
            plan.output = plan.view = None
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[id(group)] = group, plans


def plan_group(group: Group) -> list[UnitPlan]:
    """A plan of its own: geometry alone."""
    plans = _in_order(connect(group))
    for plan in plans:
        plan.words = _frame_words(plan.unit) or _given_words(plan)
        _some(plan.words)
    for plan in reversed(plans):
        if plan.is_sink:
            plan.frames = plan.engine.frames
        ends_early = plan.is_engine and plan.frames > plan.engine.frames
        if ends_early or plan.frames * plan.words > _MOST_WORDS:
            raise ByFramesError
        for port, words in _needs(plan) if plan.frames else ():
            source = plan.sources[port]
            needed = plan.source_frames(port, -(-words // source.words))
            source.frames = max(source.frames, needed)
    return plans


def _in_order(nodes: list[RunningUnit]) -> list[UnitPlan]:
    order: dict[int, UnitPlan] = {}
    begun: set[int] = set()

    def visit(node: RunningUnit) -> UnitPlan:
        if id(node) in order:
            return order[id(node)]
        if id(node) in begun:
            raise ByFramesError  # a loop through the switch
        begun.add(id(node))
        plan = UnitPlan(node.unit, node.inboxes)
        for port, source in node.sources.items():
            plan.sources[port] = visit(source)
            plan.sources[port].takers.append(plan)
        order[id(node)] = plan
        return plan

    for node in nodes:
        visit(node)
    return list(order.values())


def _frame_words(unit: Unit) -> int:
    match unit:
        case Streng():
            return unit.frame_elements
        case Arith():
            return unit_words.arith_words(unit)
        case Convacc() | PoolUnit():
            return unit.out_elements
    return 0


def _given_words(plan: UnitPlan) -> int:
    """A unit without a geometry passes frames as they come."""
    if not isinstance(plan.unit, Activ | Arith) or 0 not in plan.sources:
        raise ByFramesError
    return plan.sources[0].words


def _needs(plan: UnitPlan) -> list[tuple[int, int]]:
    """Words that a unit takes from its ports for all its frames; as many and not one more."""
    unit, frames = plan.unit, plan.frames
    match unit:
        case Streng():
            return [(0, frames * plan.words)] if unit.dir else []
        case Convacc():
            features = _some(FeaturePort(unit, plan.width(0, 1)).words)
            kernels = _some(KernelPort(unit, plan.width(1, 1)).words)
            turns = -(-plan.frames // unit_words.tiles(unit))
            needs = [(0, turns * features), (1, plan.frames * kernels)]
            sums = unit_words.sums_taken(unit, plan.frames)
            return [*needs, (2, sums * plan.words)] if sums else needs
        case Arith() if unit_words.takes_y(unit, 1 in plan.sources):
            y_words = unit.batchDepth if unit_words.broadcasts(unit) else plan.words
            return [(0, frames * plan.words), (1, frames * _some(y_words))]
        case PoolUnit():
            return [(0, frames * _some(unit_words.pool_words(unit)))]
        case _:
            return [(0, frames * plan.words)]


def _some(words: int) -> int:
    """A request of no words would mean a frame as it comes."""
    if words < 1:
        raise ByFramesError
    return words
