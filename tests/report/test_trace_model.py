"""TraceModel and its builder: order, validation, threads for what overlaps."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import FileError
from npuscope.structs import replace
from npuscope.trace_builder import TraceBuilder, lanes
from npuscope.trace_model import (
    Process,
    Thread,
    TraceModel,
    check,
    floats,
    ints,
    overlapping,
    texts,
    ticks_to_ns,
)
from trace_processor.samples import every_feature, many_core_run, nested_at_random


def one_thread() -> tuple[TraceBuilder, int]:
    builder = TraceBuilder()
    return builder, builder.thread(builder.process("p", 1000), "row")


def names(model: TraceModel) -> list[str]:
    return [model.strings[i] for i in model.slices.name]


def test_samples_are_sound() -> None:
    for model in (every_feature(), nested_at_random(1), many_core_run(2000)):
        assert check(model) == ()


def test_slices_stand_by_start_then_empty_ones_then_the_longest() -> None:
    builder, thread = one_thread()
    ids = builder.texts(["inner", "late", "outer", "empty", "empty too"])
    builder.add_slices(thread, [5, 30, 5, 5, 5], [8, 40, 20, 5, 5], ids)
    assert names(builder.build()) == ["empty", "empty too", "outer", "inner", "late"]


def test_flows_follow_their_slices() -> None:
    builder, thread = one_thread()
    a, b, c = builder.add_slices(thread, [20, 0, 10], [30, 10, 20], builder.texts("abc"))
    builder.add_flows([b, c], [c, a], builder.texts(["x", "y"]))
    model = builder.build()
    assert names(model) == ["b", "c", "a"]
    assert list(zip(model.flows.source, model.flows.target, strict=True)) == [(0, 1), (1, 2)]
    assert [model.strings[i] for i in model.flows.category] == ["x", "y"]


def test_flows_that_point_back_in_time_are_left_out_and_counted() -> None:
    builder, thread = one_thread()
    a, b = builder.add_slices(thread, [0, 10], [10, 20], "s")
    builder.add_flows([b, a, a], [a, b, a])
    model = builder.build()
    assert len(model.flows) == 1
    assert model.undrawn_flows == 2


def test_arguments_of_batches_come_together() -> None:
    builder, thread = one_thread()
    builder.add_slices(thread, [10, 20], [11, 21], "a", "", {"n": ints([1, 2]), "x": floats(0.5)})
    builder.add_slices(thread, [0], [1], "b", "", {"n": ints([3], [False]), "t": texts(0)})
    builder.add_slices(thread, [15], [16], "c", "", {"n": ints(4)})
    model = builder.build()
    columns = {model.strings[arg.name]: arg.column for arg in model.slices.args}
    assert columns["n"].values.tolist() == [0, 1, 4, 2]
    assert columns["n"].present is not None
    assert columns["n"].present.tolist() == [False, True, True, True]
    assert columns["x"].present is not None
    assert columns["x"].present.tolist() == [False, True, False, True]
    assert columns["x"].values[1] == 0.5


def test_an_argument_that_all_have_needs_no_mask() -> None:
    builder, thread = one_thread()
    builder.add_slices(thread, [0, 5], [1, 6], "a", "", {"n": ints([1, 2])})
    [arg] = builder.build().slices.args
    assert arg.column.present is None


def test_an_argument_may_be_a_number_here_and_a_text_there() -> None:
    builder, thread = one_thread()
    builder.add_slices(thread, 0, 1, "a", "", {"v": ints(7)})
    builder.add_slices(thread, 5, 6, "a", "", {"v": texts(builder.text("seven"))})
    model = builder.build()
    assert [model.strings[arg.name] for arg in model.slices.args] == ["v", "v"]


def test_overlapping_slices_of_a_thread_are_refused() -> None:
    builder, thread = one_thread()
    builder.add_slices(thread, [0, 10, 14, 30], [20, 25, 16, 40], "a")
    with pytest.raises(FileError, match=r"slices overlap .* \(1, first on row\)"):
        builder.build()


@pytest.mark.parametrize(
    ("spans", "crossing"),
    [
        ([(0, 10), (10, 20)], 0),
        ([(0, 10), (0, 10), (0, 5), (5, 10)], 0),
        ([(0, 10), (9, 11)], 1),
        ([(0, 10), (2, 4), (3, 5)], 1),
        ([(0, 10), (10, 10), (10, 12)], 0),
        ([(0, 100), (10, 20), (20, 101), (101, 103)], 1),
    ],
)
def test_what_crosses(spans: list[tuple[int, int]], crossing: int) -> None:
    builder, thread = one_thread()
    other = builder.thread(0, "other")
    start, end = np.transpose(spans)
    if crossing:
        with pytest.raises(FileError):
            _model_of(builder, thread, start, end)
        return
    builder.add_slices(other, [3], [7], "elsewhere")
    assert len(overlapping(_model_of(builder, thread, start, end).slices)) == 0


def _model_of(builder: TraceBuilder, thread: int, start: np.ndarray, end: np.ndarray) -> TraceModel:
    builder.add_slices(thread, start, end, "s")
    return builder.build()


def test_transfers_in_flight_get_threads_of_their_own() -> None:
    builder, thread = one_thread()
    start, end = [0, 1, 2, 12, 20], [10, 20, 12, 30, 21]
    builder.add_slices(thread, start, end, "dma", overlapping=True)
    builder.add_slices(thread, [40, 41], [50, 51], "dma", overlapping=True)
    model = builder.build()
    assert [row.name for row in model.threads] == ["row", "row 2", "row 3"]
    assert [row.tid for row in model.threads] == [1, 2, 3]
    assert len(model.slices) == 7


def test_lanes_are_as_few_as_possible() -> None:
    random = np.random.default_rng(4)
    start = random.integers(0, 1000, 300)
    end = start + random.integers(0, 60, 300)
    found = lanes(start, end)
    for lane in np.unique(found):
        rows = np.flatnonzero(found == lane)
        rows = rows[np.lexsort((end[rows], start[rows]))]
        assert (start[rows][1:] >= end[rows][:-1]).all()
    at_once = max(int(((start <= t) & (end > t)).sum()) for t in range(1100))
    assert found.max() + 1 == at_once


def test_ticks_are_rounded_at_any_size() -> None:
    ticks = np.array([0, 1, 12, 2606, 2**62 // 10**9 * 19_200_000])
    exact = [round(int(tick) * 10**9 / 19_200_000) for tick in ticks[:-1]]
    assert ticks_to_ns(ticks, 19_200_000).tolist() == [*exact, 2**62 // 10**9 * 10**9]
    assert ticks_to_ns([2606], 19_200_000)[0] == 135_729


def test_what_check_finds() -> None:
    model = every_feature()
    slices, flows = model.slices, model.flows
    double = (*model.processes, Process(2000, "again"))
    bad_thread = (*model.threads, Thread(0, 0, "zero"))
    for broken, expected in (
        (replace(model, processes=double), "processes need different pids"),
        (replace(model, threads=bad_thread), "tids of at least 1"),
        (replace(model, threads=(*model.threads, model.threads[0])), "different tids"),
        (replace(model, counter_tracks=model.counter_tracks[:1] * 2), "different names"),
        (replace(model, slices=replace(slices, name=slices.name + 1000)), "no name"),
        (replace(model, slices=replace(slices, thread=slices.thread + 9)), "no thread"),
        (replace(model, slices=replace(slices, category=slices.category - 99)), "no category"),
        (replace(model, strings=model.strings[:1]), "no text"),
        (replace(model, slices=replace(slices, end_ns=slices.start_ns - 1)), "before it starts"),
        (replace(model, slices=replace(slices, start_ns=slices.start_ns - 500)), "before time 0"),
        (replace(model, slices=replace(slices, start_ns=slices.start_ns[::-1])), "ordered by time"),
        (replace(model, flows=replace(flows, target=flows.target + 99)), "no slice at one end"),
        (replace(model, flows=replace(flows, target=flows.source)), "starts before its source"),
    ):
        assert any(expected in problem for problem in check(broken)), expected
