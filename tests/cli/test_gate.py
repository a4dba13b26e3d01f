"""gate on the command line: exit codes, files, GitHub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models import mobilenet_like, save, to_tflite
from npuscope.cli.main import main

Capture = pytest.CaptureFixture[str]
SUMMARY = "GITHUB_STEP_SUMMARY"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model"), "net.tflite", to_tflite(mobilenet_like()))


@pytest.fixture(autouse=True)
def _outside_of_github(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUMMARY, raising=False)


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--max", "total_ms=20"), 0),
        (("--max", "total_ms=0.001"), 1),
        (("--max", "SW=0"), 1),
        (("--max", "SW=1", "--max", "hyperRAM=0"), 0),
        (("--min", "inferences_per_s=1"), 0),
        (("--min", "inferences_per_s=1000000"), 1),
        (("--max", "internal_ram_bytes=2MiB"), 0),
        (("--max", "internal_ram_bytes=10B"), 1),
        (("--max", "findings.error=0"), 0),
        (("--max", "findings.warning=0"), 1),
    ],
)
def test_exit_codes(words: tuple[str, ...], code: int, model: Path, capsys: Capture) -> None:
    found, out, err = run(capsys, "gate", model, *words)
    assert (found, err) == (code, "")
    assert out.startswith("passed: " if code == 0 else "FAILED: ")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--max", "total=1"), 2, "--max: unknown figure 'total'\n  hint: did you mean total_ms?"),
        (("--max", "total_ms"), 2, "--max: expected KEY=VALUE, found 'total_ms'"),
        (("--max", "SW=1", "--max", "SW=2"), 2, "--max: SW is given twice"),
        (("--min", "total_ms=x"), 2, "--min: cannot read the limit 'x' of total_ms"),
        (("--max", "SW=1", "--tol", "x"), 2, "--tol: expected a share such as 3% or 0.03"),
        (("--max", "SW=1", "--summary", "/"), 74, "/: cannot be written: "),
    ],
)
def test_what_is_wrong_is_said(
    words: tuple[str, ...], code: int, message: str, model: Path, capsys: Capture
) -> None:
    found, out, err = run(capsys, "gate", model, *words)
    assert (found, out) == (code, "")
    assert message in err


@pytest.mark.parametrize("verb", ["estimate", "profile", "gate"])
def test_a_baseline_from_an_earlier_result(
    verb: str, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    before = tmp_path / "before.json"
    limits = ("--max", "SW=9") if verb == "gate" else ()
    assert run(capsys, verb, model, *limits, f"--json={before}")[0] == 0
    same = ("gate", model, "--baseline", before)
    assert run(capsys, *same)[0] == 0
    code, out, _ = run(capsys, *same, "--no-epoch-controller")
    assert code == 1
    assert out.startswith("FAILED: total_ms is ")
    assert ("Slower than the baseline" in out) is (verb != "gate")
    if verb != "gate":
        assert "epochs started by the epoch controller -> by the CPU" in out


def test_json_has_what_others_rely_on(model: Path, capsys: Capture) -> None:
    code, out, _ = run(capsys, "gate", model, "--max", "SW=0", "--json", "--github")
    found = json.loads(out)
    assert (code, found["passed"], found["schema"]) == (1, False, "npuscope/gate/1")
    (check,) = found["checks"]
    assert (check["name"], check["value"], check["limit"], check["passed"]) == ("SW", 1, 0, False)


def test_summaries_grow(model: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "summary.md"
    for _ in range(2):
        run(capsys, "gate", model, "--max", "SW=0", "--summary", path)
    assert path.read_text().count("### npuscope gate :x: failed: net.tflite") == 2


def test_for_github(
    model: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "step.md"
    monkeypatch.setenv(SUMMARY, str(path))
    code, out, _ = run(capsys, "gate", model, "--max", "SW=0", "--github")
    assert code == 1
    assert out.splitlines()[-1] == ("::error title=npuscope gate%3A net.tflite::SW is 1, limit 0")
    assert path.read_text().startswith("### npuscope gate :x: failed: net.tflite\n")
    run(capsys, "gate", model, "--max", "SW=0")
    assert path.read_text().count("###") == 1  # only on request
    code, out, _ = run(capsys, "gate", model, "--max", "SW=1", "--github")
    assert (code, "::error" in out) == (0, False)


def test_findings_as_files(model: Path, tmp_path: Path, capsys: Capture) -> None:
    sarif, junit = tmp_path / "f.sarif", tmp_path / "f.xml"
    run(capsys, "gate", model, "--max", "SW=1", "--sarif", sarif, "--junit", junit)
    (found,) = json.loads(sarif.read_text())["runs"]
    assert found["automationDetails"]["id"] == "npuscope/gate/"
    assert found["results"]
    assert junit.read_text().startswith("<?xml")


@pytest.mark.parametrize("option", ["--summary", "--sarif"])
def test_the_model_is_not_written_to(option: str, model: Path, capsys: Capture) -> None:
    before = model.read_bytes()
    code, _, err = run(capsys, "gate", model, "--max", "SW=1", option, model)
    assert (code, "this is the input file" in err) == (2, True)
    assert model.read_bytes() == before
