"""The runner: what it needs, what it writes, what it says."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from many_core.samples import layout, program
from npuscope.errors import FileError, OutputError, UsageError
from npuscope.families.many_core.buffer import read_buffer
from npuscope.families.many_core.container import read_layout, write_program
from npuscope.families.many_core.layout import Pmu
from npuscope.families.many_core.runner import ProfilingType, load_program, run_lines, run_program
from npuscope.families.many_core.runner_files import (
    HOST_SCHEMA,
    absent_notes,
    check_views,
    safe_name,
)
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.structs import replace

PREFIX = "aic-profiling-program-0-activation-0"


@pytest.fixture
def binaries(tmp_path: Path) -> Path:
    folder = tmp_path / "binaries"
    folder.mkdir()
    (folder / "programqpc.bin").write_bytes(write_program(program(layout(cores=2, batch=8))))
    return folder


def test_raw_buffers_are_named_and_decode(binaries: Path, tmp_path: Path) -> None:
    report = run_program(
        binaries,
        profiling=ProfilingType.RAW,
        out_dir=tmp_path,
        options=RunOptions(iterations=9, samples=2, start_iteration=4),
    )
    names = [path.name for path in report.files]
    assert names == [f"{PREFIX}-inf-{i}-QAicGraph-aiccyclecounts.bin" for i in (4, 5)]
    made = read_layout((binaries / "programqpc.bin").read_bytes())
    for path, number in zip(report.files, (4, 5), strict=True):
        stats = read_buffer(path.read_bytes(), made, path.stem)
        assert (stats.inference, stats.notes) == (number, ())
    left = {path.name for path in tmp_path.iterdir()} - {"binaries", *names}
    assert left == set()  # no temporary file stays


def test_the_table_is_over_all_iterations(binaries: Path) -> None:
    report = run_program(binaries, options=RunOptions(iterations=10))
    assert report.files == ()
    exec_us = [one.exec_us for one in report.result.iterations]
    row = report.metrics[0]
    assert (row.name, row.least, row.most) == ("ExecTimeUs", min(exec_us), max(exec_us))
    assert row.average == pytest.approx(sum(exec_us) / 10)
    variance = sum((value - row.average) ** 2 for value in exec_us) / 10
    assert row.deviation == pytest.approx(variance**0.5)
    assert [one.name for one in report.metrics[1:]] == ["InputWaitTimeUs", "OutputWaitTimeUs"]


def test_the_first_line_tells_the_speed(binaries: Path) -> None:
    report = run_program(binaries, options=RunOptions(iterations=10))
    words = run_lines(report)[1].split()
    assert words[::2] == ["InferenceCnt", "TotalDuration", "BatchSize", "Inf/Sec"]
    assert words[1] == "10" and words[3].endswith("us") and words[5] == "8"
    assert float(words[7]) == pytest.approx(10 * 8 / report.total_us * 1e6, abs=1e-3)
    assert run_lines(report)[0] == " ---- Stats ----"
    # As a published run has it, with its spaces.
    head = "Metric,          Avg,           Min,           Max,           Std            "
    assert run_lines(report)[2:4] == ["Device Performance: ", head]


def test_the_host_trace_is_on_the_devices_timeline(binaries: Path, tmp_path: Path) -> None:
    report = run_program(
        binaries,
        profiling="trace",
        out_dir=tmp_path,
        options=RunOptions(iterations=8, samples=3, start_iteration=2),
    )
    [path] = report.files
    assert path.name == f"{PREFIX}-trace.json"
    trace = json.loads(path.read_text())
    assert trace["otherData"]["schema"] == HOST_SCHEMA
    assert trace["otherData"]["utc_ns"] == report.result.utc_ns
    events = trace["traceEvents"]
    assert events[0]["args"] == {"name": "HOST_PROC"}
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == 3 * 5
    ran = next(event for event in slices if event["name"] == "execute-Inf-2")
    assert ran["ts"] == pytest.approx(report.result.iterations[2].device_start / 19.2, abs=1e-3)


def test_slices_of_a_lane_do_not_overlap(binaries: Path, tmp_path: Path) -> None:
    options = RunOptions(iterations=30, samples=30)
    [path] = run_program(binaries, profiling="trace", out_dir=tmp_path, options=options).files
    lanes: dict[int, list[tuple[int, int]]] = {}
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] == "X":
            begin = round(event["ts"] * 1000)
            lanes.setdefault(event["tid"], []).append((begin, begin + round(event["dur"] * 1000)))
    assert len(lanes) == 5
    for spans in lanes.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(spans)))


def test_stats_are_the_summary_of_each_sample(binaries: Path, tmp_path: Path) -> None:
    options = RunOptions(iterations=8, samples=2, start_iteration=3)
    report = run_program(binaries, profiling="stats", out_dir=tmp_path, options=options)
    assert [path.name for path in report.files] == [f"{PREFIX}-inf-{i}.txt" for i in (3, 4)]
    text = report.files[0].read_text()
    assert "total batch ucycles:" in text
    # And what the host saw of that very inference.
    _, host = text.split("\nhost-level stats:\n")
    seen = dict(line.split(": ") for line in host.splitlines())
    third = report.result.iterations[3]
    total = (third.completed - third.enqueued) / 19.2
    assert float(seen["totalRoundtripTimeUs"]) == pytest.approx(total, abs=1e-3)
    assert float(seen["devExecUs"]) == pytest.approx(third.exec_us, abs=1e-3)


def vendor_reading(path: Path) -> tuple[list[str], list[dict[str, float]]]:
    """As the SDK's own script reads it: four lines are skipped, names that end in Us become ms,
    and Sample, queueDepth and numInfInQueue must be there."""
    lines = path.read_text().splitlines()[4:]
    names = [name.strip() for name in lines[0].split(",")]
    rows = []
    for line in lines[1:]:
        row = dict(zip(names, map(float, line.split(",")), strict=True))
        for name in ("Sample", "queueDepth", "numInfInQueue"):
            del row[name]
        rows.append(
            {n.removesuffix("Us"): v / 1e3 if n[-2:] == "Us" else v for n, v in row.items()}
        )
    return names, rows


def test_the_vendors_reader_takes_the_latencies(binaries: Path, tmp_path: Path) -> None:
    options = RunOptions(iterations=8, samples=2, start_iteration=3, activations=2)
    report = run_program(binaries, profiling="latency", out_dir=tmp_path, options=options)
    wanted = [f"aic-profiling-program-{copy}-latency.txt" for copy in (0, 1)]
    assert [path.name for path in report.files] == wanted
    names, rows = vendor_reading(report.files[1])
    # The order of a published table; another script takes the third from the end.
    assert list(rows[0]) == [
        *("devInfPerSec", "devExec", "devInWaitTime", "devOutWaitTime", "hostRoundTrip"),
        *("enqTime", "preProcTime", "submitTime", "execTotal", "exectoVc", "execToComplete"),
        *("postProc", "totalRoundtripTime"),
    ]
    assert names[-3] == "execToCompleteUs" and len(rows) == 2
    one = report.result.iterations[3]
    total = (one.completed - one.enqueued) / 19.2e3
    assert rows[0]["totalRoundtripTime"] == pytest.approx(total, abs=1e-5)
    parts = ("enqTime", "submitTime", "exectoVc", "execToComplete", "postProc")
    assert sum(rows[0][name] for name in parts) == pytest.approx(total, abs=1e-5)


def test_a_folder_that_is_not_there_is_told_before_the_run(binaries: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        run_program(binaries, profiling="raw_device_stats", out_dir=tmp_path / "none")
    assert caught.value.message == "this folder does not exist"
    assert caught.value.hint == f"mkdir -p {tmp_path / 'none'}"


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_folder_that_is_not_writable_is_told(binaries: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(OutputError, match="not writable"):
        run_program(binaries, profiling="stats", out_dir=closed)


def test_a_file_is_not_a_folder(binaries: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is not a folder"):
        run_program(binaries, profiling="stats", out_dir=binaries / "programqpc.bin")


def test_a_program_that_is_not_there_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        load_program(tmp_path)
    assert caught.value.where == str(tmp_path / "programqpc.bin")
    assert "npuscope manycore compile" in caught.value.hint


def test_a_damaged_program_is_named(binaries: Path) -> None:
    path = binaries / "programqpc.bin"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FileError) as caught:
        load_program(path)
    assert caught.value.where.startswith(str(path))


def test_views_are_checked_before_the_run() -> None:
    low = layout(level=40, pmu=Pmu(), ddr=False)
    check_views(low, ["threads"])
    with pytest.raises(UsageError) as caught:
        check_views(low, ["ops"])
    assert caught.value.hint == "compile with -stats-level=70"
    with pytest.raises(UsageError) as caught:
        check_views(low, ["op-pmu"])
    assert caught.value.hint == (
        "compile with -stats-level=100 and -aic-pmu-recipe or -aic-pmu-events"
    )
    with pytest.raises(UsageError, match="unknown view 'opps'"):
        check_views(low, ["opps"])
    check_views(layout(level=100), ["threads", "pmu", "ddr", "ports", "ops", "op-pmu"])


def test_what_a_level_lacks_is_told_after_the_run(tmp_path: Path) -> None:
    made = program(layout(level=50, pmu=Pmu(), ddr=True))
    (tmp_path / "programqpc.bin").write_bytes(write_program(made))
    notes = run_program(tmp_path, profiling="raw_device_stats", out_dir=tmp_path).notes
    assert notes == absent_notes(made.layout)
    assert "not collected: operators: op tables and traces: needs -stats-level=70" in notes
    assert not any("doorbells" in note or "DDR" in note for note in notes)


def test_a_network_may_have_any_name(tmp_path: Path) -> None:
    made = layout(cores=2)
    parts = tuple(replace(part, name="../a b\nc") for part in made.specializations)
    folder = tmp_path / "odd"
    folder.mkdir()
    odd = program(replace(made, specializations=parts))
    (tmp_path / "programqpc.bin").write_bytes(write_program(odd))
    report = run_program(tmp_path, profiling="raw_device_stats", out_dir=folder)
    assert [path.parent for path in report.files] == [folder]
    assert report.files[0].name == f"{PREFIX}-inf-0-.._a_b_c-aiccyclecounts.bin"
    assert safe_name("QAicGraph_slice00") == "QAicGraph_slice00"
