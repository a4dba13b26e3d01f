"""The profile that onnxruntime writes (`enable_profiling`): a JSON array of timed nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from npuscope.errors import FileError
from npuscope.manycore.adapters.host_runs import (
    MOST_HOST_EVENTS,
    HostEvent,
    HostRun,
    host_timeline,
    op_rows,
    run_totals,
)
from npuscope.manycore.adapters.json_events import (
    Event,
    EventReader,
    arguments,
    number,
    text,
    time_us,
)
from npuscope.manycore.adapters.model import Lane, Sheet
from npuscope.manycore.adapters.source import Companions, Source
from npuscope.profile.model import Provenance

_RUN = "model_run"
_KERNEL = "_kernel_time"
_MARKS = (b'"session_initialization"', b'"model_loading_', b"_kernel_time", b'"model_run"')


@dataclass(slots=True)
class _Draft:
    place: str
    lanes: dict[tuple[str, str], int] = field(default_factory=dict)
    events: list[HostEvent] = field(default_factory=list)
    runs: list[HostRun] = field(default_factory=list)

    def lane(self, event: Event) -> int:
        key = str(event.get("pid"))[:40], str(event.get("tid"))[:40]
        return self.lanes.setdefault(key, len(self.lanes))


def probe(source: Source) -> int:
    is_json = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{")
    return 90 if is_json and any(mark in source.head for mark in _MARKS) else 0


def read(source: Source, companions: Companions) -> Sheet:
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
        notes.append("the file ends within its events: what stands before was read")
    if not draft.runs:
        draft.runs.append(_whole(draft.events))
        notes.append("no model_run was recorded: all nodes are taken for one inference")
    return Sheet(
        adapter="onnxruntime",
        file=source.path.name,
        network="",
        provenance=Provenance.LOG,
        ops=op_rows(draft.events, draft.runs),
        totals=run_totals(draft.runs),
        timeline=host_timeline(draft.events, _rows(draft)),
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
        draft.events.append(_node(draft, event, name.removesuffix(_KERNEL), start, us))


def _node(draft: _Draft, event: Event, name: str, start: float, us: float) -> HostEvent:
    args = arguments(event)
    kind = text(args.get("op_name"), 200)
    provider = text(args.get("provider"), 100).removesuffix("ExecutionProvider")
    size = number(args.get("output_size"))
    return HostEvent(
        lane=draft.lane(event),
        start_us=start,
        end_us=start + us,
        kind=kind or name,
        name=name or f"{kind} {text(args.get('node_index'), 20)}",
        engine=provider or "CPU",
        dtypes=_types(args),
        out_bytes=size if size is not None and size >= 0 else None,
    )


def _types(args: Event) -> tuple[str, ...]:
    """Of the outputs first; each entry is {type: shape}."""
    found: dict[str, None] = {}
    for key in ("output_type_shape", "input_type_shape"):
        entries: Any = args.get(key)
        for entry in entries[:100] if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                found.update(dict.fromkeys(str(name)[:40] for name in list(entry)[:1]))
    return tuple(found)


def _whole(events: list[HostEvent]) -> HostRun:
    start, end = min(e.start_us for e in events), max(e.end_us for e in events)
    return HostRun(events[0].lane, start, end)


def _rows(draft: _Draft) -> list[Lane]:
    return [Lane(f"onnxruntime {pid}", f"thread {tid}", 0, "CPU") for pid, tid in draft.lanes]
