"""docs/capabilities.md: every row has a state with its reason, every command shows what its row
says, and the counts are those of the rows."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from edits.channel_nets import two_cell_denoiser
from loadable.samples import image as image_for_the_kit
from models import dense_net, mobilenet_like, save, to_tflite
from npuscope.cli.main import main
from profiling.test_printed import HARDWARE, HEAD, OPENING, TOTALS
from profiling.yolov5n import block_186, yolov5n

PAGE = Path(__file__).parents[1] / "docs" / "capabilities.md"
STATES = re.compile(r"met(: .{5,})?|(differs|unknown|open): .{5,}")
LINK = re.compile(r"\[[\w.]+\]\(([\w./-]+)(#.+)?\)")
PHRASES = re.compile(r"(?:(?P<how>in|not in) `(?P<file>[^`]+)`: )?(?P<phrases>`[^`]+`(, `[^`]+`)*)")
KINDS = ("met", "differs", "unknown", "open")
NEEDS_BOARD = ("package", "run", "npu_driver.py", "st_load_and_run.py")
MADE = ("again", "again_cores", "again_build", "named", "named2", "st_ai_output")


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
        words = self.command.split()
        return any(word in NEEDS_BOARD for word in words[1:3]) and "manycore" not in words

    @property
    def may_fail(self) -> bool:
        """The row is about a refusal."""
        return "would refuse" in self.what


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
    for part in re.split(r"; (?=(?:not )?in `)", row.shows):
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


# The figures of the published block in the lines of our own.
FIGURES = {
    "EpochBlock_3 (c_idx=7, num=3:3": "EpochBlock_186 (c_idx=192, num=186:186",
    "'hw.conv': 2, 'hw.add': 1, 'hw.dmain': 2, 'hw.dmaout': 1": (
        "'hw.conv': 4, 'hw.mul': 1, 'hw.add': 2, 'hw.sigmoid': 1, 'hw.dmain': 6, 'hw.dmaout': 2"
    ),
    "'CONV_ACC': 2, 'ARITH_ACC': 1, 'STR_ENG': 3": (
        "'CONV_ACC': 4, 'ARITH_ACC': 3, 'ACTIV_ACC': 1, 'STR_ENG': 8"
    ),
    "ops : 90000": "ops : 453348",
    "1000 (max_cycles=4000)": "4608 (max_cycles=27648)",
    "[octoFlash: r=512, w=0] [npuRAM5: r=2048, w=1024]": (
        "[octoFlash: r=4608, w=0] [npuRAM5: r=19600, w=8820]"
    ),
    "0.010ms (50.0%) total=0.020ms": "0.043ms (0.3%) total=16.431ms",
    "[4000, 1600, 2400]": "[18859, 10599, 5253]",
    "core npu cycles : 2000": "core npu cycles : 13300",
    "10.00% (core only: 50.00%)": "10.59% (core only: 34.65%)",
    "r=640 w=0 rburst[1,2,4,8]x8=(4,2,2,8)": "r=14080 w=0 rburst[1,2,4,8]x8=(8,12,16,208)",
    "(0,0,0,32) wburst[1,2,4,8]x8=(0,0,0,16)": "(4,12,8,152) wburst[1,2,4,8]x8=(5,9,9,117)",
    "STRENG.4.i: busif=0, 2020 cycles, [octoFlash:512], 101%": (
        "STRENG.4.i: busif=0, 15190 cycles, [octoFlash:4608], 114%"
    ),
    "STRENG.7.o: busif=1, 1700 cycles, [npuRAM5:1024], 85%": (
        "STRENG.8.o: busif=1, 13785 cycles, [npuRAM5:1764], 104%"
    ),
    "R[hit=1, miss=2, alloc-miss=3, evict=4]": "R[hit=0, miss=80, alloc-miss=0, evict=0]",
    "n_nodes : 5": "n_nodes : 199",
}


def published_page() -> str:
    text = OPENING + HEAD + HARDWARE + TOTALS
    for ours, theirs in FIGURES.items():
        assert ours in text, ours
        text = text.replace(ours, theirs)
    return text


def fixed_external_ram(flash: bool) -> str:
    """Pools as two profiles of the vendor's package have them: hyperRAM at a fixed address."""
    pools = json.loads(Path("net/stm32n6.mpool").read_text(encoding="utf-8"))
    listed = {pool["name"]: pool for pool in pools["memory"]["mempools"]}
    listed["hyperRAM"].pop("mode", None)
    kept = ("hyperRAM", "octoFlash") if flash else ("hyperRAM",)
    pools["memory"]["mempools"] = [listed[name] for name in kept]
    return json.dumps(pools)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("capabilities")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        save(place, "model.tflite", to_tflite(mobilenet_like()))
        save(place, "gemm.tflite", to_tflite(dense_net(257, (1024, 256))))
        save(place, "denoiser.onnx", two_cell_denoiser())
        save(place, "block186.tflite", block_186())
        save(place, "yolov5n.tflite", yolov5n())
        (place / "profiler.txt").write_text(published_page(), encoding="utf-8")
        options = "--enable-epoch-controller --csv-file epochs.csv --output-info-file info.json"
        profiles = {
            "mine": {"options": options},
            "old": {"options": "-O3", "memory_desc": "stm32n6.mdesc"},
        }
        art = json.dumps({"Profiles": profiles})
        (place / "neural_art.json").write_text(art, encoding="utf-8")
        (place / "kit").mkdir()
        (place / "kit" / "network_rel.bin").write_bytes(image_for_the_kit())
        words = ["compile", "model.tflite", "-o", "noext", "--art-profile", "n6-noextmem", "-q"]
        assert main(words) == 0
        shutil.copy("noext/stm32n6.mpool", "noext.mpool")
        assert main(["compile", "model.tflite", "-o", "net", "--relocatable", "-q"]) == 0
        words = ["compile", "model.tflite", "-o", "nonsecure", "--relocatable", "--no-secure", "-q"]
        assert main(words) == 0
        for name, flash in (("ext2", True), ("ext3", False)):
            (place / f"{name}.mpool").write_text(fixed_external_ram(flash), encoding="utf-8")
            words = ["compile", "model.tflite", "-o", name, "--load-mpool", f"{name}.mpool", "-q"]
            assert main(words) == 0
        (place / "stats").mkdir()
        (place / "delayed").mkdir()
        counted = ["-ddr-stats", "-aic-pmu-events=3F,70,200"]
        compiled = {
            "cores": [],
            "batches": ["-stats-batchsize=2"],
            "pair": ["--devices", "2"],
            "counted": counted,
        }
        for name, more in compiled.items():
            words = ["-model=model.tflite", f"-aic-binary-dir={name}", "-stats-level=70", "-q"]
            assert main(["manycore", "compile", *words, *more]) == 0
        for name in ("pair", "counted"):
            (place / f"{name}_stats").mkdir()
            kind = "--aic-profiling-type=raw_device_stats"
            folder = f"--aic-profiling-out-dir={name}_stats"
            words = [f"--test-data={name}", folder, kind, "--num-iter=2"]
            assert main(["manycore", "run", *words]) == 0
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
        for made in MADE:
            shutil.rmtree(folder / made, ignore_errors=True)
        code = main(shlex.split(command)[1:])
        told = capsys.readouterr()
        for row in (row for row in listed if row.command == command):
            lost = missing(row, told.out + told.err, folder)
            if lost or bool(code) is not row.may_fail:
                failed[f"{command} ({row.what[:30]})"] = lost or told.err
    return failed


def test_the_commands_show_what_they_must(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    listed = [row for row in rows() if row.command and not row.needs_board]
    assert len(listed) > 150
    assert failures(listed, folder, capsys) == {}


def test_the_commands_of_images_show_what_they_must(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("ziglang", "unicorn", "elftools"):
        pytest.importorskip(module, reason=f"{module} is not installed: no emulated board")
    monkeypatch.chdir(folder)
    assert main(["package", "net", "-o", "build", "-q"]) == 0
    assert main(["package", "net", "-o", "split_build", "--split", "-q"]) == 0
    capsys.readouterr()
    assert failures([row for row in rows() if row.needs_board], folder, capsys) == {}
