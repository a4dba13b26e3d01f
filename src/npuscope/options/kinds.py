"""The types of the option table: option, argument, group and verb."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from msgspec import Struct

DEFAULT_MACHINE = "stm32n6"  # where none is named


class OptionKind(Enum):
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


class Option(Struct, frozen=True):
    """`name` is the keyword in Python; `python` is False for options of the command line only."""

    name: str
    kind: OptionKind
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
    of_family: bool = False  # only for machines of families that understand it
    of_samples: bool = False  # says how the samples of --data are read
    writes: bool = False  # names a file for results, which must not be one that is read
    parse: Callable[[Any], object] | None = None  # makes the keyword's value of what was typed

    @property
    def spellings(self) -> tuple[str, ...]:
        return (*(self.flags or (f"--{self.name.replace('_', '-')}",)), *self.vendor)

    def is_given(self, value: object) -> bool:
        """Whether a value says something: neither nothing nor what holds without it. 0 and a
        switch that is off do."""
        nothing = value is None or (isinstance(value, (tuple, list, dict)) and not value)
        return not nothing and (value != self.default or type(value) is not type(self.default))

    @property
    def long(self) -> str:
        """The spelling that messages use."""
        return next((flag for flag in self.spellings if flag.startswith("--")), self.spellings[0])


class Argument(Struct, frozen=True):
    """A positional argument."""

    name: str
    value: str
    means: str
    many: str = ""  # as argparse counts: ? + or one
    choices: tuple[str, ...] = ()
    python: bool = True


class OptionGroup(Struct, frozen=True):
    """Options under one heading; only one of the `exclusive` ones may be given."""

    title: str
    options: tuple[Option, ...]
    about: str = ""
    exclusive: tuple[str, ...] = ()
    needs_one: bool = False  # one of the exclusive ones must be given
    shared: bool = False  # used by many verbs and documented once


class Verb(Struct, frozen=True):
    """All that is known of a verb: Python's keywords, the command line, the pages and completion
    come from here.

    Functions are named, so that they load when used: `run`, `code` and `after` by their name in
    the verb's module, renderers as "module:function". Each gets the options, by name, that it has
    parameters for; all but `run` get the result first.
    """

    line: str  # in --help
    arguments: tuple[Argument, ...]
    groups: tuple[OptionGroup, ...]
    text: str = ""
    json: str = ""
    log: str = ""  # what --log keeps, of verbs that follow the vendor's scripts
    run: str = ""  # gives the result; the verb's own function if empty
    busy: str = ""  # shown on a terminal meanwhile
    code: str = ""  # exit code, if it is not always 0
    after: str = ""  # what is printed behind the answer
    reads: tuple[str, ...] = ("source",)  # options with files that no result may replace
    usage: str = ""
    all_families: bool = False  # knows machines of every family
    one_thread: bool = False  # runs no network: threads for matrix products would only spin

    @property
    def options(self) -> tuple[Option, ...]:
        return tuple(option for group in self.groups for option in group.options)


def text(name: str, means: str, value: str = "NAME", **rest: object) -> Option:
    return option(name, OptionKind.TEXT, means, value=value, **rest)


def file(name: str, means: str, value: str = "FILE", **rest: object) -> Option:
    return option(name, OptionKind.FILE, means, value=value, **rest)


def result_file(name: str, means: str, value: str = "FILE", **rest: object) -> Option:
    return option(name, OptionKind.FILE, means, value=value, writes=True, **rest)


def whole(name: str, means: str, value: str = "N", **rest: object) -> Option:
    return option(name, OptionKind.WHOLE, means, value=value, **rest)


def real(name: str, means: str, value: str, **rest: object) -> Option:
    return option(name, OptionKind.REAL, means, value=value, **rest)


def flag(name: str, means: str, **rest: object) -> Option:
    return option(name, OptionKind.FLAG, means, default=False, **rest)


def list_(name: str, means: str, value: str, **rest: object) -> Option:
    return option(name, OptionKind.LIST, means, default=(), value=value, **rest)


def option(name: str, kind: OptionKind, means: str, **rest: object) -> Option:
    return Option(name, kind, means, **rest)  # type: ignore[arg-type]
