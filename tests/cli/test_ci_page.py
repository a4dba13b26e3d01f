"""The workflow of docs/ci.md is run: it passes on the network it was written for, and a planted
regression stops it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from models import Net, mobilenet_like, save, to_tflite
from npuscope.cli.main import main

Capture = pytest.CaptureFixture[str]
PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
WORKFLOW, _ACTION, _HOOKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
STEPS = re.findall(r"^ +run: (.+)$", WORKFLOW, re.MULTILINE)
BEFORE = re.findall(r"^npuscope estimate .*$", PAGE, re.MULTILINE)


def commands(*names: str) -> list[list[str]]:
    words = [shlex.split(step)[1:] for step in STEPS if step.startswith("npuscope ")]
    return [step for step in words if step[0] in names]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's repository: the model and the baseline that the page says to make."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    save(tmp_path, "model.tflite", to_tflite(mobilenet_like(size=24)))
    (step,) = BEFORE
    assert main([*shlex.split(step)[1:], "-q"]) == 0
    return tmp_path


def slowed() -> Net:
    """The same network with a layer more, which makes it slower."""
    net = mobilenet_like(size=24)
    stem = net.layers[:1]
    wide = Net(net.input_shape, seed=3)
    wide.layers += stem
    for _ in range(3):
        wide.conv(64)
    wide.mean()
    wide.dense(5)
    wide.softmax()
    return wide


def test_the_steps_are_what_the_page_speaks_of() -> None:
    assert STEPS[0] == "pip install npuscope"
    assert len(commands("gate")) == len(STEPS) - 1 == 2
    assert sum("--baseline" in step for step in commands("gate")) == 1


def test_the_workflow_is_yaml_that_github_would_take() -> None:
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load(WORKFLOW)["jobs"]["gate"]
    assert [step["run"] for step in job["steps"] if "run" in step] == STEPS


def test_the_workflow_passes(repository: Path, capsys: Capture) -> None:
    assert [main(step) for step in commands("gate")] == [0, 0]
    assert "::error" not in capsys.readouterr().out
    assert (repository / "gate.sarif").is_file()
    assert (repository / "summary.md").read_text().count(":white_check_mark: passed") == 2


def test_a_planted_regression_stops_it(repository: Path, capsys: Capture) -> None:
    save(repository, "model.tflite", to_tflite(slowed()))
    limits, against = commands("gate")
    assert (main(limits), main(against)) == (0, 1)
    out = capsys.readouterr().out
    assert "FAILED: total_ms is " in out
    assert "::error title=npuscope gate%3A model.tflite::total_ms is " in out
    assert "Slower than the baseline (A), by source op" in out
    assert ":x: failed" in (repository / "summary.md").read_text()


def test_the_comparison_that_the_page_names(repository: Path, capsys: Capture) -> None:
    (line,) = re.findall(r"^npuscope compare .*$", PAGE, re.MULTILINE)
    assert main(shlex.split(line)[1:]) == 0
    assert capsys.readouterr().out.startswith("no difference: ")
