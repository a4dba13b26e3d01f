"""A verb over several files, and the action and hooks that call it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from models import conv_net, save, to_tflite
from npuscope.cli.each import each

ROOT = Path(__file__).parents[2]
Capture = pytest.CaptureFixture[str]
yaml = pytest.importorskip("yaml")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    data = to_tflite(conv_net())
    return [str(save(tmp_path, f"{name}.tflite", data)) for name in ("a", "b")]


def test_the_worst_exit_code_counts(files: list[str], capsys: Capture) -> None:
    assert each(["gate", "--max", "total_ms=1000", *files]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line in files] == files
    assert each(["gate", "--max", "total_ms=0.0001", *files]) == 1
    assert each(["gate", "--max", "total_ms=1000", files[0], files[1] + ".missing.tflite"]) == 3


def test_a_model_may_be_the_baseline(files: list[str], capsys: Capture) -> None:
    assert each(["gate", f"--baseline={files[0]}", files[1]]) == 0
    assert each(["gate", "--baseline", files[0], "--github", files[1]]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line in files] == [files[1]] * 2


@pytest.mark.parametrize("words", [[], ["net.bin"], ["a.tflite", "--max", "SW=1"]])
def test_no_file_is_no_check_that_passed(words: list[str], capsys: Capture) -> None:
    assert each(["gate", "--max", "total_ms=1", *words]) == 2
    assert "name the model files" in capsys.readouterr().err


def test_hooks_start_it(files: list[str], capsys: Capture) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in hooks] == ["npuscope-lint", "npuscope-gate"]
    for hook in hooks:
        python, *module, verb = shlex.split(hook["entry"])
        assert [python, *module] == ["python", "-m", "npuscope.cli.each"]
        limits = ["--max", "total_ms=1000"] if verb == "gate" else []
        assert each([verb, *limits, *files]) == 0, capsys.readouterr().out


def test_the_action_starts_it() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    last = action["runs"]["steps"][-1]
    assert last["run"] == "python -m npuscope.cli.each gate $OPTIONS --github $MODELS"
    assert set(last["env"]) == {"MODELS", "OPTIONS"}
