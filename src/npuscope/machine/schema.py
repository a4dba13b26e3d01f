"""Values of plain tables made into records, and what the types of a machine do not say."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Container, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from npuscope.machine.marks import Range
from npuscope.machine.model import Clocks, Machine

# Values of plain tables (TOML) checked and made into the frozen records of machine.model.
#
# The record's annotations are the schema: a key that is missing, unknown or of another type is
# an error that names its path in the file.

T = TypeVar("T")
_LARGEST = sys.float_info.max


class Fault(NamedTuple):
    """What is wrong with a value, and its dotted place."""

    path: str
    message: str


class SchemaError(Exception):
    """A value that does not fit; `path` is its dotted place in the file."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def build(kind: type[T], table: object, path: str = "") -> T:
    """The record `kind` from a table; defaults of the record stand for absent keys."""
    rows = _table(table, path)
    hints = hints_of(kind)
    _refuse_unknown(kind, rows, hints, path)
    values: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        place = join(path, field.name)
        if field.name in rows:
            values[field.name] = convert(hints[field.name], rows[field.name], place)
        elif field.default is MISSING:
            raise SchemaError(place, "this key is missing")
    return kind(**values)


def hints_of(kind: Any) -> dict[str, Any]:
    """Annotations of a record with their ranges and marks."""
    return _hints(kind)


@cache  # resolving is slow
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def range_faults(record: Any, path: str = "") -> Iterator[Fault]:
    """Values of a record, and of records in it, beyond the range that their field states."""
    for name, hint in hints_of(type(record)).items():
        yield from _value_faults(hint, getattr(record, name), join(path, name))


def _value_faults(hint: Any, value: Any, path: str) -> Iterator[Fault]:
    kind, notes = unwrapped(hint)
    for note in notes:
        message = note.fault(value) if isinstance(note, Range) else ""
        if message:
            yield Fault(path, message)
    if is_dataclass(value):
        yield from range_faults(value, path)
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _value_faults(get_args(kind)[1], entry, join(path, key))
    elif isinstance(value, tuple):
        for index, entry in enumerate(value):
            place = join(path, entry.name) if hasattr(entry, "name") else f"{path}[{index}]"
            yield from _value_faults(get_args(kind)[0], entry, place)


def unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type of an annotation, and what else it says."""
    if get_origin(hint) is not Annotated:
        return hint, ()
    kind, *notes = get_args(hint)
    return kind, tuple(notes)


def convert(kind: Any, value: object, path: str) -> Any:
    """`value` as the annotated type `kind`."""
    kind, _ = unwrapped(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        return build(kind, value, path)
    origin = get_origin(kind)
    if origin is dict:
        item = get_args(kind)[1]
        return {key: convert(item, v, join(path, key)) for key, v in _table(value, path).items()}
    if origin is tuple:
        item = get_args(kind)[0]
        return tuple(convert(item, v, f"{path}[{i}]") for i, v in enumerate(_list(value, path)))
    return scalar(kind, value, path)


def scalar(kind: type, value: object, path: str) -> bool | int | float | str:
    """A number, text or switch; whole numbers serve as floats, switches never as numbers."""
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not -_LARGEST <= value <= _LARGEST:
            raise SchemaError(path, f"{show(value)} is not a finite number")
        return float(value)
    if kind in (bool, int, str) and type(value) is kind:
        return value
    raise SchemaError(path, f"expected {describe(kind)}, found {show(value)}")


def describe(kind: type) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return names[kind]


def show(value: object) -> str:
    """A foreign value in a message, short."""
    try:
        text = repr(value)
    except ValueError:  # of int, which writes no more than some thousand digits
        return "a number without end"
    return text if len(text) <= 40 else text[:37] + "..."


def join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _refuse_unknown(
    kind: type, rows: Mapping[str, object], hints: Mapping[str, object], path: str
) -> None:
    unknown = [key for key in rows if key not in hints]
    if unknown:
        near = difflib.get_close_matches(unknown[0], hints, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        known = ", ".join(sorted(hints))
        raise SchemaError(join(path, unknown[0]), f"unknown key; {meant}known here: {known}")


def _table(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise SchemaError(path, f"expected a table, found {show(value)}")
    return value


def _list(value: object, path: str) -> list[object]:
    if not isinstance(value, list):
        raise SchemaError(path, f"expected a list, found {show(value)}")
    return value


# What the fields of a machine do not say each for itself: names that others ask for.

_UNITS = ("CONVACC", "POOL", "ACTIV", "ARITH", "STRENG", "DECUN", "RECBUF")
_TILES = ("plain1x1", "deep1x1", "dense8x8", "dense16x8", "row")


def find_fault(machine: Machine) -> Fault | None:
    """The first fault of a machine description, or None."""
    return next(_faults(machine), None)


def _faults(machine: Machine) -> Iterator[Fault]:
    yield from _required(machine)
    yield from _convolves(machine)
    yield from _ranges(machine)
    yield from _pools(machine)
    yield from _names(machine)


def _ranges(machine: Machine) -> Iterator[Fault]:
    """Sizes of pools go by the name that they have in the TOML."""
    for fault in range_faults(machine):
        in_pool = fault.path.startswith("pools.")
        path = fault.path.replace(".size_bytes", ".size_kib") if in_pool else fault.path
        yield Fault(path, fault.message)


def _convolves(machine: Machine) -> Iterator[Fault]:
    """Lowering chooses how many of them a layer takes."""
    if not machine.units["CONVACC"]:
        yield Fault("units.CONVACC", "must be above 0, found 0")


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


def _pools(machine: Machine) -> Iterator[Fault]:
    seen: set[str] = set()
    for pool in machine.pools:
        place = f"pools.{pool.name}"
        if pool.name in seen:
            yield Fault(place, "two pools have this name")
        seen.add(pool.name)


def _names(machine: Machine) -> Iterator[Fault]:
    clocks = tuple(field.name for field in fields(Clocks))
    for name, path in machine.paths.items():
        yield from _known(f"paths.{name}.clock", path.clock, clocks)
    yield from _known("cache.path", machine.cache.path, tuple(machine.paths))
    for pool in machine.pools:
        yield from _known(f"pools.{pool.name}.path", pool.path, tuple(machine.paths))


def _known(path: str, name: str, known: tuple[str, ...]) -> Iterator[Fault]:
    if name not in known:
        yield Fault(path, f"'{name}' is unknown; known: {', '.join(known)}")
