"""A buffer replayed: its own times come out again, and levers have the gain that they should."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from many_core.nets import EncoderShape, convolutions, encoder, graph_of
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.container import read_layout, read_program, write_program
from npuscope.families.many_core.layout import Engine
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.opstats.index import ENGINES, OpIndex, op_index
from npuscope.families.many_core.opstats.lever import LeverKind
from npuscope.families.many_core.opstats.model import CoreBound, CoreVerdict
from npuscope.families.many_core.opstats.replay import Replay, replay_of
from npuscope.families.many_core.opstats.runs import (
    OpRuns,
    Transfers,
    op_runs,
    transfers_of,
    until_done,
)
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.opstats.trace import trace_of
from npuscope.families.many_core.opstats.verdict import on_path
from npuscope.families.many_core.opstats.vtcm import holds_of, in_use
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate
from npuscope.structs import replace

MACHINE = load_core_machine()
NETWORKS = {
    "encoder": lambda: encoder(EncoderShape(layers=2, batch=2)),
    "convolutions": convolutions,
}


@cache
def program(name: str, cores: int) -> CoreProgram:
    options = CoreCompileOptions(cores, stats_level=70, ddr_stats=True)
    return compile_graph(graph_of(NETWORKS[name]()), MACHINE, options)


@cache
def ran(name: str, cores: int) -> Stats:
    asked = RunOptions(iterations=2, start_iteration=1)
    return simulate(program(name, cores), MACHINE, asked).stats[0]


def parts(stats: Stats) -> tuple[Stats, OpIndex, OpRuns, Transfers]:
    index = op_index(stats.layout, stats.specialization)
    moves = transfers_of(stats, index)
    return stats, index, until_done(op_runs(stats, index), moves), moves


def replayed(stats: Stats) -> Replay:
    found = replay_of(*parts(stats))
    assert found is not None
    return found


def unstated(stats: Stats) -> Stats:
    """As of a program that does not say what levers bring."""
    return replace(stats, layout=replace(stats.layout, levers=()))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("cores", [1, 2, 5])
def test_unchanged_the_times_of_the_buffer_come_out(name: str, cores: int) -> None:
    stats = ran(name, cores)
    again, totals = replayed(stats), opstats_of(stats).totals
    # Cores start a few ticks apart, before their first op does.
    assert again.ticks(again.times) == pytest.approx(totals.ucycles, abs=8)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_critical_path_accounts_for_the_whole_time(name: str) -> None:
    stats = ran(name, 2)
    again = replayed(stats)
    assert sum(share for _, share in again.path()) == pytest.approx(1)
    spent = sum(ticks for _, ticks in again._spent())
    assert spent == pytest.approx(opstats_of(stats).totals.ucycles, rel=0.03, abs=8)


def test_work_that_takes_no_time_is_not_on_the_path() -> None:
    again = replayed(ran("encoder", 2))
    idle = replace(again.times, work=np.zeros_like(again.times.work))
    assert again.ticks(idle) < again.ticks(again.times)
    names = dict(replace(again, times=idle).path())
    assert not {"HVX", "HMX"} & set(names)


def test_a_free_ddr_predicted_is_a_free_ddr_simulated() -> None:
    """Transfers of constants taken out of the buffer, or made free in the machine."""
    stats = unstated(ran("encoder", 2))
    lever = next(one for one in opstats_of(stats).levers if one.name.startswith("constants"))
    fast = replace(
        MACHINE,
        ddr=replace(MACHINE.ddr, effective_gb_per_s=1e6, latency_us=0.0),
        dma=replace(MACHINE.dma, ddr_ucycles_per_kb=1e-6, issue_cycles=0.0),
    )
    result = simulate(program("encoder", 2), fast, RunOptions(iterations=2, start_iteration=1))
    one = result.iterations[1]
    assert lever.ms == pytest.approx((one.exec_us - one.input_wait_us) / 1e3, rel=0.25)


def test_all_kinds_of_levers_are_predicted() -> None:
    names = " ".join(lever.name for lever in opstats_of(unstated(ran("encoder", 4))).levers)
    for word in ("cores", "batch", "activations", "8-bit", "constants kept", "joined"):
        assert word in names, names
    alone = " ".join(lever.name for lever in opstats_of(unstated(ran("encoder", 1))).levers)
    assert "16 activations on 1 core each" in alone


@pytest.mark.parametrize("name", NETWORKS)
def test_vtcm_in_use_is_what_the_compiler_planned_at_most(name: str) -> None:
    stats = ran(name, 2)
    holds = holds_of(*parts(stats))
    assert holds is not None
    for core, planned in enumerate(program(name, 2).devices[0].vtcm_bytes):
        moments, level = in_use(holds, core)
        assert 0 < level.max() <= planned
        assert level[-1] == 0 and (level >= 0).all() and (np.diff(moments) > 0).all()
    rows = opstats_of(stats).vtcm
    assert [row.most_bytes for row in rows] == [max(row.parts) for row in rows]
    assert sum(bool(row.blocks) for row in rows) == 1


def test_places_in_use_at_one_time_do_not_overlap() -> None:
    holds = holds_of(*parts(ran("encoder", 2)))
    assert holds is not None
    for one in range(len(holds.core)):
        beside = (
            (holds.core == holds.core[one])
            & (holds.start < holds.end[one])
            & (holds.start[one] < holds.end)
            & (holds.offset < holds.offset[one] + holds.bytes[one])
            & (holds.offset[one] < holds.offset + holds.bytes)
        )
        assert beside.sum() == 1


def test_a_trace_has_vtcm_as_a_counter_of_each_core() -> None:
    model = trace_of([ran("encoder", 2)])
    tracks = [track for track in model.counter_tracks if track.name == "VTCM"]
    assert len(tracks) == 2 and {track.unit for track in tracks} == {"KB"}
    used = np.isin(model.samples.track, [model.counter_tracks.index(one) for one in tracks])
    assert (
        model.samples.value[used].max()
        == max(row.most_bytes for row in opstats_of(ran("encoder", 2)).vtcm) / 1024
    )


def test_a_container_keeps_places_and_capacity() -> None:
    made = program("encoder", 2)
    data = write_program(made)
    for layout in (read_layout(data), read_program(data).layout):
        assert layout.capacity == made.layout.capacity
        assert layout.capacity is not None and layout.capacity.cores == MACHINE.cores.count
        held, kept = made.layout.specializations[0].held, layout.specializations[0].held
        assert len(held) and held.tobytes() == kept.tobytes()


def test_without_places_and_capacity_the_rest_is_told() -> None:
    """As containers of older versions were."""
    stats = ran("encoder", 4)
    part = stats.layout.specializations[0]
    layout = replace(
        stats.layout, capacity=None, specializations=(replace(part, held=part.held[:0]),)
    )
    made = opstats_of(replace(stats, layout=layout))
    assert made.vtcm == () and made.roofline is None
    assert {lever.name for lever in made.levers} >= {"ops joined, no barriers between them"}


def test_activations_that_left_vtcm_are_ddr_on_the_path() -> None:
    """The same network with and without room: vector threads that reach into DDR wait for it."""
    graph = graph_of(convolutions(size=19, channels=40))
    small = {"memory.vtcm_bytes": 32768, "memory.weight_chunk_bytes": 8192}
    paths = {}
    for name, machine in (("roomy", MACHINE), ("tight", load_core_machine(overrides=small))):
        options = CoreCompileOptions(cores=1, stats_level=70, ddr_stats=True)
        one = compile_graph(graph, machine, options)
        assert bool(one.spilled) == (name == "tight")
        stats = simulate(one, machine, RunOptions(iterations=2, start_iteration=1)).stats[0]
        again = replayed(stats)
        vector = again.engine == ENGINES.index(Engine.HVX)
        reaching = vector & again.outside & ~again.moves
        assert reaching.any() == (name == "tight")
        work = np.where(reaching, 1_000_000 * again.times.work, again.times.work)
        busy = replace(again.times, work=work)
        paths[name] = dict(replace(again, times=busy).path())
    assert paths["tight"]["DDR"] > 0.9
    assert paths["roomy"].get("DDR", 0.0) < 0.9


@pytest.mark.parametrize(
    ("path", "bound", "words"),
    [
        ({"DDR": 0.42, "HMX": 0.41, "synchronisation": 0.03}, CoreBound.DDR, "42 % of the crit"),
        ({"DDR": 0.3, "transfers": 0.2, "synchronisation": 0.2}, CoreBound.SYNC, "no engine"),
        ({"HVX": 0.3, "waiting": 0.7}, CoreBound.SYNC, "no engine"),
    ],
)
def test_where_no_engine_is_busy_the_critical_path_decides(
    path: dict[str, float], bound: CoreBound, words: str
) -> None:
    shares = (("HMX", 0.56), ("DDR", 0.53), ("HVX", 0.16))
    told = on_path(CoreVerdict(CoreBound.SYNC, shares), path)
    assert told.bound is bound
    assert words in told.sentence
    assert "DDR 53 %" in told.sentence
    busy = CoreVerdict(CoreBound.HMX, shares)
    assert on_path(busy, path) == busy


def test_levers_of_a_run_are_those_that_its_program_states() -> None:
    """They come true: the set-ups are compiled and simulated, and give the stated throughput."""
    stated = program("encoder", 2).layout.levers
    assert read_program(write_program(program("encoder", 2))).layout.levers == stated
    assert opstats_of(ran("encoder", 2)).levers == stated
    graph, options = graph_of(NETWORKS["encoder"]()), CoreCompileOptions(2)
    before = _period(compile_graph(graph, MACHINE, options), 1, 1)
    tried = 0
    for lever in stated:
        if lever.kind is LeverKind.QUEUE:
            period = _period(compile_graph(graph, MACHINE, options), 1, lever.in_flight)
            assert f"(-S {lever.in_flight})" in lever.sentence
        elif lever.kind is LeverKind.CORES:
            again = compile_graph(graph, MACHINE, CoreCompileOptions(lever.cores))
            period = _period(again, lever.copies, 1) / lever.copies
        else:
            continue
        tried += 1
        assert before / period == pytest.approx(lever.gain, rel=0.15), lever.name
    assert tried >= 3
    assert LeverKind.QUEUE in {lever.kind for lever in stated}


def _period(made: CoreProgram, copies: int, in_flight: int) -> float:
    options = RunOptions(16, collect=False, activations=copies, set_size=in_flight)
    rows = simulate(made, MACHINE, options).iterations[4:]
    return (rows[-1].completed - rows[0].completed) / (len(rows) - 1)
