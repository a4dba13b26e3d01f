"""`--html FILE` on the verbs that show a profile."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from npuscope.cli.output import write_file

if TYPE_CHECKING:
    from npuscope.advice.explain import Explanation
    from npuscope.api import Options
    from npuscope.profile.measure import Measurement

HTML_HELP = "write a report for a browser: one file that loads nothing"


def write_explained(
    args: argparse.Namespace, found: Explanation, source: str, options: Options
) -> None:
    """An Explanation does not carry its program, so that it is compiled once more."""
    if not args.html:
        return
    from npuscope import api
    from npuscope.report.html.data import profile_page

    made = api.build(source, options)
    write_file(args.html, profile_page(found.profile, found.findings, made, found.verdict))


def write_measured(
    args: argparse.Namespace, measured: Measurement, source: str | None, options: Options
) -> None:
    """A device's counters; with the build that ran also its memory, roofs and findings."""
    if not args.html:
        return
    from npuscope.report.html.data import profile_page

    if source is None or measured.program is None:
        write_file(args.html, profile_page(measured.profile))
        return
    from npuscope import api
    from npuscope.advice.explain import explain

    made = replace(api.build(source, options), program=measured.program)
    found = explain(made, measured.profile)
    write_file(args.html, profile_page(found.profile, found.findings, made, found.verdict))
