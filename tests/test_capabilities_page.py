"""docs/capabilities.md: every row has a state with its reason, and every command runs."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from models import mobilenet_like, save, to_tflite
from npuscope.cli.main import main
from profiling.test_printed import HARDWARE, HEAD

PAGE = Path(__file__).parents[1] / "docs" / "capabilities.md"
STATES = re.compile(r"done(: .{5,})?|(differs|partly|not done): .{5,}")
NEEDS_BOARD = ("package", "run")


def rows() -> list[tuple[str, str, str]]:
    text = PAGE.read_text(encoding="utf-8").partition("## EpochBlock_186")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    found = [row for row in cells if row[0] != "in the document"]
    assert all(len(row) == 3 for row in found)
    return [(a, b, c) for a, b, c in found]


def commands(verbs: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> list[str]:
    hits = (re.fullmatch(r"`(npuscope .+)`", cell) for _, cell, _ in rows())
    found = list(dict.fromkeys(hit[1] for hit in hits if hit))
    words = [(command, command.split()[1]) for command in found]
    return [c for c, verb in words if (not verbs or verb in verbs) and verb not in without]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("capabilities")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        save(place, "model.tflite", to_tflite(mobilenet_like()))
        (place / "profiler.txt").write_text(HEAD + HARDWARE, encoding="utf-8")
        assert main(["compile", "model.tflite", "-o", "net", "--relocatable", "-q"]) == 0
        (place / "stats").mkdir()
        words = ["-model=model.tflite", "-aic-binary-dir=cores", "-stats-level=70", "-q"]
        assert main(["manycore", "compile", *words]) == 0
    return place


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_every_row_has_a_state(row: tuple[str, str, str]) -> None:
    what, where, state = row
    assert what and where and STATES.fullmatch(state), row
    link = re.fullmatch(r"\[[\w.]+\]\(([\w./-]+)(#.+)?\)", where)
    assert where.startswith("`npuscope ") or (link and (PAGE.parent / link[1]).is_file()), where


def test_the_commands_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of the page: stats are collected before they are read."""
    monkeypatch.chdir(folder)
    listed = commands(without=NEEDS_BOARD)
    assert len(listed) > 35
    failed = {}
    for command in listed:
        for made in ("again", "again_cores"):
            shutil.rmtree(folder / made, ignore_errors=True)
        code = main(shlex.split(command)[1:])
        told = capsys.readouterr()
        if code:
            failed[command] = told.err
    assert failed == {}


def test_the_commands_of_images_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("ziglang", "unicorn", "elftools"):
        pytest.importorskip(module, reason=f"{module} is not installed: no emulated board")
    monkeypatch.chdir(folder)
    assert main(["package", "net", "-o", "build", "-q"]) == 0
    failed = {}
    for command in commands(NEEDS_BOARD):
        code = main(shlex.split(command)[1:])
        told = capsys.readouterr()
        if code:
            failed[command] = told.err
    assert failed == {}
