"""All counters of a program's epochs, as the debug unit and the CPU would read them."""

from __future__ import annotations

from dataclasses import replace

from npuscope.machine.model import Machine
from npuscope.program.model import Epoch, Program
from npuscope.program.units import Streng
from npuscope.sim.counters import (
    Bound,
    Bursts,
    BusTraffic,
    CacheCounts,
    EngineActivity,
    EpochCounters,
    Runs,
    count_bursts,
    engine_runs,
    lines_touched,
)
from npuscope.sim.group_work import EngineWork
from npuscope.sim.memory import Banks, retimed
from npuscope.sim.program_work import (
    ClaimedWork,
    EpochWork,
    HardwareWork,
    ProgramWork,
    SoftwareWork,
    program_work,
)
from npuscope.sim.software import controller_phases, cpu_phases
from npuscope.sim.timing import Span, Speeds, group_span, speeds_of

_NO_BURSTS: Bursts = (0, 0, 0, 0)


def count_epochs(program: Program, machine: Machine) -> tuple[EpochCounters, ...]:
    """Counters of one inference, epoch by epoch, with bursts and cache lines."""
    banks = Banks(program, machine)
    counted = count_work(program_work(program, machine, banks), machine)
    pairs = zip(program.executed, counted, strict=True)
    return tuple(_with_bus(counters, epoch, banks, machine) for epoch, counters in pairs)


def count_work(work: ProgramWork, machine: Machine) -> tuple[EpochCounters, ...]:
    """Counters without the bus; the machine may differ in timing keys from the one prepared for."""
    speeds = speeds_of(machine, retimed(work.banks, machine))
    return tuple(_count(epoch, machine, speeds) for epoch in work.epochs)


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


def _count(epoch: EpochWork, machine: Machine, speeds: Speeds) -> EpochCounters:
    work = epoch.work
    if isinstance(work, SoftwareWork):
        return _software(epoch, work, machine)
    if isinstance(work, ClaimedWork):
        return _claimed(epoch, work, machine)
    return _hardware(epoch, work, machine, speeds)


def _hardware(
    epoch: EpochWork, groups: HardwareWork, machine: Machine, speeds: Speeds
) -> EpochCounters:
    control = machine.generation.control
    spans = [group_span(group, speeds) for group in groups]
    core = sum(span.cycles for span in spans)
    bound = max(spans, key=lambda span: span.cycles).bound
    if epoch.epoch.blob is None:
        pre, post = cpu_phases(epoch.control, control)
    else:
        pre, post = controller_phases(epoch.control, control)
        core += control.controller_cycles
        # Programming the epoch may take longer than running it.
        bound = Bound.CONTROL if control.controller_cycles > core / 2 else bound
    activity = tuple(
        _activity(engine, span, speeds)
        for group, span in zip(groups, spans, strict=True)
        for engine in group.engines
    )
    return _counters(epoch, pre, core, post, bound, activity)


def _counters(
    epoch: EpochWork,
    pre: float,
    core: float,
    post: float,
    bound: Bound,
    engines: tuple[EngineActivity, ...] = (),
) -> EpochCounters:
    first, last = epoch.epoch.number, epoch.epoch.last_number
    return EpochCounters(first, last, pre, core, post, bound, engines, traffic=epoch.traffic)


def _activity(engine: EngineWork, span: Span, speeds: Speeds) -> EngineActivity:
    """Cycles until the engine's last beat: an engine that waits for others counts as active."""
    cycles = span.cycles
    if not (engine.dir or engine.feeds_kernels):
        rate = speeds.banks[engine.bank].cycles_per_byte
        cycles = min(max(engine.elements, engine.bytes * rate), cycles)
    return EngineActivity(
        engine.id,
        "o" if engine.dir else "i",
        speeds.stream.busif(engine.id),
        round(cycles),
        engine.bank,
        engine.bytes,
    )


def _claimed(epoch: EpochWork, work: ClaimedWork, machine: Machine) -> EpochCounters:
    """The compiler's computation or the bytes by pool, plus the start."""
    roads = {memory.name: memory.path for memory in machine.pools}
    spans = [Span(work.compute_cycles, Bound.FEATURES)]
    for pool, own_rate, moved in work.moved:
        rate = machine.cycles_per_byte(roads[pool]) if pool in roads else own_rate
        spans.append(Span(moved * rate, Bound.BANK))
    slowest = max(spans, key=lambda span: span.cycles)
    core = slowest.cycles + machine.timing.epoch_start_cycles
    pre, post = cpu_phases(epoch.control, machine.generation.control)
    return _counters(epoch, pre, core, post, slowest.bound)


def _software(epoch: EpochWork, work: SoftwareWork, machine: Machine) -> EpochCounters:
    """The kernel's work sits in the post phase."""
    phases = machine.software_phases
    # The core phase is empty; what is counted there are MCU cycles seen as NPU cycles.
    core = phases.core_cycles * machine.clocks.npu_mhz / machine.clocks.mcu_mhz
    kernel = machine.software_cost(work.kernel).cycles(work.elements)
    return _counters(epoch, phases.pre_cycles, core, kernel, Bound.CPU)


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
