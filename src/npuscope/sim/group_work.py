"""The work of units that are started together: words, bytes and banks, but no rates.

It follows from the unit configurations and from where buffers lie, so it stays the same when only
the machine's timing changes; sim/spans.py says how long it takes.
"""

from __future__ import annotations

from msgspec import Struct

from npuscope.program.links import Wiring, wired
from npuscope.program.model import Group
from npuscope.program.modes import Bcast, Simd
from npuscope.program.units import Arith, Convacc, PoolUnit, Streng
from npuscope.sim.counters import Bound
from npuscope.sim.memory import Banks

SHORT_BYTES = 4  # an access that fills only a part of a beat

UnitKey = tuple[str, int]


class EngineWork(Struct, frozen=True):
    """A stream engine over the whole epoch."""

    id: int
    dir: int
    bank: str
    elements: int
    bytes: int
    run_bytes: int  # that are adjacent in memory, 0 when all are
    pitch: int  # bytes from one such run to the next
    apart: bool  # each word is a separate access
    pooled: bool  # for a pool, with nothing between
    feeds_kernels: bool
    constant: bool  # kernels, or coefficients of an arithmetic unit: they have their own terms
    again: int  # entries of a vector that it reads again for an arithmetic unit
    rate: str  # the rate of the timing law that holds in a chain without convolutions
    bound: Bound  # what such a chain waits for then


class LoadWork(Struct, frozen=True):
    """One set of kernels."""

    bank: str
    elements: int
    bytes: int


class FeatureWork(Struct, frozen=True):
    """What one convolution unit reads per frame."""

    words: float
    paired: bool
    apart: bool  # each word is a separate access
    wide: bool  # the kernel has more columns than the unit takes at stride 1


class VectorWork(Struct, frozen=True):
    """Coefficients streamed from external memory into a chain."""

    engines: int
    elements: int
    frames: int  # that start anew with the vectors


class PipeWork(Struct, frozen=True):
    """Convolution units in series that share one kernel stream."""

    frames: int
    load: LoadWork | None
    features: tuple[FeatureWork, ...]
    flush_words: int  # drained behind a padded kernel of stride 1
    flush_strided: bool
    out_elements: int
    sums: float  # partial sums read back per frame
    late_weights: int | None  # of a dense set that may be too large to be loaded ahead
    vectors: VectorWork | None


class HeldWork(Struct, frozen=True):
    """Words through a unit that broadcasts a vector of its own."""

    words: int
    entries: int


class ChainWork(Struct, frozen=True):
    """Connected units. Without `pipes` they only move or combine."""

    pipes: tuple[PipeWork, ...]
    engines: tuple[EngineWork, ...]
    vectors: tuple[HeldWork, ...]


class GroupWork(Struct, frozen=True):
    chains: tuple[ChainWork, ...]
    engines: tuple[EngineWork, ...]


def group_work(group: Group, banks: Banks) -> GroupWork:
    wiring = wired(group)
    chains = _chains(wiring)
    copies: set[UnitKey] = set()
    for chain in chains:
        if all(unit == Streng.unit for unit, _ in chain):
            copies |= chain
    vectors = {e.id: e for e in wiring.engines if _is_vector(e, wiring, banks)}
    engines = [
        _engine(engine, (engine.unit, engine.id) in copies, engine.id in vectors, wiring, banks)
        for engine in wiring.engines
    ]
    parts = tuple(_chain(chain, engines, vectors, wiring, banks) for chain in chains)
    return GroupWork(parts, tuple(engines))


def _chains(wiring: Wiring) -> list[set[UnitKey]]:
    """Connected units; engines that share one kernel stream belong together."""
    home: dict[UnitKey, set[UnitKey]] = {
        (unit.unit, unit.id): {(unit.unit, unit.id)} for unit in wiring.units
    }
    for link in wiring.links:
        one = home[(link.source.unit, link.source.id)]
        other = home[(link.destination.unit, link.destination.id)]
        if one is not other:
            one |= other
            for key in other:
                home[key] = one
    return list({id(chain): chain for chain in home.values()}.values())


def _chain(
    chain: set[UnitKey],
    engines: list[EngineWork],
    vectors: dict[int, Streng],
    wiring: Wiring,
    banks: Banks,
) -> ChainWork:
    own = tuple(work for work in engines if (Streng.unit, work.id) in chain)
    tables = [engine for engine in vectors.values() if (engine.unit, engine.id) in chain]
    vector_work = tuple(
        HeldWork(wiring.output_words(unit), max(1, unit.fChannels))
        for unit in wiring.processors
        if isinstance(unit, Arith) and unit.dualinput and unit.bcast == Bcast.CHAN
        if (unit.unit, unit.id) in chain
    )
    # Convolution units grouped by the kernel engine they share, first in the pipe first.
    pipes_by_kernel: dict[int, list[Convacc]] = {}
    for unit in wiring.processors:
        if isinstance(unit, Convacc) and (unit.unit, unit.id) in chain:
            kernels = wiring.source(unit, 1)
            pipes_by_kernel.setdefault(kernels.id if kernels else -1, []).append(unit)
    pipes = tuple(_pipe(pipe, tables, wiring, banks) for pipe in pipes_by_kernel.values())
    return ChainWork(pipes, own, vector_work)


def _pipe(pipe: list[Convacc], vectors: list[Streng], wiring: Wiring, banks: Banks) -> PipeWork:
    first, frames = pipe[0], wiring.frames(pipe[0])
    padded = first.kernelHeight > 1 and bool(first.top_padding or first.bot_padding)
    strided = first.vstride > 1
    lines = (first.kernelHeight - 1) * first.fWidth * first.batchDepth
    sums = wiring.source(first, 2)
    kernels = wiring.source(first, 1)
    load = None
    if isinstance(kernels, Streng):
        elements, size = kernels.total_elements // frames, kernels.total_bytes // frames
        load = LoadWork(banks.of(kernels).name, elements, size)
    coefficients = None
    if vectors:
        longest = max(engine.total_elements for engine in vectors)
        starts = frames if _advances(first, wiring) else 0
        coefficients = VectorWork(len(vectors), longest, starts)
    # Only a dense set that is used for one pass of a repeated frame can arrive too late.
    features = wiring.source(first, 0)
    repeats = isinstance(features, Streng) and _reads_again(features)
    window = first.kernelHeight * first.kernelWidth > 1
    dense = repeats and window and first.simd == Simd.S8X8
    return PipeWork(
        frames,
        load,
        tuple(_features(conv, frames, wiring, banks) for conv in pipe),
        lines if padded and not strided else 0,
        padded and strided,
        pipe[-1].out_elements,
        sums.total_elements / frames if isinstance(sums, Streng) else 0.0,
        first.kernel_elements if dense else None,
        coefficients,
    )


def _features(conv: Convacc, frames: int, wiring: Wiring, banks: Banks) -> FeatureWork:
    source = wiring.source(conv, 0)
    return FeatureWork(
        wiring.input_words(conv, 0) / frames,
        bool(conv.dss2mode),
        isinstance(source, Streng) and words_apart(source),
        conv.kernelHeight > 1 and conv.kernelWidth > banks.machine.convacc.max_kernel_width,
    )


def _advances(conv: Convacc, wiring: Wiring) -> bool:
    """Each frame reads other features from memory, as in depthwise layers."""
    features = wiring.source(conv, 0)
    return isinstance(features, Streng) and not _reads_again(features)


def _engine(engine: Streng, copies: bool, vector: bool, wiring: Wiring, banks: Banks) -> EngineWork:
    """`copies`: its chain has no other units; `vector`: it reads a table of coefficients."""
    readers = wiring.readers(engine)
    kernels = any(isinstance(unit, Convacc) and port == 1 for unit, port in readers)
    pools = any(isinstance(unit, PoolUnit) for unit, _ in readers)
    # A short frame that an engine reads again for an arithmetic unit.
    again = _reads_again(engine) and any(isinstance(unit, Arith) for unit, _ in readers)
    rate, bound = "elementwise_cycles", Bound.OUTPUT if engine.dir else Bound.FEATURES
    if copies and _single_elements(engine):
        rate = "strided_write_cycles" if engine.dir else "strided_read_cycles"
    elif again:
        rate, bound = ("vector_cycles" if vector else "product_cycles"), Bound.ARITH_VECTOR
    # Elements that leave an engine: a unit with two inputs takes as many of each. Builds of 4.0 let
    # an engine offer a vector more often than the other stream has pixels [code].
    elements = engine.total_elements
    for unit, port in readers:
        if isinstance(unit, Arith) and unit.dualinput:
            beside = wiring.input_words(unit, 1 - port)
            elements = min(elements, beside) if beside else elements
    return EngineWork(
        engine.id,
        engine.dir,
        banks.of(engine).name,
        elements,
        elements * engine.nbits_memory // 8,
        0 if engine.adjacent else engine.run_bytes,
        engine.batch_offset,
        words_apart(engine),
        pools and not engine.adjacent,
        kernels,
        kernels or vector,
        engine.frame_elements if again and not vector else 0,
        rate,
        bound,
    )


def words_apart(engine: Streng) -> bool:
    """Each word has to be fetched by an access of its own."""
    run_bytes = engine.batch_depth * engine.element_bytes
    return run_bytes <= SHORT_BYTES and not engine.raw and engine.batch_offset > run_bytes


def _single_elements(engine: Streng) -> bool:
    """True if no element is adjacent to its neighbours in memory."""
    return not engine.raw and engine.batch_depth == 1 and engine.batch_offset > engine.element_bytes


def _is_vector(engine: Streng, wiring: Wiring, banks: Banks) -> bool:
    """A coefficient table in external memory, read again line by line into port Y."""
    feeds_y = any(isinstance(u, Arith) and port == 1 for u, port in wiring.readers(engine))
    return feeds_y and _reads_again(engine) and banks.of(engine).external


def _reads_again(engine: Streng) -> bool:
    return engine.distinct_frames < engine.frames
