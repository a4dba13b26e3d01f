"""What workers say, and what is said of those that say nothing any more."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from npuscope.advice.sweep.key import versions
from npuscope.advice.sweep.one_run import failed_row
from npuscope.advice.sweep.runs import Run
from npuscope.advice.sweep.waiting import MOST_DEATHS
from npuscope.errors import InternalError, TargetError, UsageError

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
