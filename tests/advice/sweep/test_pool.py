"""Worker processes: a dead or late one costs one run, and workers end with their sweep."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advice.sweep.processes import (
    PATIENCE_S,
    Drivers,
    children,
    has_lines,
    is_gone,
    needs_proc,
    wait_for,
)
from advice.sweep.samples import lines_of, long_sweep, plain, runs_of, small_sweep, spec_file
from npuscope.advice.sweep import pool
from npuscope.advice.sweep.drive import sweep
from npuscope.advice.sweep.options import SweepOptions
from npuscope.advice.sweep.pool import run_here
from npuscope.errors import UsageError

# A worker without a compiler. What it does is in the name of the model.
FAKE = """
import json, os, sys, time
for line in sys.stdin:
    head = json.loads(line)["head"]
    with open(os.environ["SEEN"], "a") as seen:
        print(head["model"], file=seen)
    name, times = head["model"], open(os.environ["SEEN"]).read().split().count(head["model"])
    if name.startswith("deadly") or (name.startswith("once") and times == 1):
        os.kill(os.getpid(), 9)
    if name.startswith("leaves"):
        os._exit(3)
    if name.startswith("slow"):
        time.sleep(60)
    if name.startswith("old"):
        print(json.dumps({"refused": {"npuscope": "0.0.1", "python": "3.9"}}), flush=True)
        continue
    print(json.dumps(head | {"status": "ok", "long": "x" * 200_000}), flush=True)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Run models of these names through stand-ins for workers."""
    script = tmp_path / "worker.py"
    script.write_text(FAKE)
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))

    def start(name: str, variables: dict[str, str], **pipes: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-S", str(script)], **pipes)

    monkeypatch.setattr(pool.child, "start_module", start)

    def run(*names: str, jobs: int = 2, timeout_s: float | None = None) -> list[dict[str, Any]]:
        for name in names:
            (tmp_path / name).write_text(name)
        runs = runs_of(spec_file(tmp_path, f"models = {json.dumps(list(names))}"))
        rows: list[dict[str, Any]] = []
        run_here(runs, jobs, timeout_s, rows.append)
        return rows

    return run


def seen(folder: Path) -> Counter[str]:
    return Counter((folder / "seen").read_text().split())


def by_model(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {row["model"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def test_a_worker_that_dies_costs_one_run(fake: Any, tmp_path: Path) -> None:
    names = ["a", "b", "once1", "c", "once2", "d"]
    rows = by_model(fake(*names))
    assert sorted(rows) == sorted(names)
    assert all(row["status"] == "ok" for row in rows.values())
    assert seen(tmp_path) == Counter(names) + Counter(["once1", "once2"])


def test_a_deadly_run_is_a_row_and_not_the_end(fake: Any, tmp_path: Path) -> None:
    rows = by_model(fake("a", "deadly", "leaves", "b"))
    assert rows["a"]["status"] == rows["b"]["status"] == "ok"
    assert rows["deadly"]["error"] == {
        "kind": "internal",
        "message": "2 workers ended during this run: killed by SIGKILL",
        "where": "deadly",
        "hint": "there may be too little memory: use fewer workers",
    }
    assert rows["leaves"]["error"]["message"].endswith("during this run: exit code 3")
    assert seen(tmp_path)["deadly"] == seen(tmp_path)["leaves"] == 2


def test_a_slow_run_is_a_row(fake: Any, tmp_path: Path) -> None:
    rows = by_model(fake("a", "slow1", "b", "slow2", "c", timeout_s=5.0))
    assert [rows[name]["status"] for name in "abc"] == ["ok"] * 3
    for name in ("slow1", "slow2"):
        assert rows[name]["error"] == {
            "kind": "target",
            "message": "not finished after 5 s",
            "where": name,
            "hint": "allow more with --timeout",
        }
        assert seen(tmp_path)[name] == 1


def test_a_worker_of_another_version_ends_the_sweep(fake: Any) -> None:
    with pytest.raises(UsageError, match=r"has npuscope 0\.0\.1 and python 3\.9, the sweep"):
        fake("old", "a")


def test_an_error_while_keeping_ends_the_workers(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def start(*given: Any, **more: Any) -> subprocess.Popen[bytes]:
        started.append(real(*given, **more))
        return started[-1]

    monkeypatch.setattr(pool.subprocess, "Popen", start)
    monkeypatch.setattr(pool, "answer_of", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        fake("a", "slow", jobs=2)
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)


def test_real_workers_do_a_sweep_and_resume_it(tmp_path: Path) -> None:
    spec = small_sweep(tmp_path)
    (tmp_path / "bad.tflite").write_bytes(b"no model")
    first = sweep(spec, options=SweepOptions(jobs=2))
    assert (first.runs, first.done, first.failed, first.new) == (6, 4, 2, 6)
    assert first.store == tmp_path / "sweep.jsonl"
    assert len(lines_of(first.store)) == 6
    again = sweep(spec, options=SweepOptions(jobs=2))
    assert (again.runs, again.done, again.failed, again.new) == (6, 4, 2, 0)
    assert again.rows == first.rows
    retried = sweep(spec, options=SweepOptions(jobs=1, retry_failed=True))
    assert (retried.done, retried.failed, retried.new) == (4, 2, 2)
    assert len(lines_of(first.store)) == 8
    assert sorted(map(str, map(plain, retried.rows))) == sorted(map(str, map(plain, first.rows)))


# What follows kills real processes.


@needs_proc
def test_killing_workers_loses_and_repeats_nothing(tmp_path: Path, drivers: Drivers) -> None:
    spec = long_sweep(tmp_path)
    store = tmp_path / "sweep.jsonl"
    # A fast computer writes many lines between two looks at the store: the next victim may have the
    # run of the one killed before, which is not what makes a run deadly here.
    driver = drivers.start(spec, "--jobs", "2", most_deaths=9)
    for lines in (30, 90, 150):
        wait_for(lambda lines=lines: has_lines(store, lines))
        victims = sorted(children(driver.pid))
        if victims:
            os.kill(victims[0], signal.SIGKILL)
    assert driver.wait(PATIENCE_S) == 0
    rows = lines_of(store)
    assert len(rows) == len({row["key"] for row in rows}) == 240
    assert {row["status"] for row in rows} == {"ok"}


@needs_proc
def test_killing_the_driver_ends_its_workers_and_loses_nothing(
    tmp_path: Path, drivers: Drivers
) -> None:
    spec = long_sweep(tmp_path)
    store = tmp_path / "sweep.jsonl"
    for lines in (30, 120):
        driver = drivers.start(spec, "--jobs", "2")
        wait_for(lambda lines=lines: has_lines(store, lines))
        workers = wait_for(lambda driver=driver: children(driver.pid))
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        wait_for(lambda workers=workers: all(map(is_gone, workers)))
    before = store.read_bytes()
    found = sweep(spec, options=SweepOptions(jobs=2))
    assert store.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    assert (found.done, found.failed, found.new) == (240, 0, 240 - before.count(b"\n"))
    rows = lines_of(store)
    assert len(rows) == len({row["key"] for row in rows}) == 240
