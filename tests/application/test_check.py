"""The check of a folder: planted faults are found, and what is right raises no alarm."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from application.app_folder import LINKER, MAIN, app_folder, moved
from npuscope.application.check.c_source import compiled, plain, value_of
from npuscope.application.check.model import AppSeverity, FolderCheck
from npuscope.application.check.run import check_folder
from npuscope.cli.main import main
from npuscope.errors import FileError

FLASH, RAM = 0x71000000, 0x34200000


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return app_folder(tmp_path_factory.mktemp("application"))


@pytest.fixture
def folder(right: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(right, tmp_path / "app"))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def linker(old: str, new: str) -> Callable[[Path], None]:
    return lambda folder: edit(folder / "Gcc" / "app.ld", old, new)


def source(old: str, new: str) -> Callable[[Path], None]:
    return lambda folder: edit(folder / "Src" / "main.c", old, new)


def shifted(name: str, low: int, size: int, by: int) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "Model" / f"{name}.c"
        text = moved(path.read_text(), low, low + size, by)
        assert text != path.read_text()
        path.write_text(text)

    return apply


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "Model" / name).unlink()


FAULTS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "region over activations": ("region-overlap", linker("1023K", "3000K")),
    "the same under its other name": (
        "region-overlap",
        linker("PSRAM (xrw) : ORIGIN = 0x91000000, LENGTH = 16M",
            "PSRAM (xrw) : ORIGIN = 0x24200000, LENGTH = 64K"),
    ),
    "two regions": ("regions-overlap", linker("0x91000000", "0x34010000")),
    "a region past the chip": ("region-past-chip", linker("16M", "17M")),
    "a region off the line": ("alignment", linker("0x34000400", "0x34000404")),
    "a pool off the line": ("alignment", shifted("tagger", 0x71010000, 0x1000, 4)),
    "weights over weights": ("flash-overlap", shifted("tagger", 0x71010000, 0x1000, -0x10000)),
    "weights past the chip": ("past-chip", shifted("tagger", 0x71010000, 0x1000, 0x6FEFFF0)),
    "weights in a region": ("region-overlap", linker(
        "PSRAM (xrw)", "FLASH (rx) : ORIGIN = 0x71000000, LENGTH = 2M\n  PSRAM (xrw)")),
    "activations where nothing is": ("past-chip", shifted("tagger", RAM, 0x10000, 0x230000)),
    "too many buffers": ("region-full", source("#define SCREENS 2", "#define SCREENS 40")),
    "no clean": ("invalidate-without-clean", source("SCB_CleanInvalidate", "SCB_Invalidate")),
    "no weights": ("weights-not-flashed", without("tagger_atonbuf.xSPI2.bin")),
}  # fmt: skip


def errors(check: FolderCheck) -> set[str]:
    return {finding.rule for finding in check.of(AppSeverity.ERROR)}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(folder: Path, fault: str) -> None:
    rule, plant = FAULTS[fault]
    plant(folder)
    assert rule in errors(check_folder(folder))


def test_no_alarm_where_all_is_right(right: Path) -> None:
    check = check_folder(right)
    assert check.fits
    assert not check.of(AppSeverity.LATENT)
    assert not check.not_checked
    (target,) = check.targets
    assert target.buffers_bytes == {".psram_bss": 2 * 800 * 480 * 2}
    assert {finding.rule for finding in check.findings} <= {"shared-ram", "output-in-input"}


def test_a_network_that_is_not_compiled_is_left_out(folder: Path) -> None:
    text = (folder / "Model" / "tagger.c").read_text()
    (folder / "Model" / "network.c").write_text(moved(text, 0x71010000, 0x71011000, -0x10000))
    check = check_folder(folder)
    assert check.fits
    assert "not-compiled" in {finding.rule for finding in check.of(AppSeverity.NOTE)}


def test_latent_faults_do_not_fail(folder: Path) -> None:
    edit(folder / "Src" / "main.c", "[WIDTH * HEIGHT * 2] ALIGN_32", "[WIDTH * HEIGHT * 2]")
    edit(folder / "Gcc" / "app.ld", "*(.psram_bss)", "*(.other)")
    check = check_folder(folder)
    assert check.fits
    rules = {finding.rule for finding in check.of(AppSeverity.LATENT)}
    assert rules == {"shared-line", "orphan-section"}


def test_a_fault_in_code_that_is_left_out_sleeps(folder: Path) -> None:
    lost = MAIN.replace("SCB_CleanInvalidate", "SCB_Invalidate")
    start = lost.index("static void run")
    (folder / "Src" / "main.c").write_text(f"{lost[:start]}#ifdef TEST\n{lost[start:]}#endif\n")
    check = check_folder(folder)
    assert check.fits
    assert "invalidate-without-clean" in {finding.rule for finding in check.of(AppSeverity.LATENT)}


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--check", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "npuscope/plan-check/1"
    assert document["fits"] is True
    FAULTS["no clean"][1](folder)
    assert main(["plan", "--check", str(folder)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("run: the CPU writes crop (memcpy), then its lines are invalidated")
    assert "Src/main.c:17" in text
    assert main(["plan", "--check", str(folder), "--html", "a.html"]) == 2
    assert main(["plan", "--check", str(folder / "Gcc" / "app.ld")]) == 3


def test_a_folder_without_an_application(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no application"):
        check_folder(tmp_path)


@pytest.mark.parametrize("text", ["", "MEMORY {", LINKER[:40]])
def test_damaged_files_are_told(folder: Path, text: str) -> None:
    (folder / "Gcc" / "app.ld").write_text(text)
    (folder / "Model" / "tagger.c").write_text((folder / "Model" / "tagger.c").read_text()[:9000])
    (folder / "Src" / "main.c").write_text("#if (\n#elif )\n/* " + "{" * 500)
    assert check_folder(folder).not_checked


def test_lines_that_are_compiled() -> None:
    macros = {"A": "2"}
    text = "#if A > 1 && !defined(B)\nyes\n#elif A\nno\n#else\nno\n#endif\n#define C (A * 3)"
    assert compiled(plain(text), macros).split() == ["yes"]
    assert value_of("C + 0x10UL", macros) == 22
    assert value_of("sizeof(x)", macros) is None
    assert value_of("1 << 4000", macros) is None
