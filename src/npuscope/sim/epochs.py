"""All counters of a program's epochs, as the debug unit and the CPU would read them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from npuscope.machine.model import Machine
from npuscope.program.copies import copies_of
from npuscope.program.links import Wiring
from npuscope.program.model import Buffer, Call, Epoch, EpochKind, Group, Program
from npuscope.program.units import Convacc, Streng
from npuscope.sim.banks import Banks
from npuscope.sim.bursts import Bursts, Runs, count_bursts, engine_runs, lines_touched
from npuscope.sim.control import controller_phases, cpu_phases
from npuscope.sim.counters import (
    Bound,
    BusTraffic,
    CacheCounts,
    EngineActivity,
    EpochCounters,
    PoolTraffic,
)
from npuscope.sim.timing import Span, group_span

_NO_BURSTS: Bursts = (0, 0, 0, 0)


def count_epochs(program: Program, machine: Machine, bus: bool = True) -> tuple[EpochCounters, ...]:
    """Counters of one inference, epoch by epoch; without `bus` no bursts and cache lines."""
    banks = Banks(program, machine)
    buffers = program.buffer_map()
    counted = (_count(epoch, program, machine, banks, buffers) for epoch in program.executed)
    if not bus:
        return tuple(counted)
    pairs = zip(program.executed, counted, strict=True)
    return tuple(_with_bus(counters, epoch, banks, machine) for epoch, counters in pairs)


def _with_bus(
    counters: EpochCounters, epoch: Epoch, banks: Banks, machine: Machine
) -> EpochCounters:
    engines = [unit for unit in epoch.units if isinstance(unit, Streng)]
    if not engines:
        return counters
    runs = [engine_runs(engine, banks.address(engine)) for engine in engines]
    return replace(
        counters, busif=_bus(engines, runs, machine), cache=_cache(engines, runs, machine)
    )


def _count(
    epoch: Epoch, program: Program, machine: Machine, banks: Banks, buffers: dict[str, Buffer]
) -> EpochCounters:
    if epoch.kind in (EpochKind.SW, EpochKind.HYBRID):
        return _software(epoch, machine, banks, buffers)
    if epoch.groups is None:
        return _claimed(epoch, program, machine)
    return _hardware(epoch, program, machine, banks)


def _hardware(epoch: Epoch, program: Program, machine: Machine, banks: Banks) -> EpochCounters:
    groups = epoch.groups or ()
    spans = [group_span(group, banks, machine) for group in groups]
    core = sum(span.cycles for span in spans)
    bound = max(spans, key=lambda span: span.cycles).bound
    if epoch.blob is None:
        pre, post = cpu_phases(epoch, program, machine)
    else:
        pre, post = controller_phases(epoch, program, machine)
        core += machine.generation.control.controller_cycles
        bound = _control_bound(core, machine, bound)
    engines = [engine for group in groups for engine in group.units if isinstance(engine, Streng)]
    return EpochCounters(
        epoch.number,
        epoch.last_number,
        pre,
        core,
        post,
        bound,
        _activity(groups, spans, banks, machine),
        traffic=_traffic(engines, banks),
    )


def _control_bound(core: float, machine: Machine, bound: Bound) -> Bound:
    """Programming the epoch takes longer than running it."""
    return Bound.CONTROL if machine.generation.control.controller_cycles > core / 2 else bound


def _claimed(epoch: Epoch, program: Program, machine: Machine) -> EpochCounters:
    """No unit registers: the compiler's computation or the bytes by pool, plus the start."""
    claims, pools = epoch.claims, program.pool_map()
    spans = [Span(float(claims.compute_cycles), Bound.FEATURES)]
    for access in claims.accesses:
        pool = pools[access.pool]
        memory = next((m for m in machine.pools if m.name == pool.name), None)
        beta = machine.cycles_per_byte(memory.path) if memory else pool.freq_ratio / pool.byte_width
        spans.append(Span((access.reads + access.writes) * beta, Bound.BANK))
    slowest = max(spans, key=lambda span: span.cycles)
    core, bound = slowest.cycles + machine.timing.epoch_start_cycles, slowest.bound
    traffic = tuple(PoolTraffic(a.pool, a.reads, a.writes) for a in claims.accesses)
    pre, post = cpu_phases(epoch, program, machine)
    return EpochCounters(epoch.number, epoch.last_number, pre, core, post, bound, traffic=traffic)


def _software(
    epoch: Epoch, machine: Machine, banks: Banks, buffers: dict[str, Buffer]
) -> EpochCounters:
    """The kernel's work sits in the post phase."""
    phases = machine.software_phases
    # The core phase is empty; what is counted there are MCU cycles seen as NPU cycles.
    core = phases.core_cycles * machine.clocks.npu_mhz / machine.clocks.mcu_mhz
    return EpochCounters(
        epoch.number,
        epoch.last_number,
        phases.pre_cycles,
        core,
        _kernel_cycles(epoch, machine, buffers),
        Bound.CPU,
        traffic=_call_traffic(epoch, banks, buffers),
    )


def _kernel_cycles(epoch: Epoch, machine: Machine, buffers: dict[str, Buffer]) -> float:
    call = epoch.call
    if call is None:
        return machine.software_cost("default").fixed
    copies = copies_of(call)
    if copies:
        return machine.software_cost(call.kernel).cycles(sum(copy.elements for copy in copies))
    names = [name for name in (*call.inputs, *call.outputs) if name]
    shapes = [buffers[name].shape for name in names if not buffers[name].is_param]
    if not shapes:
        return machine.software_cost(call.kernel).fixed
    elements = max(prod(shape) for shape in shapes)
    rows = elements // shapes[0][-1]
    kernel = "SoftmaxRows" if call.kernel == "Softmax" and rows > 1 else call.kernel
    return machine.software_cost(kernel).cycles(elements)


def _call_traffic(
    epoch: Epoch, banks: Banks, buffers: dict[str, Buffer]
) -> tuple[PoolTraffic, ...]:
    call = epoch.call
    if call is None:
        return ()
    if copies_of(call):
        return _copied(call, banks)
    reads = [name for name in call.inputs if name]
    found: dict[str, list[int]] = {}
    for names, slot in ((reads, 0), (call.outputs, 1)):
        for name in names:
            found.setdefault(banks.of_buffer(name).name, [0, 0])[slot] += buffers[name].size_bytes
    return tuple(PoolTraffic(pool, r, w) for pool, (r, w) in found.items())


def _copied(call: Call, banks: Banks) -> tuple[PoolTraffic, ...]:
    found: dict[str, list[int]] = {}
    for copy in copies_of(call):
        moved = copy.elements * copy.element_bytes
        for name, slot in ((call.inputs[copy.source], 0), (call.outputs[0], 1)):
            found.setdefault(banks.of_buffer(name).name, [0, 0])[slot] += moved
    return tuple(PoolTraffic(pool, r, w) for pool, (r, w) in found.items())


def _activity(
    groups: tuple[Group, ...], spans: list[Span], banks: Banks, machine: Machine
) -> tuple[EngineActivity, ...]:
    return tuple(
        _engine_activity(engine, wiring, span, banks, machine)
        for wiring, span in zip(map(Wiring, groups), spans, strict=True)
        for engine in wiring.engines
    )


def _engine_activity(
    engine: Streng, wiring: Wiring, span: Span, banks: Banks, machine: Machine
) -> EngineActivity:
    """Cycles until the engine's last beat: an engine that waits for others counts as active."""
    bank = banks.of(engine)
    own = max(engine.total_elements, engine.total_bytes * bank.cycles_per_byte)
    kernels = any(isinstance(u, Convacc) and port == 1 for u, port in wiring.readers(engine))
    cycles = span.cycles if engine.dir or kernels else min(own, span.cycles)
    return EngineActivity(
        engine.id,
        "o" if engine.dir else "i",
        machine.stream.busif(engine.id),
        round(cycles),
        bank.name,
        engine.total_bytes,
    )


def _bus(engines: list[Streng], runs: list[Runs], machine: Machine) -> tuple[BusTraffic, ...]:
    """Bursts by interface and direction."""
    totals: dict[tuple[int, int], Bursts] = {}
    for engine, moved in zip(engines, runs, strict=True):
        key = (machine.stream.busif(engine.id), engine.dir)
        bursts = count_bursts(moved)
        known = totals.get(key, _NO_BURSTS)
        totals[key] = tuple(a + b for a, b in zip(known, bursts, strict=True))  # type: ignore[assignment]
    interfaces = range(-(-machine.units["STRENG"] // machine.stream.engines_per_busif))
    return tuple(
        BusTraffic(i, totals.get((i, 0), _NO_BURSTS), totals.get((i, 1), _NO_BURSTS))
        for i in interfaces
    )


def _cache(engines: list[Streng], runs: list[Runs], machine: Machine) -> CacheCounts:
    """Lines of cacheable reads: all miss unless the engine allocates and comes back."""
    miss = alloc_miss = hit = 0
    line = machine.cache.line_bytes
    for engine, moved in zip(engines, runs, strict=True):
        if not engine.cacheable or engine.dir:
            continue
        lines = lines_touched(moved, line)
        if engine.cache_allocate:
            first = min(lines, -(-_footprint(engine) // line))
            alloc_miss += first
            hit += lines - first
        else:
            miss += lines
    return CacheCounts(read_hit=hit, read_miss=miss + alloc_miss, read_alloc_miss=alloc_miss)


def _footprint(engine: Streng) -> int:
    """Different bytes that an engine reads."""
    return engine.frame_elements * engine.element_bytes * engine.distinct_frames


def _traffic(engines: list[Streng], banks: Banks) -> tuple[PoolTraffic, ...]:
    found: dict[str, list[int]] = {}
    for engine in engines:
        found.setdefault(banks.of(engine).name, [0, 0])[engine.dir] += engine.total_bytes
    return tuple(PoolTraffic(pool, read, write) for pool, (read, write) in found.items())
