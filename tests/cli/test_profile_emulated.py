"""`profile` on the emulated board, in the same process or served to clients."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from models import mobilenet_like, save, to_tflite
from npuscope import child
from npuscope.cli.main import main
from processes import LIMIT_S, started

for module in ("ziglang", "unicorn", "elftools"):
    pytest.importorskip(module, reason=f"{module} is not installed: no emulated board")

Capture = pytest.CaptureFixture[str]
START = "import sys; from npuscope.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))


def profile(capsys: Capture, *words: object) -> dict[str, Any]:
    assert main(["profile", *map(str, words), "--batch", "1", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def counted(row: dict[str, Any]) -> tuple[object, ...]:
    """What the NPU counts in an epoch, and its time where it works."""
    counters = row["counters"]
    engines = sorted(counters["stream_engines"], key=lambda engine: (engine["dir"], engine["id"]))
    core = row["core_cycles"] if row["kind"] == "HW" else None
    return row["name"], core, engines, counters["busif"], counters["npu_cache"]


def check_emulated(found: dict[str, Any], simulated: dict[str, Any]) -> None:
    """The same counts, and nobody says that they were measured on a board."""
    assert [run["source"] for run in found["runs"]] != ["board"]
    assert list(map(counted, found["epochs"])) == list(map(counted, simulated["epochs"]))


def test_profile_on_the_emulated_board(model: Path, capsys: Capture) -> None:
    words = (model, "--no-epoch-controller")
    check_emulated(profile(capsys, *words, "--connect", "emulated"), profile(capsys, *words))
    assert main(["profile", str(model), "--connect", "emulated", "--batch", "1"]) == 0
    assert "measured" not in capsys.readouterr().out.splitlines()[0]


@contextmanager
def served(*words: object) -> Iterator[dict[str, Any]]:
    """What `npuscope board serve` says in its first line, while it serves."""
    command = [*child.command(), "-c", START, "board", "serve", *map(str, words)]
    with started(command, env=child.environment(), stdout=subprocess.PIPE, text=True) as board:
        assert board.stdout is not None
        yield json.loads(board.stdout.readline())
        board.send_signal(signal.SIGINT)
        assert board.wait(LIMIT_S) == 0


def test_a_served_emulated_board(model: Path, capsys: Capture) -> None:
    words = (model, "--no-epoch-controller")
    with served(*words, "--emulated", "--tcp", 0, "--json") as told:
        assert told["networks"] == ["net"]
        assert told["address"].startswith("socket:127.0.0.1:")
        found = profile(capsys, *words, "--connect", told["address"])
    check_emulated(found, profile(capsys, *words))
