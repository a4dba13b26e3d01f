"""`npuscope gate SOURCE --max KEY=VALUE`: limits with an exit code, for build servers."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.cli.compare import RUN_HELP
from npuscope.cli.findings_files import add_findings_files, write_findings
from npuscope.cli.options import add_model, add_output, add_target, api_options
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.errors import OutputError, UsageError

if TYPE_CHECKING:
    from npuscope.advice.gate import Gate

_FAILED = 1
_GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=RUN_HELP)
    for name, word in (("max", "most"), ("min", "least")):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help=f"the {word} that a figure may be: total_ms=20, SW=0, internal_ram_bytes=2MiB",
        )
    parser.add_argument(
        "--baseline", metavar="FILE", help="an earlier result or any source: nothing gets worse"
    )
    parser.add_argument(
        "--tol", default="0", metavar="SHARE", help="how much worse it may get, e.g. 3%%"
    )
    parser.add_argument("--summary", metavar="FILE", help="append a Markdown table to FILE")
    parser.add_argument(
        "--github",
        action="store_true",
        help="errors as annotations on stdout, the table in the summary of the GitHub job",
    )
    add_target(parser)
    add_model(parser)
    add_findings_files(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    for source in (args.source, args.baseline):
        refuse_overwrite(args, source.removeprefix("log:") if source else None)
    if not (args.max or args.min or args.baseline):
        raise UsageError(
            "nothing to check", hint="give --max KEY=VALUE, --min KEY=VALUE or --baseline FILE"
        )
    from npuscope import api
    from npuscope.report.json_gate import gate_json
    from npuscope.report.text_gate import gate_text

    with working(args, "checking"):
        found = api.gate(
            args.source,
            most=_table(args.max, "--max"),
            least=_table(args.min, "--min"),
            baseline=args.baseline,
            tolerance=args.tol,
            with_findings=bool(args.sarif or args.junit),
            **api_options(args),
        )
    write_findings(args, found.findings, found.side.profile.machine.generation)
    _write_summaries(args, found)
    deliver(args, gate_text(found), gate_json(found))
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
    from npuscope.report.markdown_gate import gate_markdown

    of_job = os.environ.get(_GITHUB_SUMMARY) if args.github else None
    for path in dict.fromkeys(path for path in (args.summary, of_job) if path):
        _append(Path(path), gate_markdown(found))


def _append(path: Path, text: str) -> None:
    """Several gates of a job write one summary, so that it grows instead of being replaced."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", where=str(path)) from None


def _annotate(found: Gate) -> None:
    from npuscope.report.markdown_gate import error_commands

    for line in error_commands(found):
        print(line)
