"""What the types of a machine do not say: positive clocks, names that exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import NamedTuple

from npuscope.machine.model import Clocks, Control, Machine, SoftwareCost, SoftwarePhases, Timing


class Fault(NamedTuple):
    path: str
    message: str


def find_fault(machine: Machine) -> Fault | None:
    """The first fault of a machine description, or None."""
    return next(_faults(machine), None)


def _faults(machine: Machine) -> Iterator[Fault]:
    yield from _numbers(machine)
    yield from _costs(machine)
    yield from _pools(machine)
    yield from _names(machine)


def _numbers(machine: Machine) -> Iterator[Fault]:
    for field in fields(Clocks):
        yield from _positive(f"clocks.{field.name}", getattr(machine.clocks, field.name))
    for name, path in machine.paths.items():
        yield from _positive(f"paths.{name}.bytes_per_cycle", path.bytes_per_cycle)
    for key in ("size_bytes", "line_bytes", "ways"):
        yield from _positive(f"cache.{key}", getattr(machine.cache, key))
    for key in ("engines_per_busif", "busif_bytes"):
        yield from _positive(f"stream.{key}", getattr(machine.stream, key))
    yield from _positive("placement.alignment_bytes", machine.placement.alignment_bytes)
    for unit, count in machine.units.items():
        yield from _not_negative(f"units.{unit}", count)


def _costs(machine: Machine) -> Iterator[Fault]:
    """Nothing gives time back."""
    costs: dict[str, Timing | SoftwarePhases | Control | SoftwareCost] = {
        "timing": machine.timing,
        "software_phases": machine.software_phases,
        "generation.control": machine.generation.control,
    }
    costs |= {f"software.{name}": cost for name, cost in machine.software.items()}
    for place, cost in costs.items():
        for field in fields(cost):
            yield from _not_negative(f"{place}.{field.name}", getattr(cost, field.name))
    for name, path in machine.paths.items():
        yield from _not_negative(f"paths.{name}.access", path.access)


def _pools(machine: Machine) -> Iterator[Fault]:
    seen: set[str] = set()
    for pool in machine.pools:
        place = f"pools.{pool.name}"
        if pool.name in seen:
            yield Fault(place, "two pools have this name")
        seen.add(pool.name)
        yield from _not_negative(f"{place}.size_kib", pool.size_bytes)
        yield from _not_negative(f"{place}.address", pool.address)
        yield from _positive(f"{place}.byte_width", pool.byte_width)
        yield from _positive(f"{place}.freq_ratio", pool.freq_ratio)


def _names(machine: Machine) -> Iterator[Fault]:
    clocks = tuple(field.name for field in fields(Clocks))
    for name, path in machine.paths.items():
        yield from _known(f"paths.{name}.clock", path.clock, clocks)
    yield from _known("cache.path", machine.cache.path, tuple(machine.paths))
    for pool in machine.pools:
        yield from _known(f"pools.{pool.name}.path", pool.path, tuple(machine.paths))
    if "default" not in machine.software:
        yield Fault("software.default", "this key is missing")


def _positive(path: str, value: float) -> Iterator[Fault]:
    if value <= 0:
        yield Fault(path, f"must be above 0, found {value:g}")


def _not_negative(path: str, value: float) -> Iterator[Fault]:
    if value < 0:
        yield Fault(path, f"must not be negative, found {value:g}")


def _known(path: str, name: str, known: tuple[str, ...]) -> Iterator[Fault]:
    if name not in known:
        yield Fault(path, f"'{name}' is unknown; known: {', '.join(known)}")
