"""Plain data (JSON, TOML) as frozen records and back, driven by their annotations.

A field is a key of the same name; a trailing underscore is dropped (`class_`). Fields that stay
apart are not stored. Our own files are read strictly: an unknown key, a missing field, another
type or a value out of range is a FileError that names the path of the value. Foreign files are
read as strictly, but may lack and add keys: see FOREIGN.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache, partial
from itertools import repeat
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct

from npuscope.errors import FileError
from npuscope.plain_data import WORDS, Range, shown, step
from npuscope.structs import kept

T = TypeVar("T")
Decoder = Callable[[Any, "Style", int], Any]

# Numbers that JSON has no text for: {"float": "inf"}.
_FLOAT_KEY, _ENDLESS = "float", ("inf", "-inf", "nan")
# A record that is one of several says which: its class has this text, its table the same key.
_TAG = "unit"
_EXTRA = "extra"  # where a record keeps what it does not know
_LARGEST = sys.float_info.max
_MOST_BITS = 63  # no size, address or count needs more, and our own JSON cannot hold more
# Records inside records: an epoch holds operators. Deeper files are made to exhaust the stack.
_MOST_NESTED = 16


class Style(Struct, frozen=True):
    """How the files of a kind are read."""

    table: str = "an object"  # what the format calls it
    foreign: bool = False  # unknown keys and nulls are kept in the record's `extra`
    endless: bool = False  # numbers may be infinite
    ranges: bool = True  # False where `range_faults` is asked, under names of the file's own


JSON = Style(endless=True)
TOML = Style(table="a table")
FOREIGN = Style(foreign=True)  # numbers stay as they are, so that writing loses nothing


# What annotations say beside the type.


class Alone(Enum):
    """A value alone stands for a list of one; a list has something in it."""

    ALLOWED = "allowed"


OneOrMore = Annotated[tuple[T, ...], Alone.ALLOWED]


@cache  # resolving is slow
def hints_of(kind: Any) -> dict[str, Any]:
    """Annotations of a record with their ranges and marks."""
    return get_type_hints(kind, include_extras=True)


def unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type of an annotation, and what else it says."""
    if get_origin(hint) is not Annotated:
        return hint, ()
    kind, *notes = get_args(hint)
    return kind, tuple(notes)


class _Field(NamedTuple):
    name: str
    decoder: Decoder
    default: Any  # what an absent key stands for; NODEFAULT where it must be there
    needs: bool  # an optional record with keys that must be there: tools write {} to leave it out


@cache
def _layout(kind: Any) -> dict[str, _Field]:
    """The stored fields of a record by key."""
    stored = set(kept(kind)) - {_EXTRA}
    # Not by msgspec.structs.fields, which would resolve all annotations again.
    hints, names, defaults = hints_of(kind), kind.__struct_fields__, kind.__struct_defaults__
    defaults = (NODEFAULT,) * (len(names) - len(defaults)) + defaults
    return {
        name.rstrip("_"): _Field(
            name,
            _decoder(hints[name]),
            default.factory() if hasattr(default, "factory") else default,
            _has_needs(hints[name]),
        )
        for name, default in zip(names, defaults, strict=True)
        if name in stored
    }


def _has_needs(hint: Any) -> bool:
    parts = get_args(hint)
    records: list[Any] = [part for part in parts if _is_record(part)]
    if NoneType not in parts:
        return False
    return any(row.default is NODEFAULT for kind in records for row in _layout(kind).values())


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


@cache
def _tag(kind: Any) -> str | None:
    tag = getattr(kind, _TAG, None)
    return tag if isinstance(tag, str) else None


# Writing.


def encode(value: Any, *, whole: bool = False) -> Any:
    """A value of our records as JSON can hold it.

    What equals its default is left out, for `decode` to fill in. `whole` is for readers who know
    neither the defaults nor how we write numbers without end.
    """
    if isinstance(value, Enum):
        # Enums of register values are written as their number.
        return int(value) if isinstance(value, int) else value.value
    if isinstance(value, float) and not whole and not math.isfinite(value):
        return {_FLOAT_KEY: repr(float(value))}
    if isinstance(value, tuple):
        return [encode(entry, whole=whole) for entry in value]
    if isinstance(value, dict):
        return {key: encode(entry, whole=whole) for key, entry in value.items()}
    if isinstance(value, Struct):
        return _encode_record(value, whole)
    return value


def _encode_record(record: Any, whole: bool) -> dict[str, Any]:
    kind: Any = type(record)
    tag = _tag(kind)
    result: dict[str, Any] = {} if tag is None else {_TAG: tag}
    for key, field in _layout(kind).items():
        value = getattr(record, field.name)
        if whole or value != field.default:
            result[key] = encode(value, whole=whole)
    return {**result, **getattr(record, _EXTRA, {})}


# Reading.


class _Misfit(Exception):
    """A value that does not fit; its place is completed on the way to the root, so that good
    files pay nothing for it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.place = ""

    def under(self, step: str) -> _Misfit:
        self.place = step + self.place
        return self


def decode(value: object, kind: Any, path: str = "$", style: Style = JSON) -> Any:
    """Plain data as the annotated type `kind`; `path` is where the value stands."""
    try:
        return _decoder(kind)(value, style, 0)
    except _Misfit as error:
        where = f"{path}{error.place}" if path else error.place.removeprefix(".")
        raise FileError(error.message, where=where, hint=error.hint) from None


@cache
def _decoder(kind: Any) -> Decoder:
    kind, notes = unwrapped(kind)
    ranges = tuple(note for note in notes if isinstance(note, Range))
    if ranges:
        return partial(_ranged, _decoder(kind), ranges)
    if Alone.ALLOWED in notes:
        return partial(_one_or_more, _decoder(kind))
    if kind is Any:
        return _anything
    if _is_record(kind):
        return partial(_record, kind)
    return _decoder_of_several(kind, get_origin(kind), get_args(kind))


def _decoder_of_several(kind: Any, origin: Any, parts: tuple[Any, ...]) -> Decoder:
    if origin in (Union, UnionType):
        return _decoder_of_union(tuple(part for part in parts if part is not NoneType), parts)
    if origin is tuple and parts[1:] == (Ellipsis,):
        return partial(_entries, _decoder(parts[0]))
    if origin is tuple:
        return partial(_exactly, tuple(map(_decoder, parts)))
    if origin is dict:
        return partial(_named_entries, _decoder(parts[1]))
    if issubclass(kind, Enum):
        return partial(_enum, kind)
    return _float if kind is float else partial(_scalar, kind)


def _decoder_of_union(kinds: tuple[Any, ...], parts: tuple[Any, ...]) -> Decoder:
    if len(kinds) == 1:
        decoder = _decoder(kinds[0])
    elif all(map(_is_record, kinds)):
        decoder = partial(_tagged, {str(_tag(kind)): kind for kind in kinds})
    elif {get_origin(kind) for kind in kinds} == {tuple, dict}:
        decoders = {get_origin(kind): _decoder(kind) for kind in kinds}
        decoder = partial(_list_or_table, decoders[tuple], decoders[dict])
    else:
        decoder = partial(_argument, kinds, 2)
    return partial(_or_none, decoder) if NoneType in parts else decoder


def _record(kind: Any, value: object, style: Style, depth: int) -> Any:
    if depth > _MOST_NESTED:
        raise _Misfit(f"nested more than {_MOST_NESTED} levels")
    layout = _layout(kind)
    values: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, entry in _table(value, style).items():
        field = layout.get(key)
        if style.foreign and (field is None or entry is None or (entry == {} and field.needs)):
            extra[key] = entry
        elif field is None:
            raise _unknown(key, layout)
        else:
            try:
                values[field.name] = field.decoder(entry, style, depth + 1)
            except _Misfit as error:
                raise error.under(f".{key}") from None
    for key, field in layout.items():
        if field.default is NODEFAULT and field.name not in values:
            raise _Misfit("this key is missing").under(f".{key}")
    return kind(**values, extra=extra) if style.foreign else kind(**values)


def _unknown(key: str, names: Iterable[str]) -> _Misfit:
    return _Misfit("unknown key", nearest(key, names)).under(step(key))


def nearest(key: str, names: Iterable[str]) -> str:
    """A hint at what an unknown key may have been meant to be."""
    import difflib

    names = list(names)
    near = difflib.get_close_matches(key, names, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"


def _tagged(kinds: dict[str, Any], value: object, style: Style, depth: int) -> Any:
    entries = dict(_table(value, style))
    tag = entries.pop(_TAG, None)
    kind = kinds.get(tag) if isinstance(tag, str) else None
    if kind is None:
        raise _Misfit(f"expected '{_TAG}' to be one of {', '.join(kinds)}")
    return _record(kind, entries, style, depth)


def _ranged(
    decoder: Decoder, ranges: tuple[Range, ...], value: object, style: Style, depth: int
) -> Any:
    """The value, if it lies in the range that its annotation states."""
    result = decoder(value, style, depth)
    for limits in ranges if style.ranges else ():
        message = limits.fault(result)
        if message:
            raise _Misfit(message)
    return result


def _or_none(decoder: Decoder, value: object, style: Style, depth: int) -> Any:
    return None if value is None else decoder(value, style, depth)


def _list_or_table(
    entries: Decoder, table: Decoder, value: object, style: Style, depth: int
) -> Any:
    """Versions of a tool write a list or an object under one key."""
    return (table if isinstance(value, dict) else entries)(value, style, depth)


def _anything(value: object, style: Style, depth: int) -> Any:
    return value


def _one_or_more(decoder: Decoder, value: object, style: Style, depth: int) -> Any:
    if value == []:
        raise _Misfit("the list is empty", "leave the key out for the default")
    try:
        return decoder(value if isinstance(value, list) else [value], style, depth)
    except _Misfit as error:
        if not isinstance(value, list):
            error.place = error.place.removeprefix("[0]")
        raise


def _entries(decoder: Decoder, value: object, style: Style, depth: int) -> tuple[Any, ...]:
    rows = _list(value, style)
    return _each(rows, repeat(decoder), style, depth)


def _exactly(
    decoders: tuple[Decoder, ...], value: object, style: Style, depth: int
) -> tuple[Any, ...]:
    rows = _list(value, style)
    if len(rows) != len(decoders):
        raise _Misfit(f"expected {len(decoders)} entries, found {len(rows)}")
    return _each(rows, decoders, style, depth)


def _each(
    rows: list[Any], decoders: Iterable[Decoder], style: Style, depth: int
) -> tuple[Any, ...]:
    values: list[Any] = []
    try:
        for row, decoder in zip(rows, decoders, strict=False):
            values.append(decoder(row, style, depth))
    except _Misfit as error:
        raise error.under(f"[{len(values)}]") from None
    return tuple(values)


def _named_entries(decoder: Decoder, value: object, style: Style, depth: int) -> dict[str, Any]:
    """Values of one kind by name; neither JSON nor TOML has other keys than texts."""
    values: dict[str, Any] = {}
    for key, entry in _table(value, style).items():
        try:
            values[key] = decoder(entry, style, depth)
        except _Misfit as error:
            raise error.under(step(key)) from None
    return values


def _enum(kind: Any, value: object, style: Style, depth: int) -> Any:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(str(member.value) for member in kind)
        raise _Misfit(f"expected one of {choices}, found {shown(value, style.table)}") from None


def _argument(kinds: tuple[Any, ...], deep: int, value: object, style: Style, depth: int) -> Any:
    """One of several plain types, or where a tuple is one of them, tuples of tuples of them."""
    if isinstance(value, list) and deep and any(get_origin(kind) is tuple for kind in kinds):
        return _entries(partial(_argument, kinds, deep - 1), value, style, depth)
    if type(value) in kinds:
        return value
    if isinstance(value, dict) and style.endless and float in kinds:
        return _float(value, style, depth)
    words = " or ".join(dict.fromkeys(_UNION_WORDS[kind] for kind in kinds if kind in _UNION_WORDS))
    raise _Misfit(f"expected {words}, found {shown(value, style.table)}")


def _scalar(kind: Any, value: Any, style: Style, depth: int) -> Any:
    # In Python a bool is an int; in the file it is not.
    if type(value) is not kind:
        raise _Misfit(f"expected {WORDS[kind]}, found {shown(value, style.table)}")
    if style.foreign and kind is int and value.bit_length() > _MOST_BITS:
        raise _Misfit("the number needs more than 64 bits")
    return value


def _float(value: Any, style: Style, depth: int) -> float:
    if style.endless and isinstance(value, dict) and value.get(_FLOAT_KEY) in _ENDLESS:
        return float(value[_FLOAT_KEY])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Misfit(f"expected {WORDS[float]}, found {shown(value, style.table)}")
    if not -_LARGEST <= value <= _LARGEST:
        raise _Misfit(f"{shown(value, style.table)} is not a finite number")
    if not style.foreign:
        return float(value)
    return _scalar(type(value), value, style, depth)  # type: ignore[no-any-return]


_UNION_WORDS = {int: "a number", float: "a number", str: "text"}


def _table(value: object, style: Style) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Misfit(f"expected {style.table}, found {shown(value, style.table)}")
    return value


def _list(value: object, style: Style) -> list[Any]:
    if not isinstance(value, list):
        raise _Misfit(f"expected a list, found {shown(value, style.table)}")
    return value
