"""The profile as text: runtime part, one line an epoch (or full blocks), the whole model."""

from __future__ import annotations

from npuscope.profile.model import EpochProfile, Profile
from npuscope.program.model import EpochKind
from npuscope.report.figures import (
    bus_traffic,
    clocks_of,
    label,
    source_of,
    total_phases,
    traffic,
)
from npuscope.report.header import (
    answer,
    interval_line,
    machine_line,
    model_line,
    note_lines,
    tensor_lines,
)
from npuscope.report.numbers import count, ms, per, percent, rate
from npuscope.report.text_epoch import epoch_lines
from npuscope.report.text_table import table_lines
from npuscope.text import safe_terminal


def profile_text(
    profile: Profile, *, full: bool = False, epochs: frozenset[int] | None = None
) -> str:
    """The report; `full` prints every field of every epoch, `epochs` picks some by number."""
    chosen = select(profile, epochs)
    lines = [*_runtime(profile), "", "Per epoch"]
    if full:
        lines += [line for epoch in chosen for line in epoch_lines(profile, epoch)]
    else:
        lines += table_lines(profile, chosen)
    lines += ["", *_compiler(profile), "", *_target(profile), "", *_bandwidth(profile)]
    return "\n".join(lines) + "\n"


def select(profile: Profile, numbers: frozenset[int] | None) -> tuple[EpochProfile, ...]:
    """Epochs that cover one of the numbers; all of them without numbers."""
    if numbers is None:
        return profile.epochs
    return tuple(
        epoch
        for epoch in profile.epochs
        if any(epoch.first <= number <= epoch.last for number in numbers)
    )


def _runtime(profile: Profile) -> list[str]:
    runs = "; ".join(f"{label(run.source)}, {run.n} inference(s)" for run in profile.runs)
    clocks = clocks_of(profile)
    domains = [("noc", clocks.noc_mhz), ("nic", clocks.nic_mhz)]
    buses = ", ".join(f"{name.upper()} {mhz:g} MHz" for name, mhz in domains if mhz)
    counts = ", ".join(f"{number} {name}" for name, number in profile.counts.items())
    return [
        answer(profile),
        model_line(profile),
        *tensor_lines(profile),
        machine_line(profile) + (f", {buses}" if buses else ""),
        *interval_line(profile),
        f"runs     {runs or 'none'}",
        f"epochs   {counts}",
        *note_lines(profile),
    ]


def _compiler(profile: Profile) -> list[str]:
    """The compiler's own estimate, summed; cycles are NPU cycles."""
    ops = sum(epoch.claims.ops for epoch in profile.epochs)
    cycles = sum(epoch.claims.max_cycles for epoch in profile.epochs)
    ideal = sum(epoch.claims.compute_cycles for epoch in profile.epochs)
    hertz = clocks_of(profile).npu_mhz * 1e6
    if not ops and not cycles:
        return ["Compiler", "  nothing is known: name the build that ran with --cfile"]
    return [
        "Compiler",
        _row("cycles", f"{cycles} (total max_cycles)"),
        _row("ideal cycles", f"{ideal} (total compute_cycles)"),
        _row("ops", str(ops)),
        _row("ops/cycle", per(ops, cycles)),
        _row("inf/s", f"{per(hertz, cycles)} (based on estimated total max_cycles)"),
        _row("ideal ops/cycle", per(ops, ideal)),
        _row("ideal inf/s", per(hertz, ideal)),
    ]


def _target(profile: Profile) -> list[str]:
    """What ran, under the name of its source: only a board's numbers are measured."""
    total = total_phases(profile.epochs, clocks_of(profile))
    ops = sum(epoch.claims.ops for epoch in profile.epochs)
    ideal = sum(epoch.claims.compute_cycles for epoch in profile.epochs)
    mcu = sum(total.mcu_cycles)
    shares = ", ".join(percent(cycles, mcu) for cycles in total.mcu_cycles)
    core = total.core_npu_cycles
    speed = f"{per(ops, total.total_npu_cycles)}, including SW epochs"
    ratio = f"{percent(ideal, total.total_npu_cycles)} (core only: {percent(ideal, core)})"
    return [
        label(source_of(profile)).capitalize(),
        _row(
            "total duration",
            f"{ms(profile.total_ms)}ms, npu_core:{ms(total.core_ms)}ms "
            f"({percent(total.core_ms, profile.total_ms)}), mcu_cycles=[{shares}]",
        ),
        _row("mcu cycles", f"{count(mcu)} (core only = {count(total.mcu_cycles[1])})"),
        _row("npu cycles", f"{count(total.total_npu_cycles)} (core only = {count(core)})"),
        *([_row("ops/cycle", f"{speed} (core only = {per(ops, core)})")] if ops else []),
        _row("inf/s", f"{profile.inferences_per_s:.1f} ({ms(profile.total_ms)}ms)"),
        *([_row("compute cycles ratio", ratio)] if ops else []),
        _row("time by work", _shares(profile)),
    ]


def _shares(profile: Profile) -> str:
    return ", ".join(f"{name.lower()} {ms(value)}ms" for name, value in profile.time.by_work)


def _bandwidth(profile: Profile) -> list[str]:
    """Peak counts hardware epochs while the NPU is active, average the whole inference."""
    hardware = tuple(epoch for epoch in profile.epochs if epoch.kind is EpochKind.HW)
    core_ms = total_phases(hardware, clocks_of(profile)).core_ms
    # Without the program the pools are not known, but what passed each bus interface is.
    moved = traffic if traffic(profile.epochs) else bus_traffic
    active = moved(hardware)
    lines = ["Memory bandwidth / inference"]
    for name, (reads, writes) in _with_total(moved(profile.epochs)).items():
        peak = sum(_with_total(active).get(name, (0, 0)))
        lines.append(
            _row(
                safe_terminal(name),
                f"r={reads} w={writes} -> {rate(peak, core_ms)} (peak), "
                f"{rate(reads + writes, profile.total_ms)} (average)",
            )
        )
    return lines


def _with_total(pools: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    reads, writes = (sum(row[i] for row in pools.values()) for i in (0, 1))
    return {**pools, "total r/w": (reads, writes)}


def _row(name: str, value: str) -> str:
    return f"  {name:<20} : {value}"
