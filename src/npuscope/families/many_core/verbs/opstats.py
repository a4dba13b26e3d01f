"""`npuscope opstats`: stats buffers to summaries and traces."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.errors import FileError, UsageError
from npuscope.options.kinds import Option, OptionGroup, OptionKind, Verb, file, flag, option, text
from npuscope.options.rows import FORCE, HTML, JSON, QUIET, VERBOSE
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.families.many_core.report.opstats_work import Outcome


def _boolean(name: str, means: str) -> Option:
    return option(name, OptionKind.BOOLEAN, means, default=True, value="true|false")


# One option per row is easier to read than the formatter's layout.
# fmt: off
_SOURCE = OptionGroup("", (
    file("qpc", "the programqpc.bin that was run", flags=("-q", "--qpc")),
    file("input_dir", "folder with the stats buffers", "DIR", flags=("-i", "--input-dir"),
        required=True),
    file(
        "output_dir", "folder for the results (.)", "DIR", default=".", flags=("-o", "--output-dir")
    ),
    replace(QUIET, flags=()),
    VERBOSE,
    FORCE,
))
_RESULTS = OptionGroup("results, at least one", (
    flag("summary", "tables as text"),
    flag("trace", "timeline as Chrome trace JSON"),
    flag("perfetto", "timeline in Perfetto's format"),
    HTML,
    replace(JSON, means="print the tables as JSON and nothing else, or write them to FILE"),
))
_TRACE = OptionGroup("trace", (
    file("host_trace", "what the host did (JSON), shown next to the devices"),
    text("select_cores", "cores to show, such as 0,5,1 (all)", "LIST", flags=("-c",
        "--select-cores")),
    text("select_devices", "devices to show, such as 0,1 (all)", "LIST", flags=("-d",
        "--select-devices")),
    _boolean("merge_mq_traces", "put all devices of an inference in one file (true)"),
    _boolean("merge_thread_groups", "one row per thread group instead of per thread (true)"),
    text(
        "flow_events",
        "arrows for dependencies between ops (none)",
        "",
        default="none",
        choices=("none", "full"),
    ),
    flag("show_barrier_events", "barriers on separate rows"),
))
_FOREIGN = OptionGroup("sources", (
    flag("ignore_uuid", "decode buffers of another program anyway"),
    text("adapter", "read files of another source: qaic-text, qaic-trace, qaic-desc, onnxruntime, "
        "etdump (detected where there is no stats buffer)"),
    file("raw_layout", "your own description of foreign raw buffers"),
    file("descriptors", "protobuf descriptor set for foreign containers"),
))
VERB = Verb(
    "stats buffers of a many-core accelerator as summaries and traces",
    (),
    (_SOURCE, _RESULTS, _TRACE, _FOREIGN),
    run="asked_tables",
    text="npuscope.families.many_core.report.opstats_work:outcome_text",
    json="npuscope.families.many_core.report.opstats_work:outcome_json",
    code="damaged_code",
    after="tell_damaged",
    reads=("input_dir", "qpc"),
)
# fmt: on


@checked(VERB)
def opstats(
    input_dir: str | Path,
    *,
    qpc: str | Path | None = None,
    output_dir: str | Path = ".",
    summary: bool = False,
    trace: bool = False,
    perfetto: bool = False,
    html: str | Path | None = None,
    host_trace: str | Path | None = None,
    select_cores: str | Iterable[int] | None = None,
    select_devices: str | Iterable[int] | None = None,
    merge_mq_traces: bool = True,
    merge_thread_groups: bool = True,
    flow_events: str = "none",
    show_barrier_events: bool = False,
    ignore_uuid: bool = False,
    adapter: str | None = None,
    raw_layout: str | Path | None = None,
    descriptors: str | Path | None = None,
) -> Outcome:
    """Stats buffers of a many-core accelerator as tables, and on request as files.

    In: the folder with the buffers, and the `qpc` that was run. Out: tables by buffer, the files
    that were written to `output_dir`, notes.

    >>> npuscope.opstats("stats", qpc="programqpc.bin", summary=True).tables
    """
    from npuscope.families.many_core.report.opstats_work import OpstatsRequest, work

    folder = Path(input_dir)
    if not folder.exists():
        raise FileError("does not exist", where=f"--input-dir {safe_terminal(str(input_dir))}")
    endings = {"trace.json": trace, "perfetto-trace": perfetto}
    outcome = work(
        OpstatsRequest(
            qpc=_path(qpc),
            source=folder,
            target=Path(output_dir),
            summary=summary,
            traces=tuple(ending for ending, is_wanted in endings.items() if is_wanted),
            host_trace=None if host_trace is None else str(host_trace),
            cores=_numbers(select_cores, "--select-cores"),
            devices=_numbers(select_devices, "--select-devices"),
            merge_devices=merge_mq_traces,
            merge_thread_groups=merge_thread_groups,
            flows=flow_events == "full",
            barriers=show_barrier_events,
            ignore_uuid=ignore_uuid,
            adapter=adapter,
            raw_layout=_path(raw_layout),
            descriptors=_path(descriptors),
        )
    )
    if html:
        _write_page(html, outcome)
    return outcome


def _write_page(path: str | Path, outcome: Outcome) -> None:
    from npuscope.families.many_core.report.opstats import opstats_text
    from npuscope.families.many_core.report.opstats_page import opstats_page
    from npuscope.whole_file import write_whole

    answer = opstats_text(outcome.tables, outcome.written, outcome.notes).partition("\n")[0]
    page = opstats_page(outcome.tables, answer, outcome.notes)
    write_whole(path, page.encode("utf-8", "backslashreplace"))


def _path(name: str | Path | None) -> Path | None:
    return Path(name) if name else None


def _numbers(text: str | Iterable[int] | None, option: str) -> frozenset[int] | None:
    if text is None or not isinstance(text, str):
        return None if text is None else frozenset(text)
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and word.isascii() and len(word) < 10 for word in words):
        raise UsageError(
            f"expected numbers with commas between, such as 0,1,5, found '{safe_terminal(text)}'",
            where=option,
        )
    return frozenset(int(word) for word in words)


def asked_tables(
    input_dir: str,
    *,
    summary: bool,
    trace: bool,
    perfetto: bool,
    html: str | None = None,
    json: str | None = None,
    **options: Any,
) -> Outcome:
    if not (summary or trace or perfetto or json or html):
        raise UsageError(
            "nothing to make",
            hint="ask for --summary, --trace, --perfetto, --html or --json; any of them together",
        )
    return opstats(input_dir, summary=summary, trace=trace, perfetto=perfetto, html=html, **options)


def tell_damaged(outcome: Outcome) -> None:
    for line in outcome.damaged:
        print(f"npuscope: {line}", file=sys.stderr)


def damaged_code(outcome: Outcome) -> int:
    return FileError.exit_code if outcome.damaged else 0
