"""What users read about machines of the family, and why a network takes its time on one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from npuscope.advice.explanation import Explanation, explanation
from npuscope.families.ethos_u.build import FAMILY, EthosBuild, EthosRun
from npuscope.families.ethos_u.machine import EthosMachine, load_machine
from npuscope.families.ethos_u.timing import KernelLimit
from npuscope.families.interface import Report
from npuscope.profiling.model import Profile
from npuscope.report.machines import plain_keys
from npuscope.rulebook.registry import RuleKind, findings_of
from npuscope.shown import counted
from npuscope.text import safe_terminal

_RULES, _REFUSALS = "npuscope.families.ethos_u.rules", "npuscope.families.ethos_u.refusals"
_FIXED = ("name", "product", "description", "system", "memory_mode", "macs", "cores", "board")


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


# --- Explanations ---


def explained(build: EthosBuild, profile: Profile) -> Explanation:
    run: EthosRun = profile.payload
    findings = [
        finding
        for module in (_REFUSALS, _RULES)
        for finding in findings_of(module, RuleKind.ADVISE, profile, graph=build.graph)
    ]
    if build.graph is not None:
        findings += findings_of(_RULES, RuleKind.LINT, build.graph, build.machine.name)
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
