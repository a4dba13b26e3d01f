"""A sweep while it runs: a bar for people, a line now and then for logs."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from npuscope.advice.sweep.drive import Tally, Watch
from npuscope.report.figures import shorten
from npuscope.text import safe_terminal

log = logging.getLogger(__name__)
# Often enough to see that a sweep is alive, rare enough for the log of a build server.
_LINE_EVERY_S = 5.0


@contextmanager
def watching(quiet: bool) -> Iterator[Watch]:
    """A bar for people; for logs a line now and then, if asked."""
    if quiet:
        yield lambda tally: None
    elif sys.stderr.isatty():
        with _bar() as watch:
            yield watch
    else:
        yield _lines()


@contextmanager
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
            finished = tally.total - tally.left
            text = "%d of %d runs, %d failed, %s%s"
            log.info(text, finished, tally.total, tally.failed, _best(tally), _latest(tally))

    return watch
