"""`npuscope sweep report STORE`: what a store holds, as text, page and tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npuscope.cli.output import deliver, refuse_overwrite, working, write_file
from npuscope.errors import FileError
from npuscope.whole_file import write_whole


def run(args: argparse.Namespace, store: str) -> int:
    refuse_overwrite(args, store)
    check_files(args)
    from npuscope.advice.sweep.journal import read_rows
    from npuscope.advice.sweep.summary import summarise
    from npuscope.report.sweep_table import report_json
    from npuscope.report.sweep_text import report_text

    with working(args, "reading the store"):
        rows = read_rows(Path(store))
        if not rows:
            raise FileError("this store holds no runs yet", where=store)
        summary = summarise(rows)
        write_reports(args, rows, Path(store))
    deliver(args, report_text(summary, store), report_json(summary, Path(store)))
    return 0


def check_files(args: argparse.Namespace) -> None:
    """What a file needs is looked for before hours of runs, not after them."""
    if args.parquet:
        from npuscope.report.sweep_table import need_pyarrow

        need_pyarrow()


def write_reports(args: argparse.Namespace, rows: Sequence[dict[str, Any]], store: Path) -> None:
    """The files that were asked for."""
    if args.html:
        from npuscope.advice.sweep.summary import summarise
        from npuscope.report.html.sweep import sweep_page

        write_file(args.html, sweep_page(summarise(rows), store.name))
    if args.csv:
        from npuscope.report.sweep_table import sweep_csv

        write_file(args.csv, sweep_csv(rows))
    if args.parquet:
        from npuscope.report.sweep_table import sweep_parquet

        write_whole(args.parquet, sweep_parquet(rows))
