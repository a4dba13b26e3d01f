"""`npuscope opstats`: stats buffers to summaries and traces."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.cli.html_report import HTML_HELP
from npuscope.cli.output import deliver, refuse_overwrite, write_file
from npuscope.errors import FileError, UsageError
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.cli.opstats_work import Request

_BOOLEANS = {"true": True, "false": False}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--qpc", metavar="FILE", help="programqpc.bin that was run")
    parser.add_argument(
        "-i", "--input-dir", required=True, metavar="DIR", help="folder with the stats buffers"
    )
    parser.add_argument(
        "-o", "--output-dir", default=".", metavar="DIR", help="folder for the results (.)"
    )
    _add_results(parser.add_argument_group("results, at least one"))
    _add_trace(parser.add_argument_group("trace"))
    _add_sources(parser.add_argument_group("sources"))
    parser.add_argument("--quiet", action="store_true", help="the answer in one line")
    parser.add_argument("-v", "--verbose", action="store_true", help="details and tracebacks")


def _add_results(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--summary", action="store_true", help="tables as text")
    group.add_argument("--trace", action="store_true", help="timeline as Chrome trace JSON")
    group.add_argument("--perfetto", action="store_true", help="timeline in Perfetto's format")
    group.add_argument("--html", metavar="FILE", help=HTML_HELP)
    group.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="tables as JSON and nothing else, or written to FILE",
    )


def _add_trace(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--host-trace", metavar="FILE", help="what the host did (JSON), beside the devices"
    )
    group.add_argument(
        "-c", "--select-cores", metavar="LIST", help="cores to show, such as 0,5,1 (all)"
    )
    group.add_argument(
        "-d", "--select-devices", metavar="LIST", help="devices to show, such as 0,1 (all)"
    )
    group.add_argument(
        "--merge-mq-traces",
        type=_boolean,
        default=True,
        metavar="true|false",
        help="devices of one inference in one file (true)",
    )
    group.add_argument(
        "--merge-thread-groups",
        type=_boolean,
        default=True,
        metavar="true|false",
        help="one row for each thread group, not for each thread (true)",
    )
    group.add_argument(
        "--flow-events",
        choices=("none", "full"),
        default="none",
        help="arrows for dependencies between ops (none)",
    )
    group.add_argument(
        "--show-barrier-events", action="store_true", help="barriers on rows of their own"
    )


def _add_sources(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--ignore-uuid", action="store_true", help="decode buffers of another program all the same"
    )
    group.add_argument(
        "--adapter",
        metavar="NAME",
        help="read files of another source: qaic-text, qaic-trace, qaic-desc, onnxruntime, "
        "etdump (found by itself where there is no stats buffer)",
    )
    group.add_argument(
        "--raw-layout", metavar="FILE", help="your own description of foreign raw buffers"
    )
    group.add_argument(
        "--descriptors", metavar="FILE", help="protobuf descriptor set for foreign containers"
    )


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise argparse.ArgumentTypeError(f"expected true or false, found '{safe_terminal(text)}'")
    return _BOOLEANS[text.lower()]


def run(args: argparse.Namespace) -> int:
    if not (args.summary or args.trace or args.perfetto or args.json or args.html):
        raise UsageError(
            "nothing to make",
            hint="ask for --summary, --trace, --perfetto, --html or --json; any of them together",
        )
    from npuscope.cli.opstats_work import work
    from npuscope.report.opstats_json import opstats_json
    from npuscope.report.opstats_text import opstats_text

    refuse_overwrite(args, args.qpc)
    refuse_overwrite(args, args.input_dir)
    outcome = work(_request(args))
    result = opstats_json(outcome.tables, outcome.files, outcome.inventories)
    result["notes"] = list(outcome.notes)
    text = opstats_text(outcome.tables, outcome.written, outcome.notes)
    if args.html:
        from npuscope.report.html.opstats import opstats_page

        answer = text.partition("\n")[0]
        write_file(args.html, opstats_page(outcome.tables, answer, outcome.notes))
    deliver(args, text, result)
    return 0


def _request(args: argparse.Namespace) -> Request:
    from npuscope.cli.opstats_work import Request

    folder = Path(args.input_dir)
    if not folder.exists():
        raise FileError("does not exist", where=f"--input-dir {safe_terminal(args.input_dir)}")
    endings = {"trace.json": args.trace, "perfetto-trace": args.perfetto}
    return Request(
        qpc=Path(args.qpc) if args.qpc else None,
        source=folder,
        target=Path(args.output_dir),
        summary=args.summary,
        traces=tuple(ending for ending, asked in endings.items() if asked),
        host_trace=args.host_trace,
        cores=_numbers(args.select_cores, "--select-cores"),
        devices=_numbers(args.select_devices, "--select-devices"),
        merge_devices=args.merge_mq_traces,
        merge_thread_groups=args.merge_thread_groups,
        flows=args.flow_events == "full",
        barriers=args.show_barrier_events,
        ignore_uuid=args.ignore_uuid,
        adapter=args.adapter,
        raw_layout=Path(args.raw_layout) if args.raw_layout else None,
        descriptors=Path(args.descriptors) if args.descriptors else None,
    )


def _numbers(text: str | None, option: str) -> frozenset[int] | None:
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and word.isascii() and len(word) < 10 for word in words):
        raise UsageError(
            f"expected numbers with commas between, such as 0,1,5, found '{safe_terminal(text)}'",
            where=option,
        )
    return frozenset(int(word) for word in words)
