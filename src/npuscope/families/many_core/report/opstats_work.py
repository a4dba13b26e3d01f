"""What `npuscope opstats` does: find the files, make tables and traces, write them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from npuscope.bounded_file import CORE_PROGRAM, read_bytes
from npuscope.errors import FileError, UsageError
from npuscope.families.many_core.adapters.model import Companions, Sheet, open_source
from npuscope.families.many_core.adapters.registry import all_adapters, named_adapter, read_sheet
from npuscope.families.many_core.adapters.tables import sheet_tables, sheet_text, sheet_trace
from npuscope.families.many_core.buffer_format import SIMULATED, Stats
from npuscope.families.many_core.layout import Layout
from npuscope.families.many_core.opstats.host_trace import (
    HostTrace,
    check_inferences,
    of_inferences,
    read_host_trace,
)
from npuscope.families.many_core.opstats.inputs import (
    SCHEME,
    BufferFile,
    BufferReader,
    by_run,
    device_of,
    find_buffers,
    is_own,
    of_program,
)
from npuscope.families.many_core.opstats.model import Opstats
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.opstats.trace import TraceOptions, trace_of, undrawn_note
from npuscope.families.many_core.report.opstats import opstats_text, summary_text
from npuscope.families.many_core.report.opstats_json import (
    SUMMARY,
    opstats_json,
    output_path,
    write_text,
)
from npuscope.families.many_core.specializations import read_layouts
from npuscope.report.trace.files import write_trace
from npuscope.shown import ShownRecord, counted
from npuscope.text import safe_terminal
from npuscope.trace_model import TraceModel

# Nothing else writes buffers of this layout.
_SIMULATED = "times are simulated, not measured: docs/manycore.md states how accurate they are"
_LOG = logging.getLogger(__name__)
# Adapters of what lies beside a profile, not of a profile: only by name.
_BY_NAME_ONLY = ("osb", "qaic-desc", "qaic-raw")


class OpstatsRequest(Struct, frozen=True):
    """The command line, checked."""

    qpc: Path | None
    source: Path
    target: Path
    summary: bool
    traces: tuple[str, ...]  # endings of the files
    host_trace: str | None
    cores: frozenset[int] | None
    devices: frozenset[int] | None
    merge_devices: bool
    merge_thread_groups: bool
    flows: bool
    barriers: bool
    ignore_uuid: bool
    adapter: str | None
    raw_layout: Path | None
    descriptors: Path | None

    @classmethod
    def to_read(cls, qpc: Path, source: Path) -> OpstatsRequest:
        """Tables only: no file is written."""
        return cls(
            qpc=qpc,
            source=source,
            target=Path(),
            summary=False,
            traces=(),
            host_trace=None,
            cores=None,
            devices=None,
            merge_devices=True,
            merge_thread_groups=True,
            flows=False,
            barriers=False,
            ignore_uuid=False,
            adapter=None,
            raw_layout=None,
            descriptors=None,
        )

    @property
    def companions(self) -> Companions:
        return Companions(self.qpc, self.raw_layout, self.descriptors, self.ignore_uuid)


class Outcome(ShownRecord, frozen=True):
    """Tables in the order of the files, what was written, and what the user should know."""

    tables: list[Opstats] = field(default_factory=list)
    inventories: list[Sheet] = field(default_factory=list)
    files: dict[str, list[str]] = field(default_factory=dict)  # by buffer
    written: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)  # what was lost, file by file

    def told(self) -> str:
        files = counted(len(self.written), "file")
        return f"{counted(len(self.tables), 'stats buffer')}, {files} written"

    def add_file(self, names: Sequence[str], path: Path) -> None:
        _LOG.info("made %s", safe_terminal(str(path)))
        self.written.append(path)
        for name in names:
            self.files.setdefault(name, []).append(str(path))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def outcome_text(outcome: Outcome) -> str:
    return opstats_text(outcome.tables, outcome.written, outcome.notes)


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    result = opstats_json(outcome.tables, outcome.files, outcome.inventories)
    return result | {"notes": list(outcome.notes), "damaged": list(outcome.damaged)}


def work(request: OpstatsRequest) -> Outcome:
    source = request.source
    files = [source]
    if not source.is_file():  # then those of the folder, not of folders in it
        files = sorted(p for p in source.iterdir() if p.is_file() and p.name[0] != ".")
    outcome = Outcome()
    buffers = [] if request.adapter else find_buffers(files)
    empty = [file for file in buffers if not file.path.stat().st_size]
    outcome.damaged.extend(f"{safe_terminal(file.path.name)} is empty" for file in empty)
    buffers = [file for file in buffers if file not in empty]
    own = [file for file in buffers if is_own(file)]
    foreign = [file.path for file in buffers if file not in own]
    # Other profiles in a folder of buffers are by-products, such as our own traces.
    foreign += _foreign(request, files) if not buffers else []
    helps = (("--raw-layout", request.raw_layout), ("--descriptors", request.descriptors))
    idle = next((name for name, given in helps if given is not None and own and not foreign), "")
    if idle:
        raise UsageError(
            "npuscope's own buffers need no description", where=idle, hint=f"leave {idle} out"
        )
    if own:
        _own_buffers(request, own, outcome)
        outcome.note(_SIMULATED)
    for path in foreign:
        with _one_of(outcome, len(foreign) + len(own)):
            _foreign_file(request, path, outcome)
    if not outcome.tables and not outcome.inventories:
        if outcome.damaged:
            raise FileError("; ".join(outcome.damaged), where=safe_terminal(str(request.source)))
        raise FileError(
            "no stats buffer found here",
            where=safe_terminal(str(request.source)),
            hint=f"buffers are called {SCHEME}; `npuscope manycore run` writes them with "
            "--aic-profiling-type=raw_device_stats",
        )
    return outcome


@contextlib.contextmanager
def _one_of(outcome: Outcome, files: int) -> Iterator[None]:
    """A file that cannot be read does not stop the others; a single one is an error."""
    try:
        yield
    except FileError as error:
        if files < 2:
            raise
        fault = f"{error.where}: {error.message}" if error.where else error.message
        outcome.damaged.append(f"{fault}; {error.hint}" if error.hint else fault)


def _own_buffers(request: OpstatsRequest, files: list[BufferFile], outcome: Outcome) -> None:
    layouts, others, programs = _layouts(request), files, []
    for layout in layouts:
        mine, others = of_program(others, layout)
        if mine:
            programs.append((layout, mine))
    for file in others:
        outcome.note(f"{file.path.name}: left out, its network is not part of the program")
    if not programs:
        networks = ", ".join(part.name for one in layouts for part in one.specializations)
        raise FileError(
            f"no buffer of this program: the first is of network '{files[0].network}'",
            where=safe_terminal(str(request.source)),
            hint=f"networks of the program: {safe_terminal(networks)}",
        )
    for layout, mine in programs:
        _check_selection(request, layout, mine)
    host = read_host_trace(request.host_trace) if request.host_trace else None
    groups = [(layout, group) for layout, mine in programs for group in by_run(mine)]
    if host is not None:
        check_inferences(host, {file.run[2] for _, group in groups for file in group})
    readers = {layout.program_uuid: BufferReader(layout, request.ignore_uuid) for layout in layouts}
    for layout, group in groups:
        with _one_of(outcome, len(groups)):
            _run(request, readers[layout.program_uuid], host, group, outcome)


def _layouts(request: OpstatsRequest) -> tuple[Layout, ...]:
    if request.qpc is None:
        raise UsageError(
            "stats buffers are read with the program that wrote them",
            hint="name its programqpc.bin with --qpc",
        )
    data = read_bytes(request.qpc, CORE_PROGRAM)
    try:
        return read_layouts(data)
    except FileError as error:
        place = safe_terminal(str(request.qpc))
        where = f"{place}, {error.where}" if error.where else place
        raise FileError(error.message, where=where, hint=error.hint) from None


def _check_selection(request: OpstatsRequest, layout: Layout, files: list[BufferFile]) -> None:
    """Before anything is written."""
    for option, numbers, present in (
        ("core", request.cores, set(range(layout.cores))),
        # Headers are looked at only where a device was asked for: they may be damaged.
        ("device", request.devices, {device_of(f) for f in files} if request.devices else set()),
    ):
        missing = sorted((numbers or frozenset()) - present)
        if missing:
            raise UsageError(
                f"the run has no {option} {missing[0]}",
                where=f"--select-{option}s",
                hint=f"it has {', '.join(map(str, sorted(present)))}",
            )


def _run(
    request: OpstatsRequest,
    reader: BufferReader,
    host: HostTrace | None,
    group: list[BufferFile],
    outcome: Outcome,
) -> None:
    """The devices of one inference."""
    _LOG.info("reading %s", ", ".join(file.place for file in group))
    read = [reader.read(file) for file in group]
    for file, stats in zip(group, read, strict=True):
        tables = opstats_of(stats, reader.index(stats))
        outcome.tables.append(tables)
        if stats.lost:
            outcome.damaged.append(f"{file.place}: lost {', '.join(stats.lost)}")
        for note in tables.notes:
            outcome.note(note)
        if request.summary:
            path = output_path(request.target, file.stem, SUMMARY)
            outcome.add_file([tables.name], write_text(path, summary_text(tables, SIMULATED)))
    if request.traces:
        _traces(request, reader, host, list(zip(group, read, strict=True)), outcome)


def _traces(
    request: OpstatsRequest,
    reader: BufferReader,
    host: HostTrace | None,
    read: list[tuple[BufferFile, Stats]],
    outcome: Outcome,
) -> None:
    visible = [
        (file, stats)
        for file, stats in read
        if request.devices is None or stats.device in request.devices
    ]
    apart = len(visible) < 2 or not request.merge_devices
    for part in [[one] for one in visible] if apart else [visible]:
        stats = [one for _, one in part]
        options = TraceOptions(
            cores=request.cores,
            merge_thread_groups=request.merge_thread_groups,
            flows=request.flows,
            barriers=request.barriers,
            host=None if host is None else of_inferences(host, {one.inference for one in stats}),
        )
        model = trace_of(stats, options, list(map(reader.index, stats)))
        stem = part[0][0].stem
        if not apart:
            program, activation, inference = part[0][0].run
            stem = f"aic-profiling-program-{program}-activation-{activation}-inf-{inference}"
            stem += f"-{reader.layout.network}-merged"
        _write_traces(request, stem, [one.name for one in stats], model, outcome)


def _write_traces(
    request: OpstatsRequest, stem: str, names: list[str], model: TraceModel, outcome: Outcome
) -> None:
    for ending in request.traces:
        path = output_path(request.target, stem, ending)
        outcome.add_file(names, write_trace(path, ending, model))
    note = undrawn_note(model)
    if note is not None:
        outcome.note(f"{stem}: {note}")


def _foreign(request: OpstatsRequest, files: list[Path]) -> list[Path]:
    """Files that an adapter knows: the named one, or any that reads profiles."""
    if request.adapter:
        adapters = [named_adapter(request.adapter)]
    else:
        adapters = [
            adapter for name, adapter in all_adapters().items() if name not in _BY_NAME_ONLY
        ]
    paths = [path for path in files if any(one.probe(open_source(path)) > 0 for one in adapters)]
    if request.adapter and not paths:
        raise FileError(
            f"no file that the adapter '{safe_terminal(request.adapter)}' knows",
            where=safe_terminal(str(request.source)),
        )
    return paths


def _foreign_file(request: OpstatsRequest, path: Path, outcome: Outcome) -> None:
    sheet = read_sheet(path, request.companions, adapter=request.adapter)
    for note in sheet.notes:
        outcome.note(f"{path.name}: {note}")
    if not sheet.timed and not sheet.threads:
        outcome.inventories.append(sheet)
        text = sheet_text(sheet)
    else:
        outcome.tables.append(sheet_tables(sheet))
        text = summary_text(outcome.tables[-1])
    if request.summary:
        target = output_path(request.target, path.stem, SUMMARY)
        outcome.add_file([sheet.file], write_text(target, text))
    if not request.traces:
        return
    if sheet.timeline is None:
        outcome.note(f"{path.name}: no trace, this source has sums only")
        return
    _write_traces(request, path.stem, [sheet.file], sheet_trace(sheet), outcome)
