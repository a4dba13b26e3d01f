"""`npuscope profile SOURCE`: run on a device, report every epoch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.clock import compile_time, now
from npuscope.collector import without_collector
from npuscope.errors import UsageError
from npuscope.families.registry import family_for
from npuscope.options.kinds import OptionGroup, Verb, flag, result_file, text
from npuscope.options.rows import (
    BATCH,
    DEVICE,
    HTML,
    NO_COLOR,
    OUTPUT,
    OWN,
    READING,
    SOURCE,
    TARGET,
    VERBOSITY,
)
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.building import Options, Source
    from npuscope.profiling.model import Profile
    from npuscope.program.model import Program
    from npuscope.report.profile_report import ProfileReport

# A list longer than any program; keeps `--epochs 0-99999999999` from eating memory.
_MOST_EPOCHS = 100_000


def epoch_numbers(text: str) -> frozenset[int]:
    """'3,7-12' as numbers."""
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


# One option per row is easier to read than the formatter's layout.
# fmt: off
VERB = Verb(
    "run a model on a device and report every epoch",
    (replace(SOURCE, many="?"),),
    (
        OptionGroup("", (
            BATCH,
            flag("full", "every field of every epoch instead of one line", python=False, **OWN),
            text("epochs", "only these epochs, e.g. 3,7-12", "LIST", python=False,
                parse=epoch_numbers),
            result_file("csv", "write a table with one row per epoch"),
            HTML,
            result_file("trace", "write a timeline for ui.perfetto.dev"),
            result_file("chrome", "write it as Chrome trace events (JSON)"),
            result_file("save", "save the profile, to report or export it later"),
        )),
        OptionGroup("device", DEVICE),
        TARGET,
        READING,
        replace(OUTPUT, options=(*OUTPUT.options, VERBOSITY, NO_COLOR)),
    ),
    run="report",
    text="npuscope.report.profile_report:report_text",
    json="npuscope.report.profile_report:report_json",
    busy="running",
    reads=("source", "cfile", "connect"),
    all_families=True,
)
# fmt: on


@checked(VERB)
def profile(
    source: Source | None = None,
    *,
    batch: int | None = None,
    connect: str = "simulated",
    network: str = "",
    vendor_plan: bool = False,
    csv: str | Path | None = None,
    html: str | Path | None = None,
    trace: str | Path | None = None,
    chrome: str | Path | None = None,
    save: str | Path | None = None,
    log: str | Path | None = None,
    **options: Unpack[Options],
) -> Profile:
    """Run a model on a device and count what happens, epoch by epoch.

    In: a source, and the device (`connect`): simulated, emulated, serial[:PORT][:BAUD],
    socket:HOST:PORT or log:FILE. A device counts epoch blocks; so does the simulated one with
    `vendor_plan`, `ec_single_epoch` or `log`. Out: a Profile; tables, pages and traces as files.

    >>> npuscope.profile("model.tflite", batch=3, trace="run.perfetto-trace")
    """
    return report(
        source,
        batch=batch,
        connect=connect,
        network=network,
        vendor_plan=vendor_plan,
        csv=csv,
        html=html,
        trace=trace,
        chrome=chrome,
        save=save,
        log=log,
        dated=False,
        **options,
    ).profile


def report(
    source: Source | None = None,
    *,
    batch: int | None = None,
    connect: str = "simulated",
    network: str = "",
    cfile: str | None = None,
    vendor_plan: bool = False,
    vendor_figures: bool = False,
    csv: str | Path | None = None,
    html: str | Path | None = None,
    trace: str | Path | None = None,
    chrome: str | Path | None = None,
    save: str | Path | None = None,
    log: str | Path | None = None,
    json: str | None = None,
    dated: bool = True,
    **options: Unpack[Options],
) -> ProfileReport:
    """A saved run as it is, a device's counters by block, or our simulation, which alone looks
    inside of a blob."""
    from npuscope.advice.compare.sides import is_log, log_path

    if batch is not None and batch < 1:
        raise UsageError(f"expected at least 1 inference, found {batch}", where="--batch")
    if isinstance(source, str | Path) and connect == "simulated" and is_log(source):
        connect, source = f"log:{log_path(source)}", None
    if source is not None and cfile:
        raise UsageError("SOURCE and --cfile both name the build", hint="give one of them")
    source = source or cfile
    single = options.get("ec_single_epoch")
    as_board = bool(vendor_plan or vendor_figures or single or log) or connect != "simulated"
    if source is None and not as_board:
        raise UsageError("no source given", hint="give a model, a build folder or --connect")
    from npuscope.advice.compare.sides import refuse_late
    from npuscope.profiling.saved import is_saved_profile, read_profile
    from npuscope.program.sources import has_c_info
    from npuscope.report.profile_report import ProfileReport
    from npuscope.report.result_files import write_log, write_measured, write_page, write_profile

    program = None
    if isinstance(source, str | Path) and is_saved_profile(source):
        if batch or as_board:
            hint = "give the model or the build"
            raise UsageError("a saved profile cannot be run again", hint=hint)
        refuse_late(source, options)
        result = ProfileReport(read_profile(source))
        write_page(html, result.profile)
    elif as_board:
        from npuscope.verbs.measure import measure

        measured = measure(
            source,
            connect=connect,
            network=network,
            batch=batch,
            vendor_plan=vendor_plan,
            **options,
        )
        measured = replace(measured, profile=with_session(measured.profile, connect, dated))
        result = ProfileReport(measured.profile, measured=measured)
        program = measured.program
        write_measured(html, measured)
        write_log(log, measured)
    else:
        assert source is not None
        # Findings and the build are needed for these outputs only; without them it is faster.
        with_findings = bool(json is not None or html or trace or chrome)
        result, program = _run(source, batch or 1, html, with_findings, options)
        result = replace(result, profile=with_session(result.profile, connect, dated))
    if cfile and not has_c_info(Path(cfile)):
        note = (
            f"no c_info.json next to {safe_terminal(Path(cfile).name)}: npuscope computed the "
            "cycles that the compiler would state"
        )
        profile = replace(result.profile, notes=(*result.profile.notes, note))
        result = replace(result, profile=profile)
    write_profile(result.profile, program, csv=csv, save=save, trace=trace, chrome=chrome)
    return result


def with_session(profile: Profile, connect: str, dated: bool) -> Profile:
    """How it was asked for and, on the command line, when; where a log does not say it. A value in
    Python is the same whenever it is made."""
    if profile.device is None:
        return profile
    device = profile.device
    device = replace(device, session=device.session or connect)
    if dated:
        device = replace(device, created=device.created or now())
    if dated and connect == "simulated":  # compiled on the way
        device = replace(device, compile_datetime=device.compile_datetime or compile_time())
    return replace(profile, device=device)


@without_collector()
def _run(
    source: Source, batch: int, html: str | Path | None, with_findings: bool, options: Options
) -> tuple[ProfileReport, Program | None]:
    """By the family of the machine, with what its rules find where that is asked for."""
    from npuscope.report.profile_report import ProfileReport
    from npuscope.report.result_files import write_explained, write_page

    family = family_for(source, options)
    request = {**options, "batch": batch, "trials": bool(html)}
    if not with_findings or not family.can("advise"):
        result = ProfileReport(family.profile(source, request))
        write_page(html, result.profile)
        return result, None
    explanation = family.explain(source, request)
    write_explained(html, explanation)
    program = explanation.build.program if explanation.build else None
    return ProfileReport(explanation.profile, explanation.findings), program
