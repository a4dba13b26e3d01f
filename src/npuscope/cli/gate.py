"""`npuscope gate SOURCE --max KEY=VALUE`: limits with an exit code, for build servers."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.cli.options import add_options, api_options
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.errors import UsageError
from npuscope.whole_file import appear

if TYPE_CHECKING:
    from npuscope.advice.gate import Gate

_FAILED = 1
_GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "gate")


def run(args: argparse.Namespace) -> int:
    for source in (args.source, args.baseline):
        refuse_overwrite(args, source.removeprefix("log:") if source else None)
    if not (args.max or args.min or args.baseline):
        raise UsageError(
            "nothing to check", hint="give --max KEY=VALUE, --min KEY=VALUE or --baseline FILE"
        )
    from npuscope import api
    from npuscope.advice.gate import Gate
    from npuscope.report.gate import gate_json, gate_text

    with working(args, "checking"):
        found = api.gate(
            args.source,
            most=_table(args.max, "--max"),
            least=_table(args.min, "--min"),
            baseline=args.baseline,
            tolerance=args.tol,
            sarif=args.sarif,
            junit=args.junit,
            html=args.html,
            **api_options(args),
        )
    if not isinstance(found, Gate):
        from npuscope.report.core_runs import gate_lines, gate_result

        deliver(args, "\n".join(gate_lines(found)), gate_result(found))
        return 0 if found.passed else _FAILED
    appear()  # first what can be refused: a summary that has grown stays so
    _write_summaries(args, found)
    deliver(args, gate_text(found), gate_json(found))
    # With JSON on stdout nothing else may be printed there.
    if args.github and args.json != "-":
        _annotate(found)
    return 0 if found.passed else _FAILED


def _table(texts: list[str], where: str) -> dict[str, float | str]:
    """What --max or --min was given: KEY=VALUE each."""
    found: dict[str, float | str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip() or not value.strip():
            raise UsageError(f"expected KEY=VALUE, found '{text}'", where=where)
        if key.strip() in found:
            raise UsageError(f"{key.strip()} is given twice", where=where)
        found[key.strip()] = value.strip()
    return found


def _write_summaries(args: argparse.Namespace, found: Gate) -> None:
    from npuscope.api_runs import append
    from npuscope.report.gate import gate_markdown

    of_job = os.environ.get(_GITHUB_SUMMARY) if args.github else None
    # Both options may name one file; it gets the table once.
    for path in dict.fromkeys(path for path in (args.summary, of_job) if path):
        append(Path(path), gate_markdown(found))


def _annotate(found: Gate) -> None:
    from npuscope.report.gate import error_commands

    for line in error_commands(found):
        print(line)
