"""Records of verbs by name. Only the modules that are asked for are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from npuscope.families.registry import VERBS
from npuscope.options.kinds import Verb

# Listed in the package itself, which Python loads before its modules.
FUNCTIONS: tuple[str, ...] = tuple(import_module(__package__).__all__)

# Functions that the command line has under another name, and those that it does not have.
_RENAMED = {"board_serve": "board"}
PYTHON_ONLY = ("what_if", "sensitivity", "measure")


def _names() -> Iterator[str]:
    """As typed: `manycore compile`, and before it the word that both of them begin with."""
    for function in FUNCTIONS:
        if function not in PYTHON_ONLY:
            name = _RENAMED.get(function, function.replace("_", " "))
            yield name.partition(" ")[0]
            yield name


NAMES = tuple(dict.fromkeys(_names()))


def module_of(name: str) -> ModuleType:
    """The module of a verb, by the name of the verb or of its function."""
    file = _RENAMED.get(name, name.replace(" ", "_"))
    return import_module(f"{VERBS.get(file, __package__)}.{file}")


def record(name: str) -> Verb:
    verb: Verb = module_of(name).VERB
    return verb


def records() -> dict[str, Verb]:
    """All of the command line, in its order; loads every verb."""
    return {name: record(name) for name in NAMES}


def function_of(name: str) -> str:
    """What the function of a verb is called."""
    return next((f for f, verb in _RENAMED.items() if verb == name), name.replace(" ", "_"))
