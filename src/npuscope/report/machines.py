"""The known machines and their keys, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from npuscope.families import Report
from npuscope.lean_dataclass import dataclass
from npuscope.machine.model import Machine
from npuscope.report.estimate import keys_json, keys_text, known_keys, shown


@dataclass(frozen=True, slots=True)
class KnownMachines:
    """Those of the first family, with the titles of their generations; others as they describe
    themselves. `keys` are for --set, if asked for."""

    machines: tuple[tuple[Machine, dict[str, str]], ...] = ()
    others: tuple[Report, ...] = ()
    keys: tuple[MachineKeys, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineKeys:
    """The settable values of a machine as text and as JSON."""

    name: str
    text: str
    json: list[dict[str, Any]]


def machine_keys(name: str, text: str) -> MachineKeys:
    rows = known_keys(name, text)
    return MachineKeys(name, keys_text(name, rows), keys_json(rows))


def plain_keys(name: str, rows: Sequence[tuple[str, object]]) -> MachineKeys:
    """Of a family whose keys have no marks."""
    lines = [f"{name}: {len(rows)} keys for --set"]
    lines += [f"  {key:<42} {shown(value):>18}" for key, value in rows]
    return MachineKeys(name, "\n".join(lines), [{"key": k, "value": v} for k, v in rows])


def machines_text(known: KnownMachines) -> str:
    texts = [_text(machine, titles) for machine, titles in known.machines]
    texts += [report.text for report in known.others]
    return "\n\n".join([*texts, *(keys.text for keys in known.keys)])


def machines_json(known: KnownMachines) -> dict[str, Any]:
    entries = [_as_json(machine, titles) for machine, titles in known.machines]
    entries += [report.json for report in known.others]
    entries += [{"name": keys.name, "keys": keys.json} for keys in known.keys]
    return {"schema": "npuscope/machines/1", "machines": entries}


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


def _as_json(machine: Machine, titles: dict[str, str]) -> dict[str, Any]:
    pools = [
        {"name": pool.name, "address": pool.address, "size_bytes": pool.size_bytes}
        for pool in machine.pools
    ]
    return {
        "name": machine.name,
        "description": machine.description,
        "units": dict(machine.units),
        "clocks": asdict(machine.clocks),
        "pools": pools,
        "generations": [{"name": name, "title": title} for name, title in titles.items()],
    }
