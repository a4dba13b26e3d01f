"""A many-core machine as text and as JSON, and its keys for --set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from npuscope.families.interface import Report
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.rules import FAMILY


def machine_report(machine: CoreMachine) -> Report:
    return Report(_text(machine), _as_json(machine))


def _text(machine: CoreMachine) -> str:
    memory = machine.memory
    return "\n".join(
        [
            f"{machine.name}: {machine.description}",
            f"  units        {machine.cores.count} cores: {len(machine.cores.hvx_threads)} HVX, "
            "1 HMX and 1 DMA thread each",
            f"  clocks, MHz  CORE {machine.clocks.core_mhz:g}",
            "  pools",
            f"    {'VTCM':<10} {memory.vtcm_bytes >> 10:>8} KiB a core",
            f"    {'L2':<10} {memory.l2_bytes >> 10:>8} KiB a core",
        ]
    )


def _as_json(machine: CoreMachine) -> dict[str, Any]:
    memory, cores = machine.memory, machine.cores
    return {
        "name": machine.name,
        "family": FAMILY,
        "description": machine.description,
        "units": {"core": cores.count, "hvx_thread": len(cores.hvx_threads)},
        "clocks": {"core_mhz": machine.clocks.core_mhz},
        "pools": [
            {"name": "VTCM", "size_bytes": memory.vtcm_bytes},
            {"name": "L2", "size_bytes": memory.l2_bytes},
        ],
        "generations": [],
    }


def settable(record: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Values of tables; name and description of the machine are not for change."""
    assert is_dataclass(record)
    for field in fields(record):
        value = getattr(record, field.name)
        place = f"{path}{field.name}"
        if is_dataclass(value):
            yield from settable(value, f"{place}.")
        elif isinstance(value, dict):
            yield from ((f"{place}.{key}", one) for key, one in value.items())
        elif path:
            yield place, value
