"""Simulate a program: inferences on the devices, their host, and the records they leave."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from random import Random

from msgspec import Struct

from npuscope.errors import UsageError
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.pace import paced_plan
from npuscope.families.many_core.program import Binding, CoreProgram
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.families.many_core.sim.collect import Collector, Origin
from npuscope.families.many_core.sim.conditions import (
    INPUT_PORT,
    OUTPUT_PORT,
    Conditions,
    Iteration,
    RunOptions,
    RunResult,
    conditions_of,
    to_ticks,
    to_us,
)
from npuscope.families.many_core.sim.events import Timeline, run_inference
from npuscope.families.many_core.sim.plan import CardPlan, Costs
from npuscope.families.many_core.sim.pmu import not_modelled
from npuscope.shown import counted
from npuscope.structs import replace

# --- The host: requests, queue, input and output DMA, doorbells, completion ---

# Inferences differ in a few ways only, so that a long run is simulated in short time.
_PATTERNS = 8
_MOST_ITERATIONS = 1_000_000  # of a run that is told by its time
# The timer has run since the device was switched on.
BOOT_TICKS = 19_200_000
RETAINED = "_RetainedState"


class InferenceRequest(Struct, frozen=True):
    """All that decides how an inference goes: equal requests give equal inferences."""

    pattern: int
    input_ring: int
    output_ring: int


class InferenceOutcome(Struct, frozen=True):
    """Of an inference, in ticks from its begin."""

    start: int
    end: float
    input_free: float
    output_ready: float
    input_wait: float
    output_wait: float
    output_asked: float  # when the first op asks whether the output buffer is free
    cycles: int


class Devices:
    """Runs inferences on the devices; what was run once is remembered by its figures."""

    def __init__(self, plan: CardPlan, seed: int) -> None:
        self._plan, self._seed = plan, seed
        self._outcomes: dict[InferenceRequest, InferenceOutcome] = {}
        self._last: tuple[InferenceRequest, Conditions, Timeline] | None = None

    def settled(self, request: InferenceRequest) -> InferenceRequest:
        """An output buffer that is free before anybody asks might as well be free at once."""
        early = replace(request, output_ring=0)
        return early if request.output_ring <= self.outcome(early).output_asked else request

    def outcome(self, request: InferenceRequest) -> InferenceOutcome:
        if request not in self._outcomes:
            conditions, line = self.timeline(request)
            end = max(line.barrier, default=0.0)
            self._outcomes[request] = InferenceOutcome(
                min(min(cores) for cores in conditions.skew),
                end,
                _last_of(self._plan, line, "aicinputsemaphoreinc", end),
                _last_of(self._plan, line, "aicoutputsemaphoreinc", end),
                _longest_wait(line, INPUT_PORT),
                _longest_wait(line, OUTPUT_PORT),
                line.port_asked.get(OUTPUT_PORT, inf),
                max(int(clock.cycles_at(end)) for clock in conditions.clocks),
            )
        return self._outcomes[request]

    def timeline(self, request: InferenceRequest) -> tuple[Conditions, Timeline]:
        if self._last is None or self._last[0] != request:
            rings = {INPUT_PORT: request.input_ring, OUTPUT_PORT: request.output_ring}
            conditions = conditions_of(self._plan, self._seed, request.pattern, rings)
            self._last = (request, conditions, run_inference(self._plan, conditions))
        return self._last[1], self._last[2]


def _last_of(plan: CardPlan, line: Timeline, kind: str, otherwise: float) -> float:
    ends = (line.done[task.index] for task in plan.tasks if task.op.info.kind == kind)
    return max(ends, default=otherwise)


def _longest_wait(line: Timeline, port: int) -> float:
    return max((wait[1] for key, wait in line.port_waits.items() if key[3] == port), default=0.0)


class ReplayableIteration(Struct, frozen=True):
    """An iteration with what is needed to run it again."""

    iteration: Iteration
    request: InferenceRequest
    tick: int
    cycle: int  # of the cores' clock at that tick


def run_iterations(
    program: CoreProgram, machine: CoreMachine, devices: Devices, options: RunOptions, begin: int
) -> Iterator[ReplayableIteration]:
    """Inference after inference; the next is asked for while the device has work."""
    host = _Host(_Link(program, machine, options), devices, begin, machine.core_hz)
    random = Random(options.seed)
    number, enough = 0, options.iterations if options.time_us is None else _MOST_ITERATIONS
    end = inf if options.time_us is None else begin + to_ticks(options.time_us)
    while number < enough:
        ran = host.infer(number, random.randrange(_PATTERNS))
        yield ran
        number += 1
        if ran.iteration.completed >= end:
            return


class _Host:
    """What of host and device is in use until when.

    Every inference that may be in flight has an input and an output buffer of its own.
    """

    def __init__(self, link: _Link, devices: Devices, begin: int, core_hz: int) -> None:
        self._link, self._devices = link, devices
        self._tick, self._cycle = begin, begin * core_hz // UTIMER_HZ
        self._host_free = float(begin)
        self._inputs_free = [float(begin)] * link.depth  # by inference, the last at the end
        self._outputs_free = [float(begin)] * link.depth
        self._links_free = [float(begin)] * 2  # in, out
        self._completed: list[float] = []

    def infer(self, number: int, pattern: int) -> ReplayableIteration:
        link, tick = self._link, self._tick
        enqueued = self._host_free
        if len(self._completed) >= link.depth:
            # The queue holds a few inferences that are not completed; then it has a place.
            enqueued = max(enqueued, self._completed[-link.depth])
        submitted = enqueued + link.submit
        # Other threads of the host copy what is sent while this one goes on.
        input_free, output_free = self._inputs_free[-link.depth], self._outputs_free[-link.depth]
        input_begin = max(submitted + link.prepare, input_free, self._links_free[0])
        doorbell = input_begin + link.input_time
        request = InferenceRequest(pattern, self._ahead(doorbell), self._ahead(output_free))
        # Requests that lead to the same inference become equal, so that it is simulated once.
        request = self._devices.settled(request)
        outcome = self._devices.outcome(request)
        output_begin = max(tick + outcome.output_ready, output_free, self._links_free[1])
        output_end = output_begin + link.output_time
        # The stats buffer is an output too: the device has ended when the host is told. Threads of
        # the host copy outputs side by side, and answer in the order of the requests.
        ready = max(output_end, tick + outcome.end)
        completed = max((ready + link.complete, *self._completed[-1:]))
        answered = max((ready, *self._completed[-1:]))
        iteration = Iteration(
            number=number,
            enqueued=enqueued,
            submitted=submitted,
            input_begin=input_begin,
            doorbell=doorbell,
            device_start=tick + outcome.start,
            device_end=tick + int(outcome.end),
            output_begin=output_begin,
            output_end=output_end,
            answered=answered,
            completed=completed,
            input_wait=outcome.input_wait,
            output_wait=outcome.output_wait,
            queued=sum(1 for end in self._completed[-link.depth :] if end > enqueued),
        )
        # The other copies take their turns on the link.
        self._links_free = [input_begin + link.input_turns, output_begin + link.output_turns]
        ran = ReplayableIteration(iteration, request, tick, self._cycle)
        self._host_free = iteration.submitted
        self._outputs_free.append(iteration.output_end)
        self._inputs_free.append(self._tick + outcome.input_free)
        self._completed.append(iteration.completed)
        # The next inference starts at the first whole tick after this one.
        self._tick += int(outcome.end) + 1
        self._cycle += outcome.cycles + 1
        return ran

    def _ahead(self, when: float) -> int:
        """Ticks from the begin of the inference to something; 0 where it was before."""
        return max(int(when) - self._tick, 0)


class _Link:
    """Times of the host and its link, in ticks. Floats have 32 bits there."""

    def __init__(self, program: CoreProgram, machine: CoreMachine, options: RunOptions) -> None:
        host = machine.host
        self.copies = options.activations
        self.depth = options.set_size or max(host.queue_depth, 1)
        states = retained_states(program)
        input_bytes = sum(host_bytes(one) for one in program.inputs if one.name not in states)
        output_bytes = sum(host_bytes(one) for one in program.outputs if one.name not in states)
        copying = 1e-3 / host.copy_gb_per_s
        # With one inference in flight the copies move their bytes at about the same time.
        crowd = 1 + host.crowding * (self.copies - 1) if self.depth == 1 else 1.0
        self.submit = to_ticks(host.submit_us)
        self.prepare = to_ticks(input_bytes * copying)
        self.complete = to_ticks(host.complete_us + output_bytes * copying)
        input_us = input_bytes / host.gb_per_s / 1e3
        output_us = output_bytes / host.output_gb_per_s / 1e3
        self.input_time = to_ticks(host.latency_us + crowd * input_us)
        self.output_time = to_ticks(host.latency_us + crowd * output_us)
        # Until all copies have had the link: what one of them waits for is time of the others.
        self.input_turns = to_ticks(self.copies * (host.latency_us + input_us))
        self.output_turns = to_ticks(self.copies * (host.latency_us + output_us))


def host_bytes(binding: Binding) -> int:
    return binding.bytes * 2 if binding.dtype == "float16" else binding.bytes


def retained_states(program: CoreProgram) -> set[str]:
    """Outputs NAME_RetainedState and their inputs NAME: they stay in the device's memory."""
    outputs = {one.name for one in program.outputs if one.name.endswith(RETAINED)}
    return outputs | {name.removesuffix(RETAINED) for name in outputs}


# The same for every run, so that the same seed gives the same bytes.
UTC_NS_OF_TICK_0 = 1_700_000_000_000_000_000


def simulate(program: CoreProgram, machine: CoreMachine, options: RunOptions) -> RunResult:
    """Run a program; the same options and seed give the same result, byte for byte."""
    layout, numbers = program.layout, _device_numbers(program, options)
    _check(options)
    _check_activations(program, machine, options)
    level = layout.stats_level if options.stats_overhead else 0
    costs = Costs(machine, level, bool(layout.pmu.events), options.activations)
    plan = paced_plan(program, costs)
    activated = _activations(plan, options.seed)
    begin = max(end for spans in activated for _, end in spans)
    devices = Devices(plan, options.seed)
    ran = list(run_iterations(program, machine, devices, options, begin))
    samples, notes = _sampled(ran, options)
    stats: list[Stats] = []
    if options.collect:
        every = tuple(number for number in numbers for _ in range(options.activations))
        collectors = [Collector(plan, device, every) for device in range(plan.devices)]
        for one in samples:
            conditions, line = devices.timeline(one.request)
            for device, collector in enumerate(collectors):
                origin = Origin(one.tick, one.cycle, int(one.iteration.doorbell), activated[device])
                sections = collector.sections(line, conditions, origin)
                # The part of the program, and which copy of it.
                part, copy = divmod(device, options.activations)
                number, network = one.iteration.number, layout.specializations[part].name
                buffer = Stats(
                    layout=layout,
                    name=buffer_name(number, network, copy, options.program),
                    level=layout.stats_level,
                    device=numbers[part],
                    specialization=part,
                    inference=number,
                    utc_ns=UTC_NS_OF_TICK_0,
                    sections=sections,
                )
                stats.append(buffer)
        notes += not_modelled(layout.pmu.events)
    iterations = tuple(one.iteration for one in ran)
    sampled = tuple(one.iteration.number for one in samples)
    return RunResult(iterations, sampled, tuple(stats), UTC_NS_OF_TICK_0, notes)


def buffer_name(inference: int, network: str, activation: int = 0, program: int = 0) -> str:
    """Of a buffer's file without its ending, as the vendor's runtime names them."""
    place = f"program-{program}-activation-{activation}-inf-{inference}"
    return f"aic-profiling-{place}-{network}-aiccyclecounts"


def _check_activations(program: CoreProgram, machine: CoreMachine, options: RunOptions) -> None:
    copies, cores, most = options.activations, program.layout.cores, machine.cores.count
    if copies < 1:
        raise UsageError(f"expected at least 1, found {copies}", where="-a")
    if copies > 1 and len(program.devices) > 1:
        raise UsageError(
            "a program for several devices runs once: its devices work together",
            where="-a",
            hint="compile it for one device to run several copies",
        )
    if copies * cores > most and copies > 1:
        raise UsageError(
            f"{copies} activations of {counted(cores, 'core')} need {copies * cores}: "
            f"{machine.name} has {most}",
            where="-a",
            hint=f"at most {most // cores}",
        )


def _activations(plan: CardPlan, seed: int) -> list[tuple[tuple[int, int], ...]]:
    """By device and thread: when it was made ready, long before the first inference."""
    random = Random(f"activation {seed}")
    low, high = plan.costs.machine.stats.activate_ticks
    threads = plan.cores * len(plan.layout.threads)
    return [
        tuple((BOOT_TICKS, BOOT_TICKS + random.randint(low, high)) for _ in range(threads))
        for _ in range(plan.devices)
    ]


def _sampled(
    ran: list[ReplayableIteration], options: RunOptions
) -> tuple[list[ReplayableIteration], tuple[str, ...]]:
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
        f"the run ended after {len(ran)} iterations and {ended:.3f} ms, before profiling should "
        f"start (iteration {options.start_iteration}, {options.start_delay_ms:g} ms): "
        f"its last {len(last)} are saved",
    )


def _device_numbers(program: CoreProgram, options: RunOptions) -> tuple[int, ...]:
    count, numbers = len(program.devices), options.devices
    if not numbers:
        return tuple(range(count))
    if len(numbers) != count:
        raise UsageError(
            f"the program is for {counted(count, 'device')}, "
            f"found {counted(len(numbers), 'number')}",
            where="--devices",
        )
    if len(set(numbers)) != count or not all(0 <= number <= 0xFFFF for number in numbers):
        raise UsageError("device numbers must differ and be 0 to 65535", where="--devices")
    return numbers


def _check(options: RunOptions) -> None:
    for value, low, name in (
        (options.iterations, 1, "--num-iter"),
        (options.samples, 1, "--aic-profiling-num-samples"),
        (options.start_iteration, 0, "--aic-profiling-start-iter"),
        (options.start_delay_ms, 0, "--aic-profiling-start-delay"),
        (1 if options.set_size is None else options.set_size, 1, "--set-size"),
        (1 if options.time_us is None else options.time_us, 0, "--time"),
        (options.program, 0, "--program"),
    ):
        if value < low:
            raise UsageError(f"expected at least {low}, found {value:g}", where=name)
