"""Frozen dataclasses to plain JSON values and back, driven by their type annotations.

Fields that equal their default are left out, fields that do not compare (the constants' bytes)
are not written at all. Reading is strict: an unknown key, a missing field
or a wrong type is a FileError that names the JSON path.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from npuscope.errors import FileError
from npuscope.machine.marks import Range
from npuscope.machine.schema import hints_of, unwrapped
from npuscope.program.units import UNIT_TYPES, Unit
from npuscope.text import safe_terminal

# Numbers that JSON has no text for.
_FLOAT_KEY = "float"
_TAG = "unit"
_UNIT_CLASSES = tuple(UNIT_TYPES.values())


def encode(value: object) -> Any:
    """A value of our records as JSON can hold it."""
    if isinstance(value, Enum) and not isinstance(value, int):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT_KEY: repr(value)}
    if isinstance(value, tuple):
        return [encode(entry) for entry in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _encode_record(value)
    # Enums of register values are written as their number.
    return int(value) if isinstance(value, Enum) and isinstance(value, int) else value


def _encode_record(record: Any) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if isinstance(record, _UNIT_CLASSES):
        result[_TAG] = record.unit
    for field in fields(record):
        value = getattr(record, field.name)
        if field.compare and value != _default(field):
            result[field.name] = encode(value)
    return result


def _default(field: Field[Any]) -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def decode(value: object, kind: Any, path: str) -> Any:
    """A JSON value as the annotated type `kind`."""
    kind, notes = unwrapped(kind)
    if notes:
        return _ranged(decode(value, kind, path), notes, path)
    origin = get_origin(kind)
    if kind == Unit:
        return _decode_unit(value, path)
    if origin in (Union, UnionType):
        return _decode_union(value, get_args(kind), path)
    if origin is tuple:
        return _decode_tuple(value, get_args(kind), path)
    if origin is dict:
        return _decode_table(value, get_args(kind)[1], path)
    if is_dataclass(kind):
        return decode_record(value, kind, path)
    if issubclass(kind, Enum):
        return _decode_enum(value, kind, path)
    return _decode_scalar(value, kind, path)


def _ranged(value: Any, notes: tuple[Any, ...], path: str) -> Any:
    """The value, if it lies in the range that its annotation states."""
    for note in notes:
        message = note.fault(value) if isinstance(note, Range) else ""
        if message:
            raise FileError(message, where=path)
    return value


def decode_record(value: object, kind: Any, path: str) -> Any:
    entries = _object(value, path)
    known = _fields(kind)
    for key in entries:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else ""
            raise FileError(f"unknown key '{safe_terminal(key)}'", where=path, hint=hint)
    found = {key: decode(entry, known[key][1], f"{path}.{key}") for key, entry in entries.items()}
    for name, (field, _) in known.items():
        if name not in found and _default(field) is MISSING:
            raise FileError(f"key '{name}' is missing", where=path)
    return kind(**found)


@cache
def _fields(kind: Any) -> dict[str, tuple[Field[Any], Any]]:
    """Fields that are stored, with their resolved types; resolving is slow, so it is kept."""
    hints = hints_of(kind)
    return {field.name: (field, hints[field.name]) for field in fields(kind) if field.compare}


def _object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileError(f"expected an object, found {_name(value)}", where=path)
    return value


def _decode_unit(value: object, path: str) -> Any:
    entries = dict(_object(value, path))
    tag = entries.pop(_TAG, None)
    kind = UNIT_TYPES.get(tag) if isinstance(tag, str) else None
    if kind is None:
        known = ", ".join(UNIT_TYPES)
        raise FileError(f"expected '{_TAG}' to be one of {known}", where=path)
    return decode_record(entries, kind, path)


def _decode_tuple(value: object, kinds: tuple[Any, ...], path: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise FileError(f"expected a list, found {_name(value)}", where=path)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(value) != len(kinds):
        raise FileError(f"expected {len(kinds)} entries, found {len(value)}", where=path)
    pairs = enumerate(zip(value, kinds, strict=True))
    return tuple(decode(entry, kind, f"{path}[{index}]") for index, (entry, kind) in pairs)


def _decode_table(value: object, kind: Any, path: str) -> dict[str, Any]:
    """Values of one kind by name; JSON has no other keys than texts."""
    entries = _object(value, path).items()
    return {key: decode(entry, kind, f"{path}.{safe_terminal(key)}") for key, entry in entries}


def _decode_enum(value: object, kind: Any, path: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise FileError(f"expected one of {known}, found {_shown(value)}", where=path) from None


def _decode_union(value: object, kinds: tuple[Any, ...], path: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    kinds = tuple(kind for kind in kinds if kind is not NoneType)
    if len(kinds) == 1:
        return decode(value, kinds[0], path)
    return _decode_argument(value, path)


def _decode_argument(value: object, path: str, depth: int = 0) -> Any:
    """Arguments of kernel calls: numbers, flags, texts, tuples of them, tuples of tuples."""
    if isinstance(value, list) and depth < 2:
        pairs = enumerate(value)
        return tuple(_decode_argument(v, f"{path}[{index}]", depth + 1) for index, v in pairs)
    if isinstance(value, dict):
        return _decode_float(value, path)
    if not isinstance(value, (bool, int, float, str)):
        raise FileError(f"expected a number or a text, found {_name(value)}", where=path)
    return value


def _decode_scalar(value: object, kind: type, path: str) -> Any:
    if kind is float:
        return _decode_float(value, path)
    # In Python a bool is an int; in the file it is not.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise FileError(f"expected {_WORDS[kind]}, found {_name(value)}", where=path)
    return value


def _decode_float(value: object, path: str) -> float:
    if isinstance(value, dict) and value.get(_FLOAT_KEY) in ("inf", "-inf", "nan"):
        return float(value[_FLOAT_KEY])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FileError(f"expected a number, found {_name(value)}", where=path)
    try:
        return float(value)
    except OverflowError:
        raise FileError("the number is too large", where=path) from None


_WORDS = {int: "a whole number", str: "a text", bool: "true or false", float: "a number"}


def _name(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else _WORDS[type(value)]


def _shown(value: object) -> str:
    return f"'{safe_terminal(value)}'" if isinstance(value, str) else _name(value)
