"""The API's functions that run a network on a device and count: profile and measure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.api_advice import explain
from npuscope.errors import UsageError
from npuscope.options.check import verb
from npuscope.whole_file import write_whole

if TYPE_CHECKING:
    from npuscope.advice.explain import Explanation
    from npuscope.building import Options, Source
    from npuscope.profiling.measure import Measurement, Subject
    from npuscope.profiling.model import Profile
    from npuscope.program.model import Program


@verb
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
    from npuscope.report.result_files import write_page
    from npuscope.report.result_files import write_profile as write_files

    kept = _kept(source)
    as_board = vendor_plan or log or options.get("ec_single_epoch") or connect != "simulated"
    program: Program | None = None
    if kept is not None:
        found = kept
        write_page(html, kept)
    elif as_board:
        measured = measure(
            source,
            connect=connect,
            network=network,
            batch=batch,
            vendor_plan=vendor_plan,
            **options,
        )
        found, program = _on_device(measured, html, log)
    elif source is None:
        raise UsageError("nothing to profile", hint="give a model, a build folder or --connect")
    elif html or trace or chrome:
        found, program = _explained(explain(source, batch=batch or 1, **options), html)
    else:
        found = _simulated(source, batch or 1, options)
    write_files(found, program, csv=csv, save=save, trace=trace, chrome=chrome)
    return found


def _on_device(
    measured: Measurement, html: str | Path | None, log: str | Path | None
) -> tuple[Profile, Program | None]:
    from npuscope.report.result_files import write_measured
    from npuscope.report.vendor_text import counter_log_text

    write_measured(html, measured)
    if log:
        write_whole(log, counter_log_text(measured).encode())
    return measured.profile, measured.program


def _explained(explained: Explanation, html: str | Path | None) -> tuple[Profile, Program | None]:
    from npuscope.report.result_files import write_explained

    write_explained(html, explained)
    return explained.profile, explained.build.program if explained.build else None


def _simulated(source: Source, batch: int, options: Options) -> Profile:
    from npuscope.building import build, without_collector
    from npuscope.profiling.run import profile as run_profile

    with without_collector():
        made = build(source, options)
        return run_profile(made.program, made.machine, made.graph, batch=batch)


def _kept(source: Source | None) -> Profile | None:
    """A profile that was saved: nothing runs."""
    from npuscope.profiling.saved import is_saved_profile, read_profile

    if isinstance(source, (str, Path)) and is_saved_profile(source):
        return read_profile(source)
    return None


@verb
def measure(
    source: Source | None = None,
    *,
    connect: str = "simulated",
    network: str = "",
    batch: int | None = None,
    vendor_plan: bool = False,
    **options: Unpack[Options],
) -> Measurement:
    """Profile a device block by block, as the firmware of a board counts.

    In: `connect` names the device as for `profile`; the `source` of what runs on it adds what its
    compiler knows. Out: the Profile with every counter of every inference.

    >>> npuscope.measure("model.tflite", vendor_plan=True).profile.total_ms
    """
    from npuscope.boards.device import DescriptorKind, parse_descriptor
    from npuscope.profiling.measure import measure as run_measure
    from npuscope.profiling.measure import opened

    descriptor = parse_descriptor(connect)
    if descriptor.kind is DescriptorKind.EMULATED:
        options = {**options, "relocatable": True}  # it loads images
    subject = _subject(source, options)
    with opened(descriptor, subject) as device:
        return run_measure(device, subject, network=network, batch=batch, vendor_plan=vendor_plan)


def _subject(source: Source | None, options: Options) -> Subject:
    from npuscope.building import build
    from npuscope.profiling.measure import Subject

    if source is None:
        return Subject()
    made = build(source, options)
    return Subject(made.program, made.machine, made.graph)
