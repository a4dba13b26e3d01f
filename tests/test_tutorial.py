"""The tutorial is true: its commands are run in order, and what it shows is what they print.

`...` alone stands for left-out lines, at the end of a line for the rest of it. Versions of
packages and what a C compiler decides (sizes, addresses, counts of instructions) differ: the
numbers of those commands are not compared. NPUSCOPE_UPDATE_GOLDEN=1 writes the page anew, with the
same lines left out.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from npuscope.cli.main import main
from processes import LIMIT_S

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```\n(\$ .*?)^```$", re.MULTILINE | re.DOTALL)
MODEL = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# They make the place where the others run.
SETUP = ("python3 -m venv", ". .venv", "pip install")
DIFFERS = ("doctor", "package", "run", "inspect")


@dataclass(frozen=True, slots=True)
class Step:
    command: str
    shown: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return self.command.split()[1] in DIFFERS


def steps(page: str) -> list[Step]:
    """Commands in order, with the lines that the page shows for them."""
    found: list[Step] = []
    for block in BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            found.append(Step(command, tuple(lines)))
    return [step for step in found if not step.command.startswith(SETUP)]


def test_the_page_has_the_whole_way() -> None:
    verbs = [step.command.split()[1] for step in steps(PAGE.read_text(encoding="utf-8"))]
    way = ["doctor", "estimate", "explain", "fix", "compare", "gate"]
    way += ["profile", "compile", "package", "run", "inspect"]
    assert [verb for verb in dict.fromkeys(verbs) if verb in way] == way


def test_the_tutorial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("ziglang", "unicorn", "elftools"):
        pytest.importorskip(package)
    page = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (model,) = MODEL.findall(page)
    (tmp_path / "make_model.py").write_text(model, encoding="utf-8")
    for step in steps(page):
        printed = run(step.command, capsys)
        page = renewed(page, step, printed)
        if not os.environ.get("NPUSCOPE_UPDATE_GOLDEN"):
            compare(step, printed)
    if os.environ.get("NPUSCOPE_UPDATE_GOLDEN"):
        PAGE.write_text(page, encoding="utf-8")


def run(command: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    program, *words = shlex.split(command)
    if program == "python":
        subprocess.run([sys.executable, *words], check=True, timeout=LIMIT_S)
        return []
    assert program == "npuscope", command
    code = main(words)
    shown = capsys.readouterr()
    assert (code, shown.err) == (0, ""), command
    return [line.rstrip() for line in shown.out.splitlines()]


def compare(step: Step, printed: list[str]) -> None:
    """Every line that is shown was printed; they follow each other where nothing is left out."""
    at, gap = 0, False
    for line in step.shown:
        if line == "...":
            gap = True
            continue
        places = range(at, len(printed) if gap else min(at + 1, len(printed)))
        found = next((i for i in places if is_same(line, printed[i], step.differs)), None)
        assert found is not None, f"$ {step.command}\n{line}\nis not in\n" + "\n".join(printed[at:])
        at, gap = found + 1, False
    assert gap or at == len(printed), f"$ {step.command} prints more: {printed[at:]}"


def is_same(shown: str, printed: str, differs: bool) -> bool:
    shown, is_start = (shown[:-4], True) if shown.endswith(" ...") else (shown, False)
    if differs:
        shown, printed = without_numbers(shown), without_numbers(printed)
    return printed.startswith(shown) if is_start else printed == shown


def without_numbers(line: str) -> str:
    """Words of figures (decimal or hexadecimal) become one sign, however wide they were."""
    line = re.sub(r"\b(0x)?[0-9a-f]*[0-9][0-9a-f.,]*", "#", line)
    return re.sub(r"[ ─]+", " ", line)


def renewed(page: str, step: Step, printed: list[str]) -> str:
    """The page with the lines of this step as they are now."""
    before = "\n".join([f"$ {step.command}", *step.shown])
    after = "\n".join([f"$ {step.command}", *_now(step.shown, printed)])
    assert before in page
    return page.replace(before, after, 1)


def _now(shown: tuple[str, ...], printed: list[str]) -> Iterator[str]:
    for line in shown:
        near = difflib.get_close_matches(line, printed, n=1, cutoff=0.5)
        yield line if line == "..." or line.endswith(" ...") or not near else near[0]


def test_comparing_can_fail() -> None:
    printed = ["one 1", "two 22", "three"]
    compare(Step("npuscope run", ("one 7", "...")), printed)
    compare(Step("npuscope estimate", ("...", "two ...", "three")), printed)
    for lines in (("one 7", "..."), ("one 1", "three"), ("one 1",), ("...", "four")):
        with pytest.raises(AssertionError):
            compare(Step("npuscope estimate", lines), printed)
