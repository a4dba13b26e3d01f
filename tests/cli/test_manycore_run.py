"""`npuscope manycore run`: options in both spellings, answers, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from many_core.samples import layout, program
from npuscope.cli.drive import perform
from npuscope.cli.parser import build_parser
from npuscope.errors import UsageError
from npuscope.families.many_core.container import write_program

NAME = "aic-profiling-program-0-activation-0-inf-{}-QAicGraph-aiccyclecounts.bin"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with ./binaries and ./stats, as the example has them."""
    monkeypatch.chdir(tmp_path)
    for name in ("binaries", "stats"):
        (tmp_path / name).mkdir()
    made = program(layout(cores=2, level=70))
    (tmp_path / "binaries" / "programqpc.bin").write_bytes(write_program(made))
    return tmp_path


def run(*words: str) -> int:
    return perform(build_parser("manycore").parse_args(["manycore", "run", *words]))


def test_the_command_of_the_guide(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(
        "--test-data=./binaries",
        "--aic-profiling-type=raw_device_stats",
        "--aic-profiling-out-dir=./stats",
        "--aic-profiling-num-samples=5",
        "--aic-profiling-start-iter",
        "1",
        "--num-iter=100",
    )
    assert code == 0
    assert {path.name for path in (here / "stats").iterdir()} == {
        NAME.format(number) for number in range(1, 6)
    }
    out = capsys.readouterr().out.splitlines()
    assert out[1].startswith("InferenceCnt 100 TotalDuration ")
    assert [line.split(",")[0] for line in out[3:7]] == [
        "Metric",
        "ExecTimeUs",
        "InputWaitTimeUs",
        "OutputWaitTimeUs",
    ]
    assert sum(line.startswith("Writing file:") for line in out) == 5


def test_without_a_type_nothing_is_written(here: Path) -> None:
    assert run("--test-data", "binaries") == 0
    assert sorted(path.name for path in here.rglob("*") if path.is_file()) == ["programqpc.bin"]


def test_json_has_the_figures(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("--test-data=binaries", "--num-iter=20", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "npuscope/manycore-run/1"
    assert (found["inferences"], found["files"]) == (20, [])
    row = found["metrics"]["ExecTimeUs"]
    assert row["min"] <= row["avg"] <= row["max"]


def test_overhead_and_seed_change_the_times(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for more in ((), ("--seed=1",), ("--stats-overhead",), ()):
        run("--test-data=binaries", *more)
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[3]
    assert len(set(answers)) == 3


def test_devices_must_be_numbers(here: Path) -> None:
    with pytest.raises(UsageError, match="expected numbers such as 0,1, found 'a,b'"):
        run("--test-data=binaries", "--devices=a,b")


def test_a_wanted_view_is_checked_first(here: Path) -> None:
    with pytest.raises(UsageError) as caught:
        run("--test-data=binaries", "--want=ops,op-pmu", "--aic-profiling-type=raw_device_stats")
    assert "-stats-level=100" in caught.value.hint
    assert not list(here.glob("*.bin"))


def test_an_unknown_type_is_refused(here: Path) -> None:
    with pytest.raises(UsageError, match="unknown type 'delay'") as caught:
        run("--test-data=binaries", "--aic-profiling-type=delay")
    assert caught.value.hint == "known: stats, trace, latency, raw_device_stats"


def test_types_may_be_repeated_and_copies_have_files_of_their_own(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("--test-data=binaries", "-a", "2", "--num-iter=3", "--aic-profiling-num-samples=2",
        "--aic-profiling-type=raw_device_stats", "--aic-profiling-type", "stats",
        "--aic-profiling-type=latency", "--aic-profiling-type=stats")  # fmt: skip
    assert "InferenceCnt 6 " in capsys.readouterr().out
    names = sorted(path.name for path in here.glob("aic-profiling-*"))
    buffers = [
        f"aic-profiling-program-0-activation-{copy}-inf-{number}-QAicGraph-aiccyclecounts.bin"
        for copy in (0, 1)
        for number in (0, 1)
    ]
    summaries = [name.replace("-QAicGraph-aiccyclecounts.bin", ".txt") for name in buffers]
    latencies = [f"aic-profiling-program-{copy}-latency.txt" for copy in (0, 1)]
    assert names == sorted([*buffers, *summaries, *latencies])
    head, *rows = Path(latencies[0]).read_text().splitlines()[4:]
    assert head.startswith("Sample,queueDepth,numInfInQueue,devInfPerSec,devExecUs,devInWaitTimeUs")
    assert [row.split(",")[0] for row in rows] == ["0", "1"]
    for row in rows:
        exec_us, wait, *_, total = map(float, row.split(",")[4:])
        assert total > exec_us > wait >= 0


def test_a_run_may_be_told_by_its_time(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("--test-data=binaries", "--time=0.002", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["inferences"] > 1
    assert found["total_us"] >= 2000
    last = found["metrics"]["ExecTimeUs"]["max"] + 100
    assert found["total_us"] < 2000 + last


def test_copies_share_ddr_and_have_to_fit(here: Path) -> None:
    with pytest.raises(UsageError, match="of 2 cores need 18: cloudai100 has 16") as caught:
        run("--test-data=binaries", "-a", "9")
    assert caught.value.hint == "at most 8"


def test_what_if_the_machine_were_another(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = []
    for clock in (1000, 1500):
        run("--test-data=binaries", f"--set=clocks.core_mhz={clock}", "--json")
        times.append(json.loads(capsys.readouterr().out)["metrics"]["ExecTimeUs"]["avg"])
    assert times[0] > times[1]
