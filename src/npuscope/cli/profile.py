"""`npuscope profile SOURCE`: run on a device, report every epoch."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from npuscope.cli.options import add_options, api_options
from npuscope.cli.output import deliver, print_text, refuse_overwrite, working, write_file
from npuscope.errors import UsageError

if TYPE_CHECKING:
    from npuscope.profiling.model import Profile
    from npuscope.program.model import Program

# A list longer than any program; keeps `--epochs 0-99999999999` from eating memory.
_MOST_EPOCHS = 100_000


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "profile")


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
    from npuscope.report.profile import profile_text
    from npuscope.report.result_files import write_explained

    batch = args.batch or 1
    with working(args, "running"):
        # Findings and the build are needed for these outputs only; without them the run is faster.
        if args.json is None and not (args.html or args.trace or args.chrome):
            profile = api.profile(source, batch=batch, **api_options(args))
            text = profile_text(profile, full=args.full, epochs=epochs)
            _write_files(args, profile, None)
            print_text(args, text)
            return 0
        found = api.explain(source, batch=batch, **api_options(args))
        write_explained(args.html, found)
    _write_files(args, found.profile, found.build.program if found.build else None)
    text = profile_text(found.profile, full=args.full, epochs=epochs)
    deliver(args, text, profile_json(found.profile, found.findings))
    return 0


def _is_saved(args: argparse.Namespace, source: str) -> bool:
    from npuscope.profiling.saved import is_saved_profile

    if not is_saved_profile(source):
        return False
    if args.batch or _by_block(args):
        raise UsageError("a saved profile cannot be run again", hint="give the model or the build")
    return True


def _by_block(args: argparse.Namespace) -> bool:
    """A device counts epoch blocks; our simulation alone looks inside of a blob."""
    as_board = args.vendor_plan or args.vendor_figures or args.ec_single_epoch or args.log
    return bool(as_board) or args.connect != "simulated"


def _run_device(args: argparse.Namespace, source: str | None, epochs: frozenset[int] | None) -> int:
    from npuscope import api
    from npuscope.report.json_report import profile_json
    from npuscope.report.profile import profile_text
    from npuscope.report.result_files import write_measured
    from npuscope.report.vendor_figures import measured_vendor_report
    from npuscope.report.vendor_text import counter_log_text, vendor_report_text

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
    write_measured(args.html, measured)
    if args.log:
        write_file(args.log, counter_log_text(measured))
    if args.vendor_figures:
        text = vendor_report_text(measured_vendor_report(measured), measured)
    else:
        text = profile_text(measured.profile, full=args.full, epochs=epochs)
    deliver(args, text, profile_json(measured.profile, ()))
    return 0


def _run_saved(args: argparse.Namespace, source: str, epochs: frozenset[int] | None) -> int:
    """The report of a saved run; nothing is run."""
    from npuscope.profiling.saved import read_profile
    from npuscope.report.json_report import profile_json
    from npuscope.report.profile import profile_text
    from npuscope.report.result_files import write_page

    profile = read_profile(source)
    _write_files(args, profile, None)
    write_page(args.html, profile)
    deliver(args, profile_text(profile, full=args.full, epochs=epochs), profile_json(profile))
    return 0


def _write_files(args: argparse.Namespace, profile: Profile, program: Program | None) -> None:
    from npuscope.report.result_files import write_profile

    write_profile(
        profile, program, csv=args.csv, save=args.save, trace=args.trace, chrome=args.chrome
    )


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
