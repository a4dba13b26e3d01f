"""Records of verbs: what they name exists, and is given what it asks for."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import npuscope
from npuscope import verbs
from npuscope.errors import FileError
from npuscope.verbs.check import about
from npuscope.verbs.table import NAMES, function_of, module_of, record

# What the command line offers beside the options of a verb.
OFFERS = {"every", "unused", "words", "announce", "verb"}
PRINTED = [name for name in NAMES if record(name).text]


def offered(name: str) -> set[str]:
    row = record(name)
    options = {option.name for option in row.options if option.shell}
    assert not options & OFFERS
    return options | {argument.name for argument in row.arguments} | OFFERS


def needs(function: object) -> set[str]:
    """Parameters without a default."""
    parameters = inspect.signature(inspect.unwrap(function)).parameters.values()  # type: ignore[arg-type]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {p.name for p in parameters if p.kind in named and p.default is p.empty}


def named(place: str) -> object:
    module, _, function = place.partition(":")
    return getattr(import_module(module), function)


def test_all_verbs_but_a_first_word_are_printed() -> None:
    # `mcp` speaks a protocol on stdout.
    assert set(NAMES) - set(PRINTED) == {"manycore", "mcp", "sweep report"}


@pytest.mark.parametrize("name", PRINTED)
def test_renderers_exist_and_get_what_they_need(name: str) -> None:
    row = record(name)
    for place in filter(None, (row.text, row.json, row.log)):
        package = module_of(name).__name__.partition(".verbs.")[0]  # npuscope, or a family of it
        assert place.startswith((f"{package}.report.", "npuscope.verbs.completion:"))
        function = named(place)
        first = next(iter(inspect.signature(function).parameters))  # type: ignore[arg-type]
        assert needs(function) - {first} <= offered(name), place


@pytest.mark.parametrize("name", PRINTED)
def test_functions_of_the_module_exist_and_get_what_they_need(name: str) -> None:
    row, module = record(name), module_of(name)
    assert needs(getattr(module, row.run or function_of(name))) <= offered(name)
    for function in filter(None, (row.code, row.after)):
        first = next(iter(inspect.signature(getattr(module, function)).parameters))
        assert needs(getattr(module, function)) - {first} <= offered(name), function


@pytest.mark.parametrize("name", PRINTED)
def test_files_that_are_read_are_options_or_arguments(name: str) -> None:
    row = record(name)
    if row.arguments or row.reads != ("source",):
        known = {*(a.name for a in row.arguments), *(o.name for o in row.options)}
        assert {*row.reads} <= known | {"source"}


def test_a_verb_loads_no_other() -> None:
    code = (
        "import sys, npuscope; npuscope.estimate\n"
        "own = {m.removeprefix('npuscope.verbs.') for m in sys.modules if 'npuscope.verbs.' in m}\n"
        "assert own == {'estimate', 'table', 'check', 'families'}, own\n"
        "assert 'numpy' not in sys.modules and 'argparse' not in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(npuscope.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_every_function_of_the_package_is_that_of_its_module() -> None:
    for function in verbs.__all__:
        assert getattr(npuscope, function) is getattr(module_of(function), function)


def test_an_error_without_a_place_gets_the_file_it_is_about() -> None:
    with pytest.raises(FileError) as caught, about("net.tflite"):
        raise FileError("is damaged")
    assert caught.value.where == "net.tflite"
    with pytest.raises(FileError) as caught, about("net.tflite"):
        raise FileError("is damaged", where="weights.bin")
    assert caught.value.where == "weights.bin"
