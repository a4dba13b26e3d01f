"""`npuscope plan APP.toml`: several networks in one application: memory and frame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import UsageError
from npuscope.options.kinds import Argument, OptionGroup, Verb, file, flag, result_file
from npuscope.options.rows import HTML, OUTPUT
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.application.check.model import FolderCheck
    from npuscope.application.plan import Plan

# One option per row is easier to read than the formatter's layout.
# fmt: off
VERB = Verb(
    "several networks in one application: a joint memory map and the frame over time",
    (Argument("source", "APP.toml", "the application file, or with --check its folder"),),
    (
        OptionGroup("", (
            flag("check", "check an existing application folder instead: overlaps, ends of chips, "
                "alignment, cache, weights"),
            file("output", "write pools, profiles, a linker fragment and addresses to a folder",
                "DIR", flags=("-o", "--output")),
            HTML,
            result_file("trace", "write the frames as a trace for ui.perfetto.dev",
                "F.perfetto-trace"),
        )),
        OUTPUT,
    ),
    text="npuscope.report.plan:plan_text",
    json="npuscope.report.plan:plan_json",
    busy="planning",
    code="plan_code",
)
# fmt: on


@checked(VERB)
def plan(
    source: str | Path,
    *,
    check: bool = False,
    output: str | Path | None = None,
    html: str | Path | None = None,
    trace: str | Path | None = None,
) -> Plan | FolderCheck:
    """A joint memory map of an application's networks, and its frame over time.

    In: an application file (TOML). Out: where everything lies, when each step runs, what does
    not fit; files for the compiler and the linker in the folder `output`. With `check` an
    application's folder: what in it overlaps, passes the end of a chip or loses data.

    >>> npuscope.plan("app.toml").told()
    """
    if check:
        from npuscope.application.check.run import check_folder

        for name, value in (("output", output), ("html", html), ("trace", trace)):
            if value is not None:
                raise UsageError("is for a plan, not for a check", where=f"--{name}")
        return check_folder(source)
    from npuscope.application.plan import make_plan
    from npuscope.application.request import read_application
    from npuscope.report.plan_files import write_plan

    result = make_plan(read_application(source))
    write_plan(result, output, html, trace)
    return result


def plan_code(result: Plan | FolderCheck) -> int:
    """1: something does not fit, or comes too late."""
    return 0 if result.fits else 1
