"""`npuscope plan APP.toml`: several networks in one application: memory and frame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.options.kinds import Argument, OptionGroup, Verb, file, result_file
from npuscope.options.rows import HTML, OUTPUT
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.application.plan import Plan

# One option per row is easier to read than the formatter's layout.
# fmt: off
VERB = Verb(
    "several networks in one application: a joint memory map and the frame over time",
    (Argument("source", "APP.toml", "the application file"),),
    (
        OptionGroup("", (
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
    output: str | Path | None = None,
    html: str | Path | None = None,
    trace: str | Path | None = None,
) -> Plan:
    """A joint memory map of an application's networks, and its frame over time.

    In: an application file (TOML). Out: where everything lies, when each step runs, what does
    not fit; files for the compiler and the linker in the folder `output`.

    >>> npuscope.plan("app.toml").frame.fps
    """
    from npuscope.application.plan import make_plan
    from npuscope.application.request import read_application
    from npuscope.report.plan_files import write_plan

    result = make_plan(read_application(source))
    write_plan(result, output, html, trace)
    return result


def plan_code(result: Plan) -> int:
    """1: something does not fit, or comes too late."""
    return 0 if result.fits else 1
