"""Both trace files, as the Perfetto trace processor reads them."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
import pytest

from npuscope.report.trace import chrome, perfetto
from npuscope.text import safe_terminal
from npuscope.trace_builder import TraceBuilder
from npuscope.trace_model import TraceModel, ticks_to_ns
from trace_processor.checks import check_arguments, check_loaded, check_slices, check_trace
from trace_processor.processor import Processor, load
from trace_processor.samples import (
    HOSTILE,
    every_feature,
    hostile,
    many_core_run,
    nested_at_random,
)

Write = Callable[[TraceModel, BinaryIO], None]
BOTH = pytest.mark.parametrize(
    ("write", "args"),
    [(perfetto.write_perfetto, "debug"), (chrome.write_chrome, "args")],
    ids=["perfetto", "chrome"],
)
LARGE = pytest.mark.skipif(
    os.environ.get("NPUSCOPE_LARGE") != "1", reason="NPUSCOPE_LARGE=1 asks for it"
)


def written(write: Write, model: TraceModel) -> bytes:
    file = io.BytesIO()
    write(model, file)
    return file.getvalue()


def args_of(processor: Processor, prefix: str, name: str) -> list[tuple[str, object]]:
    rows = processor.query(
        "select key, coalesce(int_value, real_value, string_value) from slice "
        f"join args using (arg_set_id) where slice.name = '{name}' and key glob '{prefix}.*'"
    )
    return sorted((key.removeprefix(f"{prefix}."), value) for key, value in rows)


@pytest.fixture(scope="module", params=["debug", "args"], ids=["perfetto", "chrome"])
def loaded(request: pytest.FixtureRequest) -> Iterator[tuple[Processor, str]]:
    """A trace with every feature, and what the processor puts in front of arguments."""
    write = perfetto.write_perfetto if request.param == "debug" else chrome.write_chrome
    with load(written(write, every_feature())) as processor:
        yield processor, request.param


def test_every_feature_arrives(loaded: tuple[Processor, str]) -> None:
    model = every_feature()
    assert model.undrawn_flows == 0
    check_loaded(model, loaded[0])
    check_slices(model, loaded[0])


def test_arguments(loaded: tuple[Processor, str]) -> None:
    assert args_of(*loaded, "outer") == [("clock", 1450.25), ("cycles", 1), ("shape", "<1>")]
    assert args_of(*loaded, "inner") == [("cycles", -2), ("shape", "<2>")]
    assert args_of(*loaded, "sync") == [("clock", 1e300), ("cycles", 2**62)]
    assert args_of(*loaded, "ring") == [("port", 100), ("port", 101)]
    assert args_of(*loaded, "barrier HVX") == []


def test_names_of_threads(loaded: tuple[Processor, str]) -> None:
    threads = loaded[0].query(
        "select pid, process.name, tid, thread.name from thread join process using (upid) "
        "where pid > 0 and thread.name is not null order by pid, tid"
    )
    assert threads == [
        (2000, "Core 0", 1, "HVX"),
        (2000, "Core 0", 2, "barrier"),
        (2001, "Core 1", 1, "DMA"),
        (2001, "Core 1", 2, "DMA 2"),
    ]


def test_categories_and_depth(loaded: tuple[Processor, str]) -> None:
    rows = loaded[0].query("select distinct name, category, depth from slice where dur > 0")
    assert sorted(rows) == [
        ("barrier HVX", "wait", 0),
        ("copy", "dma", 0),
        ("inner", "aic", 1),
        ("next", "aic", 0),
        ("outer", "aic", 0),
    ]


def test_counters_keep_their_values(loaded: tuple[Processor, str]) -> None:
    rows = loaded[0].query(
        "select pid, ts, value from counter join process_counter_track t "
        "on t.id = counter.track_id join process using (upid) order by pid, ts"
    )
    assert rows == [
        (2000, 100, 1450.5),
        (2000, 150, 1233.0),
        (2000, 300, 1e-3),
        (2001, 100, 0.0),
        (2001, 200, 2.0**40),
    ]


@BOTH
def test_hostile_text_does_no_harm(write: Write, args: str) -> None:
    model = hostile()
    with load(written(write, model)) as processor:
        check_loaded(model, processor)
        values = processor.query("select string_value from args where key glob '*.plain'")
    assert set(values) == {("plain",)}


def test_hostile_text_stays_text() -> None:
    """In JSON the processor doubles backslashes: there test_trace_chrome looks at the names."""
    model = hostile()
    with load(written(perfetto.write_perfetto, model)) as processor:
        check_slices(model, processor)
        names = processor.query("select name from process where pid >= 1000 order by pid")
    assert [name or "" for (name,) in names] == [safe_terminal(name) for name in HOSTILE]


@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_slices_and_flows_that_share_their_times(write: Write, args: str, seed: int) -> None:
    model = nested_at_random(seed)
    assert len(model.flows) > 50
    with load(written(write, model)) as processor:
        check_loaded(model, processor)
        check_slices(model, processor)
        check_arguments(model, processor)


@BOTH
def test_fifty_thousand_ops(write: Write, args: str) -> None:
    model = many_core_run(50_000)
    check_trace(model, written(write, model))


@LARGE
@BOTH
def test_a_million_ops(write: Write, args: str) -> None:
    model = many_core_run(1_000_000)
    assert len(model.flows) > 249_000
    check_trace(model, written(write, model))


@BOTH
def test_an_empty_trace(write: Write, args: str) -> None:
    check_trace(TraceBuilder().build(), written(write, TraceBuilder().build()))


@BOTH
def test_blocks_do_not_change_the_file(
    write: Write, args: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for model in (every_feature(), nested_at_random(5)):
        whole = written(write, model)
        for rows in (1, 7):
            monkeypatch.setattr(perfetto, "ROWS", rows)
            monkeypatch.setattr(chrome, "ROWS", rows)
            assert written(write, model) == whole
        monkeypatch.undo()


@BOTH
def test_a_large_trace_is_written_in_small_blocks(write: Write, args: str) -> None:
    class Sizes(io.RawIOBase):
        largest = total = 0

        def write(self, data: bytes) -> int:
            self.largest, self.total = max(self.largest, len(data)), self.total + len(data)
            return len(data)

    sizes = Sizes()
    write(many_core_run(100_000), sizes)
    assert sizes.largest < sizes.total / 4


@BOTH
def test_neighbours_by_ticks_are_all_kept(write: Write, args: str) -> None:
    """Ticks of 52.083 ns: a duration that is rounded by itself would overlap the next slice."""
    builder = TraceBuilder()
    thread = builder.thread(builder.process("p", 1000), "t")
    ends = np.cumsum(np.random.default_rng(3).integers(1, 50, 5000))
    start, end = ticks_to_ns(ends[:-1], 19_200_000), ticks_to_ns(ends[1:], 19_200_000)
    builder.add_slices(thread, start, end, "op")
    model = builder.build()
    with load(written(write, model)) as processor:
        check_loaded(model, processor)
        check_slices(model, processor)
        assert processor.value("select max(depth) from slice") == 0
