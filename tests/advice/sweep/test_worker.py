"""A worker process: answers on a line of their own, and an end when nobody listens."""

from __future__ import annotations

import json
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

from advice.sweep.processes import PATIENCE_S
from advice.sweep.samples import runs_of, small_sweep
from npuscope import child
from processes import started

# The worker with another function for its runs.
PLAYED = """
import sys
from npuscope.advice.sweep import one_run, worker
def played(task):
    if task.strip() == "busy":
        print("busy", file=sys.stderr, flush=True)
        while True:
            pass
    print("stray", flush=True)
    return "answer"
one_run.run_json = played
worker.main()
"""


def worker_of(*command: str) -> AbstractContextManager[subprocess.Popen[str]]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    words = [*child.command(), *command]
    return started(words, env=child.environment(), text=True, **pipes)


def test_it_ends_with_its_input_in_the_middle_of_a_run() -> None:
    with worker_of("-c", PLAYED) as worker:
        assert worker.stdin and worker.stderr
        worker.stdin.write("busy\n")
        worker.stdin.flush()
        assert worker.stderr.readline() == "busy\n"
        worker.stdin.close()
        assert worker.wait(PATIENCE_S) == 0


def test_what_somebody_prints_is_no_answer() -> None:
    with worker_of("-c", PLAYED) as worker:
        assert worker.stdin and worker.stdout and worker.stderr
        worker.stdin.write("task\n")
        worker.stdin.flush()
        assert worker.stdout.readline() == "answer\n"
        assert worker.stderr.readline() == "stray\n"
        worker.stdin.close()
        assert worker.wait(PATIENCE_S) == 0


def test_a_real_run(tmp_path: Path) -> None:
    runs = runs_of(small_sweep(tmp_path))
    with worker_of("-m", "npuscope.advice.sweep.worker") as worker:
        assert worker.stdin and worker.stdout
        for run in runs:
            worker.stdin.write(run.task(with_path=True) + "\n")
            worker.stdin.flush()
            row = json.loads(worker.stdout.readline())
            assert (row["key"], row["status"]) == (run.key, "ok")
        worker.stdin.close()
        assert worker.wait(PATIENCE_S) == 0
