"""What an initialiser of generated C holds: numbers, words, sums of symbols, macros, structs."""

from __future__ import annotations

import msgspec
from msgspec import field

from npuscope.program.network_c.parse_tokens import BadValue


class Sum(msgspec.Struct, frozen=True):
    """Symbols plus a number: an address behind a base that is set at run time, or flags.

    `choices` are the terms that only a build decides on.
    """

    symbols: tuple[str, ...]
    number: int = 0
    choices: tuple[Macro, ...] = ()


CHOICE = "?:"


class Macro(msgspec.Struct, frozen=True):
    """A macro with several arguments, such as a switch port, or a choice that only a build makes:
    `?:` with its condition and both values."""

    name: str
    arguments: tuple[Value, ...]


class Struct(msgspec.Struct):
    """Designated fields; `notes` holds the comment right behind a field."""

    fields: dict[str, Value] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


Value = int | float | str | Sum | Macro | Struct | list["Value"]


class UnknownValue(BadValue):
    """C of a form that is not read here; it need not be damaged."""

    hint = "npuscope does not know this form of C: was the file written by hand, or by a new tool?"
