"""The pages say what the commands do: every verb, every option, and examples that hold."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from npuscope.building import machine_for
from npuscope.cli.drive import values
from npuscope.cli.main import VERBS
from npuscope.cli.parser import build_parser
from npuscope.verbs.table import record

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(
    r"^npuscope .*$", (ROOT / "docs" / "machine.md").read_text(encoding="utf-8"), re.MULTILINE
)


def options(verb: str) -> set[str]:
    """Long options of a verb."""
    top = build_parser(verb, families=True)
    (commands,) = (a for a in top._actions if isinstance(a, argparse._SubParsersAction))
    names = {name for action in _actions(commands.choices[verb]) for name in action.option_strings}
    return {name for name in names if name.startswith("--")}


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """With those of its own verbs, where it has some."""
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    inner = [chosen for action in below for chosen in action.choices.values()]
    return [*parser._actions, *(action for chosen in inner for action in _actions(chosen))]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_section_and_a_line_in_the_readme(verb: str) -> None:
    assert f"\n## {verb}\n" in PAGE
    assert f"`npuscope {verb}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_option_is_documented_and_every_documented_option_exists() -> None:
    known = set().union(*(options(verb) for verb in VERBS))
    documented = set(re.findall(r"--[A-Za-z][\w-]*", PAGE))
    short_forms = {"--output", "--quiet", "--verbose", "--help"}
    assert documented - known == set()
    assert known - documented - short_forms == set()


@pytest.mark.parametrize("line", EXAMPLES)
def test_what_if_examples_name_real_keys(line: str) -> None:
    words = shlex.split(line)[1:]
    args = build_parser(words[0]).parse_args(words)
    assert machine_for(values(record(words[0]), args)).name  # type: ignore[arg-type]


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md"])
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
