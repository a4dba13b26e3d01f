"""The types of the option table: option, argument, group and verb."""

from __future__ import annotations

from enum import Enum

from npuscope.lean_dataclass import dataclass


class Kind(Enum):
    TEXT = "text"
    FILE = "file"  # or folder
    WHOLE = "whole number"
    REAL = "number"
    FLAG = "flag"  # a flag without a value
    SWITCH = "switch"  # --name and --no-name
    BOOLEAN = "true|false"  # a value, as in the vendor's tools
    LIST = "list"  # may be given several times


class Mark(Enum):
    """What a changed value requires: timing the program again, or compiling it again."""

    NONE = ""
    TIMING = "timing"
    MAPPING = "mapping"
    BOTH = "timing or mapping, by key"


class VendorEffect(Enum):
    """How an option of the vendor's tools is treated."""

    OBEYED = "obeyed"
    NONE = "none"  # accepted; a note says that it has no effect
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Option:
    """`python` is False for options of the command line only: how the answer is printed."""

    name: str
    kind: Kind
    means: str
    default: object = None
    value: str = ""  # placeholder for its value in --help
    flags: tuple[str, ...] = ()  # --name if empty
    vendor: tuple[str, ...] = ()
    choices: tuple[object, ...] = ()
    suggested: tuple[str, ...] = ()  # by completion; others are possible
    const: object = None  # used when the value is omitted
    mark: Mark = Mark.NONE
    python: bool = True
    shell: bool = True
    required: bool = False
    effect: VendorEffect = VendorEffect.OBEYED

    @property
    def spellings(self) -> tuple[str, ...]:
        return (*(self.flags or (f"--{self.name.replace('_', '-')}",)), *self.vendor)

    @property
    def dest(self) -> str:
        """Where argparse puts it."""
        long = next((f for f in self.spellings if f.startswith("--")), self.spellings[0])
        return long.lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument."""

    name: str
    value: str
    means: str
    many: str = ""  # as argparse counts: ? + or one
    choices: tuple[str, ...] = ()
    python: bool = True
    dest: str = ""  # where argparse puts it, if not under its name


@dataclass(frozen=True, slots=True)
class Group:
    """Options under one heading; only one of the `exclusive` ones may be given."""

    title: str
    options: tuple[Option, ...]
    about: str = ""
    exclusive: tuple[str, ...] = ()
    needs_one: bool = False  # one of the exclusive ones must be given
    shared: bool = False  # used by many verbs and documented once


@dataclass(frozen=True, slots=True)
class Verb:
    line: str  # in --help
    arguments: tuple[Argument, ...]
    groups: tuple[Group, ...]
    usage: str = ""

    @property
    def options(self) -> tuple[Option, ...]:
        return tuple(option for group in self.groups for option in group.options)


def text(name: str, means: str, value: str = "NAME", **rest: object) -> Option:
    return option(name, Kind.TEXT, means, value=value, **rest)


def file(name: str, means: str, value: str = "FILE", **rest: object) -> Option:
    return option(name, Kind.FILE, means, value=value, **rest)


def whole(name: str, means: str, value: str = "N", **rest: object) -> Option:
    return option(name, Kind.WHOLE, means, value=value, **rest)


def real(name: str, means: str, value: str, **rest: object) -> Option:
    return option(name, Kind.REAL, means, value=value, **rest)


def flag(name: str, means: str, **rest: object) -> Option:
    return option(name, Kind.FLAG, means, default=False, **rest)


def list_(name: str, means: str, value: str, **rest: object) -> Option:
    return option(name, Kind.LIST, means, default=(), value=value, **rest)


def option(name: str, kind: Kind, means: str, **rest: object) -> Option:
    return Option(name, kind, means, **rest)  # type: ignore[arg-type]
