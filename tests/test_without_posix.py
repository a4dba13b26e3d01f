"""Verbs in a Python that lacks what Windows lacks, and refuses what it refuses of open files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from advice.sweep.samples import small_sweep
from models import conv_net, save, to_tflite
from processes import LIMIT_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="made of Linux's own names")
_NAMES = Path(__file__).parent / "without_posix"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(_NAMES), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "npuscope", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths.rstrip(os.pathsep)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path, "net.tflite", to_tflite(conv_net()))
    return tmp_path


def test_the_names_are_gone(folder: Path) -> None:
    check = "import os; assert not hasattr(os, 'getuid'); import fcntl"
    paths = {"PYTHONPATH": str(_NAMES)}
    child = [sys.executable, "-c", check]
    ended = subprocess.run(child, env=os.environ | paths, capture_output=True, check=False)
    assert b"ModuleNotFoundError: import of fcntl halted" in ended.stderr


def test_files_and_folders_are_written_and_replaced(folder: Path) -> None:
    for _ in range(2):
        ended = run(folder, "compile", "net.tflite", "-o", "out")
        assert (ended.returncode, ended.stderr) == (0, "")
        ended = run(folder, "fix", "net.tflite", "-o", "fixed.tflite")
        assert (ended.returncode, ended.stderr) == (0, "")
    assert names(folder) == {"net.tflite", "out", "fixed.tflite"}


def test_a_sweep_has_workers_and_a_lock(folder: Path) -> None:
    ended = run(folder, "sweep", str(small_sweep(folder)), "--jobs", "2")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "0 failed" in ended.stdout
    again = run(folder, "sweep", "sweep.toml")
    assert "0 new" in again.stdout, again.stderr


def test_the_emulated_board_answers(folder: Path) -> None:
    ended = run(folder, "profile", "net.tflite", "--connect", "emulated")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_pseudo_terminal_is_refused_in_one_sentence(folder: Path) -> None:
    ended = run(folder, "board", "serve", "net.tflite", "--pty")
    assert ended.returncode == 4
    assert "this system has no pseudo terminals" in ended.stderr
    assert "--tcp PORT" in ended.stderr
