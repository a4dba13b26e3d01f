"""Simulate a program: inferences on the devices, their host, and the records they leave."""

from __future__ import annotations

from random import Random

from npuscope.errors import UsageError
from npuscope.many_core.buffer_format import Records, Stats
from npuscope.many_core.machine import CoreMachine
from npuscope.many_core.program import CoreProgram
from npuscope.many_core.records import SectionId
from npuscope.many_core.sim.collect import Collector, Origin
from npuscope.many_core.sim.conditions import RunOptions, RunResult, to_ticks, to_us
from npuscope.many_core.sim.costs import Costs
from npuscope.many_core.sim.host import BOOT_TICKS, Devices, Ran, run_iterations
from npuscope.many_core.sim.plan import Plan, plan_of
from npuscope.many_core.sim.pmu import not_modelled

# The same for every run, so that the same seed gives the same bytes.
UTC_NS_OF_TICK_0 = 1_700_000_000_000_000_000


def simulate(program: CoreProgram, machine: CoreMachine, options: RunOptions) -> RunResult:
    """Run a program; the same options and seed give the same result, byte for byte."""
    numbers = _device_numbers(program, options)
    _check(options)
    plan = plan_of(program, _costs(program, machine, options))
    activated = _activations(plan, options.seed)
    begin = max(end for spans in activated for _, end in spans)
    devices = Devices(plan, options.seed)
    ran = list(run_iterations(program, machine, devices, options, begin))
    samples, notes = _sampled(ran, options)
    stats: list[Stats] = []
    if options.collect:
        collectors = [Collector(plan, device, numbers) for device in range(plan.devices)]
        for one in samples:
            conditions, line = devices.timeline(one.request)
            for device, collector in enumerate(collectors):
                origin = Origin(one.tick, one.cycle, int(one.iteration.doorbell), activated[device])
                sections = collector.sections(line, conditions, origin)
                stats.append(_stats(program, one, device, numbers[device], sections))
        notes += not_modelled(program.layout.pmu.events)
    iterations = tuple(one.iteration for one in ran)
    kept = tuple(one.iteration.number for one in samples)
    return RunResult(iterations, kept, tuple(stats), UTC_NS_OF_TICK_0, notes)


def buffer_name(inference: int, network: str) -> str:
    """Of a buffer's file without its ending, as the vendor's runtime names them."""
    return f"aic-profiling-program-0-activation-0-inf-{inference}-{network}-aiccyclecounts"


def _stats(
    program: CoreProgram, ran: Ran, part: int, device: int, sections: dict[SectionId, Records]
) -> Stats:
    layout = program.layout
    number = ran.iteration.number
    return Stats(
        layout=layout,
        name=buffer_name(number, layout.specializations[part].name),
        level=layout.stats_level,
        device=device,
        specialization=part,
        inference=number,
        utc_ns=UTC_NS_OF_TICK_0,
        sections=sections,
    )


def _costs(program: CoreProgram, machine: CoreMachine, options: RunOptions) -> Costs:
    layout = program.layout
    level = layout.stats_level if options.stats_overhead else 0
    return Costs(machine, level, bool(layout.pmu.events))


def _activations(plan: Plan, seed: int) -> list[tuple[tuple[int, int], ...]]:
    """By device and thread: when it was made ready, long before the first inference."""
    random = Random(f"activation {seed}")
    low, high = plan.costs.machine.stats.activate_ticks
    threads = plan.cores * len(plan.layout.threads)
    return [
        tuple((BOOT_TICKS, BOOT_TICKS + random.randint(low, high)) for _ in range(threads))
        for _ in range(plan.devices)
    ]


def _sampled(ran: list[Ran], options: RunOptions) -> tuple[list[Ran], tuple[str, ...]]:
    """The first inferences from the wanted iteration and delay on; else the last of the run."""
    begin = ran[0].iteration.enqueued
    delay = to_ticks(options.start_delay_ms * 1000)
    late = [
        one for one in ran[options.start_iteration :] if one.iteration.enqueued - begin >= delay
    ]
    if late:
        return late[: options.samples], ()
    last = ran[-options.samples :]
    ended = to_us(ran[-1].iteration.completed - begin) / 1000
    return last, (
        f"the run ended after {len(ran)} iterations and {ended:.3f} ms, before profiling was to "
        f"start (iteration {options.start_iteration}, {options.start_delay_ms:g} ms): "
        f"its last {len(last)} are saved",
    )


def _device_numbers(program: CoreProgram, options: RunOptions) -> tuple[int, ...]:
    wanted, found = len(program.devices), options.devices
    if not found:
        return tuple(range(wanted))
    if len(found) != wanted:
        raise UsageError(
            f"the program is for {wanted} device{'s' * (wanted != 1)}, found {len(found)} numbers",
            where="--devices",
        )
    if len(set(found)) != wanted or not all(0 <= number <= 0xFFFF for number in found):
        raise UsageError("device numbers must differ and be 0 to 65535", where="--devices")
    return found


def _check(options: RunOptions) -> None:
    for value, low, name in (
        (options.iterations, 1, "--num-iter"),
        (options.samples, 1, "--aic-profiling-num-samples"),
        (options.start_iteration, 0, "--aic-profiling-start-iter"),
        (options.start_delay_ms, 0, "--aic-profiling-start-delay"),
    ):
        if value < low:
            raise UsageError(f"expected at least {low}, found {value:g}", where=name)
