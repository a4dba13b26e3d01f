"""The table of options, and what is made from it: keywords, command line, pages."""

from __future__ import annotations

import importlib.util
import inspect
import json
import typing
from pathlib import Path
from types import ModuleType

import pytest

import npuscope
from npuscope.building import Options, ReadOptions
from npuscope.cli.main import main
from npuscope.cli.parser import build_parser
from npuscope.demo_network import demo_graph
from npuscope.errors import UsageError
from npuscope.loadable import codes as loadable_options
from npuscope.options import rows as option_rows
from npuscope.options.kinds import Mark, VendorEffect
from npuscope.profiling.load_and_run import DEFAULT_IMAGE
from npuscope.verbs import package
from npuscope.verbs.check import keywords
from npuscope.verbs.table import PYTHON_ONLY, record, records

ROOT = Path(__file__).parents[1]
FUNCTIONS = [name for name in npuscope.__all__ if name in PYTHON_ONLY or name not in (
    "Finding", "Graph", "Machine", "NpuscopeError", "Profile", "Program", "__version__", "load",
    "load_machine", "load_model",
)]  # fmt: skip
VERBS = records()
_PARENTS = ("manycore",)  # verbs that only have verbs of their own


def own_keywords(function: str) -> tuple[set[str], set[str]]:
    """Named parameters of a function, and the keys of the TypedDict behind them."""
    found = inspect.signature(inspect.unwrap(getattr(npuscope, function))).parameters.values()
    named = {p.name for p in found if p.kind is not inspect.Parameter.VAR_KEYWORD}
    rest = [p for p in found if p.kind is inspect.Parameter.VAR_KEYWORD]
    if not rest:
        return named, set()
    kind = {"Unpack[Options]": Options, "Unpack[ReadOptions]": ReadOptions}[rest[0].annotation]
    return named, set(typing.get_type_hints(kind))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_takes_what_its_row_says(function: str) -> None:
    named, behind = own_keywords(function)
    assert named <= keywords(function)
    assert keywords(function) <= named | behind


@pytest.mark.parametrize("function", FUNCTIONS)
def test_defaults_are_those_of_the_row(function: str) -> None:
    signature = inspect.signature(inspect.unwrap(getattr(npuscope, function)))
    rows = {o.name: o for o in record(function).options if o.python and not o.required}
    for name, parameter in signature.parameters.items():
        if name not in rows or parameter.default is inspect.Parameter.empty:
            continue
        told = rows[name].default
        if name == "directory" and parameter.default is None:
            continue  # in Python nothing is written unless asked
        empty = (None, (), "", 0, "0")
        assert parameter.default == told or (parameter.default in empty and told in empty), name


def test_every_verb_is_a_function_and_every_function_has_a_row() -> None:
    renamed = {"board": "board_serve"}
    verbs = {renamed.get(v, v.replace(" ", "_")) for v in VERBS if v not in _PARENTS}
    assert verbs | set(PYTHON_ONLY) == set(FUNCTIONS)


def test_shared_options_are_typed_as_the_table_lists_them() -> None:
    looked_at = {o.name for g in (option_rows.LOOKED_AT, option_rows.READING) for o in g.options}
    assert set(typing.get_type_hints(ReadOptions)) == looked_at
    building = {o.name for g in (option_rows.TARGET, option_rows.READING) for o in g.options}
    assert set(typing.get_type_hints(Options)) == building | {"relocatable", "no_secure"}


def test_shared_options_say_what_they_change() -> None:
    shared = (*option_rows.TARGET.options, *option_rows.READING.options)
    assert [o.name for o in shared if o.mark is Mark.NONE] == []


def test_names_that_stand_elsewhere_too() -> None:
    assert tuple(loadable_options.CPUS) == package.CPUS
    assert loadable_options.TOOLCHAINS == package.TOOLCHAINS
    assert VERBS["run"].arguments[0].means.endswith(f"({DEFAULT_IMAGE})")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: npuscope.estimate("a.tflite", generatoin="2.2"),  # type: ignore[call-arg]
            "npuscope.estimate: unknown option 'generatoin'\n  hint: did you mean generation?",
        ),
        (
            lambda: npuscope.lint("a.tflite", relocatable=True),  # type: ignore[call-arg]
            "npuscope.lint: 'relocatable' is not used here\n  hint: it is an option of compile, "
            "deploy",
        ),
        (
            lambda: npuscope.estimate("a.tflite", set={"x": 1}),  # type: ignore[call-arg]
            "npuscope.estimate: unknown option 'set'\n  hint: in Python it is overrides",
        ),
        (
            lambda: npuscope.rules(xyzzy=1),  # type: ignore[call-arg]
            "npuscope.rules: unknown option 'xyzzy'\n  hint: help(npuscope.rules) lists the "
            "options",
        ),
    ],
)
def test_a_wrong_keyword_is_told(call: typing.Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["estimate", "a", "--generatoin", "2.2"], "did you mean --generation?"),
        (["lint", "a", "--relocatable"], "--relocatable is an option of compile"),
        (["lint", "a", "-O3"], "-O is an option of demo, estimate, compile, profile"),
        (["demo", "--shape", "x=1"], "--shape is an option of estimate, compile, profile, board"),
        (["manycore", "run", "-t", "a", "--num-itr", "2"], "did you mean --num-iter?"),
        (["explain", "a", "b"], "`npuscope explain --help` lists the options"),
    ],
)
def test_a_wrong_word_is_told(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    text = capsys.readouterr().err
    assert "unrecognized arguments: " in text
    assert hint in text
    assert main([*words, "--json"]) == 2
    assert hint in json.loads(capsys.readouterr().out)["error"]["hint"]


def test_clocks_are_keywords_and_single_values_win() -> None:
    told = npuscope.estimate(demo_graph(), npu_mhz=500, mcu_mhz=400)
    assert (told.machine.npu_mhz, told.machine.mcu_mhz) == (500, 400)
    both = npuscope.estimate(demo_graph(), npu_mhz=500, overrides={"clocks.npu_mhz": 250})
    assert both.machine.npu_mhz == 250


def test_vendor_options_without_effect_are_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from models import conv_net, save, to_tflite

    model = save(tmp_path, "net.tflite", to_tflite(conv_net()))
    words = ["compile", str(model), "-o", str(tmp_path / "net"), "--mvei", "--load-cdesc", "x"]
    assert main([*words, "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert "without effect here: --load-cdesc, --mvei" in notes


def test_every_spelling_belongs_to_one_option_of_a_verb() -> None:
    for verb, row in VERBS.items():
        told = [s for o in row.options if o.shell for s in o.spellings]
        assert len(told) == len(set(told)), verb


def test_refused_options_say_why() -> None:
    refused = [o for o in VERBS["compile"].options if o.effect is VendorEffect.REFUSED]
    assert {o.spellings[0] for o in refused} == set(option_rows.NOT_MODELLED)
    parser = build_parser("compile")
    with pytest.raises(UsageError, match="--Oauto is not supported: the level"):
        parser.parse_args(["compile", "a", "-o", "b", "--Oauto"])


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = ROOT / "tools" / "write_reference.py"
    spec = importlib.util.spec_from_file_location("write_reference", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(tool: ModuleType) -> None:
    """`python tools/write_reference.py` makes them again."""
    page = tool.CLI.read_text(encoding="utf-8")
    assert tool.cli_page(page) == page
    assert tool.API.read_text(encoding="utf-8") == tool.api_page()
    assert tool.OPERATORS.read_text(encoding="utf-8") == tool.operators_page()


def test_every_verb_with_options_has_its_table(tool: ModuleType) -> None:
    page = tool.CLI.read_text(encoding="utf-8")
    for verb, row in VERBS.items():
        own = [o for g in row.groups if not g.shared for o in g.options if o.shell]
        told = "sweep" if verb == "sweep report" else verb
        assert not own or f"<!-- options: {told} -->" in page, verb


@pytest.mark.parametrize("function", FUNCTIONS)
def test_docstrings_say_what_comes_in_and_out_with_an_example(function: str) -> None:
    text = inspect.getdoc(getattr(npuscope, function)) or ""
    assert "In: " in text
    assert "Out: " in text
    assert f">>> npuscope.{function}(" in text or f"npuscope.{function}(" in text
