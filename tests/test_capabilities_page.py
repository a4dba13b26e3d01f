"""docs/capabilities.md: every row has a state with its reason, every command shows what its row
says, and the counts are those of the rows."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from models import dense_net, mobilenet_like, save, to_tflite
from npuscope.cli.main import main
from profiling.test_printed import HARDWARE, HEAD

PAGE = Path(__file__).parents[1] / "docs" / "capabilities.md"
STATES = re.compile(r"done(: .{5,})?|(differs|partly|not done): .{5,}")
LINK = re.compile(r"\[[\w.]+\]\(([\w./-]+)(#.+)?\)")
PHRASES = re.compile(r"(?:(?P<how>in|not in) `(?P<file>[^`]+)`: )?(?P<phrases>`[^`]+`(, `[^`]+`)*)")
KINDS = ("done", "differs", "partly", "not done")
NEEDS_BOARD = ("package", "run")


@dataclass(frozen=True, slots=True)
class Row:
    document: str
    what: str
    where: str
    shows: str
    state: str

    @property
    def command(self) -> str:
        hit = re.fullmatch(r"`(npuscope .+)`", self.where)
        return hit[1] if hit else ""

    @property
    def needs_board(self) -> bool:
        return self.command.split()[1:2] != [] and self.command.split()[1] in NEEDS_BOARD


def tables() -> list[tuple[str, list[list[str]]]]:
    """The cells of every table, under the title above it."""
    text = PAGE.read_text(encoding="utf-8").partition("## EpochBlock_186")[0]
    found = []
    for part in text.split("\n## "):
        lines = [line for line in part.splitlines() if line.startswith("| ")]
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        found.append((part.splitlines()[0], cells[1:]))
    return found


def rows() -> list[Row]:
    found = [(title, cells) for title, table in tables()[1:] for cells in table]
    assert all(len(cells) == 4 for _, cells in found)
    return [Row(title, *cells) for title, cells in found]


def missing(row: Row, output: str, folder: Path) -> list[str]:
    """Phrases of a row that are not where they must be; blanks count as one."""
    lost = []
    for part in row.shows.split("; "):
        hit = PHRASES.fullmatch(part)
        assert hit, f"not a list of phrases: {part}"
        text = output
        if hit["file"]:
            text = (folder / hit["file"]).read_text(encoding="utf-8", errors="replace")
        text = " ".join(text.split())
        wanted = hit["how"] != "not in"
        found = re.findall(r"`([^`]+)`", hit["phrases"])
        lost += [phrase for phrase in found if (phrase in text) != wanted]
    return lost


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("capabilities")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        save(place, "model.tflite", to_tflite(mobilenet_like()))
        save(place, "gemm.tflite", to_tflite(dense_net(257, (1024, 256))))
        (place / "profiler.txt").write_text(HEAD + HARDWARE, encoding="utf-8")
        assert main(["compile", "model.tflite", "-o", "net", "--relocatable", "-q"]) == 0
        (place / "stats").mkdir()
        words = ["-model=model.tflite", "-aic-binary-dir=cores", "-stats-level=70", "-q"]
        assert main(["manycore", "compile", *words]) == 0
    return place


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.what[:40])
def test_every_row_has_a_state(row: Row) -> None:
    assert row.what and row.shows and STATES.fullmatch(row.state), row
    if row.command:
        return
    link = LINK.fullmatch(row.where)
    assert link, row.where
    page = (PAGE.parent / link[1]).read_text(encoding="utf-8")
    assert missing(row, page, PAGE.parent) == []


def test_the_counts_are_those_of_the_rows() -> None:
    stated = {title: [int(cell) for cell in cells] for title, *cells in tables()[0][1]}
    states = {title: [row.state for row in rows() if row.document == title] for title in stated}
    states["together"] = [row.state for row in rows()]
    counted = {
        title: [sum(state.partition(":")[0] == kind for state in found) for kind in KINDS]
        for title, found in states.items()
    }
    assert stated == counted


def failures(
    listed: list[Row], folder: Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, object]:
    """What each command lacks. A command of several rows runs once; the order is the page's: stats
    are collected before they are read."""
    failed: dict[str, object] = {}
    for command in dict.fromkeys(row.command for row in listed):
        for made in ("again", "again_cores", "again_build"):
            shutil.rmtree(folder / made, ignore_errors=True)
        code = main(shlex.split(command)[1:])
        told = capsys.readouterr()
        if code:
            failed[command] = told.err
            continue
        for row in listed:
            if row.command == command and (lost := missing(row, told.out + told.err, folder)):
                failed[f"{command} ({row.what[:30]})"] = lost
    return failed


def test_the_commands_show_what_they_must(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    listed = [row for row in rows() if row.command and not row.needs_board]
    assert len(listed) > 40
    assert failures(listed, folder, capsys) == {}


def test_the_commands_of_images_show_what_they_must(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("ziglang", "unicorn", "elftools"):
        pytest.importorskip(module, reason=f"{module} is not installed: no emulated board")
    monkeypatch.chdir(folder)
    assert main(["package", "net", "-o", "build", "-q"]) == 0
    capsys.readouterr()
    assert failures([row for row in rows() if row.needs_board], folder, capsys) == {}
