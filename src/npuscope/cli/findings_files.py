"""`--sarif` and `--junit`: findings as files for other programs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from npuscope.cli.output import dump, write_file

if TYPE_CHECKING:
    from npuscope.rules.finding import Finding


def add_findings_files(parser: argparse.ArgumentParser) -> None:
    """Findings for code hosts and build servers."""
    group = parser.add_argument_group("files")
    group.add_argument("--sarif", metavar="FILE", help="the findings as SARIF 2.1.0, to FILE")
    group.add_argument("--junit", metavar="FILE", help="rules and findings as JUnit XML, to FILE")


def write_findings(
    args: argparse.Namespace, findings: tuple[Finding, ...], generation: str
) -> None:
    """Before anything is printed, so that the answer is only said when the files are there."""
    from npuscope.report.checked import Checked
    from npuscope.report.junit import junit_xml
    from npuscope.report.sarif import sarif_json

    checked = Checked(args.verb, args.source, generation, findings)
    if args.sarif is not None:
        write_file(args.sarif, dump(sarif_json(checked)))
    if args.junit is not None:
        write_file(args.junit, junit_xml(checked))
