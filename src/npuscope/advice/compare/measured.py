"""Runs that were measured: their noise, their clocks, and how predictions compare with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from npuscope.advice.compare.model import LEAST_MS, Cause, CauseKind, ComparedRow, Side
from npuscope.advice.compare.times import Times
from npuscope.errors import NpuscopeError
from npuscope.machine.load import load_machine
from npuscope.machine.model import Clocks, Machine
from npuscope.profiling.model import EpochProfile, Profile, RunClocks
from npuscope.program.model import EpochKind
from npuscope.structs import replace

# --- From one machine to another in steps, each with its cause ---
# A program timed on all of them shows how much of a difference comes from the machine.

_CLOCKS = {"MCU": "mcu_mhz", "NPU": "npu_mhz", "NoC": "noc_mhz", "NIC": "nic_mhz"}


class MachineStep(Struct, frozen=True):
    """A machine that differs from the one before in one respect."""

    kind: CauseKind
    text: str
    machine: Machine


def machine_steps(start: Machine, end: Machine) -> Iterator[MachineStep]:
    """Clocks, then control costs, then the constants of the timing law. Pools stay those of
    `start`: where bytes lie is the program's doing."""
    now = start
    for kind, text, following in (
        (CauseKind.CLOCK, clock_text(start.clocks, end.clocks), replace(now, clocks=end.clocks)),
        (CauseKind.START_COST, _control_text(start, end), _with_control(start, end)),
        (CauseKind.TIMING, _constants_text(start, end), _with_constants(start, end)),
    ):
        if following != now:
            yield MachineStep(kind, text, following)
            now = following


def clock_text(a: Clocks, b: Clocks) -> str:
    """Clocks that differ; one that a saved result does not state is 0 there."""
    pairs = [(name, getattr(a, field), getattr(b, field)) for name, field in _CLOCKS.items()]
    changed = [f"{name} {x:g} -> {y:g} MHz" for name, x, y in pairs if x and y and x != y]
    return ", ".join(changed) or f"external memory {a.xspi_mhz:g} -> {b.xspi_mhz:g} MHz"


def _with_control(start: Machine, end: Machine) -> Machine:
    generation = replace(start.generation, control=end.generation.control)
    return replace(start, clocks=end.clocks, generation=generation)


def _control_text(start: Machine, end: Machine) -> str:
    a, b = start.generation.control, end.generation.control
    if a.controller_cycles != b.controller_cycles:
        return start_text(a.controller_cycles, b.controller_cycles, end.generation.name)
    return f"control costs of generation {start.generation.name} -> {end.generation.name}"


def start_text(before: float, after: float, generation: str) -> str:
    return (
        f"starting an epoch takes {before:,.0f} -> {after:,.0f} NPU cycles "
        f"in generation {generation}"
    )


def _with_constants(start: Machine, end: Machine) -> Machine:
    generation = replace(
        start.generation,
        control=end.generation.control,
        external_factor=end.generation.external_factor,
    )
    return replace(
        _with_control(start, end),
        generation=generation,
        timing=end.timing,
        software=end.software,
        software_phases=end.software_phases,
        software_limits=end.software_limits,
        stated=end.stated,
        paths={**start.paths, **end.paths},
        cache=end.cache,
        stream=end.stream,
    )


def _constants_text(start: Machine, end: Machine) -> str:
    """Names what differs, so that a what-if is found again."""
    parts = []
    if start.generation.external_factor != end.generation.external_factor:
        parts.append("generation.external_factor")
    parts += [
        f"timing.{name}"
        for name in start.timing.__struct_fields__
        if getattr(start.timing, name) != getattr(end.timing, name)
    ]
    kernels = start.software.keys() | end.software.keys()
    parts += [
        f"cost of {name}"
        for name in sorted(kernels)
        if start.software.get(name) != end.software.get(name)
    ]
    roads = sorted(start.paths.keys() & end.paths.keys())
    parts += [f"road {name}" for name in roads if start.paths[name] != end.paths[name]]
    return ", ".join(parts) or "other constants of the machine"


def clocks_of(profile: Profile) -> RunClocks:
    if profile.runs:
        return profile.runs[0].clocks
    return RunClocks(profile.machine.mcu_mhz, profile.machine.npu_mhz, 0.0, 0.0)


def noise_ms(row: ComparedRow, a: Side, b: Side, share: float) -> float:
    """Twice the spread: each of two medians may lie anywhere in its own range. A share of the
    row's time, where asked for, stands for what repeats do not show."""
    spread = sum(
        epoch.spread.max - epoch.spread.min
        for side, epochs in ((a, row.a), (b, row.b))
        if side.is_measured
        for epoch in epochs
    )
    floor = share * max(row.a_ms, row.b_ms) if a.is_measured or b.is_measured else 0.0
    return max(spread, floor)


def in_noise(row: ComparedRow) -> bool:
    return bool(row.noise_ms) and abs(row.delta_ms) <= row.noise_ms


def as_noise(row: ComparedRow) -> ComparedRow:
    """A difference within the spread is not a change."""
    text = f"within the spread of the measured run, {row.noise_ms:.4f} ms"
    return replace(row, causes=(Cause(CauseKind.NOISE, text, row.delta_ms),))


def counted_times(
    epochs: Iterable[EpochProfile], clocks: RunClocks, start: float = 0.0, new_start: float = 0.0
) -> Times:
    """Without a program to time again: phases as they were counted.

    Of the core of an epoch in a blob `start` NPU cycles are the controller's, which would be
    `new_start` on the other side.
    """
    mcu, npu = clocks.mcu_mhz * 1000, clocks.npu_mhz * 1000
    work = control = software = 0.0
    for epoch in epochs:
        counters = epoch.counters
        around = (counters.pre_cycles + counters.post_cycles) / mcu
        if epoch.kind is not EpochKind.HW:
            software += around + counters.core_cycles / npu
            continue
        in_blob = epoch.blob is not None
        work += (counters.core_cycles - (start if in_blob else 0.0)) / npu
        control += around + (new_start / npu if in_blob else 0.0)
    return Times(work_ms=work, control_ms=control, software_ms=software)


def start_cycles(a: Side, b: Side) -> tuple[float, float]:
    """What the controller takes to start an epoch, by the generations of two predictions; zeros
    where that is not known of both."""
    cycles = [_start_cycles(side) for side in (a, b)]
    return (cycles[0], cycles[1]) if all(cycles) else (0.0, 0.0)


def _start_cycles(side: Side) -> float:
    if side.is_measured:
        return 0.0
    stated = side.profile.machine
    try:
        machine = side.machine or load_machine(stated.name, generation=stated.generation)
    except NpuscopeError:
        return 0.0
    return machine.generation.control.controller_cycles


def start_cause(row: ComparedRow, a: Side, b: Side) -> Iterator[Cause]:
    before, after = start_cycles(a, b)
    blobs = sum(epoch.blob is not None and epoch.kind is EpochKind.HW for epoch in row.a)
    ms = blobs * (after - before) / clocks_of(b.profile).npu_mhz / 1000
    if abs(ms) >= LEAST_MS:
        generation = b.profile.machine.generation
        yield Cause(CauseKind.START_COST, start_text(before, after, generation), ms)


def clock_cause(row: ComparedRow, a: Side, b: Side) -> Iterator[Cause]:
    """The same cycles at the other side's clocks."""
    before, after = clocks_of(a.profile), clocks_of(b.profile)
    if (before.mcu_mhz, before.npu_mhz) == (after.mcu_mhz, after.npu_mhz):
        return
    ms = counted_times(row.a, after).total_ms - counted_times(row.a, before).total_ms
    if abs(ms) >= LEAST_MS:
        yield Cause(CauseKind.CLOCK, clock_text(_clocks(before), _clocks(after)), ms)


def _clocks(run: RunClocks) -> Clocks:
    return Clocks(run.mcu_mhz, run.npu_mhz, run.noc_mhz, run.nic_mhz, 0.0)


def prediction_cause(row: ComparedRow, a: Side, b: Side, rest_ms: float) -> Cause | None:
    """The same program, measured and predicted: within the known error it is the prediction's."""
    if a.is_measured == b.is_measured or not is_same_program(a, b):
        return None
    predicted = b if a.is_measured else a
    total = predicted.profile.total_ms
    high = predicted.profile.interval_ms[1]
    share = (high - total) / total if total and high is not None else 0.0
    if abs(rest_ms) > share * max(row.a_ms, row.b_ms):
        text = f"measured against predicted, beyond the known error of {share:.0%}"
        return Cause(CauseKind.UNEXPLAINED, text, rest_ms)
    text = f"measured against predicted, within the known error of {share:.0%}"
    return Cause(CauseKind.PREDICTION, text, rest_ms)


def is_same_program(a: Side, b: Side) -> bool:
    return bool(a.profile.program_hash) and a.profile.program_hash == b.profile.program_hash
