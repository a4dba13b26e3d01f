"""`npuscope sweep SPEC.toml` and `npuscope sweep report STORE`: many runs, and what they say."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.cli.options import add_options
from npuscope.cli.output import deliver, kept_at_interrupt, refuse_overwrite, working
from npuscope.errors import UsageError
from npuscope.report.figures import shorten
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.advice.sweep.drive import Tally, Watch


_FAILED = 1
_REPORT = "report"
# Options that say how runs are done; a report does none.
_OF_RUNS = (
    "output",
    "jobs",
    "scheduler",
    "local_cluster",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "dashboard",
    "timeout",
    "retry_failed",
    "yes",
)


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "sweep")


def run(args: argparse.Namespace) -> int:
    if args.words[0] == _REPORT:
        _check_report(args)
        return report(args, args.words[1])
    if len(args.words) > 1:
        raise UsageError(f"one sweep file at a time, found {len(args.words)}")
    return run_all(args, args.words[0])


def _check_report(args: argparse.Namespace) -> None:
    if len(args.words) != 2:
        raise UsageError(
            f"expected one store, found {len(args.words) - 1}", hint="npuscope sweep report STORE"
        )
    for name in _OF_RUNS:
        if getattr(args, name):
            option = f"--{name.replace('_', '-')}"
            raise UsageError("this option is for runs; a report runs nothing", where=option)


# --- `npuscope sweep SPEC.toml`, with progress ---

log = logging.getLogger(__name__)
# Often enough to see that a sweep is alive, rare enough for the log of a build server.
_LINE_EVERY_S = 5.0


def run_all(args: argparse.Namespace, spec: str) -> int:
    from npuscope import api
    from npuscope.advice.sweep.drive import default_store
    from npuscope.report.sweep import sweep_json, sweep_text

    store = Path(args.output) if args.output else default_store(Path(spec))
    for source in (spec, str(store)):
        refuse_overwrite(args, source)
    # refuse_overwrite compares existing files; the store may be a name that does not exist yet.
    if store.resolve() == Path(spec).resolve():
        raise UsageError("this is the file to read", where=f"-o {args.output or store}")
    with kept_at_interrupt(f"finished runs are in {store}"), _watch(args) as watch:
        found = api.sweep(
            spec,
            store,
            watch=watch,
            jobs=args.jobs,
            timeout=args.timeout,
            retry_failed=args.retry_failed,
            yes=args.yes,
            scheduler=args.scheduler,
            local_cluster=args.local_cluster,
            tls_ca=args.tls_ca,
            tls_cert=args.tls_cert,
            tls_key=args.tls_key,
            dashboard=args.dashboard,
            html=args.html,
            csv=args.csv,
            parquet=args.parquet,
        )
    deliver(args, sweep_text(found), sweep_json(found.rows, found.store) | {"new": found.new})
    return _FAILED if found.failed else 0


@contextlib.contextmanager
def _watch(args: argparse.Namespace) -> Iterator[Watch]:
    """A bar for people; for logs a line now and then, if asked."""
    if args.quiet:
        yield lambda tally: None
    elif sys.stderr.isatty():
        with _bar() as watch:
            yield watch
    else:
        yield _lines()


@contextlib.contextmanager
def _bar() -> Iterator[Watch]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    text = TextColumn("{task.description}")
    columns = (BarColumn(), MofNCompleteColumn(), Remaining(), text)
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)

        def watch(tally: Tally) -> None:
            # rich reads [brackets] in a name as markup.
            said = escape(f"{tally.failed} failed, {_best(tally)}{_latest(tally)}")
            progress.update(
                task, total=tally.total, completed=tally.total - tally.left, description=said
            )

        yield watch


def _best(tally: Tally) -> str:
    """The fastest run so far; models differ, so its own stands beside it."""
    row = tally.best
    if row is None:
        return ""
    name = shorten(safe_terminal(row["model"].rpartition("/")[2]), 24)
    return f"fastest {row['total_ms']:.3f} ms ({name}), now "


def _latest(tally: Tally) -> str:
    """Short enough to leave room for the bar."""
    label = tally.latest["model"] if tally.latest else ""
    return shorten(safe_terminal(label.rpartition("/")[2]), 36)


def _lines() -> Watch:
    said_at = time.monotonic()

    def watch(tally: Tally) -> None:
        nonlocal said_at
        now = time.monotonic()
        if now - said_at >= _LINE_EVERY_S or not tally.left:
            said_at = now
            done = tally.total - tally.left
            text = "%d of %d runs, %d failed, %s%s"
            log.info(text, done, tally.total, tally.failed, _best(tally), _latest(tally))

    return watch


# --- `npuscope sweep report STORE` ---


def report(args: argparse.Namespace, store: str) -> int:
    refuse_overwrite(args, store)
    from npuscope import api
    from npuscope.report.sweep import report_json, report_text

    with working(args, "reading the store"):
        summary = api.sweep_report(store, html=args.html, csv=args.csv, parquet=args.parquet)
    deliver(args, report_text(summary, store), report_json(summary, Path(store)))
    return 0
