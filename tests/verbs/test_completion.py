"""Completion scripts: all verbs and options, and what the shells themselves make of them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import npuscope
from npuscope.errors import UsageError
from npuscope.machine.load import generations, known_machines
from npuscope.options.rows import GENERATION, MACHINE
from npuscope.verbs.completion import SHELLS, commands
from npuscope.verbs.table import NAMES as VERBS
from processes import LIMIT_S


def test_suggested_values_are_the_known_ones() -> None:
    assert GENERATION.suggested == generations()
    (machine,) = (option for option in MACHINE if option.name == "machine")
    assert set(machine.suggested) <= set(known_machines())


@pytest.mark.parametrize("shell", SHELLS)
def test_every_verb_and_option_is_in_the_script(shell: str) -> None:
    script = npuscope.completion(shell)
    for command in commands():
        assert command.name in script
        for option in command.options:
            long = option.spellings[0].lstrip("-")
            assert long in script, (command.name, long)
    assert not re.search(r"\bOauto(?![-\w])", script)  # refused by compile


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_quotes_are_closed(shell: str) -> None:
    shlex.split(npuscope.completion(shell), comments=True)


def test_quotes_of_fish_are_closed() -> None:
    """A backslash escapes a quote there, also between quotes."""
    plain = re.compile(r"complete( (-[cnadslo] )?('([^'\\]|\\.)*'|[\w:.+-]+)| -[fr])+")
    for line in npuscope.completion("fish").splitlines()[1:]:
        assert plain.fullmatch(line), line


def test_another_shell_is_told() -> None:
    with pytest.raises(UsageError, match="unknown shell 'tcsh'"):
        npuscope.completion("tcsh")


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


def offered(folder: Path, line: str) -> list[str]:
    """What bash would offer for the last word of a line."""
    script = folder / "npuscope.bash"
    script.write_text(npuscope.completion("bash"), encoding="utf-8")
    words = line.split(" ")
    listed = " ".join(shlex.quote(word) for word in words)
    code = (
        f"source {shlex.quote(str(script))}; COMP_WORDS=({listed}); "
        f"COMP_CWORD={len(words) - 1}; _npuscope; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", code], cwd=folder, capture_output=True, text=True, check=True,
        timeout=LIMIT_S,
    )  # fmt: skip
    assert done.stderr == ""
    return [word for word in done.stdout.splitlines() if word]


@needs_bash
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("npuscope est", ["estimate"]),
        ("npuscope help ex", ["export", "explain"]),
        ("npuscope estimate --gen", ["--generation"]),
        ("npuscope estimate --no-ep", ["--no-epoch-controller"]),
        ("npuscope estimate net.tflite --generation ", ["2.2", "3.0", "4.0", "open"]),
        ("npuscope compile --input-data-type u", ["uint8"]),
        ("npuscope -q lint --strict", []),
        ("npuscope board s", ["serve"]),
        ("npuscope manycore c", ["compile"]),
        ("npuscope manycore compile -aic-b", ["-aic-binary-dir"]),
        ("npuscope sweep r", ["report"]),
        ("npuscope explain my", ["my net.tflite"]),
        ("npuscope completion f", ["fish"]),
    ],
)
def test_bash_completes(tmp_path: Path, line: str, expected: list[str]) -> None:
    (tmp_path / "my net.tflite").touch()
    assert offered(tmp_path, line) == expected


@needs_bash
def test_bash_offers_every_verb(tmp_path: Path) -> None:
    verbs = {name for name in VERBS if " " not in name}
    assert set(offered(tmp_path, "npuscope ")) == {*verbs, "help", "--help", "--version"}


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh")
def test_zsh_reads_its_script(tmp_path: Path) -> None:
    script = tmp_path / "_npuscope"
    script.write_text(npuscope.completion("zsh"), encoding="utf-8")
    command = ["zsh", "-f", "-n", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish_completes(tmp_path: Path) -> None:
    script = tmp_path / "npuscope.fish"
    script.write_text(npuscope.completion("fish"), encoding="utf-8")
    code = f"source {script}; complete -C 'npuscope estimate --generation '"
    command = ["fish", "--no-config", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    values = [line.partition("\t")[0] for line in done.stdout.splitlines()]  # a tab, its meaning
    assert values == ["2.2", "3.0", "4.0", "open"]
