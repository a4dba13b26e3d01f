"""From one machine to another in steps, each with its cause: a program timed on all of them shows
what of a difference is the machine's and not the program's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from npuscope.advice.compare.model import CauseKind
from npuscope.machine.model import Clocks, Machine

_CLOCKS = {"MCU": "mcu_mhz", "NPU": "npu_mhz", "NoC": "noc_mhz", "NIC": "nic_mhz"}


@dataclass(frozen=True, slots=True)
class Step:
    """A machine that differs from the one before in one respect."""

    kind: CauseKind
    text: str
    machine: Machine


def machine_steps(start: Machine, end: Machine) -> Iterator[Step]:
    """Clocks, then control costs, then the constants of the timing law. Pools stay those of
    `start`: where bytes lie is the program's doing."""
    now = start
    for kind, text, following in (
        (CauseKind.CLOCK, clock_text(start.clocks, end.clocks), replace(now, clocks=end.clocks)),
        (CauseKind.START_COST, _control_text(start, end), _with_control(start, end)),
        (CauseKind.TIMING, _constants_text(start, end), _with_constants(start, end)),
    ):
        if following != now:
            yield Step(kind, text, following)
            now = following


def clock_text(a: Clocks, b: Clocks) -> str:
    """Clocks that differ; one that a saved result does not tell is 0 there."""
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
    rate = end.generation.vector_product_cycles
    return replace(
        _with_control(start, end),
        generation=replace(
            start.generation, control=end.generation.control, vector_product_cycles=rate
        ),
        timing=end.timing,
        software=end.software,
        software_phases=end.software_phases,
        paths={**start.paths, **end.paths},
        cache=end.cache,
        stream=end.stream,
    )


def _constants_text(start: Machine, end: Machine) -> str:
    """Names what differs, so that a what-if is found again."""
    a, b = start.generation.vector_product_cycles, end.generation.vector_product_cycles
    parts = [f"a product with a computed vector takes {a:g} -> {b:g} cycles"] if a != b else []
    parts += [f"timing.{name}" for name in _differing(start.timing, end.timing)]
    kernels = start.software.keys() | end.software.keys()
    parts += [
        f"cost of {name}"
        for name in sorted(kernels)
        if start.software.get(name) != end.software.get(name)
    ]
    roads = sorted(start.paths.keys() & end.paths.keys())
    parts += [f"road {name}" for name in roads if start.paths[name] != end.paths[name]]
    return ", ".join(parts) or "other constants of the machine"


def _differing(a: object, b: object) -> list[str]:
    return [name for name in type(a).__slots__ if getattr(a, name) != getattr(b, name)]  # type: ignore[attr-defined]
