"""The benchmark reads back what it can compile, and says why the rest is left out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from models import conv_net, save, to_tflite
from processes import LIMIT_S

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "read_back.py"


def test_a_folder(tmp_path: Path) -> None:
    save(tmp_path, "good.tflite", to_tflite(conv_net()))
    (tmp_path / "broken.tflite").write_bytes(b"\x1c\0\0\0TFL3" + b"\xff" * 40)
    table = tmp_path / "table.json"
    command = [sys.executable, str(SCRIPT), str(tmp_path), "--generations", "4.0"]
    done = subprocess.run(
        [*command, "--json", str(table)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    cases = {(c["model"], c["form"]): c for c in json.loads(table.read_text())}
    assert cases["good.tflite", "folder"]["outcome"] == "equal"
    assert cases["good.tflite", "bare"]["outcome"] == "equal"
    assert cases["broken.tflite", ""]["outcome"] == "not compiled"
    assert cases["broken.tflite", ""]["reason"]
