"""The record of a verb as argparse sees it."""

from __future__ import annotations

import argparse
from collections.abc import Container, Iterable
from typing import Any, NoReturn

from npuscope.errors import UsageError
from npuscope.options.kinds import Option, OptionKind, VendorEffect
from npuscope.options.rows import NOT_MODELLED
from npuscope.text import safe_terminal
from npuscope.verbs.families import with_families
from npuscope.verbs.table import NAMES, record
from npuscope.version import __version__

_BOOLEANS = {"true": True, "false": False}


class Parser(argparse.ArgumentParser):
    """argparse whose errors are ours: one sentence, exit code 2, JSON on request."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"`{self.prog} --help` lists the options")


def build_parser(verb: str | None, whole: bool = True, families: bool = False) -> Parser:
    """All verbs by name, the chosen one with its options; without the others if not `whole`, and
    with options that only one family of machines has if `families`.

    What it parses has the name of the verb as `verb`: `manycore compile` too.
    """
    parser = Parser(
        prog="npuscope",
        description="Fit, speed, profile and reasons for networks on NPUs, without a board.",
        epilog="`npuscope help VERB` explains a verb and its options.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"npuscope {__version__}")
    names = [name for name in NAMES if " " not in name and (whole or name == verb)]
    _add_verbs(parser.add_subparsers(metavar="VERB"), names, [verb], families)
    return parser


def _add_verbs(
    commands: Any, names: Iterable[str], verbs: Container[str | None], families: bool
) -> None:
    """Lines of --help; only the chosen ones are given their options."""
    for name in names:
        line = record(name).line
        # Abbreviations would change their meaning whenever an option is added.
        parser = commands.add_parser(
            name.rpartition(" ")[2], help=line, description=line, allow_abbrev=False
        )
        if name in verbs:
            add_options(parser, name, families)


def add_options(parser: argparse.ArgumentParser, name: str, families: bool = False) -> None:
    """All that the record has, or the verbs that begin with this word."""
    row = with_families(record(name)) if families else record(name)
    if row.usage:
        parser.usage = row.usage
    if not row.groups:
        actions = [verb for verb in NAMES if verb.startswith(f"{name} ")]
        commands = parser.add_subparsers(metavar="ACTION", required=True)
        _add_verbs(commands, actions, actions, families)
        return
    parser.set_defaults(verb=name, record=row)
    for argument in row.arguments:
        more: dict[str, Any] = {"nargs": argument.many} if argument.many else {}
        if argument.many == "*":
            more["default"] = []  # without one argparse names it where another is missing
        if argument.choices:
            more["choices"] = argument.choices
        else:
            more["metavar"] = argument.value
        parser.add_argument(argument.name, help=_help(argument.means), **more)
    for group in row.groups:
        where: Any = parser
        if group.title:
            where = parser.add_argument_group(group.title, group.about or None)
        one = (
            where.add_mutually_exclusive_group(required=group.needs_one)
            if group.exclusive
            else None
        )
        for option in group.options:
            # Some options exist in Python only, such as a record of all options at once.
            if option.shell:
                _add(one if option.name in group.exclusive else where, option)


def _add(where: Any, option: Option) -> None:
    how = {"dest": option.name, "help": _help(option.means)}
    if option.kind is not OptionKind.SWITCH:
        where.add_argument(*option.spellings, **how, **_how(option))
        return
    own, theirs = option.spellings[0], option.spellings[1:]
    where.add_argument(own, action=argparse.BooleanOptionalAction, **how)
    how["help"] = f"the vendor's name for {own}"
    for spelling in theirs:
        where.add_argument(spelling, action="store_const", const=True, **how)


def _how(option: Option) -> dict[str, Any]:
    if option.effect is VendorEffect.REFUSED:
        return {"action": _Refuse, "nargs": 0}
    if option.kind is OptionKind.FLAG:
        return {"action": "store_true"}
    how: dict[str, Any] = {}
    # argparse would take the name in Python.
    how["metavar"] = option.value or (
        None if option.choices else option.long.lstrip("-").replace("-", "_").upper()
    )
    if option.kind is OptionKind.LIST:
        return {**how, "action": "append", "default": []}
    types = {OptionKind.WHOLE: int, OptionKind.REAL: float, OptionKind.BOOLEAN: _boolean}
    if option.kind in types:
        how["type"] = types[option.kind]
    if option.const is not None:
        how |= {"nargs": "?", "const": option.const}
    if option.choices:
        how["choices"] = option.choices
    if option.required:
        how["required"] = True
    return how if option.default is None else {**how, "default": option.default}


def _help(text: str) -> str:
    # argparse formats help texts with %.
    return text.replace("%", "%%")


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise argparse.ArgumentTypeError(f"expected true or false, found '{safe_terminal(text)}'")
    return _BOOLEANS[text.lower()]


class _Refuse(argparse.Action):
    def __call__(
        self, parser: object, namespace: object, values: object, option: object = ""
    ) -> None:
        name = str(option)
        raise UsageError(f"{name} is not supported: {NOT_MODELLED[name]}", where=name)
