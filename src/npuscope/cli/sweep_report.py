"""`npuscope sweep report STORE`: what a store holds, as text, page and tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from npuscope.cli.output import deliver, refuse_overwrite, working


def run(args: argparse.Namespace, store: str) -> int:
    refuse_overwrite(args, store)
    from npuscope import api
    from npuscope.report.sweep import report_json, report_text

    with working(args, "reading the store"):
        summary = api.sweep_report(store, html=args.html, csv=args.csv, parquet=args.parquet)
    deliver(args, report_text(summary, store), report_json(summary, Path(store)))
    return 0
