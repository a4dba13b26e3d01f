"""The frames of a plan as a trace: one row for each unit, and the bytes of external RAM."""

from __future__ import annotations

import numpy as np

from npuscope.application.plan import Plan
from npuscope.trace_builder import TraceBuilder
from npuscope.trace_model import ArgKind, Column, TraceModel
from npuscope.version import __version__

_NS = 1_000_000


def plan_trace(plan: Plan) -> TraceModel:
    """The worst frame of each kind, then frames one behind the other."""
    builder = TraceBuilder()
    for number, kind in enumerate(plan.frame.frames, 1):
        name = f"frame: {kind.mode}" if kind.mode else "frame"
        _add(builder, name, number, kind.slots)
    _add(builder, "frames", len(plan.frame.frames) + 1, plan.frame.steady)
    return builder.build()


def _add(builder: TraceBuilder, name: str, pid: int, slots: tuple) -> None:  # type: ignore[type-arg]
    process = builder.process(name, pid, pid, f"predicted by npuscope {__version__}")
    units = dict.fromkeys(unit for slot in slots for unit, _, _ in slot.busy)
    for sort, unit in enumerate(units):
        thread = builder.thread(process, unit, sort=sort)
        rows = [
            (slot, start, end)
            for slot in slots
            for on, start, end in slot.busy
            if on == unit and end > start
        ]
        rows.sort(key=lambda row: row[1])
        starts = np.array([round(start * _NS) for _, start, _ in rows], np.int64)
        ends = np.array([round(end * _NS) for _, _, end in rows], np.int64)
        # Rounding must not make neighbours overlap.
        ends[:-1] = np.minimum(ends[:-1], starts[1:])
        args = {
            "frame": Column(ArgKind.INT, np.array([slot.frame for slot, _, _ in rows], np.int64)),
            "run": Column(ArgKind.INT, np.array([slot.run for slot, _, _ in rows], np.int64)),
        }
        names = builder.texts(slot.step for slot, _, _ in rows)
        if len(rows):
            builder.add_slices(thread, starts, ends, names, "step", args)
