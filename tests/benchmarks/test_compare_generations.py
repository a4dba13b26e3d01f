"""The benchmark of causes runs on any folder and writes what it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from models import mobilenet_like, save, to_tflite
from processes import LIMIT_S

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "compare_generations.py"


def test_one_row_a_network(tmp_path: Path) -> None:
    save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    table = tmp_path / "rows.json"
    command = [sys.executable, str(SCRIPT), "net.tflite"]
    command += ["--models", str(tmp_path), "--json", str(table)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(table.read_text())
    assert row["model"] == "net.tflite"
    assert row["explained_share"] >= 0.9
    assert done.stdout.splitlines()[-1] == "1 of 1 networks have a cause for 90%"
