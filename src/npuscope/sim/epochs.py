"""All counters of a program's epochs, as the debug unit and the CPU would read them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter

from npuscope.machine.model import Machine
from npuscope.program.calls import MOVES
from npuscope.program.model import Epoch, Program
from npuscope.program.units import Streng
from npuscope.sim.counters import (
    Bound,
    EngineActivity,
    EpochCounters,
    bus_traffic,
    cache_counts,
    engine_runs,
)
from npuscope.sim.group_work import (
    EngineWork,
)
from npuscope.sim.many import Fleet
from npuscope.sim.memory import Bank, Banks, bank_of, retimed
from npuscope.sim.program_work import (
    ClaimedWork,
    EpochWork,
    HardwareWork,
    ProgramWork,
    SoftwareWork,
    controller_phases,
    cpu_phases,
    program_work,
    stated_phases,
)
from npuscope.sim.spans import Span, Speeds, group_span, speeds_of
from npuscope.structs import replace


def count_epochs(program: Program, machine: Machine) -> tuple[EpochCounters, ...]:
    """Counters of one inference, epoch by epoch, with bursts and cache lines."""
    banks = Banks(program, machine)
    epochs = count_work(program_work(program, machine, banks), machine)
    pairs = zip(program.executed, epochs, strict=True)
    return tuple(_with_bus(counters, epoch, banks, machine) for epoch, counters in pairs)


def count_work(work: ProgramWork, machine: Machine) -> tuple[EpochCounters, ...]:
    """Counters without the bus; the machine may differ in timing keys from the one prepared for."""
    speeds = speeds_of(machine, retimed(work.banks, machine))
    return tuple(_count(epoch, machine, speeds) for epoch in work.epochs)


Phases = tuple[float, float, float, Bound]  # before, core, behind, and what sets the core's time


def count_many(work: ProgramWork, machines: Sequence[Machine]) -> list[list[Phases]]:
    """Phases by machine, then by epoch. Machines differ in real numbers that are timing keys."""
    fleet = Fleet(machines)
    by_epoch = [fleet.each(partial(_phases, work, epoch)) for epoch in work.epochs]
    return [[epoch[number] for epoch in by_epoch] for number in range(len(machines))]


def _phases(whole: ProgramWork, epoch: EpochWork, machine: Machine) -> Phases:
    speeds = speeds_of(machine, retimed(whole.banks, machine))
    work = epoch.work
    if isinstance(work, SoftwareWork):
        counters = _software(epoch, work, machine, speeds)
    elif isinstance(work, ClaimedWork):
        counters = _claimed(epoch, work, machine)
    else:
        _, core, bound = _core(work, speeds)
        counters = _controlled(epoch, core, bound, machine)
    return counters.pre_cycles, counters.core_cycles, counters.post_cycles, counters.bound


def _with_bus(
    counters: EpochCounters, epoch: Epoch, banks: Banks, machine: Machine
) -> EpochCounters:
    engines = [unit for unit in epoch.units if isinstance(unit, Streng)]
    if not engines:
        return counters
    runs = [engine_runs(engine, banks.address(engine)) for engine in engines]
    return replace(
        counters,
        busif=bus_traffic(engines, runs, machine),
        cache=cache_counts(engines, runs, machine),
    )


def _count(epoch: EpochWork, machine: Machine, speeds: Speeds) -> EpochCounters:
    work = epoch.work
    if isinstance(work, SoftwareWork):
        return _software(epoch, work, machine, speeds)
    if isinstance(work, ClaimedWork):
        return _claimed(epoch, work, machine)
    spans, core, bound = _core(work, speeds)
    # A report does not say which engine it is.
    groups = zip(work, spans, strict=True) if epoch.epoch.groups is not None else ()
    activity = tuple(
        _activity(engine, span, speeds) for group, span in groups for engine in group.engines
    )
    return _controlled(epoch, core, bound, machine, activity)


def _core(groups: HardwareWork, speeds: Speeds) -> tuple[list[Span], float, Bound]:
    spans = [group_span(group, speeds) for group in groups]
    return spans, sum(span.cycles for span in spans), max(spans, key=itemgetter(0)).bound


def _controlled(
    epoch: EpochWork,
    core: float,
    bound: Bound,
    machine: Machine,
    engines: tuple[EngineActivity, ...] = (),
) -> EpochCounters:
    """An epoch of the NPU with what the CPU or the epoch controller does around it."""
    control = machine.generation.control
    if epoch.epoch.blob is None and epoch.control.operators:
        pre, post = stated_phases(epoch.control, control, machine.stated)
    elif epoch.epoch.blob is None:
        pre, post = cpu_phases(epoch.control, control)
    else:
        pre, post = controller_phases(epoch.control, control)
        core += control.controller_cycles
        # Programming the epoch may take longer than running it.
        bound = Bound.CONTROL if control.controller_cycles > core / 2 else bound
    return _counters(epoch, pre, core, post, bound, engines)


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


def _outside(machine: Machine) -> set[str]:
    return {memory.name for memory in machine.pools if memory.cacheable}


def _claimed(epoch: EpochWork, work: ClaimedWork, machine: Machine) -> EpochCounters:
    """The compiler's computation or the bytes by pool, plus the start."""
    memories = {memory.name: memory for memory in machine.pools}
    spans = [Span(work.compute_cycles, Bound.FEATURES)]
    operators, stated = epoch.epoch.operators, machine.stated
    if operators and "Conv" not in operators:
        copies = MOVES.issuperset(operators)
        inside = (moved for pool, _, moved in work.moved if pool not in _outside(machine))
        rate = stated.copy_cycles if copies else stated.element_cycles
        spans.append(Span(rate * sum(inside), Bound.FEATURES))
    for pool, own_rate, moved in work.moved:
        memory = memories.get(pool)
        bank = bank_of(memory, machine) if memory else Bank(pool, own_rate, False, True)
        accesses = bank.access_cycles / stated.access_bytes
        bound = Bound.EXTERNAL_RAM if bank.read_cycles else Bound.BANK
        bound = bound if bank.writable else Bound.FLASH
        spans.append(Span(moved * (bank.cycles_per_byte + accesses), bound))
    slowest = max(spans, key=lambda span: span.cycles)
    core = slowest.cycles + machine.timing.epoch_start_cycles
    fetch = max((span.cycles for span in spans if span.bound is Bound.FLASH), default=0.0)
    tail = stated.series_tail if operators.count("Conv") > 1 else stated.tail
    core += tail * min(fetch, work.compute_cycles)
    return _controlled(epoch, core, slowest.bound, machine)


def _software(
    epoch: EpochWork, work: SoftwareWork, machine: Machine, speeds: Speeds
) -> EpochCounters:
    """The kernel's work sits in the post phase."""
    phases = machine.software_phases
    # The core phase is empty; MCU cycles are counted there, in units of NPU cycles.
    core = phases.core_cycles * machine.clocks.npu_mhz / machine.clocks.mcu_mhz
    kernel = machine.software_cost(work.kernel).cycles(work.elements, work.pixels)
    # A layer reads its weights, then multiplies: the processor does one thing at a time.
    limits = machine.software_limits
    rate = limits.depthwise_macs_per_cycle if work.depthwise else limits.int8_macs_per_cycle
    rate = min(rate, limits.float_macs_per_cycle) if work.float_macs else rate
    fetch = sum(size * speeds.banks[bank].fetch_cycles for bank, size in work.fetched)
    fetch = fetch * machine.clocks.mcu_mhz / machine.clocks.npu_mhz
    kernel = max(kernel, work.macs / rate + fetch)
    # MCU cycles that a library call waits for external RAM.
    cycles = sum(size * speeds.banks[bank].call_cycles for bank, size in work.moved)
    outside = cycles * machine.clocks.mcu_mhz / machine.clocks.npu_mhz
    bound = Bound.EXTERNAL_RAM if outside > kernel else Bound.CPU
    return _counters(epoch, phases.pre_cycles, core, max(kernel, outside), bound)
