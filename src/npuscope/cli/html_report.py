"""`--html FILE` on the verbs that show a profile."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from npuscope.cli.output import write_file

if TYPE_CHECKING:
    from npuscope.advice.explain import Explanation
    from npuscope.profile.measure import Measurement

HTML_HELP = "write a report for a browser: one file that loads nothing"


def write_explained(args: argparse.Namespace, found: Explanation) -> None:
    if not args.html:
        return
    from npuscope.report.html.data import profile_page

    page = profile_page(found.profile, found.findings, found.build, found.verdict)
    write_file(args.html, page)


def write_measured(args: argparse.Namespace, measured: Measurement) -> None:
    """A device's counters; with the build that ran also its memory, roofs and findings."""
    if not args.html:
        return
    from npuscope.advice.explain import explain
    from npuscope.api import Build
    from npuscope.report.html.data import profile_page

    subject = measured.subject
    if measured.program is None or subject.machine is None:
        write_file(args.html, profile_page(measured.profile))
        return
    made = Build(subject.graph, subject.machine, measured.program)
    write_explained(args, explain(made, measured.profile))
