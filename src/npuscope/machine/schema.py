"""Values of plain tables (TOML) checked and made into the frozen records of machine.model.

The record's annotations are the schema: a key that is missing, unknown or of another type is
an error that names its path in the file.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from npuscope.machine.marks import Range

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
