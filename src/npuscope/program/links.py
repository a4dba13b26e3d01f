"""Wiring of a group: who feeds whom, and how many words pass."""

from __future__ import annotations

from collections.abc import Sequence

from npuscope.program.model import Group
from npuscope.program.unit_words import word_bytes
from npuscope.program.units import Activ, Arith, Convacc, Decun, Link, PoolUnit, Streng, Unit
from npuscope.structs import replace

Processor = Convacc | Arith | Activ | PoolUnit | Decun


class Wiring:
    """Lookups over a group's links. Words are counted over the whole epoch."""

    def __init__(self, group: Group) -> None:
        self.units, self.links = group.units, group.links
        units = {(u.unit, u.id): u for u in group.units}
        self._into: dict[tuple[str, int, int], tuple[Link, Unit]] = {}
        self._out_of: dict[tuple[str, int], list[tuple[Unit, int]]] = {}
        for link in group.links:
            end, feeds = link.destination, (link.source.unit, link.source.id)
            source, reader = units.get(feeds), units.get((end.unit, end.id))
            if source is not None and reader is not None:  # a foreign file may leave out a unit
                self._into[end.unit, end.id, end.port] = (link, source)
                self._out_of.setdefault(feeds, []).append((reader, end.port))
        self._words: dict[tuple[str, int], int] = {}
        self.engines = [unit for unit in group.units if isinstance(unit, Streng)]
        self.processors: list[Processor] = [u for u in group.units if not isinstance(u, Streng)]

    def source(self, unit: Unit, port: int = 0) -> Unit | None:
        """The unit that feeds a port."""
        link = self._into.get((unit.unit, unit.id, port))
        return link[1] if link else None

    def readers(self, unit: Unit) -> Sequence[tuple[Unit, int]]:
        """Units that a unit feeds, with the port."""
        return self._out_of.get((unit.unit, unit.id), ())

    def feature_reader(self, engine: Streng) -> Convacc | None:
        """The convolution whose features an engine reads."""
        for unit, port in self.readers(engine):
            if isinstance(unit, Convacc) and port == 0:
                return unit
        return None

    def frames(self, conv: Convacc) -> int:
        """Frames a convolution computes: one a set of kernels.

        An engine may send all sets as one long frame: then they are as many as it holds. Or it
        sends the part of each unit in series as a frame: the filter says how many make a set.
        """
        kernels = self.source(conv, 1)
        if not isinstance(kernels, Streng):
            return 1
        if kernels.frames > 1 or not kernels.continuous:
            return kernels.frames // _frames_of_a_set(conv, kernels)
        width = word_bytes(kernels)
        buffered = sum(
            -(-unit.kernel_elements // (width if unit.deepmode else 1))
            for unit, port in self.readers(kernels)
            if isinstance(unit, Convacc) and port == 1
        )
        sets, rest = divmod(kernels.total_elements, buffered)
        return kernels.frames if rest else max(1, sets)

    def input_words(self, unit: Unit, port: int = 0) -> int:
        """Words that reach a port, after the switch has dropped frames."""
        feed = self._into.get((unit.unit, unit.id, port))
        if feed is None:
            return 0
        link, source = feed
        words = self.output_words(source)
        if not link.frames0:
            return words
        passed = link.frames0 * link.enable0 + link.frames1 * link.enable1
        return words * passed // (link.frames0 + link.frames1)

    def output_words(self, unit: Unit) -> int:
        """Words that leave a unit in the whole epoch."""
        key = (unit.unit, unit.id)
        words = self._words.get(key)
        if words is None:
            words = self._words[key] = self._count(unit)
        return words

    def _count(self, unit: Unit) -> int:
        if isinstance(unit, Streng):
            return 0 if unit.dir else unit.total_elements
        if isinstance(unit, Convacc):
            return unit.out_elements * self.frames(unit)
        words = self.input_words(unit)
        if isinstance(unit, PoolUnit):
            return words * unit.out_elements // (unit.inputX * unit.inputY * unit.batchSize)
        return words


def wired(group: Group) -> Wiring:
    """The wiring stays with its group: claims, checks and timing ask for it in turn."""
    memo = group.__dict__
    if "wiring" not in memo:
        memo["wiring"] = Wiring(group)
    wiring: Wiring = memo["wiring"]
    return wiring


def without_surplus(group: Group) -> Group:
    """Some compilers let an engine that reads a short operand again and again offer more frames
    than anyone takes. What is combined element by element passes no more words than the results
    have: the engine waits then, and the group is done when its results are written."""
    wiring = wired(group)
    frames = {(e.unit, e.id): n for e in wiring.engines if (n := _frames_taken(e, wiring))}
    if not frames:
        return group
    units = tuple(
        replace(unit, frame_tot_cnt=frames[unit.unit, unit.id])
        if isinstance(unit, Streng) and (unit.unit, unit.id) in frames
        else unit
        for unit in group.units
    )
    return replace(group, units=units)


def _frames_taken(engine: Streng, wiring: Wiring) -> int:
    """Frames that are taken of an engine with a surplus; 0 where it has none."""
    if engine.dir or engine.distinct_frames >= engine.frames or not engine.frame_elements:
        return 0
    count = -(-_results(engine, wiring) // engine.frame_elements)
    return count if 0 < count < engine.frames else 0


def _results(engine: Streng, wiring: Wiring) -> int:
    """Words that are written behind a row of element-wise units; 0 where others follow."""
    unit: Unit = engine
    for _ in wiring.units:
        readers = wiring.readers(unit)
        if len(readers) != 1:
            return 0
        unit = readers[0][0]
        if isinstance(unit, Streng):
            return unit.total_elements
        if not isinstance(unit, Arith | Activ):
            return 0
    return 0


def _frames_of_a_set(conv: Convacc, kernels: Streng) -> int:
    """More than one where units in series take their kernels out of one stream in turn."""
    units, rest = divmod(conv.kfilt_tot, conv.nKernels or 1)
    alone = kernels.total_elements == kernels.frames * conv.kernel_elements
    return units if alone and not rest and units and kernels.frames % units == 0 else 1
