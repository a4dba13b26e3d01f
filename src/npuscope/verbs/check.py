"""Checks words and keywords against the records; an unknown one is an error with a suggestion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, wraps
from itertools import pairwise
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from npuscope.errors import FileError, ModelError, TargetError, UsageError
from npuscope.families.registry import families, family_of
from npuscope.options.kinds import Verb
from npuscope.verbs.families import check_family, family_options, with_families
from npuscope.verbs.table import FUNCTIONS, record, records

P = ParamSpec("P")
R = TypeVar("R")


def checked(verb: Verb) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: the function accepts the keywords of its record; others are errors."""

    def decorator(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            own = keywords(function.__name__)
            for name in options:
                if name not in own and not (verb.all_families and name in family_options()):
                    raise _wrong_keyword(function.__name__, verb, name)
            check_family(verb, function.__name__, options)
            check_samples(verb, options)
            with about(args[0] if args else None):
                return function(*args, **options)

        return call

    return decorator


def check_samples(verb: Verb, keywords: Mapping[str, Any]) -> None:
    """Refuse what says how samples are read, without samples."""
    if keywords.get("data"):
        return
    for row in verb.options:
        if row.of_samples and row.is_given(keywords.get(row.name)):
            raise UsageError("needs samples", where=row.long, hint="give them with --data")


@contextmanager
def about(subject: object) -> Iterator[None]:
    """An error that does not know its file gets it here."""
    try:
        yield
    except (FileError, ModelError, TargetError) as error:
        if not error.where and isinstance(subject, str | Path):
            error.where = str(subject)
        raise


@cache
def keywords(function: str) -> frozenset[str]:
    """The keywords that the function of a verb accepts."""
    verb = record(function)
    arguments = (argument.name for argument in verb.arguments if argument.python)
    return frozenset((*arguments, *(option.name for option in verb.options if option.python)))


def _wrong_keyword(function: str, verb: Verb, keyword: str) -> UsageError:
    users = [name for name in FUNCTIONS if keyword in keywords(name)]
    here = {spelling: o.name for o in verb.options for spelling in o.spellings}
    shell = here.get(f"--{keyword.replace('_', '-')}")
    where = f"npuscope.{function}"
    if shell in keywords(function):
        return UsageError(
            f"unknown option '{keyword}'", where=where, hint=f"in Python it is {shell}"
        )
    if users:
        return UsageError(
            f"'{keyword}' is not used here", where=where, hint=f"it is an option of {_some(users)}"
        )
    import difflib

    near = difflib.get_close_matches(keyword, sorted(keywords(function)), n=1)
    hint = f"did you mean {near[0]}?" if near else f"help({where}) lists the options"
    return UsageError(f"unknown option '{keyword}'", where=where, hint=hint)


def wrong_words(name: str, words: Iterable[str]) -> UsageError:
    """The error for unknown words on a command line, with a suggestion."""
    words = list(words)
    if (refusal := _refused_machine(name, words)) is not None:
        return refusal
    table = {verb: with_families(row) for verb, row in records().items()}
    flag = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
    # With those of the verbs that begin with this word.
    rows = [row for verb, row in table.items() if verb == name or verb.startswith(f"{name} ")]
    spellings = [s for row in rows for o in row.options for s in o.spellings if o.shell]
    users = [verb for verb, row in table.items() if flag in _spellings(row)]
    if not users and not flag.startswith("--"):  # -O3
        flag = flag[:2]
        users = [verb for verb, row in table.items() if flag in _spellings(row)]
    import difflib

    near = difflib.get_close_matches(flag, spellings, n=1) if flag else []
    hint = f"`npuscope {name} --help` lists the options"
    if users:
        hint = f"{flag} is an option of {_some(users)}"
    elif near:
        hint = f"did you mean {near[0]}?"
    return UsageError(f"unrecognized arguments: {' '.join(words)}", hint=hint)


def _refused_machine(name: str, words: list[str]) -> UsageError | None:
    """A machine of a family that does not have the verb, which then has no --machine."""
    for word, value in pairwise([*words, ""]):
        flag, equals, own = word.partition("=")
        machine = own if equals else value
        if flag == "--machine" and not machine:  # whose name was taken for an argument
            house = next(f for f in families() if f.house_machines).machines()[0]
            return UsageError(
                f"{name} is for {house} alone, and has no --machine", hint="leave --machine out"
            )
        if flag == "--machine" and not (family := family_of(machine)).house_machines:
            return family.lacks(name)
    return None


def _spellings(verb: Verb) -> set[str]:
    return {s for option in verb.options if option.shell for s in option.spellings}


def _some(names: list[str]) -> str:
    first = ", ".join(names[:4])
    return f"{first} and {len(names) - 4} more" if len(names) > 4 else first
