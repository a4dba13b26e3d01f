"""The commands of the profiling guide, with nothing changed but the programs' paths."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from many_core.nets import EncoderShape, encoder
from npuscope.cli.main import main

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "/opt/qti-aic/exec/qaic-compile": "npuscope manycore compile",
    "sudo /opt/qti-aic/exec/qaic-runner": "npuscope manycore run",
    "/opt/qti-aic/exec/qaic-opstats": "npuscope opstats",
}
COMPILE = r"""
/opt/qti-aic/exec/qaic-compile -model=model.onnx \
-aic-binary-dir=./binaries \
-stats-level=70
"""
RUN = r"""
sudo /opt/qti-aic/exec/qaic-runner --test-data=./binaries \
--aic-profiling-type=raw_device_stats \
--aic-profiling-out-dir=./stats \
--aic-profiling-num-samples=3 \
--aic-profiling-start-delay=1000 \
--num-iter=200
"""
RUN_FROM_ITERATION = r"""
sudo /opt/qti-aic/exec/qaic-runner --test-data=./binaries \
--aic-profiling-type=raw_device_stats \
--aic-profiling-out-dir=./stats \
--aic-profiling-num-samples=5 \
--aic-profiling-start-iter 1 \
--num-iter=100
"""
OPSTATS = r"""
/opt/qti-aic/exec/qaic-opstats \
--qpc ./binaries/programqpc.bin \
--input-dir ./stats \
--output-dir ./stats-out \
--summary \
--trace \
--flow-events full
"""
SOME_CORES = r"""
/opt/qti-aic/exec/qaic-opstats \
--qpc ./binaries/programqpc.bin \
--input-dir ./stats \
--output-dir ./stats-out \
--trace \
--select-cores 0,1,2,3
"""
BUFFER = "aic-profiling-program-0-activation-0-inf-{}-QAicGraph"


def words_of(command: str) -> list[str]:
    for program, ours in PROGRAMS.items():
        command = command.replace(program, ours)
    return shlex.split(command.replace("\\\n", " "))


def run(command: str) -> int:
    words = words_of(command)
    assert words[0] == "npuscope"
    return main(words[1:])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """model.onnx, and ./stats: the runner wants a folder that exists."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").write_bytes(encoder(EncoderShape()))
    (tmp_path / "stats").mkdir()
    return tmp_path


def numbers(folder: Path, ending: str) -> list[int]:
    pattern = re.escape(BUFFER + ending).replace(r"\{\}", r"(\d+)")
    found = [re.fullmatch(pattern, path.name) for path in folder.iterdir()]
    return sorted(int(match[1]) for match in found if match)


def test_the_end_to_end_example(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(COMPILE) == 0
    assert (here / "binaries" / "programqpc.bin").is_file()
    assert run(RUN) == 0
    assert "InferenceCnt 200 TotalDuration " in capsys.readouterr().out
    samples = numbers(here / "stats", "-aiccyclecounts.bin")
    assert len(samples) == 3 and samples[-1] <= 199
    assert run(OPSTATS) == 0
    assert numbers(here / "stats-out", ".qaic-opstats.summary.txt") == samples
    assert numbers(here / "stats-out", ".qaic-opstats.trace.json") == samples
    stem = here / "stats-out" / BUFFER.format(samples[0])
    summary = Path(f"{stem}.qaic-opstats.summary.txt").read_text()
    assert "aicconvolutiond32 HMX TCM" in summary and "total batch ucycles" in summary
    trace = json.loads(Path(f"{stem}.qaic-opstats.trace.json").read_text())
    phases = {event["ph"] for event in trace["traceEvents"]}
    assert {"X", "s", "f", "M"} <= phases


def test_the_example_that_starts_at_an_iteration(here: Path) -> None:
    assert run(COMPILE) == 0
    assert run(RUN_FROM_ITERATION) == 0
    assert numbers(here / "stats", "-aiccyclecounts.bin") == [1, 2, 3, 4, 5]
    assert run(SOME_CORES) == 0
    files = list((here / "stats-out").iterdir())
    assert len(files) == 5
    cores = set(re.findall(r"_Core_(\d+)", files[0].read_text()))
    assert cores == {"0", "1", "2", "3"}


@pytest.mark.parametrize("command", [COMPILE, RUN, OPSTATS])
def test_the_page_shows_the_same_commands(command: str) -> None:
    page = (ROOT / "docs" / "manycore.md").read_text(encoding="utf-8")
    told = " ".join(page.replace("\\\n", " ").split())
    assert " ".join(words_of(command)) in told


def test_a_folder_that_is_missing_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(COMPILE) == 0
    (here / "stats").rmdir()
    assert run(RUN) == 3
    assert "mkdir -p stats" in capsys.readouterr().err


def test_the_host_trace_lies_beside_the_devices(here: Path) -> None:
    assert run(COMPILE) == 0
    samples = "--aic-profiling-num-samples=2 --aic-profiling-out-dir=./stats --num-iter=9"
    for kind in ("raw_device_stats", "trace", "stats"):
        command = f"npuscope manycore run --test-data=./binaries --aic-profiling-type={kind}"
        assert run(f"{command} {samples}") == 0
    host = "./stats/aic-profiling-program-0-activation-0-trace.json"
    assert run(f"{OPSTATS.strip()} --host-trace {host}") == 0
    merged = here / "stats-out" / f"{BUFFER.format(1)}.qaic-opstats.trace.json"
    names = {event.get("name") for event in json.loads(merged.read_text())["traceEvents"]}
    assert {"execute-Inf-1", "inputDma-Inf-1", "aicsoftmax"} <= names
