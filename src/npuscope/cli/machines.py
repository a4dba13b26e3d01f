"""`npuscope machines`: what is known about which device."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from npuscope.cli.options import add_options
from npuscope.cli.output import deliver

if TYPE_CHECKING:
    from npuscope.machine.model import Machine


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "machines")


def run(args: argparse.Namespace) -> int:
    if args.keys is not None:
        return _list_keys(args)
    from npuscope import api, families
    from npuscope.machine.load import packaged, read_table

    machines = []
    for machine in api.machines():
        generations = read_table(packaged(machine.name))["generations"]
        titles = {key: str(table["title"]) for key, table in generations.items()}
        machines.append((machine, titles))
    others = [
        family.described(name) for family in families.families() for name in family.machines()
    ]
    texts = [_text(machine, titles) for machine, titles in machines]
    text = "\n\n".join([*texts, *(report.text for report in others)])
    entries = [_as_json(machine, titles) for machine, titles in machines]
    result = {
        "schema": "npuscope/machines/1",
        "machines": [*entries, *(report.json for report in others)],
    }
    deliver(args, text, result)
    return 0


def _list_keys(args: argparse.Namespace) -> int:
    from npuscope import families
    from npuscope.machine.load import known_machines
    from npuscope.report.estimate import keys_json, keys_text, known_keys

    machines = {name: known_keys(name, args.keys) for name in known_machines()}
    others = {
        name: [(key, value) for key, value in family.keys(name) if args.keys in key]
        for family in families.families()
        for name in family.machines()
    }
    texts = [keys_text(name, rows) for name, rows in machines.items()]
    text = "\n\n".join([*texts, *(_plain_keys(name, rows) for name, rows in others.items())])
    entries = [{"name": name, "keys": keys_json(rows)} for name, rows in machines.items()]
    for name, rows in others.items():
        entries.append({"name": name, "keys": [{"key": k, "value": v} for k, v in rows]})
    result = {"schema": "npuscope/machines/1", "machines": entries}
    deliver(args, text, result)
    return 0


def _plain_keys(name: str, rows: list[tuple[str, object]]) -> str:
    from npuscope.report.estimate import shown

    lines = [f"{name}: {len(rows)} keys for --set"]
    return "\n".join([*lines, *(f"  {key:<42} {shown(value):>18}" for key, value in rows)])


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
