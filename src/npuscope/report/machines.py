"""The known machines and their keys, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from npuscope.families.interface import Report
from npuscope.machine.model import Machine
from npuscope.report.estimate import keys_json, keys_text, known_keys, shown


class KnownMachines(Struct, frozen=True):
    """Each as its family describes it, or its keys for --set."""

    machines: tuple[Report, ...]


def machine_report(machine: Machine, titles: dict[str, str]) -> Report:
    """A machine with the titles of its compiler generations."""
    pools = [
        {"name": pool.name, "address": pool.address, "size_bytes": pool.size_bytes}
        for pool in machine.pools
    ]
    return Report(
        _text(machine, titles),
        {
            "name": machine.name,
            "description": machine.description,
            "units": dict(machine.units),
            "clocks": asdict(machine.clocks),
            "pools": pools,
            "generations": [{"name": name, "title": title} for name, title in titles.items()],
        },
    )


def keys_report(name: str, text: str) -> Report:
    """Keys with marks and sources."""
    rows = known_keys(name, text)
    return Report(keys_text(name, rows), {"name": name, "keys": keys_json(rows)})


def plain_keys(name: str, rows: Sequence[tuple[str, object]]) -> Report:
    """Of a family whose keys have no marks."""
    lines = [f"{name}: {len(rows)} keys for --set"]
    lines += [f"  {key:<42} {shown(value):>18}" for key, value in rows]
    keys = [{"key": key, "value": value} for key, value in rows]
    return Report("\n".join(lines), {"name": name, "keys": keys})


def machines_text(every: KnownMachines) -> str:
    return "\n\n".join(report.text for report in every.machines)


def machines_json(every: KnownMachines) -> dict[str, Any]:
    return {"schema": "npuscope/machines/1", "machines": [one.json for one in every.machines]}


def _text(machine: Machine, titles: dict[str, str]) -> str:
    clocks = ", ".join(
        f"{name.removesuffix('_mhz').upper()} {mhz:g}"
        for name, mhz in asdict(machine.clocks).items()
    )
    units = ", ".join(f"{number} {unit}" for unit, number in machine.units.items())
    lines = [
        f"{machine.name}: {machine.description}",
        f"  units        {units}",
        f"  clocks, MHz  {clocks}",
        "  pools",
    ]
    for pool in machine.pools:
        lines.append(f"    {pool.name:<10} {pool.address:#010x} {pool.size_bytes >> 10:>8} KiB")
    lines.append(f"  generations  (default {machine.generation.name})")
    lines += [f"    {name:<10} {title}" for name, title in titles.items()]
    return "\n".join(lines)
