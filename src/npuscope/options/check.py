"""Checks words and keywords against the table; an unknown one is an error with a suggestion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from npuscope.errors import FileError, ModelError, TargetError, UsageError
from npuscope.options.kinds import Option, Verb
from npuscope.options.verbs import PYTHON_ONLY, VERBS

P = ParamSpec("P")
R = TypeVar("R")

# Functions whose verb has another name.
_FUNCTIONS = {"board_serve": "board", "sweep_report": "sweep report"}


def verb_of(function: str) -> Verb:
    """The row of a function of the API."""
    if function in PYTHON_ONLY:
        return PYTHON_ONLY[function]
    known = _FUNCTIONS.get(function, function.replace("manycore_", "manycore "))
    return VERBS[known]


@cache
def keywords(function: str) -> frozenset[str]:
    """The keywords that a function of the API accepts."""
    row = verb_of(function)
    arguments = (argument.name for argument in row.arguments if argument.python)
    return frozenset((*arguments, *(option.name for option in row.options if option.python)))


def verb(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: the function accepts the keywords of its row; others raise with a suggestion."""
    name = function.__name__

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        for given in options:
            if given not in keywords(name):
                raise _wrong_keyword(name, given)
        try:
            return function(*args, **options)
        except (FileError, ModelError, TargetError) as error:
            if not error.where and args and isinstance(args[0], str | Path):
                error.where = str(args[0])  # what it was about is not known further inside
            raise

    return checked


def _wrong_keyword(function: str, given: str) -> UsageError:
    users = [name for name in (*_functions(), *PYTHON_ONLY) if given in keywords(name)]
    here = {spelling: o.name for o in verb_of(function).options for spelling in o.spellings}
    shell = here.get(f"--{given.replace('_', '-')}")
    where = f"npuscope.{function}"
    if shell in keywords(function):
        return UsageError(f"unknown option '{given}'", where=where, hint=f"in Python it is {shell}")
    if users:
        return UsageError(
            f"'{given}' is not used here", where=where, hint=f"it is an option of {_some(users)}"
        )
    import difflib

    near = difflib.get_close_matches(given, sorted(keywords(function)), n=1)
    hint = f"did you mean {near[0]}?" if near else f"help({where}) lists what is possible"
    return UsageError(f"unknown option '{given}'", where=where, hint=hint)


def _functions() -> Iterator[str]:
    renamed = {verb: function for function, verb in _FUNCTIONS.items()}
    return (renamed.get(name, name.replace(" ", "_")) for name in VERBS if name != "manycore")


def wrong_words(name: str, words: Iterable[str]) -> UsageError:
    """The error for unknown words on a command line, with a suggestion."""
    words = list(words)
    flag = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
    known = [s for o in _of_command(name) for s in o.spellings if o.shell]
    users = [verb for verb, row in VERBS.items() if flag in _spellings(row)]
    if not users and not flag.startswith("--"):  # -O3
        flag = flag[:2]
        users = [verb for verb, row in VERBS.items() if flag in _spellings(row)]
    import difflib

    near = difflib.get_close_matches(flag, known, n=1) if flag else []
    hint = f"`npuscope {name} --help` lists what is possible"
    if users:
        hint = f"{flag} is an option of {_some(users)}"
    elif near:
        hint = f"did you mean {near[0]}?"
    return UsageError(f"unrecognized arguments: {' '.join(words)}", hint=hint)


def _of_command(name: str) -> list[Option]:
    """The options of a command, including those of its subcommands."""
    rows = [row for verb, row in VERBS.items() if verb == name or verb.startswith(f"{name} ")]
    return [option for row in rows for option in row.options]


def _spellings(row: Verb) -> set[str]:
    return {s for option in row.options if option.shell for s in option.spellings}


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
