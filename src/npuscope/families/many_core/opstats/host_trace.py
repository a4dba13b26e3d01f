"""The host's side of a run, from a Chrome trace: laid beside the devices by time of day.

Times (`ts`) are microseconds of UTC, or after `otherData.utc_ns` where the file says so. What the
vendor's host trace holds is not documented; slices, instants and names of any such file are taken.
"""

from __future__ import annotations

from decimal import Decimal, DecimalException
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field

from npuscope.bounded_file import TRACE, parse_json, read_bytes
from npuscope.errors import FileError
from npuscope.families.many_core.opstats.trace_rows import HOST_PID
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.trace_builder import Args, TraceBuilder
from npuscope.trace_model import floats, ints, texts

# Microseconds of UTC in 2001: less is the time of some other clock.
_UTC_FROM_NS = 10**18
_LATEST_NS = 1 << 62
_MOST_ARGS = 32
_MOST_DIGITS = 19  # of a 64-bit number


class HostEvent(Struct, frozen=True):
    row: tuple[str, str]  # process and thread as the file numbers them
    name: str
    category: str
    start_ns: int
    end_ns: int | None  # None for an instant
    args: dict[str, Any]


class HostTrace(Struct, frozen=True):
    """Times are UTC."""

    place: str
    events: tuple[HostEvent, ...]
    processes: dict[str, str] = field(default_factory=dict)
    threads: dict[tuple[str, str], str] = field(default_factory=dict)


def read_host_trace(path: str | Path) -> HostTrace:
    path = Path(path)
    place = safe_terminal(str(path))
    data = read_bytes(path, TRACE)
    try:
        # Microseconds of UTC with three digits behind the point do not fit a double.
        whole = parse_json(data, parse_float=Decimal)
    except ValueError as error:
        raise FileError(f"not JSON: {error}", where=place) from None
    other = whole.get("otherData") if isinstance(whole, dict) else None
    entries = whole.get("traceEvents") if isinstance(whole, dict) else whole
    if not isinstance(entries, list):
        raise FileError("expected an array of events, or an object with traceEvents", where=place)
    entries = [entry for entry in entries if isinstance(entry, dict)]
    base_ns = _whole(other.get("utc_ns")) if isinstance(other, dict) else 0
    events = [event for entry in entries if (event := _event(entry, base_ns)) is not None]
    if not events:
        raise FileError("no slice or instant in this host trace", where=place)
    if min(event.start_ns for event in events) < _UTC_FROM_NS:
        raise FileError(
            "times of this host trace are not UTC, so it cannot be laid beside the devices",
            where=place,
            hint='add "otherData": {"utc_ns": N} with the time of day of ts 0',
        )
    processes, threads = {}, {}
    for entry in entries:
        args = entry.get("args")
        if entry.get("ph") != "M" or not isinstance(args, dict):
            continue
        if entry.get("name") == "process_name":
            processes[_row(entry)[0]] = str(args.get("name", ""))
        if entry.get("name") == "thread_name":
            threads[_row(entry)] = str(args.get("name", ""))
    return HostTrace(place, tuple(events), processes, threads)


def _event(event: dict[str, Any], base_ns: int) -> HostEvent | None:
    phase, at = event.get("ph"), _ns(event.get("ts"))
    if phase not in ("X", "i", "I") or at is None:
        return None
    length = _ns(event.get("dur")) if phase == "X" else 0
    if length is None or length < 0 or base_ns + at + length >= _LATEST_NS:
        return None
    args = event.get("args")
    return HostEvent(
        _row(event),
        str(event.get("name", "")),
        str(event.get("cat", "")),
        base_ns + at,
        base_ns + at + length if phase == "X" else None,
        args if isinstance(args, dict) else {},
    )


def _row(event: dict[str, Any]) -> tuple[str, str]:
    return str(event.get("pid", "")), str(event.get("tid", ""))


def _ns(value: Any) -> int | None:
    """Microseconds, also written as text, to whole nanoseconds."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    try:
        ns = int((Decimal(value) * 1000).to_integral_value())
    except (DecimalException, ValueError, OverflowError):
        return None
    return ns if abs(ns) < _LATEST_NS else None


def _whole(value: Any) -> int:
    """Nanoseconds of UTC; 0 for anything else."""
    text = str(value) if isinstance(value, int | str) else ""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def check_inferences(host: HostTrace, inferences: set[int]) -> None:
    """A host trace that names inferences must name one of the buffers'."""
    stated = {e.args["inference"] for e in host.events if isinstance(e.args.get("inference"), int)}
    if stated and not stated & inferences:
        raise FileError(
            f"the host trace is of {_numbered(stated)}, the stats buffers of "
            f"{_numbered(inferences)}",
            where=host.place,
            hint="give the host trace of the run that wrote the buffers",
        )


def of_inferences(host: HostTrace, inferences: set[int]) -> HostTrace | None:
    """Without events that say they belong to another inference; None where none are left."""
    events = tuple(e for e in host.events if e.args.get("inference", -1) in (*inferences, -1))
    return replace(host, events=events) if events else None


def _numbered(inferences: set[int]) -> str:
    first, last = min(inferences), max(inferences)
    return f"inference {first}" if first == last else f"inferences {first} to {last}"


def host_start_ns(host: HostTrace) -> int:
    return min(event.start_ns for event in host.events)


def add_host(builder: TraceBuilder, host: HostTrace, base_ns: int) -> None:
    """Its slices and instants, `base_ns` being time 0."""
    rows: dict[tuple[str, str], int] = {}
    processes: dict[str, int] = {}
    for key in dict.fromkeys(event.row for event in host.events):
        pid = key[0]
        if pid not in processes:
            name = host.processes.get(pid, "HOST_PROC")
            processes[pid] = builder.process(name, HOST_PID + len(processes))
        rows[key] = builder.thread(processes[pid], host.threads.get(key, f"thread {key[1]}"))
    for instants in (False, True):
        mine = [event for event in host.events if (event.end_ns is None) == instants]
        if not mine:
            continue
        threads = np.array([rows[event.row] for event in mine], np.int32)
        start = np.array([event.start_ns - base_ns for event in mine], np.int64)
        names = builder.texts(event.name for event in mine)
        categories = builder.texts(event.category or "host" for event in mine)
        if instants:
            builder.add_instants(threads, start, names, categories, _args(builder, mine))
            continue
        end = np.array([(event.end_ns or 0) - base_ns for event in mine], np.int64)
        builder.add_slices(
            threads, start, end, names, categories, _args(builder, mine), overlapping=True
        )


def _args(builder: TraceBuilder, events: list[HostEvent]) -> Args:
    """One column per name; values that are neither number nor text are left out."""
    names = list(dict.fromkeys(name for event in events for name in event.args))[:_MOST_ARGS]
    args = {}
    for name in names:
        values = [event.args.get(name) for event in events]
        numbers = [isinstance(v, int | Decimal) and not isinstance(v, bool) for v in values]
        whole = all(isinstance(v, int) for v, n in zip(values, numbers, strict=True) if n)
        texted = [isinstance(value, str) for value in values]
        if any(texted):
            ids = builder.texts(value if isinstance(value, str) else "" for value in values)
            args[name] = texts(ids, texted)
        elif any(numbers):
            plain = [float(v) if n else 0 for v, n in zip(values, numbers, strict=True)]  # type: ignore[arg-type]
            args[name] = ints(plain, numbers) if whole else floats(plain, numbers)
    return args
