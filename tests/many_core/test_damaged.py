"""Damaged stats buffers: exit code 3 with what was lost, the rest of the folder is read."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import npuscope
from many_core.nets import encoder
from npuscope.cli.main import main
from npuscope.families.many_core.buffer_format import HEADER, ROW

NAME = "aic-profiling-program-0-activation-0-inf-{}-QAicGraph-aiccyclecounts.bin"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "net.onnx").write_bytes(encoder())
    (folder / "stats").mkdir()
    npuscope.manycore_compile(folder / "net.onnx", folder / "qpc", stats_level=70, cores=2)
    npuscope.manycore_run(
        folder / "qpc",
        num_iter=2,
        aic_profiling_type="raw_device_stats",
        aic_profiling_out_dir=folder / "stats",
        aic_profiling_num_samples=2,
    )
    return folder


@pytest.fixture
def stats(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made / "stats", tmp_path / "stats")
    return tmp_path / "stats"


def opstats(made: Path, stats: Path) -> int:
    words = ("opstats", "-q", made / "qpc" / "programqpc.bin", "-i", stats, "-o", stats / "out")
    return main([*map(str, words), "--summary"])


def summary(stats: Path, number: int = 0) -> str:
    stem = NAME.format(number).replace("-aiccyclecounts.bin", "")
    return (stats / "out" / f"{stem}.qaic-opstats.summary.txt").read_text()


def only(stats: Path) -> Path:
    (stats / NAME.format(1)).unlink()
    return stats / NAME.format(0)


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_is_found_wherever_it_matters(made: Path, stats: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = only(stats)
    good = path.read_bytes()
    assert opstats(made, stats) == 0
    whole = summary(stats)
    data = bytearray(good)
    place = chance.randrange(len(data) if seed % 2 else HEADER.size + 4 * ROW.itemsize)
    data[place] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    code = opstats(made, stats)
    # Between sections lies nothing that could be lost.
    assert code == 3 or (code == 0 and summary(stats) == whole), place


@pytest.mark.parametrize("kept", [1, 7, 63, 64, 100, 500, 5000])
def test_what_a_cut_costs_is_said_and_nothing_else(
    made: Path, stats: Path, kept: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = only(stats)
    path.write_bytes(path.read_bytes()[:kept])
    assert opstats(made, stats) == 3
    text = "".join(capsys.readouterr())
    assert "compile with -stats-level=70" not in text
    assert "ends inside" in text or "no section is whole" in text or "OSBSTAT1" in text


def test_damaged_records_are_named(
    made: Path, stats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = only(stats)
    data = bytearray(path.read_bytes())
    data[-1000] ^= 4
    path.write_bytes(data)
    assert opstats(made, stats) == 3
    told = capsys.readouterr()
    assert "lost DMA_REC" in told.err or "lost OP_REC" in told.err
    assert "compile with" not in told.out.replace("-aic-pmu", "").partition("no ops")[2]


def test_an_empty_file_is_called_empty(
    made: Path, stats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stats / NAME.format(0)).write_bytes(b"")
    assert opstats(made, stats) == 3
    assert f"{NAME.format(0)} is empty" in capsys.readouterr().err
    assert summary(stats, 1).splitlines()[-1].startswith("lever: ")
    only(stats)
    assert opstats(made, stats) == 3
    assert "is empty" in capsys.readouterr().err


def test_a_foreign_buffer_does_not_stop_the_others(
    made: Path, stats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stats / NAME.format(0)).write_bytes(bytes(range(256)) * 20)
    assert opstats(made, stats) == 3
    assert NAME.format(0) in capsys.readouterr().err
    assert "verdict" in summary(stats, 1)
