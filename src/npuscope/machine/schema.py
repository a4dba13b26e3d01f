"""What is wrong with a machine: values out of range, and what its types do not say."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, NamedTuple, get_args

from msgspec import Struct

from npuscope.machine.model import Clocks, Machine
from npuscope.plain_data import Range
from npuscope.records import TOML, hints_of, unwrapped
from npuscope.structs import replace

# Ranges are checked last: pool files and what-if values change a machine that was read.
UNRANGED = replace(TOML, ranges=False)


class Fault(NamedTuple):
    """What is wrong with a value, and its dotted place."""

    path: str
    message: str


def range_faults(record: Any, path: str = "") -> Iterator[Fault]:
    """Values of a record, and of records in it, beyond the range that their field states."""
    for name, hint in hints_of(record.__class__).items():
        yield from _value_faults(hint, getattr(record, name), _joined(path, name))


def _value_faults(hint: Any, value: Any, path: str) -> Iterator[Fault]:
    kind, notes = unwrapped(hint)
    for note in notes:
        message = note.fault(value) if isinstance(note, Range) else ""
        if message:
            yield Fault(path, message)
    if isinstance(value, Struct):
        yield from _record_faults(value, path)
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _value_faults(get_args(kind)[1], entry, _joined(path, key))
    elif isinstance(value, tuple):
        for index, entry in enumerate(value):
            place = _joined(path, entry.name) if hasattr(entry, "name") else f"{path}[{index}]"
            yield from _value_faults(get_args(kind)[0], entry, place)


# Records without a fault, by identity: machines that differ in a value share all others.
_MOST_SOUND = 4096
_sound: dict[int, Any] = {}


def _record_faults(record: Any, path: str) -> list[Fault]:
    if _sound.get(id(record)) is record:
        return []
    faults = list(range_faults(record, path))
    if not faults:
        if len(_sound) >= _MOST_SOUND:
            _sound.clear()
        _sound[id(record)] = record
    return faults


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


# What the fields of a machine do not say each for itself: names that others ask for.

_UNITS = ("CONVACC", "POOL", "ACTIV", "ARITH", "STRENG", "DECUN", "RECBUF")
_TILES = ("plain1x1", "deep1x1", "dense8x8", "dense16x8", "row")


def find_fault(machine: Machine) -> Fault | None:
    """The first fault of a machine description, or None."""
    return next(_faults(machine), None)


def _faults(machine: Machine) -> Iterator[Fault]:
    yield from _required(machine)
    # Lowering chooses how many of them a layer takes.
    if not machine.units["CONVACC"]:
        yield Fault("units.CONVACC", "must be above 0, found 0")
    # Sizes of pools go by the name that they have in the TOML.
    for fault in range_faults(machine):
        in_pool = fault.path.startswith("pools.")
        path = fault.path.replace(".size_bytes", ".size_kib") if in_pool else fault.path
        yield Fault(path, fault.message)
    names: set[str] = set()
    for pool in machine.pools:
        if pool.name in names:
            yield Fault(f"pools.{pool.name}", "two pools have this name")
        names.add(pool.name)
    clocks = Clocks.__struct_fields__
    for name, way in machine.paths.items():
        yield from _known(f"paths.{name}.clock", way.clock, clocks)
    yield from _known("cache.path", machine.cache.path, tuple(machine.paths))
    for pool in machine.pools:
        yield from _known(f"pools.{pool.name}.path", pool.path, tuple(machine.paths))


def _required(machine: Machine) -> Iterator[Fault]:
    """Entries of open tables that the compiler and the simulator ask for by name."""
    tables: dict[str, tuple[Container[str], tuple[str, ...]]] = {
        "units": (machine.units, _UNITS),
        "convacc.tiles": (machine.convacc.tiles, _TILES),
        "software": (machine.software, ("default",)),
    }
    for place, (table, names) in tables.items():
        for name in names:
            if name not in table:
                yield Fault(f"{place}.{name}", "this key is missing")


def _known(path: str, name: str, names: tuple[str, ...]) -> Iterator[Fault]:
    if name not in names:
        yield Fault(path, f"'{name}' is unknown; known: {', '.join(names)}")
