"""Findings and profiles as files for other programs: whole, or not there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.graph.model import Graph
from npuscope.whole_file import write_whole

if TYPE_CHECKING:
    from npuscope.advice.explanation import Explanation
    from npuscope.profiling.measure import Measurement
    from npuscope.profiling.model import Profile
    from npuscope.program.model import Program
    from npuscope.rulebook.finding import Finding

Name = str | Path | None


def write_findings(
    verb: str,
    source: str | Path | Graph,
    findings: tuple[Finding, ...] | None,
    generation: str,
    *,
    sarif: Name,
    junit: Name,
) -> None:
    """For code hosts and build servers."""
    if sarif is None and junit is None:
        return
    from npuscope.report.findings_files import Checked, junit_xml, sarif_json

    name = source.name if isinstance(source, Graph) else str(source)
    checked = Checked(verb, name, generation, findings or ())
    if sarif is not None:
        text = json.dumps(sarif_json(checked), indent=2, ensure_ascii=False, allow_nan=False)
        _write(sarif, text + "\n")
    if junit is not None:
        _write(junit, junit_xml(checked))


def write_profile(
    profile: Profile,
    program: Program | None = None,
    *,
    csv: Name = None,
    save: Name = None,
    trace: Name = None,
    chrome: Name = None,
) -> None:
    """A table, the record itself, timelines."""
    if csv:
        from npuscope.report.profile_csv import profile_csv_text

        _write(csv, profile_csv_text(profile))
    if save:
        from npuscope.profiling.model import profile_to_json

        write_whole(save, profile_to_json(profile))
    if not (trace or chrome):
        return
    from npuscope.report.profile_trace import trace_of_profile
    from npuscope.report.trace.files import write_trace

    model = trace_of_profile(profile, program)
    for path, ending in ((trace, "perfetto-trace"), (chrome, "trace.json")):
        if path:
            write_trace(Path(path), ending, model)


def write_page(path: Name, profile: Profile) -> None:
    """A profile alone, for a browser."""
    if path:
        from npuscope.report.html.data import profile_page

        _write(path, profile_page(profile))


def write_explained(path: Name, explanation: Explanation) -> None:
    """A profile with its findings, memory and roofs, for a browser."""
    if path:
        from npuscope.report.html.data import profile_page

        _write(path, profile_page(explanation.profile, explanation))


def write_html(path: Name, make: Callable[[], str]) -> None:
    """A page, made only where one is asked for."""
    if path:
        _write(path, make())


def write_measured(path: Name, measured: Measurement) -> None:
    """A device's counters; with the build that ran also its memory, roofs and findings."""
    subject = measured.subject
    if not path:
        return
    if measured.program is None or subject.machine is None:
        write_page(path, measured.profile)
        return
    from npuscope.advice.explain import explain
    from npuscope.building import Build

    build = Build(subject.graph, subject.machine, measured.program)
    write_explained(path, explain(build, measured.profile))


def write_log(path: Name, measured: Measurement) -> None:
    """Every counter of every inference, as a board prints them."""
    if path:
        from npuscope.report.vendor_text import counter_log_text

        _write(path, counter_log_text(measured))


def check_parquet(path: Name) -> None:
    """What a file needs is looked for before hours of runs, not after them."""
    if path:
        from npuscope.report.sweep import need_pyarrow

        need_pyarrow()


def write_sweep(
    rows: Sequence[dict[str, Any]], store: Path, *, html: Name, csv: Name, parquet: Name
) -> None:
    """The files that were asked for."""
    if html:
        from npuscope.advice.sweep.summary import summarise
        from npuscope.report.html.sweep import sweep_page

        _write(html, sweep_page(summarise(rows), store.name))
    if csv:
        from npuscope.report.sweep import sweep_csv

        _write(csv, sweep_csv(rows))
    if parquet:
        from npuscope.report.sweep import sweep_parquet

        write_whole(parquet, sweep_parquet(rows))


def _write(path: str | Path, text: str) -> None:
    """A lone surrogate in a name becomes an escape, which JSON reads as the same again."""
    write_whole(path, text.encode("utf-8", "backslashreplace"))
