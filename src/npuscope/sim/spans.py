"""Time on the silicon, from unit configurations alone.

A convolution alternates between loading a set of kernels and streaming a frame; the load of the
next set hides behind the frame being streamed:

    T = L0 + sum over frames of max(L, S) + S_last + start

L is bytes over the memory's rate, S the longest stream of a frame (features, output, partial
sums, or the bank they share) plus the lines drained behind a padded kernel. Nothing here knows
ops, origins or compiler generations.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

from npuscope.machine.model import Machine, StreamLimits, Timing
from npuscope.sim.counters import Bound
from npuscope.sim.group_work import (
    ChainWork,
    EngineWork,
    FeatureWork,
    GroupWork,
    LoadWork,
    PipeWork,
)
from npuscope.sim.memory import Bank


class Span(NamedTuple):
    """How long something takes, and what limits it."""

    cycles: float
    bound: Bound


_cycles = itemgetter(0)
_NOTHING = Span(0.0, Bound.WEIGHTS)


class Speeds(Struct, frozen=True):
    """The machine's values that the timing law uses."""

    banks: Mapping[str, Bank]
    timing: Timing
    stream: StreamLimits


def speeds_of(machine: Machine, banks: Mapping[str, Bank]) -> Speeds:
    return Speeds(banks, machine.timing, machine.stream)


def group_span(work: GroupWork, speeds: Speeds) -> Span:
    """Units started together: the slowest chain with what the others hold it up, or the memory or
    bus they share."""
    chains = [(_chain_span(chain, speeds), chain) for chain in work.chains]
    slowest, longest = max(chains, key=lambda pair: pair[0].cycles)
    # How chains wait for external RAM side by side has a law of its own.
    others = [
        chain
        for _, chain in chains
        if chain is not longest
        and not any(speeds.banks[engine.bank].read_cycles for engine in chain.engines)
    ]
    beside = speeds.timing.side_share * sum(_reading(chain, speeds.timing) for chain in others)
    side = Span(slowest.cycles + beside, slowest.bound)
    return max([side, *_shared(work.engines, speeds)], key=_cycles)


def _reading(chain: ChainWork, timing: Timing) -> float:
    """Cycles that the features of a chain take to stream in."""
    if not chain.pipes:
        own = [engine.elements for engine in chain.engines if not (engine.dir or engine.constant)]
        return max(own, default=0)
    return max(
        pipe.frames * max([_feature_cycles(work, timing) for work in pipe.features])
        for pipe in chain.pipes
    )


def _chain_span(chain: ChainWork, speeds: Speeds) -> Span:
    """One connected chain of units."""
    if not chain.pipes:
        return _moving(chain, speeds)
    spans = [_pipe_span(pipe, chain.engines, speeds) for pipe in chain.pipes]
    slowest = max([*spans, *_held_vectors(chain, speeds)], key=_cycles)
    return Span(slowest.cycles + speeds.timing.epoch_start_cycles, slowest.bound)


def _pipe_span(pipe: PipeWork, engines: tuple[EngineWork, ...], speeds: Speeds) -> Span:
    timing = speeds.timing
    load = _load(pipe.load, speeds)
    # Lines drain behind a padded kernel before the next frame may start.
    flush = timing.flush_lines * pipe.flush_words
    if pipe.flush_strided:
        flush = timing.flush_strided_cycles
    # One frame through the pipe: the port that takes longest.
    features = max([_feature_cycles(work, timing) for work in pipe.features])
    # Sums that leave the pipe, and how many are stored one by one.
    slowest = float(pipe.out_elements)
    for engine in engines:
        if engine.dir:
            rate = timing.apart_word_cycles if engine.apart else 1.0
            slowest = max(slowest, engine.elements * rate / pipe.frames)
    spans = [
        Span(features + flush, Bound.FEATURES),
        Span(slowest, Bound.OUTPUT),
        Span(pipe.sums, Bound.ACCUMULATOR),
        *_bank_spans(engines, pipe.frames, speeds),
    ]
    port = max(spans, key=_cycles)
    turn = timing.accumulation_turn_cycles if pipe.sums else 0.0
    stream = Span(port.cycles + turn, port.bound)
    step = max(load.cycles, stream.cycles)
    if pipe.late_weights is not None and pipe.late_weights > timing.overlap_weights:
        # A dense set of more than half of the unit's buffer: the next one cannot be loaded ahead.
        step = stream.cycles + load.cycles
    vectors = 0.0  # cycles that streamed coefficients add to the outputs of the chain
    if pipe.vectors:
        rate = timing.vector_cycles + timing.second_vector_cycles * (pipe.vectors.engines - 1)
        vectors = rate * pipe.vectors.elements + timing.vector_frame_cycles * pipe.vectors.frames
    total = load.cycles + (pipe.frames - 1) * step + stream.cycles + vectors
    if vectors > total / 2:
        return Span(total, Bound.ARITH_VECTOR)
    # The port that is busy: during the turn of an accumulation none of the stream's is.
    return Span(total, max(load, port, key=_cycles).bound)


def _load(load: LoadWork | None, speeds: Speeds) -> Span:
    """One set of kernels from memory: at the memory's rate, or one word per cycle."""
    if load is None:
        return _NOTHING
    bank = speeds.banks[load.bank]
    fetch = load.bytes * bank.cycles_per_byte
    link = float(load.elements)
    if link >= fetch:
        return Span(link, Bound.WEIGHTS)
    outside = Bound.EXTERNAL_RAM if bank.writable else Bound.FLASH
    return Span(fetch, outside if bank.external else Bound.WEIGHTS)


def _feature_cycles(work: FeatureWork, timing: Timing) -> float:
    words = work.words
    if work.paired:
        words *= timing.pair_cycles
    if work.apart:
        words *= timing.apart_word_cycles
    return words * timing.wide_word_cycles if work.wide else words


def _bank_spans(engines: tuple[EngineWork, ...], frames: int, speeds: Speeds) -> list[Span]:
    """Accesses of a frame to one bank and direction, kernels and vectors apart."""
    loads: dict[tuple[str, int], float] = {}
    waiting = 0.0
    for engine in engines:
        if engine.constant:
            continue
        bank = speeds.banks[engine.bank]
        if bank.read_cycles:
            # External RAM is bound by accesses: those of all engines follow each other.
            accesses = engine.bytes * _bursts_a_byte(engine.run_bytes, speeds.stream)
            access_cycles = bank.write_cycles if engine.dir else bank.read_cycles
            waiting += accesses * access_cycles + engine.bytes * bank.cycles_per_byte
        key = (engine.bank, engine.dir)
        cycles = _bank_cycles(engine, bank, speeds.stream.busif_bytes)
        loads[key] = loads.get(key, 0.0) + cycles / frames
    slowest = max(loads.values(), default=0.0)
    return [Span(waiting / frames, Bound.EXTERNAL_RAM), Span(slowest, Bound.BANK)]


def _bank_cycles(engine: EngineWork, bank: Bank, beat_bytes: int) -> float:
    """What the accesses of an engine take of its bank: parts of words, or whole ones."""
    if engine.pooled and bank.short_cycles > bank.beat_cycles:
        # A pool that reads memory takes one element at a time from a slow bank.
        return engine.elements * bank.short_cycles
    if not engine.run_bytes:
        return engine.bytes * bank.cycles_per_byte
    runs = engine.bytes / engine.run_bytes
    if not engine.apart:
        return runs * -(-engine.run_bytes // beat_bytes) * bank.beat_cycles
    # The channels of a narrow pixel lie in the word that was read last.
    return runs * min(1.0, engine.pitch / beat_bytes) * bank.short_cycles


def _bursts_a_byte(run_bytes: int, stream: StreamLimits) -> float:
    """A run of adjacent bytes goes in the largest bursts that the bus has."""
    if not run_bytes:
        return 1 / (stream.busif_bytes * max(stream.burst_beats))
    beats, bursts = -(-run_bytes // stream.busif_bytes), 0
    for length in sorted(stream.burst_beats, reverse=True):
        more, beats = divmod(beats, length)
        bursts += more
    return bursts / run_bytes


def _moving(chain: ChainWork, speeds: Speeds) -> Span:
    """No convolution: the longest stream, or the bank."""
    timing = speeds.timing
    spans = [
        Span(e.elements * getattr(timing, e.rate) + _turns(e.elements, e.again, speeds), e.bound)
        for e in chain.engines
    ]
    spans += _held_vectors(chain, speeds)
    spans += _bank_spans(chain.engines, 1, speeds)
    slowest = max(spans, key=_cycles)
    return Span(slowest.cycles + timing.move_start_cycles, slowest.bound)


def _held_vectors(chain: ChainWork, speeds: Speeds) -> list[Span]:
    """A unit that broadcasts a vector of its own needs longer for every element."""
    rate = speeds.timing.product_cycles
    return [
        Span(vector.words * rate + _turns(vector.words, vector.entries, speeds), Bound.ARITH_VECTOR)
        for vector in chain.vectors
    ]


def _turns(elements: int, again: int, speeds: Speeds) -> float:
    """What an engine needs to begin a short frame of so many entries anew, again and again."""
    return speeds.timing.broadcast_cycles * elements / again if again else 0.0


_FEW_STREAMS = 2  # that the way from flash serves without loss


def _shared(engines: tuple[EngineWork, ...], speeds: Speeds) -> list[Span]:
    """Lower bounds by bank, by bus interface and by flash over the whole group: kernels of all
    chains come through one interface."""
    bus: dict[tuple[int, int], int] = {}
    for engine in engines:
        key = (speeds.stream.busif(engine.id), engine.dir)
        bus[key] = bus.get(key, 0) + engine.bytes
    busiest = max(bus.values(), default=0)
    sizes = [e.bytes for e in engines if e.feeds_kernels and speeds.banks[e.bank].external]
    fetched = []
    if len(sizes) > 1:
        rates = [speeds.banks[e.bank].cycles_per_byte for e in engines if e.feeds_kernels]
        crowded = speeds.timing.crowded_flash if len(sizes) > _FEW_STREAMS else 1.0
        cycles = crowded * sum(sizes) * max(rates) + speeds.timing.epoch_start_cycles
        fetched = [Span(cycles, Bound.FLASH)]
    return [
        *_bank_spans(engines, 1, speeds),
        Span(busiest / speeds.stream.busif_bytes, Bound.BUSIF),
        *fetched,
    ]
