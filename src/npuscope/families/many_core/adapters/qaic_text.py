"""The vendor's summary text: tables of ops by core, threads, ports, device totals."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct, field

from npuscope.bounded_file import REPORT
from npuscope.errors import FileError
from npuscope.families.many_core.adapters.lanes import parse_details
from npuscope.families.many_core.adapters.model import (
    Companions,
    PortWait,
    ProfileFile,
    Sheet,
    SheetOp,
    SheetTotals,
    ThreadSpan,
)
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.profiling.model import Provenance
from npuscope.structs import replace
from npuscope.text import safe_terminal

_PER_US = UTIMER_HZ / 1e6
_COLUMNS = re.compile(r" {2,}")
_NUMBER = r"(\d{1,20})"
_SPAN = rf"\[{_NUMBER}, ?{_NUMBER}\]"
_CORE = r"c(\d{1,4})"
# What this tool's summary has behind the vendor's tables: by node, VTCM, verdict.
OWN_TABLES = "   HVX pcycles   HMX pcycles"
_THREAD = rf"{_CORE} *t(\d{{1,4}})"


class _Draft(Struct):
    """What was read so far."""

    place: str
    network: str = ""
    columns: tuple[str, ...] = ()
    ops: list[SheetOp] = field(default_factory=list)
    threads: dict[tuple[int, int], ThreadSpan] = field(default_factory=dict)
    ports: list[PortWait] = field(default_factory=list)
    frequencies: dict[int, float] = field(default_factory=dict)
    pcycles: dict[int, int] = field(default_factory=dict)
    totals: SheetTotals | None = None
    batch: int = 1
    others: list[str] = field(default_factory=list)  # further specializations
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def probe(source: ProfileFile) -> int:
    if b"ucycles(%)" in source.head and b"opdetails" in source.head:
        return 95
    return 80 if b" batch ucycles:" in source.head else 0


def read(source: ProfileFile, companions: Companions) -> Sheet:
    draft = _Draft(source.place)
    lines = source.read(REPORT).decode("utf-8", "replace").split("\n")
    for number, line in enumerate(lines, 1):
        if line.startswith(OWN_TABLES):
            break
        if line.startswith("Specialization:") and draft.network:
            draft.others = [
                row[15:].strip() for row in lines[number - 1 :] if row[:15] == line[:15]
            ]
            break
        _read_line(draft, number, line.rstrip(), last=number == len(lines))
    if not draft.ops and not draft.threads:
        raise FileError(
            "neither a table of ops nor a line of a thread",
            where=source.place,
            hint="give the file that ends in .qaic-opstats.summary.txt",
        )

    notes = list(draft.notes)
    if not draft.ops:
        notes.append("no table of ops: it needs a run of a program compiled at level 70 or above")
    if draft.others:
        names = ", ".join(draft.others)
        notes.append(f"only the first specialization is read; the file also has {names}")
    if draft.totals is None:
        notes.append("the device's total is missing: it is computed from the threads")
    if draft.unread:
        notes.append(f"{len(draft.unread)} lines are not understood, first: {draft.unread[0]}")
    totals = draft.totals or _span(draft)
    return Sheet(
        adapter="qaic-text",
        file=source.path.name,
        network=draft.network,
        provenance=Provenance.VENDOR_FILE,
        ops=tuple(draft.ops),
        threads=tuple(draft.threads[key] for key in sorted(draft.threads)),
        port_waits=tuple(draft.ports),
        totals=replace(totals, batch=draft.batch) if totals else None,
        frequencies_mhz=tuple(sorted(draft.frequencies.items())),
        inference_pcycles=tuple(sorted(draft.pcycles.items())),
        notes=tuple(notes),
    )


def _read_line(draft: _Draft, number: int, line: str, *, last: bool) -> None:
    if not line:
        return
    if line.startswith("core ") and line.endswith("opdetails"):
        draft.columns = tuple(_COLUMNS.split(line))
        return
    for pattern, take in _RULES:
        hit = pattern.fullmatch(line)
        if hit:
            take(draft, hit)
            return
    if draft.columns and re.match(rf"{_CORE} +[\dN]", line):
        if last:  # without an end of line: the file was cut off, perhaps within a word
            draft.unread.append(f"line {number}, the last one, is cut off")
        else:
            _take_op(draft, number, line)
    else:
        draft.unread.append(f"line {number}: {line[:80]}")


def _take_op(draft: _Draft, number: int, line: str) -> None:
    cells = line.split(None, len(draft.columns) - 1)
    row = dict(zip(draft.columns, cells, strict=False))
    try:
        if len(cells) != len(draft.columns):
            raise ValueError(f"{len(cells)} columns, expected {len(draft.columns)}")
        kind, engine, memory, dtypes = parse_details(row["opdetails"])
        ucycles, pcycles = _cell(row["ucycles"]), _cell(row["pcycles"])
        draft.ops.append(
            SheetOp(
                core=int(row["core"][1:]),
                engine=engine,
                kind=kind,
                memory=memory,
                dtypes=dtypes,
                name="",
                count=int(row["count"]),
                us=None if ucycles is None else ucycles / _PER_US,
                ucycles=ucycles,
                pcycles=pcycles,
                out_bytes=_out_bytes(row, ucycles, pcycles),
                stddev_pcycles_per_kb=_cell(row.get("stddev(pc/KB)", "N/A")),
            )
        )
    except (ValueError, KeyError) as error:
        raise FileError(
            f"a row of the op table that is not understood: {error}",
            where=f"{draft.place}: line {number}",
            hint="expected numbers or N/A under " + ", ".join(draft.columns),
        ) from error


def _out_bytes(row: dict[str, str], ucycles: float | None, pcycles: float | None) -> float | None:
    """Sizes are rounded to 10 bytes; cycles per KB often give them more exactly."""
    size = _cell(row.get("out KB", "N/A"))
    if size is None:
        return None
    ratios = (
        (ucycles, _cell(row.get("ucycles/KB", "N/A"))),
        (pcycles, _cell(row.get("pcycles/KB", "N/A"))),
    )
    exact = [(ratio, cycles / ratio) for cycles, ratio in ratios if cycles and ratio]
    # All of them have two digits behind the point: the largest figure is the most exact one.
    return round(max([(size, size), *exact])[1] * 1024)


def _cell(text: str) -> float | None:
    """A number; the vendor writes N/A where there is none."""
    if text == "N/A":
        return None
    if not re.fullmatch(r"\d{1,20}(\.\d{1,12})?", text, re.ASCII):
        raise ValueError(f"'{safe_terminal(text[:40])}' is not a number")
    return float(text)


def _take_network(draft: _Draft, hit: re.Match[str]) -> None:
    draft.network = hit[1].strip()


def _take_thread(draft: _Draft, hit: re.Match[str]) -> None:
    core, thread = int(hit[1]), int(hit[2])
    share = float(hit[8]) / 100 if hit[8] else None
    draft.threads[core, thread] = ThreadSpan(
        core, thread, hit[3], int(hit[5]), int(hit[6]), int(hit[7]), share
    )


def _take_batch(draft: _Draft, hit: re.Match[str]) -> None:
    """Below level 70 this is all there is of a thread."""
    core, thread = int(hit[1]), int(hit[2])
    span = ThreadSpan(core, thread, "", int(hit[4]), int(hit[5]), int(hit[6]))
    draft.threads.setdefault((core, thread), span)


def _take_activation(draft: _Draft, hit: re.Match[str]) -> None:
    core, thread, ticks = int(hit[1]), int(hit[2]), int(hit[3])
    span = draft.threads.get((core, thread)) or ThreadSpan(core, thread, "", 0, 0)
    draft.threads[core, thread] = replace(span, activate_uc=ticks)


def _take_port(draft: _Draft, hit: re.Match[str]) -> None:
    draft.ports.append(PortWait(int(hit[1]), int(hit[2]), int(hit[3]), int(hit[4])))


def _take_frequency(draft: _Draft, hit: re.Match[str]) -> None:
    draft.frequencies[int(hit[1])] = float(hit[2])


def _take_pcycles(draft: _Draft, hit: re.Match[str]) -> None:
    draft.pcycles[int(hit[1])] = int(hit[2])


def _take_total(draft: _Draft, hit: re.Match[str]) -> None:
    ticks, start, end = (int(hit[i]) for i in (1, 2, 3))
    draft.totals = SheetTotals(ticks / _PER_US, ticks, start, end)


def _take_rate(draft: _Draft, hit: re.Match[str]) -> None:
    draft.network = draft.network or hit[1]
    if hit[2] == "inf":
        draft.batch = max(1, int(hit[3]))


def _take_note(draft: _Draft, hit: re.Match[str]) -> None:
    """Our own summaries end with some."""
    draft.notes.append(hit[1])


def _skip(draft: _Draft, hit: re.Match[str]) -> None:
    """Follows from the other lines."""


_Take = Callable[[_Draft, "re.Match[str]"], None]
_RULES: tuple[tuple[re.Pattern[str], _Take], ...] = tuple(
    (re.compile(pattern, re.ASCII), take)
    for pattern, take in (
        (r"Specialization: *(.{0,300})", _take_network),
        (
            rf"{_THREAD} (\w{{1,20}}) +{_NUMBER} ucycles {_SPAN} +{_NUMBER} pcycles"
            r"(?: +(\d{1,6}(?:\.\d{1,6})?)% utilization)?",
            _take_thread,
        ),
        (rf"{_THREAD} batch ucycles: +{_NUMBER} {_SPAN} +pcycles: +{_NUMBER}", _take_batch),
        (rf"{_THREAD} activate ucycles: +{_NUMBER}.{{0,100}}", _take_activation),
        (rf"{_THREAD}p(\d{{1,6}}) \w{{1,40}} ucycles: +{_NUMBER}.{{0,100}}", _take_port),
        (rf"{_CORE}: Effective frequency is (\d{{1,6}}(?:\.\d{{1,6}})?) ?MHz", _take_frequency),
        (rf"total batch ucycles: +{_NUMBER} {_SPAN}", _take_total),
        (
            r"\[(.{1,300})\] Device instance (batch|inf)/s: \((\d{1,9})/[\d.e+-]{1,30}\): .{1,40}",
            _take_rate,
        ),
        (r"note: (.{1,1000})", _take_note),
        (rf"{_CORE} total: .{{1,100}}", _skip),
        (rf"{_CORE}: Total inference pcycle is {_NUMBER}", _take_pcycles),
        (rf"max (?:input|output) wait ucycles: *{_NUMBER}.{{0,100}}", _skip),
    )
)


def _span(draft: _Draft) -> SheetTotals | None:
    """Where the file ends before the device's total: from first start to last end."""
    spans = [span for span in draft.threads.values() if span.end_uc]
    if not spans:
        return None
    start, end = min(s.start_uc for s in spans), max(s.end_uc for s in spans)
    return SheetTotals((end - start) / _PER_US, end - start, start, end)
