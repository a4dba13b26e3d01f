"""`--trace` and `--chrome`: the files of the verb, whatever the profile comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope import building
from npuscope.cli.main import main
from npuscope.report.profile_trace import trace_of_profile
from npuscope.trace_model import TraceModel
from trace_processor.checks import check_trace


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model"), "net.tflite", to_tflite(mobilenet_like()))


def trace_of(model: Path) -> TraceModel:
    return trace_of_profile(npuscope.profile(model), building.build(model, {}).program)


def test_the_verb_writes_both_files(tmp_path: Path, model: Path) -> None:
    trace, chrome = tmp_path / "a.pftrace", tmp_path / "a.json"
    words = ["profile", str(model), "--trace", str(trace), "--chrome", str(chrome), "-q"]
    assert main(words) == 0
    expected = trace_of(model)
    for path in (trace, chrome):
        check_trace(expected, path.read_bytes())


def test_the_verb_writes_traces_beside_json(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chrome = tmp_path / "a.json"
    assert main(["profile", str(model), "--json", "--chrome", str(chrome)]) == 0
    assert capsys.readouterr().out.startswith("{")
    check_trace(trace_of(model), chrome.read_bytes())


def test_a_log_has_a_timeline_too(tmp_path: Path, model: Path) -> None:
    log, trace = tmp_path / "run.log", tmp_path / "a.pftrace"
    assert main(["profile", str(model), "--log", str(log), "-q"]) == 0
    assert main(["profile", "--connect", f"log:{log}", "--trace", str(trace), "-q"]) == 0
    measured = npuscope.measure(connect=f"log:{log}")
    check_trace(trace_of_profile(measured.profile), trace.read_bytes())


def test_the_model_is_not_overwritten(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = model.read_bytes()
    assert main(["profile", str(model), "--trace", str(model)]) == 2
    assert "this is the input file" in capsys.readouterr().err
    assert model.read_bytes() == before
