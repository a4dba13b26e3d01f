"""The vendor's trace JSON: that of the runtime and that of its opstats tool.

The older one has a process for each core and numbers its threads; the newer one names threads
after core and engine, and states a wait in an argument of an event without duration."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field

from npuscope.errors import FileError
from npuscope.families.many_core.adapters.columns import (
    Event,
    EventReader,
    Names,
    OpGroup,
    SliceColumns,
    arguments,
    group_rows,
    number,
    text,
    time_us,
)
from npuscope.families.many_core.adapters.lanes import (
    FlowEnd,
    ResolvedLanes,
    TraceLanes,
    parse_operand,
    timeline_of,
)
from npuscope.families.many_core.adapters.model import (
    Companions,
    ProfileFile,
    Sheet,
    SheetOp,
    SheetTotals,
)
from npuscope.families.many_core.opstats.model import WAITS
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.profiling.model import Provenance

# --- Spans and clocks, computed from the slices ---


def totals_of(columns: SliceColumns, lanes: ResolvedLanes) -> SheetTotals:
    """From first start to last end of the cores: of their execution rows where there are any."""
    lane, start = np.asarray(columns.lane), np.asarray(columns.start)
    ends = start + np.asarray(columns.us)
    of_core = np.array([row.core is not None for row in lanes.rows])[lane]
    execution = of_core & (lanes.core[lane] < 0)
    slices = execution if execution.any() else of_core
    us = float(ends[slices].max() - start[slices].min())
    return SheetTotals(us, round(us * UTIMER_HZ / 1e6))


def frequencies(ops: Sequence[SheetOp]) -> tuple[tuple[int, float], ...]:
    """Effective clock of each core, MHz: cycles against timer ticks of its ops."""
    sums: dict[int, tuple[float, float]] = {}
    for row in ops:
        if row.pcycles and row.ucycles:
            cycles, ticks = sums.get(row.core, (0.0, 0.0))
            sums[row.core] = cycles + row.pcycles, ticks + row.ucycles
    mhz = {core: cycles * UTIMER_HZ / 1e6 / ticks for core, (cycles, ticks) in sums.items()}
    return tuple(sorted(mhz.items()))


_MARKS = (b"opKind", b"opUCycle", b"_Core_", b"HOST_PROC")
_ORDINAL = re.compile(r"-(?:Inf-)?\d{1,12}$", re.ASCII)
_MOST_FLOWS = 5_000_000
_MOST_SAMPLES = 1_000_000


class TraceDraft(Struct):
    """What was read so far. `ops` numbers the ops, `pending` holds flows that have begun."""

    columns: SliceColumns
    lanes: TraceLanes = field(default_factory=TraceLanes)
    ops: Names = field(default_factory=Names)
    pending: dict[str, FlowEnd] = field(default_factory=dict)
    flows: list[tuple[FlowEnd, FlowEnd, bool]] = field(default_factory=list)
    counters: dict[tuple[int, str], list[tuple[float, float]]] = field(default_factory=dict)
    samples: int = 0
    odd: Counter[str] = field(default_factory=Counter)


def probe(source: ProfileFile) -> int:
    head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] not in (b"{", b"["):
        return 0
    if any(mark in head for mark in _MARKS):
        return 90
    # Names of threads may come late; a Chrome trace of another tool has no op of a core in it.
    return 30 if b'"traceEvents"' in head else 0


def read(source: ProfileFile, companions: Companions) -> Sheet:
    draft, open_ended = read_events(source.path, source.place)
    lanes = draft.lanes.resolved()
    ops = group_rows(draft.columns, lanes.core, lanes.engine)
    if not ops:
        raise FileError(
            "no op of a core is in this trace",
            where=source.place,
            hint="give the .json of the vendor's runtime (trace) or of its opstats tool (--trace)",
        )
    timeline = timeline_of(draft.columns, lanes, draft.flows, draft.counters, draft.odd)
    notes = [f"{count} {what}" for what, count in draft.odd.items()]
    if draft.pending:
        notes.append(f"{len(draft.pending)} flows have no end")
    if open_ended:
        notes.append("the file ends inside its events: everything before that was read")
    if lanes.devices > 1:
        notes.append(f"{lanes.devices} devices: cores are numbered consecutively over the devices")
    return Sheet(
        adapter="qaic-trace",
        file=source.path.name,
        network=lanes.network,
        provenance=Provenance.VENDOR_FILE,
        ops=ops,
        totals=totals_of(draft.columns, lanes),
        frequencies_mhz=frequencies(ops),
        timeline=timeline,
        notes=tuple(notes),
    )


def read_events(path: Path, place: str) -> tuple[TraceDraft, bool]:
    draft = TraceDraft(SliceColumns(place))
    reader = EventReader(path)
    for event in reader:
        take = _TAKERS.get(text(event.get("ph")))
        if take is not None:
            take(draft, event)
    return draft, reader.open_ended


def _take_name(draft: TraceDraft, event: Event) -> None:
    name = text(arguments(event).get("name"))
    if event.get("name") == "thread_name":
        draft.lanes.name_thread(event, name)
    elif event.get("name") == "process_name":
        draft.lanes.name_process(event, name)


def _take_slice(draft: TraceDraft, event: Event) -> None:
    start, us = time_us(event.get("ts")), time_us(event.get("dur", 0))
    if start is None or us is None or us < 0:
        draft.odd["slices without a time were left out"] += 1
        return
    args, name = arguments(event), text(event.get("name"))
    waited = time_us(args.get("opSyncDurUs"))
    kind, memory = _kind(name, args), text(args.get("opMemory"), 40)
    dtypes, out_bytes = ((), None) if kind in WAITS else _operands(args)
    if kind in WAITS:
        memory, us = "", us if waited is None else max(us, waited)
    oc = number(args.get("oc"))  # its number in the core; without one, its name counts
    draft.columns.add(
        draft.lanes.number(event),
        OpGroup(kind, memory, dtypes),
        name,
        draft.ops.number(int(oc) if oc is not None else text(args.get("opName")) or kind),
        start,
        us,
        (
            None if kind in WAITS else _not_negative(args.get("opUCycle")),
            None if kind in WAITS else _not_negative(args.get("opPCycle")),
            out_bytes,
        ),
    )


def _kind(name: str, args: Event) -> str:
    """Of the argument, else of the name, which older traces end with the inference."""
    words = name.split()
    if words and words[0] in WAITS and len(words) <= 2:
        return words[0]
    return text(args.get("opKind"), 200).strip() or _ORDINAL.sub("", name).strip()


def _operands(args: Event) -> tuple[tuple[str, ...], float | None]:
    """Types (those of outputs first) and bytes of the output."""
    texts = [text(value, 2000) for key, value in args.items() if key.startswith("opOperand")]
    operands = [operand for part in texts if (operand := parse_operand(part))]
    operands.sort(key=lambda operand: not operand.output)
    types = tuple(dict.fromkeys(operand.dtype for operand in operands))
    stated = _not_negative(args.get("opOutputSize"))
    outputs = [operand.kib for operand in operands if operand.output]
    return types, stated if stated is not None else sum(outputs) * 1024 if outputs else None


def _not_negative(value: Any) -> float | None:
    figure = number(value)
    return figure if figure is not None and figure >= 0 else None


def _take_flow_start(draft: TraceDraft, event: Event) -> None:
    end = _flow_end(draft, event)
    if end is None:
        return
    if end.id in draft.pending:
        draft.odd["flows begin again before they end"] += 1
    draft.pending[end.id] = end


def _take_flow_end(draft: TraceDraft, event: Event) -> None:
    """Ids are used again on other devices: the latest beginning in the file is meant."""
    end = _flow_end(draft, event)
    if end is None:
        return
    begin = draft.pending.pop(end.id, None)
    if begin is None:
        draft.odd["flows end without a beginning"] += 1
    elif len(draft.flows) < _MOST_FLOWS:
        draft.flows.append((begin, end, begin.category == "true"))


def _flow_end(draft: TraceDraft, event: Event) -> FlowEnd | None:
    time, name = time_us(event.get("ts")), event.get("id")
    if time is None or not isinstance(name, int | str) or len(draft.pending) > _MOST_FLOWS:
        draft.odd["flows without a time or an id were left out"] += 1
        return None
    oc = number(arguments(event).get("oc"))
    op = None if oc is None else draft.ops.number(int(oc))
    category = text(event.get("cat"), 100)
    return FlowEnd(str(name)[:100], draft.lanes.number(event), time, op, category)


def _take_counter(draft: TraceDraft, event: Event) -> None:
    time = time_us(event.get("ts"))
    for key, value in arguments(event).items():
        figure = number(value)
        if time is None or figure is None or draft.samples >= _MOST_SAMPLES:
            continue
        draft.samples += 1
        series = draft.lanes.number(event), f"{text(event.get('name'), 100)} {key[:100]}"
        draft.counters.setdefault(series, []).append((time, figure))


_TAKERS = {
    "M": _take_name,
    "X": _take_slice,
    "s": _take_flow_start,
    "f": _take_flow_end,
    "C": _take_counter,
}
