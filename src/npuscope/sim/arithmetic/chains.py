"""Convolutions in series: each adds its sums of products to those of the one before.

Where nothing is rounded or can saturate between two of them, their products are added in one
matrix product. Partial sums may also come from memory, where the last unit of the series
has stored them: frames are then computed in the order in which they wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from npuscope.program import unit_words
from npuscope.program.addresses import frame_starts
from npuscope.program.units import Convacc
from npuscope.sim.arithmetic import convacc, streams, walks
from npuscope.sim.arithmetic.convacc import Addend, ClampTally, Features, UnitKernels
from npuscope.sim.arithmetic.plan import ByFramesError, Index, UnitPlan
from npuscope.sim.arithmetic.products import Operands, Products, as_range, operands, products
from npuscope.sim.arithmetic.streams import Words, limits, word_peak
from npuscope.sim.memory import Memory

# --- Series through the switch ---


def chain_of(last: UnitPlan) -> tuple[UnitPlan, ...]:
    """The units whose sums reach a unit frame by frame, through nothing else, and itself."""
    chain = [last]
    while _follows(chain[0]):
        chain.insert(0, chain[0].sources[2])
    return tuple(chain)


def is_inner(plan: UnitPlan) -> bool:
    """A unit whose sums only go on to the next of its series, which computes them."""
    taker = plan.takers[0] if plan.takers else None
    return taker is not None and isinstance(taker.unit, Convacc) and _follows(taker, plan)


def _follows(plan: UnitPlan, before: UnitPlan | None = None) -> bool:
    source = plan.sources.get(2)
    if source is None or not isinstance(source.unit, Convacc) or before not in (None, source):
        return False
    alone = source.takers == [plan] and plan.is_plain(2)
    aligned = (source.words, source.frames) == (plan.words, plan.frames)
    return alone and aligned and unit_words.takes_sum(plan.conv, 0)


class ChainStage(Struct, frozen=True):
    """Units whose sums are added before the last of them finishes."""

    first: UnitPlan
    last: UnitPlan
    products: Products

    def run(self, frames: range, words: Words | None, tally: ClampTally) -> Words:
        """Some frames of output; `words` are partial sums of the same frames."""
        unit, addend = self.first.conv, None
        if words is not None:
            counts = convacc.counted(unit, frames)
            addend = Addend(words, self.first.width(2, 2), unit.shift_a, counts)
        return convacc.finish(self.last.conv, self.products.at(frames), addend, tally)


def stages(chain: tuple[UnitPlan, ...]) -> list[ChainStage]:
    """A series cut where something is rounded, dropped or may saturate."""
    loaded = [_load(plan) for plan in chain]
    series: list[ChainStage] = []
    start, peak = 0, _first_peak(chain[0])
    for number, (plan, (part, which)) in enumerate(zip(chain, loaded, strict=True)):
        peak += part.peak
        following = chain[number + 1 : number + 2]
        if following and _passes_on(plan, following[0], peak, which, loaded[number + 1][1]):
            continue
        parts = [entry for entry, _ in loaded[start : number + 1]]
        series.append(ChainStage(chain[start], plan, products(parts, which)))
        start, peak = number + 1, _first_peak(following[0]) if following else 0
    return series


def _first_peak(plan: UnitPlan) -> int:
    return word_peak(plan.width(2, 2)) << plan.conv.shift_a if plan.conv.accumulate else 0


def _passes_on(
    plan: UnitPlan, taker: UnitPlan, peak: int, which: Index | None, other: Index | None
) -> bool:
    """Its sums arrive at the next unit as they are, and all of them count."""
    unit, following = plan.conv, taker.conv
    exact = not unit.shift_o and not following.shift_a and not convacc.is_unsigned(unit)
    fits = peak <= limits(unit.outbytes_o)[1]
    counts = bool(convacc.counted(following, range(taker.frames)).all())
    # Outputs of 16 bits are counted where they leave a unit.
    return exact and fits and counts and unit.outbytes_o != 2 and _equal(which, other)


def _equal(one: Index | None, other: Index | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _load(plan: UnitPlan) -> tuple[Operands, Index | None]:
    """Images and kernels of a unit, and the image that each frame of kernels meets."""
    unit = plan.conv
    convacc.check(unit)
    features = Features(unit, plan.width(0, 1))
    kernels = UnitKernels(unit, plan.width(1, 1))
    tiles = unit_words.tiles(unit)
    inlet = plan.inlet(0, features.words, -(-plan.frames // tiles))
    weights = kernels.matrices(plan.inlet(1, kernels.words, plan.frames).all)
    which = inlet.which
    if tiles > 1:
        which = np.arange(len(inlet.values)) if which is None else which
        which = np.repeat(which, tiles)[: plan.frames]
    return operands(unit, features.images(inlet.values), weights), which


def run_chain(last: UnitPlan, tally: ClampTally) -> Words:
    """All frames of the last unit of a series."""
    chain = chain_of(last)
    frames = range(last.frames)
    words = _sums_from_port(chain[0])
    for stage in stages(chain):
        words = stage.run(frames, words, tally)
    assert words is not None
    return words


def _sums_from_port(plan: UnitPlan) -> Words | None:
    unit = plan.conv
    if not convacc.counted(unit, range(plan.frames)).any():
        return None
    count = unit_words.sums_taken(unit, plan.frames)
    words = plan.inlet(2, plan.words, count).all
    if count == plan.frames:
        return words
    return np.concatenate([np.zeros_like(words[:1]), words])  # the first frame takes none


# --- Partial sums that leave through one engine and come back through another ---

_NONE, _HELD = -2, -1  # a frame that adds nothing, or what memory held before


class Loop(Struct, frozen=True):
    """Sums from memory enter the first unit of a series and leave the last one."""

    reader: UnitPlan
    writer: UnitPlan
    chain: tuple[UnitPlan, ...]

    def run(self, tally: ClampTally) -> Words:
        """Frames that wait for none first, then those that wait for them, and so on."""
        steps, before = stages(self.chain), self._before()
        results: Words | None = None
        for frames in _levels(before):
            words = self._sums(frames, before, results)
            for step in steps:
                words = step.run(frames, words, tally)
            assert words is not None
            if results is None:
                results = np.empty((len(before), *words.shape[1:]), words.dtype)
            results[frames.start : frames.stop : frames.step] = words
        assert results is not None
        return results

    @property
    def _skipped(self) -> int:
        """Frames before the first one that takes sums."""
        return 0 if unit_words.takes_sum(self.chain[0].conv, 0) else 1

    def _before(self) -> Index:
        """The frame whose sums each one adds."""
        unit, frames = self.chain[0].conv, self.chain[-1].frames
        reads, writes = (list(frame_starts(plan.engine)) for plan in (self.reader, self.writer))
        stored: dict[int, int] = {}
        before = np.full(frames, _NONE, np.intp)
        for frame, counts in enumerate(convacc.counted(unit, range(frames))):
            if counts:
                before[frame] = stored.get(reads[frame - self._skipped], _HELD)
            stored[writes[frame]] = frame
        return before

    def _sums(self, frames: range, before: Index, results: Words | None) -> Words | None:
        """Sums that enter the series: of frames that were made, or what memory held."""
        sources = before[frames.start : frames.stop : frames.step]
        if sources.max() == _NONE:
            return None
        if results is None:
            return self._held(frames)
        span = as_range(sources)
        sums = results[sources] if span is None else results[span.start : span.stop : span.step]
        stored = streams.as_stored(self.writer.engine, sums)
        stored = stored.astype(streams.memory_type(self.writer.engine))
        words = streams.loaded(
            self.reader.engine, stored.view(streams.memory_type(self.reader.engine))
        )
        if sources.min() >= 0:
            return words
        fresh = (sources < 0)[:, None, None, None]
        return np.where(fresh, self._held(frames).reshape(words.shape), streams.extend(words, 4))

    def _held(self, frames: range) -> Words:
        """What memory holds before the group runs, at the places that some frames read."""
        assert self.reader.view is not None
        inlet = walks.load(self.reader.engine, self.reader.view, self.reader.frames)
        numbers = np.maximum(np.array(frames, np.intp) - self._skipped, 0)
        return streams.extend(inlet.at(numbers).all, 4)


def _levels(before: Index) -> Iterator[range]:
    """Frames by how many others they wait for, in runs of equal distances."""
    depth = np.zeros(len(before), np.intp)
    for frame, source in enumerate(before):
        if source >= 0:
            depth[frame] = depth[source] + 1
    for level in range(int(depth.max(initial=0)) + 1):
        numbers = np.flatnonzero(depth == level)
        span = as_range(numbers)
        yield from [span] if span is not None else (range(n, n + 1) for n in numbers.tolist())


def find_loop(plans: list[UnitPlan], memory: Memory) -> Loop | None:
    """The one loop through memory that is understood; any other overlap needs single frames."""
    engines = [plan for plan in plans if plan.is_engine and plan.frames]
    for plan in engines:
        plan.walk = plan.walk or walks.walk_of(plan.engine, plan.frames)
        plan.view = walks.view(plan.engine, memory, plan.walk)
    sinks = [plan for plan in engines if plan.is_sink]
    pairs = [
        (other, sink)
        for number, sink in enumerate(sinks)
        for other in engines
        if other not in sinks[: number + 1] and walks.meet(other.view, sink.view)
    ]
    if len(pairs) > 1:
        raise ByFramesError
    return _loop(*pairs[0], memory) if pairs else None


def _loop(reader: UnitPlan, writer: UnitPlan, memory: Memory) -> Loop:
    """Frame by frame from end to end, nothing dropped, nothing left over."""
    chain = chain_of(writer.sources[0])
    first, last = chain[0], chain[-1]
    alone = reader.takers == [first] and first.sources.get(2) is reader
    if reader.is_sink or not alone or not writer.is_plain(0) or not first.is_plain(2):
        raise ByFramesError
    aligned = reader.words == writer.words == last.words and writer.frames == last.frames
    if not aligned or not walks.same(reader.engine, writer.engine, memory):
        raise ByFramesError
    return Loop(reader, writer, chain)
