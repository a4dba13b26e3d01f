"""One run: its row says what the verbs say, and whatever fails is a row too."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

import npuscope
from advice.sweep.samples import long_sweep, plain, runs_of, small_sweep, spec_file
from npuscope.advice.network_row import profile_figures, stored_figures
from npuscope.advice.sweep import one_run
from npuscope.advice.sweep.one_run import run_json
from npuscope.advice.sweep.runs import SweepRun, versions
from npuscope.version import __version__


@pytest.fixture(autouse=True)
def fresh_cache() -> None:
    one_run._graphs.clear()


@pytest.fixture
def run(tmp_path: Path) -> SweepRun:
    return runs_of(small_sweep(tmp_path))[-1]


def done(run: SweepRun, model: bytes | None = None) -> dict:
    return json.loads(run_json(run.task(with_path=model is None), model))


def test_a_row_says_what_estimate_says(run: SweepRun) -> None:
    row = done(run)
    profile = npuscope.estimate(run.model.path, generation="4.0")
    assert {name: row[name] for name in run.head()} == run.head()
    assert (row["status"], row["version"]) == ("ok", __version__)
    assert row["total_ms"] == profile.total_ms
    assert (row["low_ms"], row["high_ms"]) == profile.interval_ms
    parts = ("npu_core_ms", "control_ms", "software_ms", "hybrid_ms")
    assert sum(row[name] for name in parts) == pytest.approx(row["total_ms"])
    assert row["internal_ram_bytes"] == profile.memory.internal_ram_bytes
    assert row["weights_bytes"] == profile.memory.weights_bytes
    assert row["fits_on_chip"] == profile.fit.on_chip
    assert row["macs"] == profile.model.macs
    assert [row[f"epochs_{kind}"] for kind in ("hw", "sw", "hybrid", "blobs")] == list(
        profile.counts.values()
    )
    assert "findings_error" not in row
    assert stored_figures(row) == {"machine": row["machine"], **profile_figures(profile)}


def test_findings_are_counted_on_request(tmp_path: Path) -> None:
    run = runs_of(small_sweep(tmp_path, "findings = true"))[-1]
    found = [f.severity.value for f in npuscope.explain(run.model.path, generation="4.0").findings]
    row = done(run)
    for name in ("error", "warning", "info"):
        assert row[f"findings_{name}"] == found.count(name)


def test_bytes_that_travel_give_the_same_row(run: SweepRun) -> None:
    here = done(run)
    one_run._graphs.clear()
    there = done(run, run.model.path.read_bytes())
    assert here | {"seconds": 0} == there | {"seconds": 0}


def test_a_model_is_asked_for_once(run: SweepRun) -> None:
    task = run.task(with_path=False)
    assert json.loads(run_json(task)) == {"wanted": run.model.sha256}
    assert json.loads(run_json(task, run.model.path.read_bytes()))["status"] == "ok"
    assert json.loads(run_json(task))["status"] == "ok"


def test_a_network_is_read_once_for_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    real = one_run.read_model

    def counting(path: Path, *rest: object) -> object:
        read.append(path)
        return real(path, *rest)

    monkeypatch.setattr(one_run, "read_model", counting)
    for run in runs_of(small_sweep(tmp_path)):
        done(run)
    assert [path.name for path in read] == ["conv.tflite", "dense.tflite"]
    assert len(one_run._graphs) <= 2


def test_other_versions_are_refused(run: SweepRun) -> None:
    task = json.loads(run.task(with_path=True))
    task["versions"] = {"npuscope": "0.0.1", "python": "3.11"}
    assert json.loads(run_json(json.dumps(task))) == {"refused": versions()}


def test_a_task_without_a_run_asks_for_the_versions() -> None:
    asked = json.dumps({"versions": versions()})
    assert json.loads(run_json(asked)) == {"welcome": versions()}


def test_another_content_is_not_run(run: SweepRun) -> None:
    row = done(run, b"something else")
    assert row["status"] == "failed"
    assert row["error"] == {
        "kind": "file",
        "message": "the model file changed after the sweep began",
        "where": "dense.tflite",
        "hint": "start the sweep again: the changed model gets new runs",
    }


def test_a_bad_model_is_a_row_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "bad.tflite").write_bytes(b"no model at all")
    (run,) = runs_of(spec_file(tmp_path, 'models = ["bad.tflite"]'))
    for row in (done(run), done(run, b"no model at all")):
        assert row["status"] == "failed"
        assert row["error"]["kind"] == "file"
        assert row["error"]["where"] == "bad.tflite"
        assert row["error"]["message"].startswith("not a TFLite file")
        assert "total_ms" not in row


def test_a_machine_that_is_too_small_is_a_row(tmp_path: Path) -> None:
    sizes = ", ".join(
        f"pools.{name}.size_kib = 0"
        for name in ("cpuRAM2", "npuRAM3", "npuRAM4", "npuRAM5", "npuRAM6", "hyperRAM")
    )
    (run, *_) = runs_of(small_sweep(tmp_path, f"[[pools]]\nset = {{ {sizes} }}"))
    row = done(run)
    assert (row["status"], row["error"]["kind"]) == ("failed", "target")


@pytest.mark.parametrize("fault", [ZeroDivisionError("x"), MemoryError(), RecursionError("deep")])
def test_a_bug_is_a_row(run: SweepRun, monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(one_run, "build", fail)
    row = done(run)
    assert row["status"] == "failed"
    assert row["error"]["kind"] == "internal"
    assert row["error"]["message"].startswith(f"this is a bug in npuscope: {type(fault).__name__}")


def test_warnings_belong_to_the_row(
    run: SweepRun, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    real = one_run.build

    def warning(*given: object) -> object:
        logging.getLogger("npuscope.machine").warning("pool %s is odd", "x")
        return real(*given)

    monkeypatch.setattr(one_run, "build", warning)
    assert done(run)["notes"][-1] == "pool x is odd"
    assert capfd.readouterr().err == ""


TIMING = """[[sets]]
set = { clocks.npu_mhz = 700 }
[[sets]]
set = { timing.epoch_start_cycles = 900, clocks.npu_mhz = 500 }
[[sets]]
set = { units.ARITH = 1 }
[[sets]]
set = { units.ARITH = 1, clocks.mcu_mhz = 300 }"""


def test_machines_that_differ_in_timing_share_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = runs_of(small_sweep(tmp_path, TIMING))
    models = len({run.model.sha256 for run in runs})
    alone = []
    for run in runs:
        one_run._compiled.clear()
        alone.append(done(run))
    real, machines = one_run.build, []

    def counting(source: object, options: dict[str, object]) -> object:
        machines.append(options["machine"])
        return real(source, options)

    one_run._compiled.clear()
    monkeypatch.setattr(one_run, "build", counting)
    together = [done(run) for run in runs]
    assert [row | {"seconds": 0} for row in together] == [row | {"seconds": 0} for row in alone]
    assert len(machines) == 2 * 2 * models < len(runs)  # two mappings in two generations


def test_runs_that_are_only_timed_are_done_together(tmp_path: Path) -> None:
    """To the rows that each gives alone; a run that has to be compiled ends the list."""
    runs = runs_of(long_sweep(tmp_path, steps=4))
    one_run._compiled.clear()
    alone = [done(run) for run in runs]
    one_run._compiled.clear()
    first, *rest = (run.task(with_path=True) for run in runs)
    assert [row["key"] for row in several(first, *rest)] == [runs[0].key]
    found = several(*rest)
    same_program = [run for run in runs[1:] if mapping(run) == mapping(runs[0])]
    assert len(found) == 3 == len(same_program)
    assert [plain(row) for row in found] == [plain(row) for row in alone[1:4]]


def mapping(run: SweepRun) -> tuple[str, str]:
    return run.model.sha256, run.configuration.names["generation"]


def several(*tasks: str) -> list[dict]:
    return json.loads(run_json(f"[{','.join(tasks)}]"))


def test_a_run_that_fails_is_told_alone(tmp_path: Path) -> None:
    (tmp_path / "bad.tflite").write_bytes(b"no model")
    runs = runs_of(spec_file(tmp_path, 'models = ["bad.tflite"]\ngenerations = ["2.2", "4.0"]'))
    (row,) = several(*(run.task(with_path=True) for run in runs))
    assert (row["key"], row["status"]) == (runs[0].key, "failed")
