"""The benchmark of the writer counts files by what became of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from models import conv_net, mobilenet_like, save, to_onnx, to_tflite
from models_whole_file import stateful_net, whole_onnx
from processes import LIMIT_S

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="the benchmark waits for pipes with select, as POSIX can"
)

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "file_writer.py"


def test_files_of_both_formats_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    save(folder, "conv.tflite", to_tflite(conv_net()))
    save(folder, "again.tflite", to_tflite(conv_net()))
    save(folder, "stateful.tflite", stateful_net())
    save(folder, "net.onnx", to_onnx(mobilenet_like()))
    save(folder, "whole.onnx", whole_onnx().SerializeToString())
    save(folder, "page.tflite", b"<html></html>")
    save(folder, "cut.tflite", to_tflite(conv_net())[:100])
    rows_path = tmp_path / "rows.json"
    command = [sys.executable, str(SCRIPT), str(folder), "--json", str(rows_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    rows = {row["file"]: row for row in json.loads(rows_path.read_text())}
    assert rows.keys() == {
        *("again.tflite", "stateful.tflite", "net.onnx", "whole.onnx", "page.tflite", "cut.tflite")
    }
    for name in ("again.tflite", "stateful.tflite", "net.onnx", "whole.onnx"):
        row = rows[name]
        assert (row["copy"], row["writer"], row["edit"]) == ("equal",) * 3, name
        assert row["runtime"] == "ran, equal", name
    assert rows["page.tflite"]["refused"] == "not a model"
    assert rows["cut.tflite"]["refused"].startswith("the file is damaged")
    assert "tflite: 4 files" in done.stdout and "onnx: 2 files" in done.stdout
    assert "    2 copy     equal" in done.stdout
