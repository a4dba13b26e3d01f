"""A sweep from its file to its store, top to bottom."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from npuscope.advice.sweep.journal import Journal, opened
from npuscope.advice.sweep.one_run import failed_row
from npuscope.advice.sweep.options import SweepOptions, check
from npuscope.advice.sweep.pool import Keep, Row, cores, run_here
from npuscope.advice.sweep.runs import SweepRun, expand
from npuscope.advice.sweep.spec import read_spec
from npuscope.errors import UsageError
from npuscope.shown import Rows, ShownRecord, counted

# A product of lists grows fast: beyond this the user has to confirm the number.
MANY_RUNS = 10_000


class Tally(Struct, frozen=True):
    """Progress of a sweep."""

    total: int
    done: int
    failed: int
    latest: Row | None = None
    best: Row | None = None  # the fastest so far

    @property
    def left(self) -> int:
        return self.total - self.done - self.failed


class Sweep(ShownRecord, frozen=True):
    """The result of a sweep; `rows` are those of its runs."""

    store: Path
    runs: int
    done: int
    failed: int
    new: int  # runs done this time
    same: int  # combinations that are equal to another run
    seconds: float
    rows: tuple[Row, ...]

    def told(self) -> str:
        return (
            f"{counted(self.runs, 'run')}, {self.done} done, {self.failed} failed, in {self.store}"
        )

    def table(self) -> Rows:
        """One row per run."""
        return [dict(row) for row in self.rows]


Watch = Callable[[Tally], None]


def sweep(
    spec_file: str | Path,
    store: str | Path | None = None,
    options: SweepOptions | None = None,
    watch: Watch = lambda tally: None,
) -> Sweep:
    """Do the runs of a sweep file that its store does not hold yet."""
    options = options or SweepOptions()
    check(options)
    started = time.monotonic()
    spec = read_spec(spec_file)
    if spec.size > MANY_RUNS and not options.yes:
        raise UsageError(
            f"this sweep has {spec.size:,} runs, more than {MANY_RUNS:,}",
            where=str(spec.file),
            hint="add --yes to run them all",
        )
    runs = expand(spec)
    path = Path(store) if store is not None else default_store(spec.file)
    rows, new = run_all(runs, path, options, watch)
    finished = sum(row["status"] == "ok" for row in rows)
    return Sweep(
        store=path,
        runs=len(runs),
        done=finished,
        failed=len(runs) - finished,
        new=new,
        same=spec.size - len(runs),
        seconds=time.monotonic() - started,
        rows=rows,
    )


def run_all(
    runs: Sequence[SweepRun], store: Path, options: SweepOptions, watch: Watch
) -> tuple[tuple[Row, ...], int]:
    """Rows of these runs, in order, and how many were done now: the others were in the store."""
    with opened(store) as journal:
        waiting = [
            run
            for run in runs
            if (row := journal.rows.get(run.key)) is None
            or (options.retry_failed and row["status"] != "ok")
        ]
        keep = _keeper(journal, runs, watch)
        for run in waiting:  # models that cannot be read need no worker
            if run.model.error is not None:
                keep(failed_row(run.head(), run.model.error))
        rest = [run for run in waiting if run.model.error is None]
        if rest and options.on_cluster:
            from npuscope.advice.sweep.cluster import run_on_cluster

            run_on_cluster(rest, options, keep)
        elif rest:
            run_here(rest, options.jobs or cores(), options.timeout_s, keep)
        return tuple(journal.rows[run.key] for run in runs), len(waiting)


def default_store(spec_file: Path) -> Path:
    """Beside the sweep file, wherever it is started from."""
    return spec_file.with_suffix(".jsonl")


def _keeper(journal: Journal, runs: Sequence[SweepRun], watch: Watch) -> Keep:
    """What is done with every row: first the disk, then the progress report."""
    states = {run.key: journal.rows[run.key]["status"] for run in runs if run.key in journal.rows}
    counts = Counter(states.values())
    finished = [row for key in states if (row := journal.rows[key])["status"] == "ok"]
    best = min(finished, key=_time, default=None)

    def tell(latest: Row | None) -> None:
        nonlocal best
        if latest is not None and latest["status"] == "ok":
            best = latest if best is None else min(best, latest, key=_time)
        watch(Tally(len(runs), counts["ok"], counts["failed"], latest, best))

    def keep(row: Row) -> None:
        journal.append(row)
        counts[states.get(row["key"], "")] -= 1
        states[row["key"]] = row["status"]
        counts[row["status"]] += 1
        tell(row)

    tell(None)
    return keep


def _time(row: Row) -> float:
    return float(row["total_ms"])
