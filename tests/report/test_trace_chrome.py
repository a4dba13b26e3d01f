"""Chrome's JSON by itself: strict JSON, exact times, an order that old viewers take too."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from decimal import Decimal
from typing import Any

import numpy as np

from npuscope.report.trace.chrome import EXACT_NS, microseconds, write_chrome
from npuscope.text import safe_terminal
from npuscope.trace_builder import TraceBuilder
from npuscope.trace_model import TraceModel, floats
from trace_processor.samples import HOSTILE, every_feature, hostile, nested_at_random

Event = dict[str, Any]


def lines_of(model: TraceModel) -> list[str]:
    file = io.BytesIO()
    write_chrome(model, file)
    return file.getvalue().decode().splitlines()


def parsed(model: TraceModel) -> dict[str, Any]:
    return json.loads("\n".join(lines_of(model)), parse_constant=lambda word: 1 / 0)


def events_of(model: TraceModel, phases: str) -> list[Event]:
    return [event for event in parsed(model)["traceEvents"] if event["ph"] in phases]


def one_thread() -> tuple[TraceBuilder, int]:
    builder = TraceBuilder()
    return builder, builder.thread(builder.process("p", 1000), "t")


def test_one_event_a_line() -> None:
    model = every_feature()
    lines = lines_of(model)[1:-1]
    assert [json.loads(line.rstrip(",")) for line in lines] == parsed(model)["traceEvents"]


def test_times_are_exact_microseconds() -> None:
    builder, thread = one_thread()
    builder.add_slices(thread, [1, 1_000_000_007], [3, 1_000_001_012], "a")
    [line, other] = lines_of(builder.build())[-3:-1]
    assert '"ts":0.001,' in line
    assert '"dur":0.002,' in line
    assert '"ts":1000000.007,' in other
    assert '"dur":1.005,' in other


def test_every_nanosecond_has_its_own_text() -> None:
    random = np.random.default_rng(2)
    ns = random.integers(0, EXACT_NS, 20_000) >> random.integers(0, 50, 20_000)
    ns[:2000] = EXACT_NS - np.arange(1, 2001)
    assert [int(Decimal(text) * 1000) for text in microseconds(ns)] == ns.tolist()
    assert not any("e" in text for text in microseconds(ns))


def test_numbers_are_numbers_and_what_is_not_finite_is_null() -> None:
    builder, thread = one_thread()
    values = floats([1.5, np.nan, np.inf, -np.inf])
    builder.add_slices(thread, [0, 1, 2, 3], [1, 2, 3, 4], "a", "", {"x": values})
    found = [event["args"]["x"] for event in events_of(builder.build(), "X")]
    assert found == [1.5, None, None, None]


def test_absent_arguments_are_left_out() -> None:
    builder, thread = one_thread()
    column = floats([1, 2, 3], [True, False, True])
    builder.add_slices(thread, [0, 1, 2], [1, 2, 3], "a", "", {"x": column})
    found = [event["args"] for event in events_of(builder.build(), "X")]
    assert found == [{"x": 1.0}, {}, {"x": 3.0}]


def test_hostile_text_stays_text() -> None:
    events = events_of(hostile(), "X")
    shown = [safe_terminal(name) for name in HOSTILE for _ in range(2)]
    by_process = sorted(events, key=lambda event: event["pid"])
    assert [event["name"] for event in by_process] == shown
    assert [event["cat"] for event in by_process] == shown
    assert [event["args"] for event in by_process] == [{name: name} for name in shown]


def test_flows_have_numbers_of_their_own_and_start_with_their_slices() -> None:
    model = every_feature()
    starts = {event["id"]: event["ts"] for event in events_of(model, "s")}
    ends = {event["id"]: event["ts"] for event in events_of(model, "f")}
    assert len(starts) == len(ends) == len(model.flows)
    want = zip(model.flows.source, model.flows.target, strict=True)
    times = sorted(
        (model.slices.start_ns[s] / 1000, model.slices.start_ns[t] / 1000) for s, t in want
    )
    assert sorted((starts[number], ends[number]) for number in starts) == times
    assert {event["bp"] for event in events_of(model, "f")} == {"e"}


def test_slices_are_complete_events_where_no_flow_needs_more() -> None:
    builder, thread = one_thread()
    numbers = builder.add_slices(thread, [0, 0, 10, 30], [10, 5, 20, 40], "a")
    builder.add_flows(numbers[2], numbers[3])
    assert len(events_of(builder.build(), "X")) == 4
    builder.add_flows(numbers[0], numbers[3])
    model = builder.build()
    assert [len(events_of(model, phase)) for phase in "XBE"] == [0, 4, 4]


def test_begin_and_end_events_are_in_order_of_time() -> None:
    """The old viewer takes them as they come, thread by thread."""
    open_slices: dict[int, list[float]] = defaultdict(list)
    last: dict[int, float] = defaultdict(float)
    lengths: list[float] = []
    model = nested_at_random(7)
    for event in events_of(model, "BE"):
        pid, ts = event["pid"], event["ts"]
        assert ts >= last[pid]
        last[pid] = ts
        if event["ph"] == "B":
            open_slices[pid].append(ts)
        else:
            lengths.append(round(1000 * (ts - open_slices[pid].pop())))
    assert not any(open_slices.values())
    complete = [round(1000 * event["dur"]) for event in events_of(model, "X")]
    want = (model.slices.end_ns - model.slices.start_ns).tolist()
    assert sorted(lengths + complete) == sorted(want)
    assert len(lengths) > 100


def test_late_times_are_moved_to_zero_and_the_file_says_by_how_much() -> None:
    builder, thread = one_thread()
    base = 1_800_000_000_000_000_000
    builder.add_slices(thread, [base + 5, base + 58], [base + 58, base + 111], "a")
    builder.add_samples(builder.counter(0, "c"), [base + 60], [1])
    document = parsed(builder.build())
    times = [event["ts"] for event in document["traceEvents"] if event["ph"] in "XC"]
    assert times == [0, 0.053, 0.055]
    assert document["otherData"] == {"base_ns": str(base + 5)}
    builder, thread = one_thread()
    builder.add_slices(thread, [EXACT_NS - 2], [EXACT_NS - 1], "a")
    assert parsed(builder.build())["otherData"] == {"base_ns": "0"}
