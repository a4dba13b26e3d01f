"""The benchmark of decoding and tracing runs, and its peers write the same trace as we do."""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from processes import LIMIT_S
from trace_processor.processor import load
from trace_processor.samples import many_core_run

FOLDER = Path(__file__).parents[2] / "benchmarks"


def peers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("opstats_peers", FOLDER / "opstats_peers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["write_json_dumps", "write_perfetto_package"])
def test_peers_write_the_same_trace(name: str) -> None:
    if name == "write_perfetto_package":
        pytest.importorskip("perfetto")
    model = many_core_run(5000)
    file = io.BytesIO()
    getattr(peers(), name)(model, file)
    with load(file.getvalue()) as processor:
        assert processor.value("select count(*) from slice") == len(model.slices)
        assert processor.value("select count(*) from flow") == len(model.flows)
        durations = model.slices.end_ns - model.slices.start_ns
        assert processor.value("select sum(dur) from slice") == durations.sum()


def test_the_table_and_its_file(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "opstats_speed.py"), "--slices", "2000"]
    command += ["--records", "20000", "--runs", "1", "--json", str(tmp_path / "speed.json")]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=LIMIT_S
    ).stdout
    rows = json.loads((tmp_path / "speed.json").read_text())
    assert [row["case"] for row in rows][:4] == ["decode", "perfetto", "chrome", "json_dumps"]
    assert all(row["seconds"] > 0 and row["peak_mb"] > 1 for row in rows)
    assert "not judged, too few slices" in printed
    for row in rows:
        assert row["title"] in printed
