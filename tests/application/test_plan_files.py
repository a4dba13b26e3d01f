"""Files of a plan: what they say is what compiles there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from application.networks_here import example
from npuscope.application.plan import make_plan
from npuscope.application.request import read_application
from npuscope.building import build
from npuscope.cli.main import main
from npuscope.report.html.plan import plan_page
from npuscope.report.plan_files import plan_files
from npuscope.report.plan_trace import plan_trace


def test_profiles_give_the_programs_of_the_plan(tmp_path: Path) -> None:
    path = example(tmp_path, **{'inputs = "application"': 'inputs = "pool"'})
    plan = make_plan(read_application(path))
    for name, data in plan_files(plan).items():
        (tmp_path / name).write_bytes(data)
    for network in plan.networks:
        profile = f"{network.name}@{tmp_path / 'neural_art.json'}"
        model = tmp_path / network.planned.use.model
        again = build(model, {"board": "stm32n6570-dk", "art_profile": profile})
        places = {b.name: (b.pool, b.offset) for b in network.program.buffers}
        assert {b.name: (b.pool, b.offset) for b in again.program.buffers} == places
        starts = {pool.name: pool.address for pool in network.program.pools}
        assert {pool.name: pool.address for pool in again.program.pools} == starts


def test_the_command_writes_all_and_exits_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = example(tmp_path)
    page, trace = tmp_path / "p.html", tmp_path / "p.trace.json"
    words = ["plan", str(path), "-o", str(tmp_path / "out"), "--html", str(page)]
    assert main([*words, "--trace", str(trace), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "npuscope/plan/1"
    assert document == json.loads((tmp_path / "out" / "plan.json").read_text())
    assert {"detector.mpool", "tagger.mpool", "npuscope_plan.h", "npuscope_plan.ld"} <= {
        file.name for file in (tmp_path / "out").iterdir()
    }
    assert json.loads(trace.read_text())["traceEvents"]
    assert "Memory over the frame" in page.read_text()


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(example(tmp_path, **{"deadline_ms = 33": "deadline_ms = 1"}))]) == 1
    assert main(["plan", str(example(tmp_path, **{"fps = 30": "fps = -1"}))]) == 3
    assert "app.toml: fps: " in capsys.readouterr().err
    assert main(["plan", str(tmp_path / "none.toml")]) == 3
    (tmp_path / "tagger.tflite").unlink()
    path = tmp_path / "app.toml"
    path.write_text(path.read_text().replace("fps = -1", "fps = 30"))
    assert main(["plan", str(path)]) == 3
    assert "networks[1].model" in capsys.readouterr().err


def test_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example(tmp_path)
    files = [str(tmp_path / name) for name in ("detector.tflite", "tagger.tflite")]
    assert main(["estimate", *files, "--together"]) == 0
    assert "together fits on stm32n6570-dk" in capsys.readouterr().out
    assert main(["estimate", *files, "--together", "--npu-mhz", "500"]) == 2


def test_trace_and_page_are_made_of_all_frames(tmp_path: Path) -> None:
    plan = make_plan(read_application(example(tmp_path)))
    trace = plan_trace(plan)
    assert {thread.name for thread in trace.threads} == {"CPU", "NPU", "GPU2D"}
    assert '"view":"plan"' in plan_page(plan)
