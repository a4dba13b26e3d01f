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
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from npuscope.machine.model import Machine, StreamLimits, Timing
from npuscope.sim.counters import Bound
from npuscope.sim.group_work import (
    ChainWork,
    EngineWork,
    FeatureWork,
    GroupWork,
    LoadWork,
    PipeWork,
    VectorWork,
)
from npuscope.sim.memory import Bank


class Span(NamedTuple):
    """How long something takes, and what makes it so long."""

    cycles: float
    bound: Bound


_cycles = itemgetter(0)
_NOTHING = Span(0.0, Bound.WEIGHTS)


@dataclass(frozen=True, slots=True)
class Speeds:
    """What of a machine the timing law reads."""

    banks: Mapping[str, Bank]
    timing: Timing
    stream: StreamLimits
    vector_product_cycles: float


def speeds_of(machine: Machine, banks: Mapping[str, Bank]) -> Speeds:
    return Speeds(banks, machine.timing, machine.stream, machine.generation.vector_product_cycles)


def group_span(work: GroupWork, speeds: Speeds) -> Span:
    """Units started together: the slowest chain, or the memory or bus they share."""
    chains = [_chain_span(chain, speeds) for chain in work.chains]
    return max([*chains, *_shared(work.engines, speeds)], key=_cycles)


def _chain_span(chain: ChainWork, speeds: Speeds) -> Span:
    """One connected chain of units."""
    if not chain.pipes:
        return _moving(chain, speeds)
    spans = [_pipe_span(pipe, chain.engines, speeds) for pipe in chain.pipes]
    slowest = max([*spans, *_held_vectors(chain, speeds)], key=_cycles)
    return Span(slowest.cycles + speeds.timing.epoch_start_cycles, slowest.bound)


def _pipe_span(pipe: PipeWork, engines: tuple[EngineWork, ...], speeds: Speeds) -> Span:
    load = _load(pipe.load, speeds)
    stream = _stream(pipe, engines, speeds)
    step = max(load.cycles, stream.cycles)
    if pipe.late_weights is not None and pipe.late_weights > speeds.timing.overlap_weights:
        # One dense set takes more than half of the unit's buffer: nothing is loaded ahead.
        step = stream.cycles + load.cycles
    vectors = _vectors(pipe.vectors, speeds.timing) if pipe.vectors else 0.0
    total = load.cycles + (pipe.frames - 1) * step + stream.cycles + vectors
    if vectors > total / 2:
        return Span(total, Bound.ARITH_VECTOR)
    return Span(total, max(load, stream, key=_cycles).bound)


def _load(load: LoadWork | None, speeds: Speeds) -> Span:
    """One set of kernels from memory: at the memory's rate, or one word a cycle."""
    if load is None:
        return _NOTHING
    bank = speeds.banks[load.bank]
    fetch = load.bytes * bank.cycles_per_byte
    link = float(load.elements)
    return Span(link, Bound.WEIGHTS) if link >= fetch else Span(fetch, _memory_bound(bank))


def _memory_bound(bank: Bank) -> Bound:
    if not bank.external:
        return Bound.WEIGHTS
    return Bound.EXTERNAL_RAM if bank.writable else Bound.FLASH


def _stream(pipe: PipeWork, engines: tuple[EngineWork, ...], speeds: Speeds) -> Span:
    """One frame through the pipe."""
    features = max([_feature_cycles(work, speeds) for work in pipe.features])
    spans = [
        Span(features + _flush(pipe, speeds.timing), Bound.FEATURES),
        Span(_output_cycles(pipe, engines, speeds), Bound.OUTPUT),
        Span(pipe.sums, Bound.ACCUMULATOR),
        *_bank_spans(engines, pipe.frames, speeds),
    ]
    slowest = max(spans, key=_cycles)
    turn = speeds.timing.accumulation_turn_cycles if pipe.sums else 0.0
    return Span(slowest.cycles + turn, slowest.bound)


def _feature_cycles(work: FeatureWork, speeds: Speeds) -> float:
    words = work.words
    if work.paired:
        words *= speeds.timing.pair_cycles
    return words * speeds.banks[work.apart_in].short_access_cycles if work.apart_in else words


def _flush(pipe: PipeWork, timing: Timing) -> float:
    """Lines that drain behind a padded kernel before the next frame may start."""
    if pipe.flush_strided:
        return timing.flush_strided_cycles
    return timing.flush_lines * pipe.flush_words


def _output_cycles(pipe: PipeWork, engines: tuple[EngineWork, ...], speeds: Speeds) -> float:
    """Sums that leave the pipe, and what of them is stored one by one."""
    slowest = float(pipe.out_elements)
    for engine in engines:
        if engine.dir:
            rate = speeds.banks[engine.bank].short_access_cycles if engine.apart else 1.0
            slowest = max(slowest, engine.elements * rate / pipe.frames)
    return slowest


def _bank_spans(engines: tuple[EngineWork, ...], frames: int, speeds: Speeds) -> list[Span]:
    """Bytes that a frame moves in one bank and direction, kernels and vectors apart."""
    loads: dict[tuple[str, int], float] = {}
    outside = 0.0
    for engine in engines:
        if engine.constant:
            continue
        bank = speeds.banks[engine.bank]
        if bank.access_cycles:
            # External RAM is bound by accesses, not bytes; engines wait side by side.
            outside = max(outside, engine.elements * bank.access_cycles[engine.dir] / frames)
        key = (engine.bank, engine.dir)
        loads[key] = loads.get(key, 0.0) + engine.bytes * bank.cycles_per_byte / frames
    slowest = max(loads.values(), default=0.0)
    return [Span(outside, Bound.EXTERNAL_RAM), Span(slowest, Bound.BANK)]


def _vectors(work: VectorWork, timing: Timing) -> float:
    """Cycles that streamed coefficients add to the outputs of the chain."""
    rate = timing.vector_cycles + timing.second_vector_cycles * (work.engines - 1)
    return rate * work.elements + timing.vector_frame_cycles * work.frames


def _moving(chain: ChainWork, speeds: Speeds) -> Span:
    """No convolution: the longest stream, or the bank."""
    timing = speeds.timing
    spans = [Span(e.elements * getattr(timing, e.rate), e.bound) for e in chain.engines]
    spans += _held_vectors(chain, speeds)
    spans += _bank_spans(chain.engines, 1, speeds)
    slowest = max(spans, key=_cycles)
    return Span(slowest.cycles + timing.move_start_cycles, slowest.bound)


def _held_vectors(chain: ChainWork, speeds: Speeds) -> list[Span]:
    """A unit that broadcasts a vector of its own needs longer for every element."""
    rate = speeds.vector_product_cycles
    return [Span(words * rate, Bound.ARITH_VECTOR) for words in chain.held_words]


def _shared(engines: tuple[EngineWork, ...], speeds: Speeds) -> list[Span]:
    """Lower bounds by bank and by bus interface over the whole group."""
    bus: dict[tuple[int, int], int] = {}
    for engine in engines:
        key = (speeds.stream.busif(engine.id), engine.dir)
        bus[key] = bus.get(key, 0) + engine.bytes
    busiest = max(bus.values(), default=0)
    return [
        *_bank_spans(engines, 1, speeds),
        Span(busiest / speeds.stream.busif_bytes, Bound.BUSIF),
    ]
