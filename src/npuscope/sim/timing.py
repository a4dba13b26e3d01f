"""Time on the silicon, from unit configurations alone.

A convolution alternates between loading a set of kernels and streaming a frame; the load of the
next set hides behind the frame being streamed:

    T = L0 + sum over frames of max(L, S) + S_last + start

L is bytes over the memory's rate, S the longest stream of a frame (features, output, partial
sums, or the bank they share) plus the lines drained behind a padded kernel. Nothing here knows
ops, origins or compiler generations.
"""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.machine.model import Machine
from npuscope.program.links import Wiring
from npuscope.program.model import Group
from npuscope.program.modes import Bcast, Simd
from npuscope.program.units import Arith, Convacc, Streng
from npuscope.sim.banks import Bank, Banks
from npuscope.sim.counters import Bound

_SHORT_BYTES = 2  # an access that fills only a part of a beat


@dataclass(frozen=True, slots=True)
class Span:
    """How long something takes, and what makes it so long."""

    cycles: float
    bound: Bound


def group_span(group: Group, banks: Banks, machine: Machine) -> Span:
    """Units started together: the slowest chain, or the memory or bus they share."""
    wiring = Wiring(group)
    chains = [chain_span(chain, wiring, banks, machine) for chain in _chains(wiring)]
    return max([*chains, *_shared(wiring, banks, machine)], key=lambda span: span.cycles)


def chain_span(chain: set[tuple[str, int]], wiring: Wiring, banks: Banks, machine: Machine) -> Span:
    """One connected chain of units."""
    pipes = _pipes(chain, wiring)
    if not pipes:
        return _moving(chain, wiring, banks, machine)
    spans = [_pipe_span(pipe, chain, wiring, banks, machine) for pipe in pipes]
    spans += _held_vectors(chain, wiring, machine)
    slowest = max(spans, key=lambda span: span.cycles)
    return Span(slowest.cycles + machine.timing.epoch_start_cycles, slowest.bound)


def _chains(wiring: Wiring) -> list[set[tuple[str, int]]]:
    """Connected units; engines that share one kernel stream belong together."""
    home: dict[tuple[str, int], set[tuple[str, int]]] = {
        (unit.unit, unit.id): {(unit.unit, unit.id)} for unit in wiring.group.units
    }
    for link in wiring.group.links:
        one = home[(link.source.unit, link.source.id)]
        other = home[(link.destination.unit, link.destination.id)]
        if one is not other:
            one |= other
            for key in other:
                home[key] = one
    return list({id(chain): chain for chain in home.values()}.values())


def _pipes(chain: set[tuple[str, int]], wiring: Wiring) -> list[list[Convacc]]:
    """Convolution units grouped by the kernel engine they share, first in the pipe first."""
    found: dict[int, list[Convacc]] = {}
    for unit in wiring.processors:
        if isinstance(unit, Convacc) and (unit.unit, unit.id) in chain:
            kernels = wiring.source(unit, 1)
            found.setdefault(kernels.id if kernels else -1, []).append(unit)
    return list(found.values())


def _pipe_span(
    pipe: list[Convacc],
    chain: set[tuple[str, int]],
    wiring: Wiring,
    banks: Banks,
    machine: Machine,
) -> Span:
    frames = wiring.frames(pipe[0])
    load = _load(pipe, wiring, banks)
    stream = _stream(pipe, frames, chain, wiring, banks, machine)
    ahead = _share_loaded_ahead(pipe[0], wiring, machine)
    between = max(load, stream, key=lambda span: span.cycles)
    step = max(load.cycles * ahead, stream.cycles) + load.cycles * (1 - ahead)
    vectors = _vectors(pipe, chain, wiring, banks, machine)
    total = load.cycles + (frames - 1) * step + stream.cycles + vectors
    if vectors > total / 2:
        return Span(total, Bound.ARITH_VECTOR)
    return Span(total, between.bound)


def _share_loaded_ahead(conv: Convacc, wiring: Wiring, machine: Machine) -> float:
    """How much of the next kernels is fetched while a frame streams: all, or nothing where one
    dense set takes more than half of the unit's buffer."""
    features = wiring.source(conv, 0)
    repeats = isinstance(features, Streng) and features.frame_loop_cnt > 0
    window = conv.kernelHeight * conv.kernelWidth > 1
    if not (repeats and window and conv.simd == Simd.S8X8):
        return 1.0
    return 1.0 if conv.kernel_elements <= machine.timing.overlap_weights else 0.0


def _load(pipe: list[Convacc], wiring: Wiring, banks: Banks) -> Span:
    """One set of kernels from memory: at the memory's rate, or one word a cycle."""
    engine = wiring.source(pipe[0], 1)
    if not isinstance(engine, Streng):
        return Span(0.0, Bound.WEIGHTS)
    bank = banks.of(engine)
    fetch = engine.frame_elements * engine.element_bytes * bank.cycles_per_byte
    link = float(engine.frame_elements)
    return Span(link, Bound.WEIGHTS) if link >= fetch else Span(fetch, _memory_bound(bank))


def _memory_bound(bank: Bank) -> Bound:
    if not bank.external:
        return Bound.WEIGHTS
    return Bound.EXTERNAL_RAM if bank.writable else Bound.FLASH


def _stream(
    pipe: list[Convacc],
    frames: int,
    chain: set[tuple[str, int]],
    wiring: Wiring,
    banks: Banks,
    machine: Machine,
) -> Span:
    """One frame through the pipe."""
    first = pipe[0]
    features = max(_feature_cycles(u, frames, wiring, banks, machine) for u in pipe)
    spans = [
        Span(features + _flush(first, machine), Bound.FEATURES),
        Span(_output_cycles(pipe, frames, chain, wiring, banks), Bound.OUTPUT),
        Span(_accumulator_words(first, frames, wiring), Bound.ACCUMULATOR),
        *_bank_spans(chain, frames, wiring, banks),
    ]
    slowest = max(spans, key=lambda span: span.cycles)
    turn = machine.timing.accumulation_turn_cycles if spans[2].cycles else 0.0
    return Span(slowest.cycles + turn, slowest.bound)


def _feature_cycles(
    conv: Convacc, frames: int, wiring: Wiring, banks: Banks, machine: Machine
) -> float:
    words = wiring.input_words(conv, 0) / frames
    if conv.dss2mode:
        words *= machine.timing.pair_cycles
    source = wiring.source(conv, 0)
    return words * _word_cycles(source, banks) if isinstance(source, Streng) else words


def _word_cycles(engine: Streng, banks: Banks) -> float:
    """A word a cycle, unless each has to be fetched by an access of its own."""
    short = engine.batch_depth == 1 and engine.element_bytes <= _SHORT_BYTES
    apart = not engine.raw and engine.batch_offset > engine.element_bytes
    return banks.of(engine).short_access_cycles if short and apart else 1.0


def _output_cycles(
    pipe: list[Convacc], frames: int, chain: set[tuple[str, int]], wiring: Wiring, banks: Banks
) -> float:
    """Sums that leave the pipe, and what of them is stored one by one."""
    stored = [
        engine.total_elements * _word_cycles(engine, banks) / frames
        for engine in wiring.engines
        if engine.dir and (engine.unit, engine.id) in chain
    ]
    return max([float(pipe[-1].out_elements), *stored])


def _accumulator_words(conv: Convacc, frames: int, wiring: Wiring) -> float:
    source = wiring.source(conv, 2)
    return source.total_elements / frames if isinstance(source, Streng) else 0.0


def _flush(conv: Convacc, machine: Machine) -> float:
    """Lines that drain behind a padded kernel before the next frame may start."""
    rows = conv.kernelHeight - 1
    if rows == 0 or not (conv.top_padding or conv.bot_padding):
        return 0.0
    if conv.vstride > 1:
        return machine.timing.flush_strided_cycles
    return machine.timing.flush_lines * rows * conv.fWidth * conv.batchDepth


def _bank_spans(
    chain: set[tuple[str, int]], frames: int, wiring: Wiring, banks: Banks
) -> list[Span]:
    """Bytes that a frame moves in one bank and direction, kernels and vectors apart."""
    loads: dict[tuple[str, int], float] = {}
    outside = [Span(0.0, Bound.EXTERNAL_RAM)]
    for engine in wiring.engines:
        if (engine.unit, engine.id) not in chain or _is_constant_stream(engine, wiring, banks):
            continue
        bank = banks.of(engine)
        if bank.access_cycles:
            # External RAM is bound by accesses, not bytes; engines wait side by side.
            cycles = engine.total_elements * bank.access_cycles[engine.dir] / frames
            outside.append(Span(cycles, Bound.EXTERNAL_RAM))
        key = (bank.name, engine.dir)
        cycles = engine.total_bytes * bank.cycles_per_byte / frames
        loads[key] = loads.get(key, 0.0) + cycles
    slowest = max(outside, key=lambda span: span.cycles)
    return [slowest, *(Span(cycles, Bound.BANK) for cycles in loads.values())]


def _is_constant_stream(engine: Streng, wiring: Wiring, banks: Banks) -> bool:
    """Kernels, or coefficients for an arithmetic unit: they have their own terms."""
    feeds_kernels = any(isinstance(u, Convacc) and port == 1 for u, port in wiring.readers(engine))
    return feeds_kernels or _is_vector(engine, wiring, banks)


def _is_vector(engine: Streng, wiring: Wiring, banks: Banks) -> bool:
    """A coefficient table in external memory, read again line by line into port Y."""
    feeds_y = any(isinstance(u, Arith) and port == 1 for u, port in wiring.readers(engine))
    return feeds_y and _reads_again(engine) and banks.of(engine).external


def _reads_again(engine: Streng) -> bool:
    return engine.distinct_frames < engine.frames


def _vectors(
    pipe: list[Convacc],
    chain: set[tuple[str, int]],
    wiring: Wiring,
    banks: Banks,
    machine: Machine,
) -> float:
    """Cycles that streamed coefficients add to the outputs of the chain."""
    engines = [
        e for e in wiring.engines if (e.unit, e.id) in chain and _is_vector(e, wiring, banks)
    ]
    if not engines:
        return 0.0
    timing = machine.timing
    rate = timing.vector_cycles + timing.second_vector_cycles * (len(engines) - 1)
    cycles = rate * max(engine.total_elements for engine in engines)
    features = wiring.source(pipe[0], 0)
    advances = isinstance(features, Streng) and features.frame_loop_cnt == 0
    return cycles + (timing.vector_frame_cycles * wiring.frames(pipe[0]) if advances else 0.0)


def _moving(chain: set[tuple[str, int]], wiring: Wiring, banks: Banks, machine: Machine) -> Span:
    """No convolution: the longest stream, or the bank."""
    engines = [e for e in wiring.engines if (e.unit, e.id) in chain]
    copies = all(unit == "STRENG" for unit, _ in chain)
    spans = [_engine_span(e, copies, wiring, banks, machine) for e in engines]
    spans += _held_vectors(chain, wiring, machine)
    spans += _bank_spans(chain, 1, wiring, banks)
    slowest = max(spans, key=lambda span: span.cycles)
    return Span(slowest.cycles + machine.timing.move_start_cycles, slowest.bound)


def _held_vectors(chain: set[tuple[str, int]], wiring: Wiring, machine: Machine) -> list[Span]:
    """A unit that broadcasts a vector of its own needs longer for every element."""
    rate = machine.generation.vector_product_cycles
    return [
        Span(wiring.output_words(unit) * rate, Bound.ARITH_VECTOR)
        for unit in wiring.processors
        if isinstance(unit, Arith) and unit.dualinput and unit.bcast == Bcast.CHAN
        if (unit.unit, unit.id) in chain
    ]


def _engine_span(
    engine: Streng, copies: bool, wiring: Wiring, banks: Banks, machine: Machine
) -> Span:
    timing = machine.timing
    bound = Bound.OUTPUT if engine.dir else Bound.FEATURES
    if copies and _single_elements(engine):
        rate = timing.strided_write_cycles if engine.dir else timing.strided_read_cycles
        return Span(engine.total_elements * rate, bound)
    if _is_broadcast(engine, wiring):
        external = _is_vector(engine, wiring, banks)
        rate = timing.vector_cycles if external else timing.broadcast_cycles
        return Span(engine.total_elements * rate, Bound.ARITH_VECTOR)
    return Span(engine.total_elements * timing.elementwise_cycles, bound)


def _single_elements(engine: Streng) -> bool:
    """Every element lies apart from its neighbours."""
    return not engine.raw and engine.batch_depth == 1 and engine.batch_offset > engine.element_bytes


def _is_broadcast(engine: Streng, wiring: Wiring) -> bool:
    """A short frame that an engine reads again for an arithmetic unit."""
    return _reads_again(engine) and any(isinstance(u, Arith) for u, _ in wiring.readers(engine))


def _shared(wiring: Wiring, banks: Banks, machine: Machine) -> list[Span]:
    """Lower bounds by bank and by bus interface over the whole group."""
    everyone = {(unit.unit, unit.id) for unit in wiring.group.units}
    spans = _bank_spans(everyone, 1, wiring, banks)
    bus: dict[tuple[int, int], int] = {}
    for engine in wiring.engines:
        key = (machine.stream.busif(engine.id), engine.dir)
        bus[key] = bus.get(key, 0) + engine.total_bytes
    rate = machine.stream.busif_bytes
    return spans + [Span(moved / rate, Bound.BUSIF) for moved in bus.values()]
