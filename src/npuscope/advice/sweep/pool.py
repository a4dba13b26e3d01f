"""Worker processes on this computer: one run each at a time, a dead one replaced.

A run is journalled before its worker gets the next: if a process is killed, at most one run
per worker is done again. Runs that a worker only has to time come to it several at a time."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any

import npuscope.child as child
from npuscope.advice.sweep.one_run import failed_row
from npuscope.advice.sweep.runs import SweepRun, versions
from npuscope.errors import InternalError, TargetError, UsageError

# --- Waiting runs, handed out so that a worker stays with its model ---

# A run that took two workers with it is not given to a third.
MOST_DEATHS = 2


class Waiting:
    """A queue for each model: a worker keeps the network that it has read and gets its runs."""

    def __init__(self, runs: Iterable[SweepRun]) -> None:
        self._queues: dict[str, deque[SweepRun]] = {}
        self._deaths: dict[str, int] = {}
        self._alone: set[str] = set()  # runs that were in a worker's hands when it died
        for run in runs:
            self._queues.setdefault(run.model.sha256, deque()).append(run)

    def __bool__(self) -> bool:
        return bool(self._queues)

    def take(self, last: str, busy_with: set[str]) -> SweepRun:
        """For a worker whose last model was `last`, while others are busy with theirs."""
        model = last
        if last not in self._queues:
            # A model that no other worker has; else the one with most runs left.
            free = next((model for model in self._queues if model not in busy_with), None)
            model = free or max(self._queues, key=lambda model: len(self._queues[model]))
        queue = self._queues[model]
        run = queue.popleft()
        if not queue:
            del self._queues[model]
        return run

    def take_more(self, run: SweepRun, most: int, workers: int) -> list[SweepRun]:
        """Runs that follow one and ask the same of the compiler, some left for other workers."""
        queue = self._queues.get(run.model.sha256, deque())
        share = min(most - 1, len(queue) // (2 * workers))
        runs: list[SweepRun] = []
        while len(runs) < share and self._goes_with(run, queue[0]):
            runs.append(queue.popleft())
        return runs

    def _goes_with(self, run: SweepRun, other: SweepRun) -> bool:
        if self._alone & {run.key, other.key}:
            return False
        same_model = run.model.shapes == other.model.shapes
        return same_model and run.configuration.asked == other.configuration.asked

    def put_back(self, run: SweepRun) -> bool:
        """After its worker died. False if it did so once too often."""
        deaths = self._deaths[run.key] = self._deaths.get(run.key, 0) + 1
        if deaths < MOST_DEATHS:
            self.restore(run)
        return deaths < MOST_DEATHS

    def put_back_all(self, runs: Sequence[SweepRun]) -> None:
        """After a worker died with several: which one it was shows when each is alone."""
        self._alone |= {run.key for run in runs}
        for run in reversed(runs):
            self.restore(run)

    def restore(self, run: SweepRun) -> None:
        """Before all others of its model: it had been started already."""
        self._queues.setdefault(run.model.sha256, deque()).appendleft(run)


# --- Answers of workers, and rows for workers that ended without one ---

Row = dict[str, Any]
Keep = Callable[[Row], None]


def answers_of(text: str | bytes, worker: str) -> list[Row]:
    """Rows of one run or of several."""
    return list(json.loads(text)) if text.lstrip()[:1] in (b"[", "[") else [answer_of(text, worker)]


def answer_of(text: str | bytes, worker: str) -> Row:
    """A worker's answer; one with other versions ends the sweep."""
    answer: Row = json.loads(text)
    if "refused" in answer:
        raise UsageError(
            f"this worker has {_spelled(answer['refused'])}, the sweep {_spelled(versions())}",
            where=worker,
            hint="install the same versions everywhere and start the sweep again: it resumes",
        )
    return answer


def _spelled(packages: dict[str, str]) -> str:
    return " and ".join(f"{name} {version}" for name, version in packages.items())


def overdue_row(run: SweepRun, timeout_s: float) -> Row:
    error = TargetError(
        f"not finished after {timeout_s:g} s",
        where=run.model.label,
        hint="allow more with --timeout",
    )
    return failed_row(run.head(), error, timeout_s)


def deadly_row(run: SweepRun, how: str) -> Row:
    error = InternalError(
        f"{MOST_DEATHS} workers ended during this run: {how}",
        where=run.model.label,
        hint="there may be too little memory: use fewer workers",
    )
    return failed_row(run.head(), error)


_MODULE = "npuscope.advice.sweep.worker"
# Workers share the cores; threads inside them would only stand in each other's way.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_ONE_THREAD = dict.fromkeys(_THREADS, "1")
_TICK_S = 0.2  # how late a time limit may be noticed
_MOST_TOGETHER = 64  # runs that are only timed, a few milliseconds of work


def run_here(runs: Sequence[SweepRun], jobs: int, timeout_s: float | None, keep: Keep) -> None:
    """Do all runs in `jobs` processes; `keep` gets the row of each."""
    pool = _Pool(runs, timeout_s, keep)
    try:
        pool.work(jobs)
    finally:
        pool.end()


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Worker:
    """A process, and the runs that it is busy with."""

    def __init__(self, hear: Callable[[_Worker, bytes], None]) -> None:
        self.process = child.start_module(
            _MODULE, variables=_ONE_THREAD, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        output: IO[bytes] = self.process.stdout  # type: ignore[assignment]
        self._listener = child.listen(output, lambda data: hear(self, data))
        self.runs: list[SweepRun] = []
        self.last_model = ""
        self.most = 1  # runs at a time: more as long as all of them are done at once
        self.is_overdue = False
        self._began = 0.0
        self._heard = b""

    def begin(self, runs: list[SweepRun]) -> None:
        self.runs, self.last_model, self._began = runs, runs[0].model.sha256, time.monotonic()
        tasks = [run.task(with_path=True) for run in runs]
        text = tasks[0] if len(tasks) == 1 else f"[{','.join(tasks)}]"
        # One that is dead already is noticed by its closed output.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{text}\n".encode())  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]

    def hear(self, data: bytes) -> bytes | None:
        """A whole answer; empty when the process ended, None when there is more to come."""
        if not data:
            return b""
        self._heard += data
        if not data.endswith(b"\n"):
            return None
        answer, self._heard = self._heard, b""
        return answer

    def end_if_overdue(self, timeout_s: float) -> None:
        if not self.is_overdue and time.monotonic() - self._began > timeout_s:
            self.is_overdue = True
            self.process.kill()

    def close(self) -> str:
        """End the process; how it ended."""
        self.process.kill()
        code = self.process.wait()
        self._listener.join(_TICK_S)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]
        if code >= 0:
            return f"exit code {code}"
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"


class _Pool:
    def __init__(self, runs: Sequence[SweepRun], timeout_s: float | None, keep: Keep) -> None:
        self._waiting = Waiting(runs)
        self._timeout_s = timeout_s
        self._keep = keep
        self._workers: list[_Worker] = []
        self._heard: queue.SimpleQueue[tuple[_Worker, bytes]] = queue.SimpleQueue()

    def work(self, jobs: int) -> None:
        for _ in range(jobs):
            self._hire()
        while self._workers:
            # With a limit also where there is none: Windows heeds no Ctrl-C while it waits.
            with contextlib.suppress(queue.Empty):
                self._hear(*self._heard.get(timeout=_TICK_S))
            if self._timeout_s:
                for worker in self._workers:
                    worker.end_if_overdue(self._timeout_s)

    def end(self) -> None:
        for worker in list(self._workers):
            self._dismiss(worker)

    def _hire(self) -> None:
        """A new worker, if runs are waiting."""
        if not self._waiting:
            return
        worker = _Worker(lambda worker, data: self._heard.put((worker, data)))
        self._workers.append(worker)
        self._give_next(worker)

    def _dismiss(self, worker: _Worker) -> str:
        self._workers.remove(worker)
        return worker.close()

    def _give_next(self, worker: _Worker) -> None:
        worker.runs = []
        if not self._waiting:
            self._dismiss(worker)
            return
        others = {run.model.sha256 for other in self._workers for run in other.runs}
        run = self._waiting.take(worker.last_model, others)
        # A time limit is one of each run; a worker that has not compiled yet gets one run.
        alone = self._timeout_s or run.model.sha256 != worker.last_model
        worker.most = 1 if alone else worker.most
        more = self._waiting.take_more(run, worker.most, len(self._workers))
        worker.begin([run, *more])

    def _hear(self, worker: _Worker, data: bytes) -> None:
        if worker not in self._workers:
            return  # the end of one that was dismissed
        answer = worker.hear(data)
        if answer is None:
            return
        if not answer:
            self._replace(worker)
            return
        rows = answers_of(answer, f"worker {worker.process.pid}")
        for row in rows:
            self._keep(row)
        rest = worker.runs[len(rows) :]
        for run in reversed(rest):
            self._waiting.restore(run)
        worker.most = 1 if rest else min(2 * worker.most, _MOST_TOGETHER)
        self._give_next(worker)

    def _replace(self, worker: _Worker) -> None:
        """Its run is done again, up to a limit; the other workers are not affected."""
        how, runs, others = self._dismiss(worker), worker.runs, len(self._workers)
        self._hire()  # first, so that a run that comes back need not wait for it to start
        if len(runs) > 1:
            self._waiting.put_back_all(runs)
        elif runs and worker.is_overdue:
            self._keep(overdue_row(runs[0], self._timeout_s or 0.0))
        elif runs and not self._waiting.put_back(runs[0]):
            self._keep(deadly_row(runs[0], how))
        if len(self._workers) == others:
            self._hire()
