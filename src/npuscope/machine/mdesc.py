"""Vendor machine-description files (.mdesc): which units the NPU has."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from npuscope.machine.foreign_json import Node, read_json
from npuscope.machine.model import Machine

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnitInfo:
    """Units of one type. A port's number is that of the switch it hangs on."""

    type: str
    count: int
    version: str
    power_mw: float
    in_ports: tuple[int, ...]
    out_ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MdescInfo:
    name: str
    version: str
    mpool_name: str
    nominal_mhz: float | None
    frequency_mhz: float | None
    vdd: float | None
    units: tuple[UnitInfo, ...]
    engines_by_port: tuple[int, ...]  # stream engines on memory port 0, 1, ...
    notes: tuple[str, ...] = ()

    def unit(self, kind: str) -> UnitInfo | None:
        return next((unit for unit in self.units if unit.type == kind), None)

    @property
    def counts(self) -> dict[str, int]:
        return {unit.type: unit.count for unit in self.units}


def read_mdesc(path: str | Path) -> MdescInfo:
    source = read_json(path)
    root = Node(source.value, str(path))
    machine = root.get("machine")
    entries = machine.get("accelerators").items()
    externals = root.find("externals")
    return MdescInfo(
        name=machine.get("name").text(),
        version=_text(machine, "version"),
        mpool_name=_text(externals, "mpool_name") if externals else "",
        nominal_mhz=_number(machine, "nominal_frequency"),
        frequency_mhz=_number(machine, "frequency"),
        vdd=_number(machine, "vdd"),
        units=_units(entries),
        engines_by_port=_engines_by_port(entries),
        notes=source.notes,
    )


def apply_mdesc(machine: Machine, path: str | Path) -> Machine:
    """The machine with the unit counts of the file; types it does not use are left out."""
    info = read_mdesc(path)
    for note in info.notes:
        log.warning(note)
    counts = {kind: info.counts.get(kind, 0) for kind in machine.units}
    stream = machine.stream
    if info.engines_by_port and info.engines_by_port[0]:
        stream = replace(stream, engines_per_busif=info.engines_by_port[0])
    return replace(machine, units=counts, stream=stream)


def _units(entries: tuple[Node, ...]) -> tuple[UnitInfo, ...]:
    """One record a type; the file may list a type in several rows."""
    found: dict[str, UnitInfo] = {}
    for entry in entries:
        unit = _unit(entry)
        known = found.get(unit.type)
        count = unit.count + (known.count if known else 0)
        found[unit.type] = replace(known or unit, count=count)
    return tuple(found.values())


def _unit(entry: Node) -> UnitInfo:
    count = entry.get("num").whole()
    if count < 0:
        raise entry.error(f"'num' must not be negative, found {count}")
    return UnitInfo(
        type=entry.get("type").text(),
        count=count,
        version=_text(entry, "version"),
        power_mw=_number(entry, "power") or 0.0,
        in_ports=_ports(entry, "inPorts"),
        out_ports=_ports(entry, "outPorts"),
    )


def _ports(entry: Node, name: str) -> tuple[int, ...]:
    ports = entry.find(name)
    return tuple(port.whole() for port in ports.items()) if ports else ()


def _engines_by_port(entries: tuple[Node, ...]) -> tuple[int, ...]:
    counts: dict[int, int] = {}
    for entry in entries:
        port = _memory_port(entry)
        if entry.get("type").text() == "STRENG" and port is not None:
            counts[port] = counts.get(port, 0) + entry.get("num").whole()
    return tuple(counts[port] for port in sorted(counts))


def _memory_port(entry: Node) -> int | None:
    params = entry.find("params")
    for param in params.items() if params else ():
        if param.get("name").text() == "MEM_PORT":
            return param.get("val").whole()
    return None


def _text(node: Node, name: str) -> str:
    found = node.find(name)
    return found.text() if found else ""


def _number(node: Node, name: str) -> float | None:
    found = node.find(name)
    return found.number() if found else None
