"""The table of options as argparse sees it, and what a command line means for the API."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from npuscope.errors import UsageError
from npuscope.options.kinds import Argument, Group, Kind, Option, VendorEffect
from npuscope.options.rows import NOT_MODELLED
from npuscope.options.verbs import VERBS
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.building import Options, ReadOptions

# 18 digits fit 64 bits; int() itself would also take signs, spaces and underscores.
_SIZE = re.compile(r"[0-9]{1,18}")
_NOT_NEEDED = "not needed"
_BOOLEANS = {"true": True, "false": False}


def add_options(parser: argparse.ArgumentParser, verb: str) -> None:
    """All that the table has for a verb."""
    row = VERBS[verb]
    if row.usage:
        parser.usage = row.usage
    for argument in row.arguments:
        _add_argument(parser, argument)
    for group in row.groups:
        _add_group(parser, group)


def _add_argument(parser: argparse.ArgumentParser, argument: Argument) -> None:
    more: dict[str, Any] = {"nargs": argument.many} if argument.many else {}
    if argument.choices:
        more["choices"] = argument.choices
    else:
        more["metavar"] = argument.value
    parser.add_argument(argument.dest or argument.name, help=_help(argument.means), **more)


def _add_group(parser: argparse.ArgumentParser, group: Group) -> None:
    where: Any = parser
    if group.title:
        where = parser.add_argument_group(group.title, group.about or None)
    one = where.add_mutually_exclusive_group(required=group.needs_one) if group.exclusive else None
    for option in group.options:
        # Some options exist in Python only, such as a record of all options at once.
        if option.shell:
            _add(one if option.name in group.exclusive else where, option)


def _add(where: Any, option: Option) -> None:
    if option.kind is Kind.SWITCH:
        _add_switch(where, option)
        return
    where.add_argument(*option.spellings, help=_help(option.means), **_how(option))


def _add_switch(where: Any, option: Option) -> None:
    own, theirs = option.spellings[0], option.spellings[1:]
    where.add_argument(own, action=argparse.BooleanOptionalAction, help=_help(option.means))
    help = f"the vendor's name for {own}"
    for spelling in theirs:
        where.add_argument(spelling, dest=option.name, action="store_const", const=True, help=help)


def _how(option: Option) -> dict[str, Any]:
    if option.effect is VendorEffect.REFUSED:
        return {"action": _Refuse, "nargs": 0}
    if option.kind is Kind.FLAG:
        return {"action": "store_true"}
    how: dict[str, Any] = {"metavar": option.value} if option.value else {}
    if option.kind is Kind.LIST:
        return {**how, "action": "append", "default": []}
    types = {Kind.WHOLE: int, Kind.REAL: float, Kind.BOOLEAN: _boolean}
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
        raise UsageError(f"{name} cannot be followed: {NOT_MODELLED[name]}", where=name)


def without_effect(args: argparse.Namespace, verb: str) -> tuple[str, ...]:
    """What to say of the vendor's options that were given and change nothing here."""
    idle = [option for option in VERBS[verb].options if option.effect is VendorEffect.NONE]
    given = [option for option in idle if getattr(args, option.dest)]
    reasons = [f"{o.spellings[0]} is {o.means}" for o in given if o.means.startswith(_NOT_NEEDED)]
    others = [o.spellings[0] for o in given if not o.means.startswith(_NOT_NEEDED)]
    return (*reasons, *([f"without effect here: {', '.join(others)}"] if others else []))


def api_options(args: argparse.Namespace) -> Options:
    """The command line as keyword arguments of the API; what a verb does not take is left out."""
    found = cast("Options", looked_at(args))
    if "optimization" in vars(args):
        found["optimization"] = args.optimization
    return found


def looked_at(args: argparse.Namespace) -> ReadOptions:
    """Those of verbs that compile nothing."""
    found: ReadOptions = {
        "machine": args.machine,
        "machine_file": args.machine_file,
        "generation": args.generation,
        "epoch_controller": args.epoch_controller,
        "art_profile": args.art_profile,
        "overrides": overrides(args),
        "mpool": args.mpool,
        "input_data_type": args.input_data_type,
        "output_data_type": args.output_data_type,
    }
    if "shape" in vars(args):
        found["shapes"] = parse_shapes(args.shape)
        found["as_int8"] = args.as_int8
    return found


def overrides(args: argparse.Namespace) -> dict[str, object]:
    """Clock options and --set as one table; --set comes last and wins."""
    return {**clock_overrides(args), **parse_overrides(args.set)}


def clock_overrides(args: argparse.Namespace) -> dict[str, object]:
    told = {
        "clocks.mcu_mhz": args.mcu_mhz,
        "clocks.npu_mhz": args.npu_mhz,
        "flash": args.flash,
        "psram": args.psram,
    }
    return {key: value for key, value in told.items() if value is not None}


def parse_overrides(texts: Iterable[str]) -> dict[str, object]:
    """What --set was given: KEY=VALUE each."""
    from npuscope.machine.set_keys import parse_value

    table: dict[str, object] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise UsageError(f"expected KEY=VALUE, found '{text}'", where="--set")
        table[key.strip()] = parse_value(key.strip(), value.strip())
    return table


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """What --shape was given: NAME=1,224,224,3 each, or SYMBOL,128 as the vendor writes it."""
    return dict(map(_shape, texts))


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    # Tensor names may hold '=' themselves, sizes may not.
    name, separator, sizes = text.rpartition("=")
    if not separator and text.count(",") == 1:
        name, separator, sizes = text.rpartition(",")
    parts = sizes.split(",")
    if not separator or not name or not all(_SIZE.fullmatch(part.strip()) for part in parts):
        raise UsageError(f"expected NAME=1,224,224,3, found '{text}'", where="--shape")
    shape = tuple(int(part) for part in parts)
    if 0 in shape:
        raise UsageError(f"a size of 0 in '{text}'", where="--shape")
    return name, shape


# --- The same source and options for another verb, as a command line ---

_ANSWERS = ("json", "quiet", "verbose", "force")  # how the answer is printed
_FIGURES_ONLY = ("as_int8",)  # of verbs that give figures; the next step gives a file


def words_for(args: argparse.Namespace, verb: str, other: str) -> str:
    """What was given to a verb, as far as the other one takes it too: its next step."""
    shared = {option.dest for option in VERBS[other].options} - {*_ANSWERS, *_FIGURES_ONLY}
    given = [
        word
        for option in VERBS[verb].options
        if option.dest in shared and option.shell
        for word in _given(args, option)
    ]
    import shlex

    return shlex.join([args.source, *given])


def _given(args: argparse.Namespace, option: Option) -> list[str]:
    value, spelling = getattr(args, option.dest, None), option.spellings[0]
    if value is None or value == option.default or (value is False and option.kind is Kind.FLAG):
        return []
    if option.kind is Kind.LIST:
        return [word for each in value for word in (spelling, each)]
    if option.kind is Kind.FLAG:
        return [spelling]
    if option.kind is Kind.SWITCH:
        return [spelling if value else f"--no-{spelling.removeprefix('--')}"]
    return [spelling, str(value).lower() if option.kind is Kind.BOOLEAN else str(value)]
