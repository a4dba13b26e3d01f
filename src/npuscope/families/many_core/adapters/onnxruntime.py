"""The profile that onnxruntime writes (`enable_profiling`): a JSON array of timed nodes."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from msgspec import Struct, field

from npuscope.errors import FileError
from npuscope.families.many_core.adapters.columns import (
    Event,
    EventReader,
    arguments,
    number,
    text,
    time_us,
)
from npuscope.families.many_core.adapters.model import (
    Companions,
    ProfileFile,
    Sheet,
    SheetLane,
    SheetOp,
    SheetTimeline,
    SheetTotals,
)
from npuscope.profiling.model import Provenance

# --- Profiles of host runtimes: ops by name, nothing counted twice ---

# Each is an object of some 300 bytes.
MOST_HOST_EVENTS = 1_000_000


class KernelEvent(Struct, frozen=True):
    """Something a runtime timed. A frame only holds others, its own time is not an op's."""

    lane: int
    start_us: float
    end_us: float
    kind: str
    name: str
    engine: str
    dtypes: tuple[str, ...] = ()
    out_bytes: float | None = None
    frame: bool = False


class HostRun(Struct, frozen=True):
    """One inference."""

    lane: int
    start_us: float
    end_us: float


def own_times(events: Sequence[KernelEvent]) -> list[float]:
    """Duration of each event without those that lie inside it on the same lane.

    Of two with the same times the one that was written later is the outer: it ended later.
    """
    own = [event.end_us - event.start_us for event in events]
    order = sorted(
        range(len(events)),
        # Outer events before those inside them.
        key=lambda i: (events[i].lane, events[i].start_us, -events[i].end_us, -i),
    )
    open_: list[int] = []
    for i in order:
        event = events[i]
        while open_ and not _holds(events[open_[-1]], event):
            open_.pop()
        if open_:
            own[open_[-1]] -= event.end_us - event.start_us
        open_.append(i)
    # Whole microseconds: inner events may add up to more than the outer one.
    return [max(0.0, us) for us in own]


def _holds(outer: KernelEvent, inner: KernelEvent) -> bool:
    same = outer.lane == inner.lane and outer.start_us <= inner.start_us
    return same and inner.end_us <= outer.end_us


def op_rows(events: Sequence[KernelEvent], runs: Sequence[HostRun]) -> tuple[SheetOp, ...]:
    """One row per op, in the order of its first run; what ran outside inferences is left out."""
    finder = _RunFinder(runs)
    times: dict[tuple[str, str, str], dict[int, float]] = {}
    firsts: dict[tuple[str, str, str], KernelEvent] = {}
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for event, own in zip(events, own_times(events), strict=True):
        run = finder.find(event)
        if run is None or event.frame:
            continue
        key = event.name, event.kind, event.engine
        firsts.setdefault(key, event)
        by_run = times.setdefault(key, {})
        by_run[run] = by_run.get(run, 0.0) + own
        counts[key] += 1
    size, rows = max(1, len(runs)), []
    for key, event in firsts.items():
        by_run = times[key]
        # An op that a run did not reach took no time in it.
        spread = sorted([*by_run.values(), *[0.0] * (size - len(by_run))])
        row = SheetOp(
            core=0,
            engine=event.engine,
            kind=event.kind,
            memory="",
            dtypes=event.dtypes,
            name=event.name,
            count=max(1, round(counts[key] / size)),
            us=sum(by_run.values()) / size,
            out_bytes=event.out_bytes,
            spread_us=(spread[0], median(spread), spread[-1]),
        )
        rows.append(row)
    return tuple(rows)


class _RunFinder:
    """The run that an event lies in: one of its own lane if there is one."""

    def __init__(self, runs: Sequence[HostRun]) -> None:
        self.runs = runs
        self.by_lane: dict[int | None, list[int]] = defaultdict(list)
        for i in sorted(range(len(runs)), key=lambda i: runs[i].start_us):
            self.by_lane[runs[i].lane].append(i)
            self.by_lane[None].append(i)
        self.starts = {
            lane: [runs[i].start_us for i in numbers] for lane, numbers in self.by_lane.items()
        }

    def find(self, event: KernelEvent) -> int | None:
        own = self._find(event, event.lane)
        return own if own is not None else self._find(event, None)

    def _find(self, event: KernelEvent, lane: int | None) -> int | None:
        at = bisect_right(self.starts.get(lane, ()), event.start_us) - 1
        if at < 0:
            return None
        run = self.by_lane[lane][at]
        return run if event.start_us <= self.runs[run].end_us else None


def run_totals(runs: Sequence[HostRun]) -> SheetTotals | None:
    """The mean inference."""
    if not runs:
        return None
    us = sum(run.end_us - run.start_us for run in runs) / len(runs)
    return SheetTotals(us, inferences=len(runs))


def host_timeline(events: Sequence[KernelEvent], lanes: Sequence[SheetLane]) -> SheetTimeline:
    names = {name: i for i, name in enumerate(dict.fromkeys(event.name for event in events))}
    return SheetTimeline(
        lanes=tuple(lanes),
        names=tuple(names),
        lane=np.array([event.lane for event in events], np.int64),
        name=np.array([names[event.name] for event in events], np.int64),
        start_ns=np.array([round(event.start_us * 1000) for event in events], np.int64),
        end_ns=np.array([round(event.end_us * 1000) for event in events], np.int64),
    )


_RUN = "model_run"
_KERNEL = "_kernel_time"
_MARKS = (b'"session_initialization"', b'"model_loading_', b"_kernel_time", b'"model_run"')


class _Draft(Struct):
    place: str
    lanes: dict[tuple[str, str], int] = field(default_factory=dict)
    events: list[KernelEvent] = field(default_factory=list)
    runs: list[HostRun] = field(default_factory=list)

    def lane(self, event: Event) -> int:
        key = str(event.get("pid"))[:40], str(event.get("tid"))[:40]
        return self.lanes.setdefault(key, len(self.lanes))


def probe(source: ProfileFile) -> int:
    is_json = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{")
    return 90 if is_json and any(mark in source.head for mark in _MARKS) else 0


def read(source: ProfileFile, companions: Companions) -> Sheet:
    draft = _Draft(source.place)
    reader = EventReader(source.path)
    for event in reader:
        _take(draft, event)
    if not draft.events:
        raise FileError(
            "no node was timed in this profile",
            where=source.place,
            hint="set SessionOptions.enable_profiling, run the session, call end_profiling()",
        )
    notes = ["times are whole microseconds"]
    if reader.open_ended:
        notes.append("the file ends inside its events: everything before that was read")
    if not draft.runs:
        start, end = min(e.start_us for e in draft.events), max(e.end_us for e in draft.events)
        draft.runs.append(HostRun(draft.events[0].lane, start, end))
        notes.append("no model_run was recorded: all nodes are counted as one inference")
    return Sheet(
        adapter="onnxruntime",
        file=source.path.name,
        network="",
        provenance=Provenance.LOG,
        ops=op_rows(draft.events, draft.runs),
        totals=run_totals(draft.runs),
        timeline=host_timeline(
            draft.events,
            [
                SheetLane(f"onnxruntime {pid}", f"thread {tid}", 0, "CPU")
                for pid, tid in draft.lanes
            ],
        ),
        notes=tuple(notes),
    )


def _take(draft: _Draft, event: Event) -> None:
    start, us = time_us(event.get("ts")), time_us(event.get("dur"))
    name = text(event.get("name"))
    if event.get("ph") != "X" or start is None or us is None or us < 0:
        return
    if len(draft.events) + len(draft.runs) >= MOST_HOST_EVENTS:
        raise FileError(
            f"more than {MOST_HOST_EVENTS} events",
            where=draft.place,
            hint="profile fewer inferences",
        )
    if name == _RUN:
        draft.runs.append(HostRun(draft.lane(event), start, start + us))
    elif event.get("cat") == "Node" and name.endswith(_KERNEL):
        name, args = name.removesuffix(_KERNEL), arguments(event)
        kind = text(args.get("op_name"), 200)
        provider = text(args.get("provider"), 100).removesuffix("ExecutionProvider")
        size = number(args.get("output_size"))
        node = KernelEvent(
            lane=draft.lane(event),
            start_us=start,
            end_us=start + us,
            kind=kind or name,
            name=name or f"{kind} {text(args.get('node_index'), 20)}",
            engine=provider or "CPU",
            dtypes=_types(args),
            out_bytes=size if size is not None and size >= 0 else None,
        )
        draft.events.append(node)


def _types(args: Event) -> tuple[str, ...]:
    """Of the outputs first; each entry is {type: shape}."""
    types: dict[str, None] = {}
    for key in ("output_type_shape", "input_type_shape"):
        entries: Any = args.get(key)
        for entry in entries[:100] if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                types.update(dict.fromkeys(str(name)[:40] for name in list(entry)[:1]))
    return tuple(types)
