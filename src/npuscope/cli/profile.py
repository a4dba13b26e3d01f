"""`npuscope profile SOURCE`: run on a device, report every epoch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.cli.html_report import HTML_HELP, write_explained, write_measured
from npuscope.cli.options import SOURCE_HELP, add_model, add_output, add_target, api_options
from npuscope.cli.output import deliver, print_text, refuse_overwrite, working, write_file
from npuscope.errors import UsageError

if TYPE_CHECKING:
    from npuscope.profile.model import Profile
    from npuscope.program.model import Program

# A list longer than any program; keeps `--epochs 0-99999999999` from eating memory.
_MOST_EPOCHS = 100_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", nargs="?", help=SOURCE_HELP)
    parser.add_argument(
        "--batch", type=int, metavar="N", help="samples of every counter (default 1; log: all)"
    )
    parser.add_argument(
        "--full", action="store_true", help="every field of every epoch instead of one line"
    )
    parser.add_argument("--epochs", metavar="LIST", help="only these, e.g. 3,7-12")
    parser.add_argument("--csv", metavar="FILE", help="write a table with a row an epoch")
    parser.add_argument("--html", metavar="FILE", help=HTML_HELP)
    parser.add_argument("--trace", metavar="FILE", help="write a timeline for ui.perfetto.dev")
    parser.add_argument("--chrome", metavar="FILE", help="write it as Chrome trace events (JSON)")
    parser.add_argument(
        "--save", metavar="FILE", help="keep the profile, to report or export it later"
    )
    _add_device(parser)
    add_target(parser)
    add_model(parser)
    add_output(parser)


def _add_device(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("device")
    group.add_argument(
        "--connect",
        default="simulated",
        metavar="DESC",
        help="simulated (default), serial[:PORT][:BAUD], socket:HOST:PORT or log:FILE",
    )
    group.add_argument("-n", "--name", default="", help="which network, if the device has several")
    group.add_argument(
        "-c", "--cfile", metavar="FILE", help="the build that runs there: network.c or its folder"
    )
    group.add_argument(
        "--vendor-plan",
        action="store_true",
        help="count in the passes of the vendor's profiler instead of the fewest",
    )
    group.add_argument(
        "--vendor-figures",
        action="store_true",
        help="report in the vendor's layout and with its means",
    )
    group.add_argument(
        "--ec-single-epoch",
        action="store_true",
        help="one blob an epoch: what the epoch controller adds shows up by epoch",
    )
    group.add_argument("--log", metavar="FILE", help="keep every counter, for --connect log:FILE")


def run(args: argparse.Namespace) -> int:
    source = args.source or args.cfile
    refuse_overwrite(args, source)
    refuse_overwrite(args, args.connect.partition("log:")[2] or None)
    _check(args, source)
    epochs = epoch_numbers(args.epochs)
    if source and _is_saved(args, source):
        return _run_saved(args, source, epochs)
    if _by_block(args):
        return _run_device(args, source, epochs)
    from npuscope import api
    from npuscope.report.json_report import profile_json
    from npuscope.report.text_profile import profile_text

    batch = args.batch or 1
    with working(args, "running"):
        if args.json is None and not (args.html or args.trace or args.chrome):
            profile = api.profile(source, batch=batch, **api_options(args))
            text = profile_text(profile, full=args.full, epochs=epochs)
            _write_files(args, profile, None)
            print_text(args, text)
            return 0
        found = api.explain(source, batch=batch, **api_options(args))
        write_explained(args, found)
    _write_files(args, found.profile, found.build.program if found.build else None)
    text = profile_text(found.profile, full=args.full, epochs=epochs)
    deliver(args, text, profile_json(found.profile, found.findings))
    return 0


def _is_saved(args: argparse.Namespace, source: str) -> bool:
    from npuscope.profile.saved import is_saved_profile

    if not is_saved_profile(source):
        return False
    if args.batch or _by_block(args):
        raise UsageError("a saved profile is not run again", hint="give the model or the build")
    return True


def _by_block(args: argparse.Namespace) -> bool:
    """A device counts epoch blocks; our simulation alone looks inside of a blob."""
    as_board = args.vendor_plan or args.vendor_figures or args.ec_single_epoch or args.log
    return bool(as_board) or args.connect != "simulated"


def _run_device(args: argparse.Namespace, source: str | None, epochs: frozenset[int] | None) -> int:
    from npuscope import api
    from npuscope.report.counter_log import counter_log_text
    from npuscope.report.json_report import profile_json
    from npuscope.report.text_profile import profile_text
    from npuscope.report.vendor_figures import measured_vendor_report
    from npuscope.report.vendor_text import vendor_report_text

    options = api_options(args)
    options["ec_single_epoch"] = args.ec_single_epoch
    with working(args, "running"):
        measured = api.measure(
            source,
            connect=args.connect,
            network=args.name,
            batch=args.batch,
            vendor_plan=args.vendor_plan,
            **options,
        )
    _write_files(args, measured.profile, measured.program)
    write_measured(args, measured)
    if args.log:
        write_file(args.log, counter_log_text(measured))
    if args.vendor_figures:
        text = vendor_report_text(measured_vendor_report(measured))
    else:
        text = profile_text(measured.profile, full=args.full, epochs=epochs)
    deliver(args, text, profile_json(measured.profile, ()))
    return 0


def _run_saved(args: argparse.Namespace, source: str, epochs: frozenset[int] | None) -> int:
    """Nothing runs: the report of a run that was kept."""
    from npuscope.profile.saved import read_profile
    from npuscope.report.json_report import profile_json
    from npuscope.report.text_profile import profile_text

    profile = read_profile(source)
    _write_files(args, profile, None)
    if args.html:
        from npuscope.report.html.data import profile_page

        write_file(args.html, profile_page(profile))
    deliver(args, profile_text(profile, full=args.full, epochs=epochs), profile_json(profile))
    return 0


def _write_files(args: argparse.Namespace, profile: Profile, program: Program | None) -> None:
    if args.csv:
        from npuscope.report.profile_csv import profile_csv_text

        write_file(args.csv, profile_csv_text(profile))
    if args.save:
        from npuscope.profile.saved import profile_to_json

        write_file(args.save, profile_to_json(profile).decode())
    if args.trace or args.chrome:
        _write_traces(args, profile, program)


def _write_traces(args: argparse.Namespace, profile: Profile, program: Program | None) -> None:
    from npuscope.report.opstats_files import write_trace
    from npuscope.report.profile_trace import trace_of_profile

    model = trace_of_profile(profile, program)
    for path, ending in ((args.trace, "perfetto-trace"), (args.chrome, "trace.json")):
        if path:
            write_trace(Path(path), ending, model)


def epoch_numbers(text: str | None) -> frozenset[int] | None:
    """'3,7-12' as numbers; None stands for all."""
    if text is None:
        return None
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if not all(end.strip().isdecimal() for end in ends):
            raise UsageError(f"expected numbers such as 3,7-12, found '{text}'", where="--epochs")
        low, high = (int(end) for end in ends)
        if high - low > _MOST_EPOCHS:
            raise UsageError(f"the range {part} is too long", where="--epochs")
        numbers.update(range(low, high + 1))
    return frozenset(numbers)


def _check(args: argparse.Namespace, source: str | None) -> None:
    if args.batch is not None and args.batch < 1:
        raise UsageError(f"expected at least 1 inference, found {args.batch}", where="--batch")
    if args.source and args.cfile:
        raise UsageError("SOURCE and --cfile both name the build", hint="give one of them")
    if source is None and args.connect == "simulated":
        raise UsageError("nothing to profile", hint="give a model, a build folder or --connect")
