"""A many-core machine as text and as JSON, and its keys for --set."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from npuscope.families.interface import Report
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.rules import FAMILY


def machine_report(machine: CoreMachine) -> Report:
    cores = machine.cores
    units = {"core": cores.count, "hvx_thread": len(cores.hvx_threads)}
    pools = {"VTCM": machine.memory.vtcm_bytes, "L2": machine.memory.l2_bytes}
    lines = [
        f"{machine.name}: {machine.description}",
        f"  units        {cores.count} cores: {len(cores.hvx_threads)} HVX, "
        "1 HMX and 1 DMA thread each",
        f"  clocks, MHz  CORE {machine.clocks.core_mhz:g}",
        "  pools",
        *(f"    {name:<10} {size >> 10:>8} KiB per core" for name, size in pools.items()),
    ]
    record = {
        "name": machine.name,
        "family": FAMILY,
        "description": machine.description,
        "units": units,
        "clocks": {"core_mhz": machine.clocks.core_mhz},
        "pools": [{"name": name, "size_bytes": size} for name, size in pools.items()],
        "generations": [],
    }
    return Report("\n".join(lines), record)


def settable(record: Struct, path: str = "") -> Iterator[tuple[str, object]]:
    """Values of tables; name and description of the machine are not for change."""
    for name in record.__struct_fields__:
        value = getattr(record, name)
        place = f"{path}{name}"
        if isinstance(value, Struct):
            yield from settable(value, f"{place}.")
        elif isinstance(value, dict):
            yield from ((f"{place}.{key}", one) for key, one in value.items())
        elif path:
            yield place, value
