"""A file that keeps a run is taken by every verb that shows, checks or compares one."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope.cli.main import main
from npuscope.errors import FileError, UsageError
from report_texts import PROFILER_LOG, VALIDATE_REPORT


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    model = save(folder, "net.tflite", to_tflite(mobilenet_like(1)))
    assert main(["estimate", str(model), "--json", str(folder / "estimate.json"), "-q"]) == 0
    npuscope.profile(model, save=folder / "saved.json")
    (folder / "board.log").write_text(PROFILER_LOG)
    (folder / "network_validate_report.txt").write_text(VALIDATE_REPORT)
    return {path.name: path for path in folder.iterdir()}


FILES = ("estimate.json", "saved.json", "board.log", "network_validate_report.txt")


@pytest.mark.parametrize("name", FILES)
def test_every_verb_shows_the_time_that_was_kept(
    name: str, runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = runs[name]
    total = npuscope.estimate(path).total_ms
    assert total > 0
    assert npuscope.profile(path).total_ms == total
    assert npuscope.explain(path).profile.total_ms == total
    assert npuscope.compare(path, path).delta_ms == 0
    limits = (f"total_ms={total * 1.01:.4f}ms", f"total_ms={total * 0.99:.4f}ms")
    assert [main(["gate", str(path), "--max", limit, "-q"]) for limit in limits] == [0, 1]
    capsys.readouterr()


def test_the_measured_time_is_the_one_in_the_file(runs: dict[str, Path]) -> None:
    assert npuscope.estimate(runs["board.log"]).total_ms == pytest.approx(1.0226, abs=0.001)


def test_an_estimate_keeps_its_findings(runs: dict[str, Path]) -> None:
    kept = {finding.rule for finding in npuscope.explain(runs["estimate.json"]).findings}
    assert kept == {finding.rule for finding in npuscope.explain(runs["net.tflite"]).findings}


@pytest.mark.parametrize("name", FILES)
def test_what_would_change_a_kept_run_is_refused(name: str, runs: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match="keeps a run as it was, which no option changes"):
        npuscope.estimate(runs[name], generation="2.2")
    with pytest.raises(UsageError, match="keeps a run as it was, which no option changes"):
        npuscope.explain(runs[name], npu_mhz=400)


def test_a_log_of_another_program_is_not_explained_by_a_model(runs: dict[str, Path]) -> None:
    with pytest.raises(FileError, match="epochs of this log are not those of the model"):
        npuscope.explain(runs["board.log"], model=runs["net.tflite"])


def test_a_log_is_explained_by_the_model_that_ran(runs: dict[str, Path], tmp_path: Path) -> None:
    log = tmp_path / "ours.log"
    npuscope.profile(runs["net.tflite"], vendor_plan=True, log=log)
    bare = npuscope.explain(log)
    told = npuscope.explain(log, model=runs["net.tflite"])
    assert not bare.findings
    assert "NA-SOFTMAX" in {finding.rule for finding in told.findings}
    assert told.profile.total_ms == pytest.approx(bare.profile.total_ms, rel=0.01)
