"""What the trace processor must say of a file that was written from a TraceModel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from npuscope.text import safe_terminal
from npuscope.trace_model import ArgKind, TraceModel
from trace_processor.processor import Processor, load

_BY_THREAD = """
    select pid, tid, count(*), sum(dur) from slice
    join thread_track on slice.track_id = thread_track.id join thread using (utid)
    join process using (upid) group by pid, tid
"""
_SLICES = """
    select pid, tid, ts, dur, slice.name from slice
    join thread_track on slice.track_id = thread_track.id join thread using (utid)
    join process using (upid)
"""
_FLOWS = """
    select a.name, b.name from flow
    join slice a on a.id = flow.slice_out join slice b on b.id = flow.slice_in
"""
_ARGS = """
    select slice.name, key, coalesce(int_value, real_value, string_value) from slice
    join args using (arg_set_id) where key glob 'debug.*' or key glob 'args.*'
"""


def check_trace(model: TraceModel, data: bytes) -> None:
    """Nothing dropped, nothing complained about, times of all threads as they were."""
    with load(data) as processor:
        check_loaded(model, processor)


def check_loaded(model: TraceModel, processor: Processor) -> None:
    assert processor.query("select name, value from stats where severity != 'info' and value") == []
    events = len(model.slices) + len(model.instants)
    assert processor.value("select count(*) from slice") == events
    assert processor.value("select count(*) from flow") == len(model.flows)
    assert processor.value("select count(*) from counter") == len(model.samples)
    found = {(pid, tid): (count, ns) for pid, tid, count, ns in processor.query(_BY_THREAD)}
    assert found == _by_thread(model)


def check_slices(model: TraceModel, processor: Processor) -> None:
    """Each slice and each flow by itself; for traces of which names tell slices apart."""
    assert Counter(processor.query(_SLICES)) == Counter(_slices(model))
    names = [safe_terminal(model.strings[i]) for i in model.slices.name]
    ends = zip(model.flows.source, model.flows.target, strict=True)
    assert Counter(processor.query(_FLOWS)) == Counter((names[s], names[t]) for s, t in ends)


def check_arguments(model: TraceModel, processor: Processor) -> None:
    """Values of all arguments, by the names of their slices."""
    found = [(name, key.partition(".")[2], value) for name, key, value in processor.query(_ARGS)]
    assert Counter(found) == Counter(_arguments(model))


def _arguments(model: TraceModel) -> Iterator[tuple[str, str, object]]:
    for arg in model.slices.args:
        column = arg.column
        rows = (
            range(len(model.slices)) if column.present is None else np.flatnonzero(column.present)
        )
        for row in rows:
            value = column.values[row].item()
            shown = model.strings[value] if column.kind is ArgKind.TEXT else value
            yield model.strings[model.slices.name[row]], model.strings[arg.name], shown


def _by_thread(model: TraceModel) -> dict[tuple[int, int], tuple[int, int]]:
    thread = np.concatenate([model.slices.thread, model.instants.thread])
    count = np.bincount(thread, minlength=len(model.threads))
    length = np.zeros(len(model.threads), np.int64)
    np.add.at(length, model.slices.thread, model.slices.end_ns - model.slices.start_ns)
    return {
        (model.processes[thread.process].pid, thread.tid): (int(count[i]), int(length[i]))
        for i, thread in enumerate(model.threads)
        if count[i]
    }


def _slices(model: TraceModel) -> list[tuple[int, int, int, int, str]]:
    return [
        (*_place(model, thread), start, end - start, safe_terminal(model.strings[name]))
        for events in (model.slices, model.instants)
        for thread, start, end, name in zip(
            events.thread.tolist(),
            events.start_ns.tolist(),
            events.end_ns.tolist(),
            events.name.tolist(),
            strict=True,
        )
    ]


def _place(model: TraceModel, index: int) -> tuple[int, int]:
    thread = model.threads[index]
    return model.processes[thread.process].pid, thread.tid
