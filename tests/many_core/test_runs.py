"""Runs of many cores: compared with each other, held to limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import npuscope
from many_core.nets import encoder
from npuscope.cli.main import main
from npuscope.families.many_core.buffer_format import is_core_run
from npuscope.families.many_core.report.runs import read_core_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `two` and `four`: programs for as many cores, with buffers of a run."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "net.onnx").write_bytes(encoder())
    for name, cores in (("two", 2), ("four", 4)):
        (folder / name / "stats").mkdir(parents=True)
        npuscope.manycore_compile(
            folder / "net.onnx",
            folder / name / "binaries",
            stats_level=70,
            ddr_stats=True,
            cores=cores,
        )
        npuscope.manycore_run(
            folder / name / "binaries",
            aic_profiling_type="raw_device_stats",
            aic_profiling_out_dir=folder / name / "stats",
        )
    return folder


def result(runs: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """What opstats says of a run, as a file."""
    qpc, stats = runs / name / "binaries" / "programqpc.bin", runs / name / "stats"
    path = tmp_path / f"{name}.json"
    words = ("opstats", "--qpc", qpc, "-i", stats, "-o", tmp_path, "--json", path)
    assert main([*map(str, words)]) == 0
    capsys.readouterr()
    return path


def test_buffers_and_results_are_the_same_run(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = result(runs, "two", tmp_path, capsys)
    raw, saved = read_core_run(runs / "two" / "stats"), read_core_run(path)
    assert raw.figures == pytest.approx(saved.figures)
    times = [{part.name: part.ms for part in run.epochs} for run in (raw, saved)]
    assert times[0] == pytest.approx(times[1])
    assert not is_core_run(runs / "net.onnx") and not is_core_run("nothing") and not is_core_run(1)


def test_two_runs_by_op(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", str(runs / "two" / "stats"), str(runs / "four" / "stats"), "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "npuscope/compare/1"
    changes = [abs(row["delta_ms"]) for row in found["rows"]]
    assert changes == sorted(changes, reverse=True) and changes[0] > 0
    assert main(words[:-1]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "B is " in lines[0] and lines[1].startswith("A ") and "bound by" in lines[1]
    same = str(runs / "two" / "stats")
    assert main(["compare", same, same]) == 0
    assert capsys.readouterr().out.startswith("no difference: both take ")


def test_limits_and_baselines(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(result(runs, "two", tmp_path, capsys))
    assert main(["gate", path, "--max", "total_ms=10"]) == 0
    assert main(["gate", path, "--max", "total_ms=0.00001"]) == 1
    assert "FAILED: total_ms is " in capsys.readouterr().out
    assert main(["gate", path, "--min", "inferences_per_s=1000000000"]) == 1
    assert main(["gate", path, "--baseline", path, "--tol", "1%"]) == 0
    assert main(["gate", path, "--max", "beauty=1"]) == 2
    assert "figures: total_ms, " in capsys.readouterr().err


def test_what_cannot_be_compared_is_told(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stats = runs / "two" / "stats"
    words = ["compare", str(stats), str(runs / "net.onnx"), "--b", "machine=cloudai100"]
    assert main(words) == 0
    assert "the two sides have no source op in common" in capsys.readouterr().out
    alone = tmp_path / "alone" / "stats"
    alone.mkdir(parents=True)
    for path in stats.iterdir():
        (alone / path.name).write_bytes(path.read_bytes())
    assert main(["gate", str(alone), "--max", "total_ms=1"]) == 2
    assert "put its programqpc.bin beside them" in capsys.readouterr().err
    broken = tmp_path / "broken.json"
    broken.write_text('{"schema": "npuscope/opstats/1", "buffers": 3}')
    assert main(["gate", str(broken), "--max", "total_ms=1"]) == 3
    assert "is not a whole result of opstats" in capsys.readouterr().err
