"""Output that cannot be written: exit code 74, one sentence, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
NO_SPACE = "cannot be written: No space left on device"
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
COMMAND = [sys.executable, "-c", "from npuscope.cli.main import console; console()"]


def failed(*words: str, unbuffered: bool = False, closed: bool = False) -> tuple[int, str]:
    """Exit code and stderr with a stdout that takes nothing."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1" if unbuffered else ""}
    with FULL.open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *words],
            stdout=full,
            stderr=subprocess.PIPE,
            env=env,
            check=False,
            preexec_fn=(lambda: os.close(1)) if closed else None,
        )
    return done.returncode, done.stderr.decode()


@needs_full
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize(
    "words",
    [("machines",), ("machines", "--json"), ("--version",), ("machines", "--help"), ("rules",)],
    ids=" ".join,
)
def test_a_full_stdout(words: tuple[str, ...], unbuffered: bool) -> None:
    wanted = f"npuscope: stdout: {NO_SPACE}\n"
    assert failed(*words, unbuffered=unbuffered) == (74, wanted)


@needs_full
def test_a_closed_stdout() -> None:
    wanted = "npuscope: stdout: cannot be written: it is closed\n"
    assert failed("machines", "--json", closed=True) == (74, wanted)


@needs_full
def test_an_error_on_a_full_stdout_keeps_its_code_and_is_told_once() -> None:
    code, told = failed("estimate", "none.tflite", "--json")
    assert (code, told) == (
        3,
        "npuscope: none.tflite: no such file\n  hint: give the path of a .tflite or .onnx model\n",
    )


@needs_full
def test_a_full_file() -> None:
    done = subprocess.run(
        [*COMMAND, "machines", f"--json={FULL}"], capture_output=True, check=False, text=True
    )
    assert (done.returncode, done.stderr) == (74, f"npuscope: {FULL}: {NO_SPACE}\n")


def test_a_full_disk_under_a_folder(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk."""
    resource = pytest.importorskip("resource")
    done = subprocess.run(
        [*COMMAND, "demo", "-o", str(tmp_path / "out")],
        capture_output=True,
        check=False,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)),
    )
    assert done.returncode == 74
    assert done.stderr.endswith(": cannot be written: File too large\n")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
