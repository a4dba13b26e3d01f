"""Runs that nobody has begun, handed out so that a worker stays with its model."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from npuscope.advice.sweep.one_run import failed_row
from npuscope.advice.sweep.runs import Run, versions
from npuscope.errors import InternalError, TargetError, UsageError

# A run that took two workers with it is not given to a third.
MOST_DEATHS = 2


class Waiting:
    """A queue for each model. Workers keep a network they have read, so they are asked first."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._queues: dict[str, deque[Run]] = {}
        self._deaths: dict[str, int] = {}
        for run in runs:
            self._queues.setdefault(run.model.sha256, deque()).append(run)

    def __bool__(self) -> bool:
        return bool(self._queues)

    def take(self, last: str, busy_with: set[str]) -> Run:
        """For a worker whose last model was `last`, while others are busy with theirs."""
        model = last if last in self._queues else self._free_model(busy_with)
        queue = self._queues[model]
        run = queue.popleft()
        if not queue:
            del self._queues[model]
        return run

    def _free_model(self, busy_with: set[str]) -> str:
        """One that no other worker reads; else the one with most runs left."""
        free = next((model for model in self._queues if model not in busy_with), None)
        return free or max(self._queues, key=lambda model: len(self._queues[model]))

    def put_back(self, run: Run) -> bool:
        """After its worker died. False if it did so once too often."""
        deaths = self._deaths[run.key] = self._deaths.get(run.key, 0) + 1
        if deaths < MOST_DEATHS:
            self.restore(run)
        return deaths < MOST_DEATHS

    def restore(self, run: Run) -> None:
        """Before all others of its model: it was begun, and its worker is not to blame."""
        self._queues.setdefault(run.model.sha256, deque()).appendleft(run)


# What workers say, and what is said of those that say nothing any more.

Row = dict[str, Any]
Keep = Callable[[Row], None]


def answer_of(text: str | bytes, worker: str) -> Row:
    """A worker's answer; one with other versions ends the sweep."""
    found: Row = json.loads(text)
    if "refused" in found:
        raise UsageError(
            f"this worker has {_spelled(found['refused'])}, the sweep {_spelled(versions())}",
            where=worker,
            hint="install the same versions everywhere and start the sweep again: it goes on",
        )
    return found


def _spelled(found: dict[str, str]) -> str:
    return " and ".join(f"{name} {version}" for name, version in found.items())


def overdue_row(run: Run, timeout_s: float) -> Row:
    error = TargetError(
        f"not done after {timeout_s:g} s", where=run.model.label, hint="allow more with --timeout"
    )
    return failed_row(run.head(), error, timeout_s)


def deadly_row(run: Run, how: str) -> Row:
    error = InternalError(
        f"{MOST_DEATHS} workers ended during this run: {how}",
        where=run.model.label,
        hint="there may be too little memory: use fewer workers",
    )
    return failed_row(run.head(), error)
