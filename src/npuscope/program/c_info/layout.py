"""Foreign JSON as frozen dataclasses and back, driven by their annotations.

A field is a key of the same name (a trailing underscore is dropped: `class_`). Reading is strict
about types and ranges and lenient about what is there: a key that a record does not know, or that
is null, is kept in the record's `extra` and written again. So reading and writing loses nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from npuscope.errors import FileError
from npuscope.machine.foreign_json import Node, read_json

log = logging.getLogger(__name__)
Record = TypeVar("Record")

# No size, address or count of these tools needs more, and our own JSON cannot hold more.
_LARGEST = (1 << 63) - 1
# Records inside records: an epoch holds operators. Deeper files are made to exhaust the stack.
_MOST_NESTED = 16


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The smallest value that makes sense."""

    least: int


Count = Annotated[int, AtLeast(0)]
Id = Annotated[int, AtLeast(0)]  # 0 stands for none
OrMinusOne = Annotated[int, AtLeast(-1)]  # -1: not placed, or made by the tool
Amount = Annotated[float, AtLeast(0)]


def read_record(path: str | Path, kind: type[Record]) -> Record:
    """The JSON file as a record of `kind`."""
    try:
        source = read_json(path)
        record = decode(Node(source.value, str(path)), kind)
    except RecursionError:
        raise FileError("is not valid JSON: nested too deeply", where=str(path)) from None
    except ValueError:
        # Python refuses to convert whole numbers of thousands of digits.
        raise FileError("holds a number of thousands of digits", where=str(path)) from None
    for note in source.notes:
        log.warning(note)
    return record  # type: ignore[no-any-return]


def decode(node: Node, kind: Any, depth: int = 0) -> Any:
    """A value of the file as the annotated type `kind`."""
    if kind is Any:
        return node.value
    if is_dataclass(kind):
        return _decode_record(node, kind, depth)
    origin = get_origin(kind)
    if origin is tuple:
        return _decode_list(node, get_args(kind)[0], depth)
    if origin is dict:
        return _decode_table(node, get_args(kind)[1], depth)
    if origin is Annotated:
        return _decode_bounded(node, *get_args(kind))
    if origin is not None:  # X | None
        return None if node.value is None else decode(node, _wanted(kind, node.value), depth)
    return _decode_scalar(node, kind)


def encode(value: Any) -> Any:
    """The JSON value that `decode` read."""
    if isinstance(value, tuple):
        return [encode(entry) for entry in value]
    if isinstance(value, dict):
        return {key: encode(entry) for key, entry in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return _encode_record(value)
    return value


def _encode_record(record: Any) -> dict[str, Any]:
    result = {}
    kind: Any = type(record)
    for name, key, _, _ in _layout(kind):
        value = getattr(record, name)
        if value is not None:
            result[key] = encode(value)
    return {**result, **record.extra}


@cache
def _layout(kind: Any) -> tuple[tuple[str, str, Any, bool], ...]:
    """(field, key, type, required) of a record."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        (field.name, field.name.rstrip("_"), hints[field.name], field.default is MISSING)
        for field in fields(kind)
        if field.name != "extra"
    )


def _wanted(kind: Any, value: Any) -> Any:
    """Of a list that may be an object the one that is there."""
    parts = [part for part in get_args(kind) if part is not NoneType]
    return parts[-1] if isinstance(value, dict) else parts[0]


def _decode_record(node: Node, kind: Any, depth: int) -> Any:
    if depth > _MOST_NESTED:
        raise node.error(f"nested more than {_MOST_NESTED} deep")
    table = _checked(node, dict, "an object")
    found: dict[str, Any] = {}
    layout = _layout(kind)
    for name, key, wanted, required in layout:
        if not _says_nothing(table.get(key), wanted):
            child = Node(table[key], node.file, f"{node.path}.{key}")
            found[name] = decode(child, wanted, depth + 1)
        elif required:
            raise node.error(f"'{key}' is missing")
    known = {key: wanted for _, key, wanted, _ in layout}
    return kind(**found, extra=_unknown(table, known))


def _says_nothing(value: Any, wanted: Any) -> bool:
    """Tools write {} for a record that they leave out, where one must have fields."""
    parts = get_args(wanted)
    records = [part for part in parts if is_dataclass(part)] if NoneType in parts else []
    return value is None or (value == {} and any(_has_needs(kind) for kind in records))


def _has_needs(kind: Any) -> bool:
    return any(required for _, _, _, required in _layout(kind))


def _unknown(table: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in table.items() if k not in known or _says_nothing(v, known[k])}


def _decode_list(node: Node, kind: Any, depth: int) -> tuple[Any, ...]:
    rows = _checked(node, list, "a list")
    pairs = enumerate(rows)
    return tuple(decode(Node(row, node.file, f"{node.path}[{i}]"), kind, depth) for i, row in pairs)


def _decode_table(node: Node, kind: Any, depth: int) -> dict[str, Any]:
    table = _checked(node, dict, "an object")
    return {
        key: decode(Node(value, node.file, f"{node.path}.{key!a}"), kind, depth)
        for key, value in table.items()
    }


def _decode_bounded(node: Node, kind: type, bound: AtLeast) -> Any:
    value = _decode_scalar(node, kind)
    if value < bound.least:
        raise node.error(f"{value} is less than {bound.least}")
    return value


def _decode_scalar(node: Node, kind: type) -> Any:
    value = _checked(node, *_SCALARS[kind])
    # In Python a bool is an int; in the file it is not.
    if isinstance(value, bool) and kind is not bool:
        raise node.error(f"expected {_SCALARS[kind][1]}, found {str(value).lower()}")
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise node.error("the number needs more than 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise node.error(f"{value} is not a finite number")
    return value


_SCALARS: dict[type, tuple[Any, str]] = {
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
    str: (str, "text"),
    bool: (bool, "true or false"),
}


def _checked(node: Node, kind: Any, name: str) -> Any:
    if not isinstance(node.value, kind):
        raise node.error(f"expected {name}, found {_shown(node.value)}")
    return node.value


def _shown(value: object) -> str:
    """Short: the value may be half the file."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."
