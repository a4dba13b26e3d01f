"""The guard against regressions lists what moved, and fails where it moved the wrong way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from models import conv_net, save, to_tflite
from processes import LIMIT_S

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "moved.py"
HEAD = "file,stedgeai,inference_ms,internal_ram_kib,external_ram_kib,weights_flash_kib"


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--models", str(folder), "--measured", str(folder)]
    command += ["--generations", "4.0", "--report", str(folder / "moves.json"), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)


def with_row(folder: Path, **changes: object) -> str:
    """The estimates of this tree, changed: those of a tree before it."""
    state = json.loads((folder / "now.json").read_text())
    for key, value in changes.items():
        state["rows"][0][key] = value
    path = folder / "before.json"
    path.write_text(json.dumps(state))
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("moved")
    save(folder, "net.tflite", to_tflite(conv_net()))
    done = run(folder, "--save", str(folder / "now.json"))
    assert done.returncode == 0, done.stderr
    return folder


def moves(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "moves.json").read_text())
    return found


def test_the_tree_itself_has_not_moved(folder: Path) -> None:
    done = run(folder, "--before", with_row(folder))
    assert done.returncode == 0, done.stderr
    assert moves(folder) == []


@pytest.mark.parametrize(("times", "verdict", "code"), [(1.0, "toward", 0), (2.0, "AWAY", 1)])
def test_a_move_is_judged_by_the_published_figure(
    folder: Path, times: float, verdict: str, code: int
) -> None:
    now = json.loads((folder / "now.json").read_text())["rows"][0]
    line = f"net.tflite,4.0.0,{now['ms'] * times},,,"
    (folder / "latency.csv").write_text(f"{HEAD}\n{line}\n")
    done = run(folder, "--before", with_row(folder, ms=now["ms"] * 2))
    (folder / "latency.csv").unlink()
    assert done.returncode == code, done.stderr
    assert [move["verdict"] for move in moves(folder)] == [verdict]
    assert f"| {verdict}" in done.stdout


def test_an_estimate_that_is_lost_fails(folder: Path) -> None:
    before = with_row(folder)
    (folder / "net.tflite").rename(folder / "kept")
    save(folder, "net.tflite", b"\x1c\0\0\0TFL3" + b"\xff" * 40)
    done = run(folder, "--before", before)
    (folder / "kept").rename(folder / "net.tflite")
    assert done.returncode == 1
    assert [move["verdict"] for move in moves(folder)] == ["LOST"]
