"""Values of plain tables (TOML) checked and made into the frozen records of machine.model.

The record's annotations are the schema: a key that is missing, unknown or of another type is
an error that names its path in the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


class SchemaError(Exception):
    """A value that does not fit; `path` is its dotted place in the file."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def build(kind: type[T], table: object, path: str = "") -> T:
    """The record `kind` from a table; defaults of the record stand for absent keys."""
    rows = _table(table, path)
    hints = get_type_hints(kind)
    _refuse_unknown(kind, rows, hints, path)
    values: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        place = join(path, field.name)
        if field.name in rows:
            values[field.name] = convert(hints[field.name], rows[field.name], place)
        elif field.default is MISSING:
            raise SchemaError(place, "this key is missing")
    return kind(**values)


def convert(kind: Any, value: object, path: str) -> Any:
    """`value` as the annotated type `kind`."""
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
        if not math.isfinite(value):
            raise SchemaError(path, f"{value} is not a finite number")
        return float(value)
    if kind in (bool, int, str) and type(value) is kind:
        return value
    raise SchemaError(path, f"expected {describe(kind)}, found {show(value)}")


def describe(kind: type) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return names[kind]


def show(value: object) -> str:
    """A foreign value in a message, short."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _refuse_unknown(
    kind: type, rows: Mapping[str, object], hints: Mapping[str, object], path: str
) -> None:
    unknown = [key for key in rows if key not in hints]
    if unknown:
        known = ", ".join(sorted(hints))
        raise SchemaError(join(path, unknown[0]), f"unknown key; known here: {known}")


def _table(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise SchemaError(path, f"expected a table, found {show(value)}")
    return value


def _list(value: object, path: str) -> list[object]:
    if not isinstance(value, list):
        raise SchemaError(path, f"expected a list, found {show(value)}")
    return value
