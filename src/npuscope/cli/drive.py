"""One verb, from parsed words to its exit code, by its record alone."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from functools import partial
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import Any

from npuscope.cli.output import dump, logged, print_text, working, write_file
from npuscope.errors import UsageError
from npuscope.families.interface import function_at
from npuscope.options.kinds import Option, OptionKind, VendorEffect, Verb
from npuscope.verbs.check import about, check_samples
from npuscope.verbs.families import check_family
from npuscope.verbs.table import function_of, module_of, record
from npuscope.whole_file import appear

_NOT_NEEDED = "not needed"


def perform(args: argparse.Namespace) -> int:
    """Run it, print the result as text or JSON, give the exit code."""
    module, verb = module_of(args.verb), args.record
    offers = {"verb": args.verb, **values(verb, args)}
    _refuse_overwrite(verb, offers)
    check_family(verb, args.verb, offers)
    check_samples(verb, offers)
    offers |= {
        "every": args.verbose,
        "unused": without_effect(verb, args),
        "words": partial(words_for, args),
        "announce": lambda result: _announce(verb, result, args, offers),
    }
    run = getattr(module, verb.run or function_of(args.verb))
    with contextlib.ExitStack() as surroundings:
        log = surroundings.enter_context(logged(args)) if verb.log else None
        if verb.busy:
            surroundings.enter_context(working(args, verb.busy))
        result = _run(run, verb, offers)
        if log is not None:
            log.write(_rendered(getattr(result, "LOG", verb.log), result, offers) + "\n")
    if result is not None:
        _deliver(verb, result, args, offers)
    if verb.after:
        _called(getattr(module, verb.after), result, offers)
    return int(_called(getattr(module, verb.code), result, offers)) if verb.code else 0


def values(verb: Verb, args: argparse.Namespace) -> dict[str, Any]:
    """Options and arguments as keywords; without those that were not given and have no default."""
    options = {option.name: option for option in verb.options if option.shell}
    offers: dict[str, Any] = {}
    for name in (*(argument.name for argument in verb.arguments), *options):
        value = getattr(args, name)
        if value is None or value == []:
            continue
        parse = options[name].parse if name in options else None
        offers[name] = value if parse is None else parse(value)
    return offers


# --- Functions are given what they have parameters for ---


def _run(function: Callable[..., Any], verb: Verb, offers: Mapping[str, Any]) -> Any:
    """With all keywords of the verb, if it takes any number of them."""
    code = getattr(function, "__wrapped__", function).__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = {*code.co_varnames[:count]}
    if code.co_flags & CO_VARKEYWORDS:
        names |= {option.name for option in verb.options if option.python}
    several = code.co_varnames[count] if code.co_flags & CO_VARARGS else ""
    keywords = {name: offers[name] for name in names if name in offers}
    with about(next(iter(_sources(verb, offers)), None)):
        return function(*offers.get(several, ()), **keywords)


def _called(function: Callable[..., Any], result: object, offers: Mapping[str, Any]) -> Any:
    code = function.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    return function(result, **{name: offers[name] for name in names if name in offers})


def _rendered(name: str, result: object, offers: Mapping[str, Any]) -> Any:
    return _called(function_at(name), result, offers)


def _parameters(name: str) -> tuple[str, ...]:
    code = function_at(name).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


# --- Answers ---


def _deliver(verb: Verb, result: Any, args: argparse.Namespace, offers: Mapping[str, Any]) -> None:
    """The result in the form that was asked for. The first line of text is the answer.

    A result of another family of machines names renderers of its own.
    """
    answer = None
    if args.json is not None:
        answer = dump(_rendered(getattr(result, "JSON", verb.json), result, offers))
    if args.json == "-":
        appear()
        print(answer, end="")
        return
    name = getattr(result, "TEXT", verb.text)
    text = _rendered(name, result, offers)
    for note in () if "unused" in _parameters(name) else offers["unused"]:
        print(f"npuscope: {note}", file=sys.stderr)
    if answer is not None:
        write_file(args.json, answer)
    print_text(args, text)


def _announce(verb: Verb, result: Any, args: argparse.Namespace, offers: Mapping[str, Any]) -> None:
    """One line, at once: whoever started this waits for it, while the verb goes on."""
    line = json.dumps(_rendered(verb.json, result, offers), ensure_ascii=False)
    if args.json == "-":
        print(line, flush=True)
        return
    if args.json is not None:
        write_file(args.json, line + "\n")
    print_text(args, _rendered(verb.text, result, offers))
    print(end="", flush=True)


# --- What is looked at before a verb runs ---


def _sources(verb: Verb, offers: Mapping[str, Any]) -> list[str]:
    values = [offers[name] for name in verb.reads if offers.get(name)]
    return [one for value in values for one in ([value] if isinstance(value, str) else value)]


def _refuse_overwrite(verb: Verb, offers: Mapping[str, Any]) -> None:
    """`--json model.tflite` must not overwrite the model."""
    for option in verb.options:
        path = offers.get(option.name) if option.writes else None
        if path is None or path == "-":
            continue
        for source in _sources(verb, offers):
            # A file that does not exist yet is not the source.
            with contextlib.suppress(OSError):
                if os.path.samefile(path, source.removeprefix("log:")):
                    raise UsageError("this is the input file", where=f"{option.long} {path}")


# --- What was given, in words ---

_ANSWERS = ("json", "quiet", "verbose", "force")  # how the answer is printed
_FIGURES_ONLY = ("as_int8",)  # of verbs that give figures; the next step gives a file


def without_effect(verb: Verb, args: argparse.Namespace) -> tuple[str, ...]:
    """What to say of the vendor's options that were given and change nothing here."""
    idle = [option for option in verb.options if option.effect is VendorEffect.NONE]
    options = [option for option in idle if getattr(args, option.name)]
    reasons = [f"{o.spellings[0]} is {o.means}" for o in options if o.means.startswith(_NOT_NEEDED)]
    others = [o.spellings[0] for o in options if not o.means.startswith(_NOT_NEEDED)]
    return (*reasons, *([f"without effect here: {', '.join(others)}"] if others else []))


def words_for(args: argparse.Namespace, other: str) -> str:
    """What was given to a verb, as far as the other one takes it too: its next step."""
    shared = {option.name for option in record(other).options} - {*_ANSWERS, *_FIGURES_ONLY}
    words = [
        word
        for option in args.record.options
        if option.name in shared and option.shell
        for word in _given(args, option)
    ]
    return shlex.join([args.source, *words])


def _given(args: argparse.Namespace, option: Option) -> list[str]:
    value, spelling = getattr(args, option.name, None), option.spellings[0]
    if (
        value is None
        or value == option.default
        or (value is False and option.kind is OptionKind.FLAG)
    ):
        return []
    if option.kind is OptionKind.LIST:
        return [word for each in value for word in (spelling, each)]
    if option.kind is OptionKind.FLAG:
        return [spelling]
    if option.kind is OptionKind.SWITCH:
        return [spelling if value else f"--no-{spelling.removeprefix('--')}"]
    return [spelling, str(value).lower() if option.kind is OptionKind.BOOLEAN else str(value)]
