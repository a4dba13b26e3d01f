"""What `npuscope demo` prints, and the files that it leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.advice.explanation import Explanation
from npuscope.families.registry import family_of
from npuscope.program.model import Program, save
from npuscope.report.estimate import estimate_text
from npuscope.report.findings import explain_text
from npuscope.report.html.data import profile_page
from npuscope.report.json_report import profile_json
from npuscope.report.profile import profile_text
from npuscope.report.profile_trace import trace_of_profile
from npuscope.report.trace.perfetto import write_perfetto
from npuscope.whole_file import fresh, write_whole

_NAMES = "report.txt, report.json, report.html, report.perfetto-trace and program/"


class Demo(Struct, frozen=True):
    """The run with its findings, and notes on files that were kept."""

    explanation: Explanation
    kept: tuple[str, ...]


def demo_text(demo: Demo, *, directory: str) -> str:
    explanation = demo.explanation
    where = f"{_NAMES} are in {directory}"
    return "\n".join(
        (estimate_text(explanation.profile), explain_text(explanation), where, *demo.kept)
    )


def demo_json(demo: Demo) -> dict[str, Any]:
    return profile_json(demo.explanation.profile, demo.explanation.findings)


def write_demo(folder: Path, program: Program | None, explanation: Explanation) -> None:
    """The program of another family is None, and written by it."""
    if program is not None:
        save(program, folder / "program")
    family = family_of(explanation.profile.machine.name)
    full = family.house_machines or family.can("part_lines")
    text = f"{profile_text(explanation.profile, full=full)}\n{explain_text(explanation)}"
    write_whole(folder / "report.txt", text.encode("utf-8", "backslashreplace"))
    result = profile_json(explanation.profile, explanation.findings)
    dumped = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(folder / "report.json", dumped.encode("utf-8", "backslashreplace"))
    page = profile_page(explanation.profile, explanation)
    write_whole(folder / "report.html", page.encode("utf-8", "backslashreplace"))
    with fresh(folder / "report.perfetto-trace") as file:
        write_perfetto(trace_of_profile(explanation.profile, program), file)
