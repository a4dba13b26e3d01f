"""What users read about machines of the family, and why a network takes its time on one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from npuscope.advice.explanation import Explanation, explanation
from npuscope.advice.what_if import STEP, Sensitivities, Sensitivity
from npuscope.errors import UsageError
from npuscope.families.ethos_u.build import (
    FAMILY,
    EthosBuild,
    EthosRun,
    TfliteSource,
    as_vela_reads,
    machine_of,
    timed,
)
from npuscope.families.ethos_u.machine import EthosMachine, load_machine
from npuscope.families.ethos_u.timing import KernelLimit
from npuscope.families.interface import Report
from npuscope.profiling.model import EpochProfile, Profile
from npuscope.program.model import EpochKind
from npuscope.report.machines import plain_keys
from npuscope.rulebook.registry import RuleKind, findings_of
from npuscope.shown import counted
from npuscope.structs import replace
from npuscope.text import safe_terminal

_RULES, _REFUSALS = "npuscope.families.ethos_u.rules", "npuscope.families.ethos_u.refusals"
_NOISE = 1e-9  # of the time: rounding of sums, not a saving
_FIXED = (
    "name",
    "product",
    "description",
    "system",
    "memory_mode",
    "macs",
    "cores",
    "board",
    "in_vela",
    "vela_lines",
)


def machine_report(name: str) -> Report:
    machine = load_machine(name)
    ports = {"SRAM": machine.sram, "external": machine.external}
    lines = [
        f"{name}: {machine.macs} MACs per cycle, {machine.description}",
        f"  clock        {machine.clock_mhz:g} MHz",
        *(
            f"  {label:<12} {port.bytes_per_cycle:g} bytes per cycle, "
            f"{port.read_latency_cycles:g} cycles until the first"
            for label, port in ports.items()
        ),
        f"  system       {machine.system} (--system-config), {machine.memory_mode} (--memory-mode)",
    ]
    values = {
        "name": name,
        "family": FAMILY,
        "description": machine.description,
        "units": {"MAC": machine.macs},
        "clocks": {"npu_mhz": machine.clock_mhz, "mcu_mhz": machine.cpu_mhz},
    }
    return Report("\n".join(lines), values)


def machine_keys(name: str, text: str) -> Report:
    rows = [row for row in _rows(load_machine(name), "") if text in row[0]]
    return plain_keys(name, rows)


def _rows(record: Struct, place: str) -> Iterator[tuple[str, Any]]:
    for key in asdict(record):
        value = getattr(record, key)
        if isinstance(value, Struct):
            yield from _rows(value, f"{place}{key}.")
        elif place or key not in _FIXED:
            yield f"{place}{key}", list(value) if isinstance(value, tuple) else value


def sensitivities(build: EthosBuild, options: Mapping[str, Any]) -> tuple[Sensitivity, ...]:
    """The same program on machines one of whose values is a tenth better, whichever way that is."""
    now_ms, savings = timed(build).total_ms, []
    for key, value in _rows(build.machine, ""):
        if not isinstance(value, float) or not value:
            continue
        for better in (value * (1 - STEP), value * (1 + STEP)):
            overrides = {**(options.get("overrides") or {}), key: better}
            try:
                machine = machine_of(build.machine.name, {**options, "overrides": overrides})
            except UsageError:  # beyond what the value may be
                continue
            saved_ms = now_ms - timed(replace(build, machine=machine)).total_ms
            if saved_ms > now_ms * _NOISE:
                savings.append(Sensitivity(key, value, better, saved_ms))
    return Sensitivities(sorted(savings, key=lambda row: -row.saved_ms))


def kernel_lines(profile: Profile, part: EpochProfile) -> list[str]:
    """Kernels of a part with what each takes and what holds it."""
    run: EthosRun | None = profile.payload
    if run is None:
        return ["  kernels are not known: a saved run has its times only"]
    if part.index not in run.parts:
        reason = run.reasons.get(part.index, "")
        return [f"  on the CPU{f': {safe_terminal(reason)}' if reason else ''}"]
    lines = []
    for one in run.parts[part.index]:
        kernel, window = one.kernel, one.kernel.window
        rows = {
            "kernel": f"{kernel.kind} {kernel.mode}".strip(),
            "output": _sizes(kernel.shape),
            "block": _sizes(kernel.block),
            "window": f"{_sizes(window.size)}, stride {_sizes(window.stride)}",
            "MACs": f"{one.work.macs:,}",
            "cycles": f"{one.start:,.0f} to {one.end:,.0f}: {one.cycles:,.0f}, of which waiting "
            f"{one.waited:,.0f}",
            "held by": one.limit.value,
        }
        lines += [f"  {name:<9}{text}" for name, text in rows.items()]
    return lines


def _sizes(values: Sequence[int]) -> str:
    return "x".join(map(str, values))


# --- Explanations ---


def explained(build: EthosBuild, profile: Profile) -> Explanation:
    run: EthosRun = profile.payload
    findings = [
        finding
        for module in (_REFUSALS, _RULES)
        for finding in findings_of(module, RuleKind.ADVISE, profile, graph=build.graph)
    ]
    if build.graph is not None:
        given = TfliteSource(build.written, build.names if build.written else ())
        read = as_vela_reads(build.graph, given)
        software = (part for part in profile.epochs if part.kind is EpochKind.SW)
        on_cpu = {name for part in software for name in part.origin}
        faults = findings_of(_RULES, RuleKind.LINT, read, build.machine.name)
        findings += [fault for fault in faults if not on_cpu.issuperset(fault.ops)]
    lines = (
        f"model    {safe_terminal(build.name)}",
        *(f"note     {note}" for note in profile.notes),
    )
    return explanation(_answer(profile, run, build.machine), profile, findings, lines)


def _answer(profile: Profile, run: EthosRun, machine: EthosMachine) -> str:
    cycles: dict[KernelLimit, float] = {}
    for time in run.offloads:
        for one in time.stream.kernels:
            cycles[one.limit] = cycles.get(one.limit, 0.0) + one.cycles
    total = sum(cycles.values())
    text = f"{profile.total_ms:.4g} ms on {machine.name}"
    if total:
        limit = max(cycles, key=cycles.__getitem__)
        text += f", {100 * cycles[limit] / total:.0f} % of the NPU's time held by its {limit.value}"
    operators = int(profile.figures["cpu_operators"])
    return text + (f", {counted(operators, 'operator')} on the CPU" if operators else "")
