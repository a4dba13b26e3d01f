"""Timelines of profiles: sound in both formats, and true to what was counted."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

import npuscope
from compiler.nets import Net, random_network
from npuscope import building
from npuscope.advice.refused import buffers_made, buffers_read, roots
from npuscope.demo_network import demo_graph
from npuscope.graph.model import Graph
from npuscope.profiling.model import Profile
from npuscope.profiling.run import profile as run_profile
from npuscope.program.model import Program
from npuscope.report.profile_trace import trace_of_profile
from npuscope.report.trace.chrome import write_chrome
from npuscope.report.trace.perfetto import write_perfetto
from npuscope.structs import replace
from npuscope.trace_model import TraceModel
from sample_profile import sample_profile
from trace_processor.checks import check_trace
from trace_processor.processor import load
from trace_processor.samples import HOSTILE

Write = Callable[[TraceModel, BinaryIO], None]
BOTH = pytest.mark.parametrize("write", [write_perfetto, write_chrome], ids=["perfetto", "chrome"])


def with_software() -> Graph:
    """Two branches that meet again, and a tail on the processor."""
    net = Net(3)
    x = net.conv(net.input((1, 16, 16, 3)), 16)
    x = net.add(net.conv(x, 16), net.conv(x, 16, (1, 1)))
    return net.graph(net.softmax(net.reshape(x, (1, 16 * 16 * 16))))


NETWORKS = {
    "demo": demo_graph,
    "branches": lambda: random_network(5),
    "software": with_software,
}


@dataclass(frozen=True)
class Made:
    profile: Profile
    program: Program
    trace: TraceModel


def made_of(source: Graph | Path) -> Made:
    build = building.build(source, {})
    profile = run_profile(build.program, build.machine, build.graph)
    trace = trace_of_profile(profile, build.program, build.machine)
    return Made(profile, build.program, trace)


@pytest.fixture(scope="module", params=NETWORKS)
def made(request: pytest.FixtureRequest) -> Made:
    return made_of(NETWORKS[request.param]())


@pytest.fixture(scope="module")
def demo() -> Made:
    return made_of(demo_graph())


def written(write: Write, trace: TraceModel) -> bytes:
    file = io.BytesIO()
    write(trace, file)
    return file.getvalue()


def rows_of(trace: TraceModel, name: str) -> np.ndarray:
    """Numbers of the slices of a thread."""
    thread = [thread.name for thread in trace.threads].index(name)
    return np.flatnonzero(trace.slices.thread == thread)


def length_ns(trace: TraceModel, rows: np.ndarray) -> np.ndarray:
    return trace.slices.end_ns[rows] - trace.slices.start_ns[rows]


def category(trace: TraceModel, row: int) -> str:
    return trace.strings[trace.slices.category[row]]


def epoch_rows(trace: TraceModel) -> np.ndarray:
    """The slices that stand for epochs, without the phases inside of them."""
    rows = rows_of(trace, "epochs")
    return np.array([row for row in rows if category(trace, row) != "phase"])


def samples(trace: TraceModel, start: str) -> tuple[np.ndarray, np.ndarray]:
    """Times and values of the counter whose name starts so."""
    [track] = [i for i, t in enumerate(trace.counter_tracks) if t.name.startswith(start)]
    mine = trace.samples.track == track
    return trace.samples.ns[mine], trace.samples.value[mine]


@BOTH
def test_the_trace_processor_takes_all_of_it(made: Made, write: Write) -> None:
    assert made.trace.undrawn_flows == 0
    assert min(map(len, (made.trace.slices, made.trace.samples, made.trace.flows))) > 0
    check_trace(made.trace, written(write, made.trace))


def test_networks_of_others(shared_models: Path) -> None:
    for name in (
        "mobilenet_v2_0.35_128_int8.tflite",
        "yolo11n_256_quant_pc_ii_seg_coco80-st.tflite",
        "mobilenetv2_a025_pt_224_rand_qdq_int8.onnx",
    ):
        trace = made_of(shared_models / name).trace
        for write in (write_perfetto, write_chrome):
            check_trace(trace, written(write, trace))


def test_both_formats_show_the_same(made: Made) -> None:
    found = []
    for write in (write_perfetto, write_chrome):
        with load(written(write, made.trace)) as processor:
            tables = ("slice", "counter", "flow")
            found.append([processor.value(f"select count(*) from {table}") for table in tables])
    assert found[0] == found[1]
    assert found[0] == [len(made.trace.slices), len(made.trace.samples), len(made.trace.flows)]


def test_epochs_follow_each_other_without_a_gap(made: Made) -> None:
    rows = epoch_rows(made.trace)
    start, end = made.trace.slices.start_ns[rows], made.trace.slices.end_ns[rows]
    assert len(rows) == len(made.profile.epochs)
    assert (start[1:] == end[:-1]).all()
    ms = np.cumsum([epoch.ms for epoch in made.profile.epochs])
    assert np.abs(end - ms * 1e6).max() <= 0.5 + 1e-3
    [whole] = rows_of(made.trace, "inference")
    assert made.trace.slices.end_ns[whole] == end[-1] == round(made.profile.total_ms * 1e6)


def test_phases_fill_their_epoch(made: Made) -> None:
    rows = rows_of(made.trace, "epochs")
    phases = np.array([row for row in rows if category(made.trace, row) == "phase"])
    assert (
        length_ns(made.trace, phases).sum() == length_ns(made.trace, epoch_rows(made.trace)).sum()
    )
    assert length_ns(made.trace, phases).min() > 0


def test_names_and_arguments_of_an_epoch(demo: Made) -> None:
    row = epoch_rows(demo.trace)[0]
    assert demo.trace.strings[demo.trace.slices.name[row]] == "2 Conv, Add, Sub"
    values = {demo.trace.strings[a.name]: a.column for a in demo.trace.slices.args}
    shown = {name: column.values[row].item() for name, column in values.items()}
    strings = demo.trace.strings
    assert (shown["first"], shown["last"], shown["core_npu_cycles"]) == (2, 2, 61286)
    assert (shown["read_bytes"], shown["write_bytes"]) == (56880, 73728)
    assert strings[shown["origin"]] == "Conv2D:stem | Conv2D:block0/depthwise"
    assert [strings[shown[name]] for name in ("kind", "bound", "provenance")] == [
        "HW",
        "features",
        "simulation",
    ]
    assert values["predicted_ms"].present is not None and not values["predicted_ms"].present[row]


def test_units_run_while_the_core_does(demo: Made) -> None:
    rows = rows_of(demo.trace, "CONVACC")
    cycles = [e.counters.core_cycles for e in demo.profile.epochs if e.units.get("CONVACC")]
    assert length_ns(demo.trace, rows).sum() == pytest.approx(sum(cycles), abs=len(cycles))
    assert demo.trace.strings[demo.trace.slices.name[rows[0]]] == "2 CONVACC"


def test_engines_are_drawn_as_long_as_they_were_active(demo: Made) -> None:
    rows = rows_of(demo.trace, "STRENG 9 out")
    active = [
        engine.active_cycles
        for epoch in demo.profile.epochs
        for engine in epoch.counters.engines
        if (engine.id, engine.dir) == (9, "o")
    ]
    assert length_ns(demo.trace, rows).tolist() == active


def test_engine_of_a_block_adds_up_and_stays_inside_of_the_core() -> None:
    epoch = sample_profile().epochs[0]
    engines = tuple(replace(engine, id=1, dir="i") for engine in epoch.counters.engines)
    counters = replace(epoch.counters, engines=engines)
    trace = trace_of_profile(replace(sample_profile(), epochs=(replace(epoch, counters=counters),)))
    [row] = rows_of(trace, "STRENG 1 in")
    core = round(epoch.counters.core_cycles)
    assert sum(engine.active_cycles for engine in engines) > core
    assert length_ns(trace, row) == core


def test_software_kernels_are_the_post_phase(demo: Made) -> None:
    [row] = rows_of(demo.trace, "software kernels")
    assert demo.trace.strings[demo.trace.slices.name[row]] == "Softmax"
    cycles = demo.profile.epochs[-1].counters.post_cycles
    assert length_ns(demo.trace, row) == pytest.approx(cycles / 0.8, abs=1)


def test_bandwidth_times_time_is_what_was_moved(made: Made) -> None:
    for number, way in ((0, "read"), (1, "write")):
        ns, rate = samples(made.trace, f"busif {number} {way}")
        moved = sum(
            getattr(bus, f"{way}_bytes")
            for epoch in made.profile.epochs
            for bus in epoch.counters.busif
            if bus.id == number
        )
        assert (rate[:-1] * np.diff(ns)).sum() / 1000 == pytest.approx(moved)
        assert rate[-1] == 0


def test_memory_in_use_peaks_where_the_report_says(made: Made) -> None:
    pools = [pool for pool in made.profile.memory.pools if pool.live_bytes]
    assert pools
    for pool in pools:
        ns, used = samples(made.trace, f"{pool.name} in use")
        assert used.max() == pool.live_bytes
        assert ns[-1] == round(made.profile.total_ms * 1e6)


def test_flows_lead_from_producers_to_consumers() -> None:
    made = made_of(random_network(5))
    slices = {row: place for place, row in enumerate(epoch_rows(made.trace).tolist())}
    numbers = [epoch.first for epoch in made.profile.epochs]
    ends = zip(made.trace.flows.source.tolist(), made.trace.flows.target.tolist(), strict=True)
    drawn = {(numbers[slices[a]], numbers[slices[b]]) for a, b in ends}
    assert drawn == flows_of(made.program)
    assert len(drawn) > len(numbers) - 2  # a network with branches


def flows_of(program: Program) -> set[tuple[int, int]]:
    """Pairs of epochs: who wrote a buffer last, and who reads it."""
    made: dict[str, int] = {}
    found = set()
    for epoch in program.executed:
        read = roots(buffers_read(epoch), program)
        found |= {(made[name], epoch.number) for name in read if name in made}
        made |= dict.fromkeys(roots(buffers_made(epoch), program), epoch.number)
    return found


def test_without_the_program_counters_of_the_device_remain(demo: Made) -> None:
    trace = trace_of_profile(demo.profile)
    assert len(trace.flows) == 0
    assert {track.unit for track in trace.counter_tracks} == {"MB/s"}
    assert len(trace.slices) == len(demo.trace.slices)


def test_a_block_covers_its_epochs(demo: Made) -> None:
    """As a board counts: the blob is one block, with one arrow to the kernel behind it."""
    measured = npuscope.measure(demo_graph(), vendor_plan=True)
    trace = trace_of_profile(measured.profile, measured.program)
    assert len(measured.profile.epochs) < len(demo.profile.epochs)
    assert len(trace.flows) == 1
    _, used = samples(trace, "npuRAM5 in use")
    assert used.max() == samples(demo.trace, "npuRAM5 in use")[1].max()


@BOTH
def test_hostile_names(write: Write) -> None:
    profile = sample_profile()
    epochs = tuple(
        replace(profile.epochs[0], index=i, name=name, operators=(name,), origin=(name, name))
        for i, name in enumerate(HOSTILE)
    )
    trace = trace_of_profile(replace(profile, epochs=epochs, notes=HOSTILE))
    check_trace(trace, written(write, trace))


def test_a_profile_without_epochs_is_an_empty_timeline() -> None:
    trace = trace_of_profile(replace(sample_profile(), epochs=()))
    assert len(trace.slices) == 1
