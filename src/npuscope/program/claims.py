"""The vendor compiler's own cycle estimate: `compute_cycles` and `max_cycles`.

`compute_cycles`: every stream link moves one word a cycle, so that an epoch lasts as long as its
longest link. `max_cycles`: no pool is faster than its width and clock ratio. The maximum comes out
as stated for every epoch of the public builds; the computation does but for how often small feature
frames are counted. The simulator's own timing is another matter: see sim/spans.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npuscope.machine.model import Machine
from npuscope.program.links import Wiring, wired
from npuscope.program.model import Access, Claims, Epoch, Pool, Program
from npuscope.program.units import Arith, Convacc, Streng
from npuscope.structs import replace

DEEP_PACK = 3


def with_claims(program: Program, machine: Machine) -> Program:
    """The program with an estimate on every epoch that has unit configurations."""
    pools = program.pool_map()
    homes = {buffer.name: buffer.pool for buffer in program.buffers}
    epochs = tuple(_claimed(epoch, pools, homes, machine) for epoch in program.epochs)
    return replace(program, epochs=epochs)


def max_cycles(compute: float, accesses: Iterable[Access], pools: Mapping[str, Pool]) -> float:
    """The slowest of the computation, any pool's bytes, any pool's accesses."""
    terms = [compute]
    for access in accesses:
        pool = pools[access.pool]
        terms.append((access.reads + access.writes) * pool.freq_ratio / pool.byte_width)
        terms += [access.read_cycles, access.write_cycles]
    return max(terms)


def _claimed(
    epoch: Epoch, pools: Mapping[str, Pool], homes: Mapping[str, str], machine: Machine
) -> Epoch:
    if not epoch.groups:
        return epoch
    wirings = [wired(group) for group in epoch.groups]
    compute = max(compute_cycles(wiring, machine) for wiring in wirings)
    # By pool: bytes that are read and written, and from 3.0 on the cycles of engines that move
    # single bytes.
    by_pool: dict[str, tuple[list[int], list[float]]] = {}
    for wiring, engine in ((w, engine) for w in wirings for engine in w.engines):
        name = homes[engine.addr_base.buffer]
        # What an engine moves; the filling bytes of deep kernel sets are not counted.
        kernels = [unit for unit, port in wiring.readers(engine) if port == 1]
        deep = [unit for unit in kernels if isinstance(unit, Convacc) and unit.deepmode]
        if deep:
            padded = -(-deep[0].kernel_elements // DEEP_PACK) * DEEP_PACK
            moved = engine.total_bytes * deep[0].kernel_elements // max(1, padded)
        else:
            moved = engine.total_bytes
        sizes, cycles = by_pool.setdefault(name, ([0, 0], [0.0, 0.0]))
        sizes[engine.dir] += moved
        one = _access_cycles(engine, moved, wiring, pools[name], machine)
        cycles[engine.dir] = max(cycles[engine.dir], one)
    accesses = tuple(Access(name, *sizes, *cycles) for name, (sizes, cycles) in by_pool.items())
    claims = Claims(
        ops=sum(operations(wiring) for wiring in wirings),
        compute_cycles=compute,
        max_cycles=round(max_cycles(compute, accesses, pools)),
        accesses=accesses,
    )
    return replace(epoch, claims=claims)


def compute_cycles(wiring: Wiring, machine: Machine) -> int:
    """Words on the longest link. A group that only moves data computes nothing."""
    if not wiring.processors:
        return 0
    engines = (_engine_words(unit, wiring, machine) for unit in wiring.engines)
    return max([*engines, *(wiring.output_words(unit) for unit in wiring.processors)])


def _engine_words(engine: Streng, wiring: Wiring, machine: Machine) -> int:
    """Words on the engine's link; small feature frames that repeat are counted once."""
    conv = wiring.feature_reader(engine)
    repeats = conv is not None and engine.frame_loop_cnt > 0
    frame_bytes = engine.frame_elements * (2 if conv and conv.simd == 2 else 1)
    if conv and conv.deepmode:
        frame_bytes *= DEEP_PACK
    if repeats and frame_bytes <= machine.stream.feature_buffer_bytes:
        return engine.frame_elements * engine.frame_loop_cnt
    return engine.total_elements


def operations(wiring: Wiring) -> int:
    """Two per multiply-accumulate, one per element and arithmetic stage. Functions, pools and the
    corrections of a product for its zero points do not count [code: builds of 2.0 to 2.2]."""
    total = 0
    for unit in wiring.processors:
        words = wiring.output_words(unit)
        if isinstance(unit, Convacc):
            taps = unit.batchDepth * unit.kernelHeight * unit.kernelWidth
            total += 2 * words * taps
        elif isinstance(unit, Arith) and not _corrects(unit):
            total += words
    return total


def _corrects(unit: Arith) -> bool:
    """Adds an operand of the product in bytes to the product in 16 bits."""
    return bool(unit.dualinput) and (unit.inbytes_x, unit.inbytes_y) == (2, 1)


def _access_cycles(
    engine: Streng, moved: int, wiring: Wiring, pool: Pool, machine: Machine
) -> float:
    """Inferred: later generations charge one access per element where bytes do not adjoin."""
    if not machine.generation.counts_accesses:
        return 0.0
    adjoin = engine.raw or engine.batch_offset == engine.batch_depth * engine.element_bytes
    conv = wiring.feature_reader(engine)
    # A pair of channels is one word on the link, but two bytes in the compiler's count.
    element = 1 if conv is not None and conv.dss2mode else engine.element_bytes
    run_bytes = pool.byte_width if adjoin else engine.batch_depth * element
    per_access = max(1, min(run_bytes, pool.byte_width))  # a damaged engine may move nothing
    return moved / per_access * pool.freq_ratio
