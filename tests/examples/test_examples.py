"""The scripts in examples/ run as they are, and say what they are for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from processes import LIMIT_S

FOLDER = Path(__file__).parents[2] / "examples"


def done(folder: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(npuscope.__file__).parents[1])}
    command = [sys.executable, str(FOLDER / name), *words]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


def run(folder: Path, name: str, *words: str) -> list[str]:
    process = done(folder, name, *words)
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout.splitlines()


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(save(tmp_path, "net.tflite", to_tflite(mobilenet_like())))


def test_a_first_look(tmp_path: Path, model: str) -> None:
    lines = run(tmp_path, "first_look.py", model)
    assert lines[0].startswith(f"{npuscope.estimate(model).total_ms:.3f} ms (from ")
    assert sum(line.startswith("  epoch ") for line in lines) == 5
    assert npuscope.explain(model).verdict in lines
    assert run(tmp_path, "first_look.py")[0] != lines[0]  # the built-in network


def test_what_if(tmp_path: Path, model: str) -> None:
    lines = run(tmp_path, "what_if.py", model)
    half = npuscope.estimate(model, npu_mhz=400).total_ms
    assert f"  NPU at  400 MHz: {half:8.3f} ms" in lines
    assert any(line.startswith("  generation 2.2: ") for line in lines)
    assert any(line.startswith("  4.0 to 2.2: ") for line in lines)
    assert any(line.startswith("  clocks.npu_mhz") for line in lines)


def test_fix_and_check(tmp_path: Path, model: str) -> None:
    before = Path(model).read_bytes()
    lines = run(tmp_path, "fix_and_check.py", model, "fixed.tflite")
    assert any(line.startswith("  applied: end the network before the Softmax") for line in lines)
    assert "passed ['total_ms']" in lines
    assert (tmp_path / "fixed.tflite").is_file()
    assert Path(model).read_bytes() == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("first_look.py", ["nothing.tflite"]),
        ("what_if.py", ["nothing.tflite"]),
        ("fix_and_check.py", ["nothing.tflite", "fixed.tflite"]),
    ],
)
def test_a_wrong_file_is_told_without_a_traceback(
    tmp_path: Path, name: str, words: list[str]
) -> None:
    process = done(tmp_path, name, *words)
    assert process.returncode == 1
    assert process.stderr.startswith("nothing.tflite: no such file\n  hint: ")
    assert "Traceback" not in process.stderr


def test_missing_words_are_told(tmp_path: Path) -> None:
    assert done(tmp_path, "fix_and_check.py").stderr.startswith("usage: python examples/")


def test_the_application_of_the_examples_is_planned(tmp_path: Path) -> None:
    """examples/plan is a file of `plan`, not a script."""
    text = (FOLDER / "plan" / "app.toml").read_text(encoding="utf-8")
    names = set(re.findall(r'"([^"]+\.tflite)"', text))
    assert names
    for name in names:
        save(tmp_path, name, to_tflite(mobilenet_like()))
    (tmp_path / "app.toml").write_text(text, encoding="utf-8")
    assert npuscope.plan(tmp_path / "app.toml").told()


def test_every_script_is_run_here() -> None:
    tested = {"first_look.py", "what_if.py", "fix_and_check.py"}
    assert {path.name for path in FOLDER.glob("*.py")} == tested
    for name in tested:
        assert (FOLDER / name).read_text(encoding="utf-8").startswith("# %% [markdown]\n# # ")
