"""What the compiler makes runs to its end, on any number of cores and devices."""

from __future__ import annotations

from collections import Counter

import pytest

from many_core.nets import EncoderShape, convolutions, encoder, graph_of, integer_net
from npuscope.families.many_core.buffer import read_buffer, write_buffer
from npuscope.families.many_core.compiler.options import RECIPES, CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.layout import Pmu
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.records import SectionId
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate

NETWORKS = {"encoder": encoder, "convolutions": convolutions, "integer": integer_net}
MACHINE = load_core_machine()


def compiled(name: str, cores: int, devices: int = 1) -> CoreProgram:
    pmu = Pmu("KernelUtil", RECIPES["KernelUtil"])
    options = CoreCompileOptions(cores, devices, stats_level=100, ddr_stats=True, pmu=pmu)
    return compile_graph(graph_of(NETWORKS[name]()), MACHINE, options)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("cores", "devices"), [(1, 1), (3, 1), (16, 1), (4, 2), (2, 4)])
def test_every_op_ran_once(name: str, cores: int, devices: int) -> None:
    program = compiled(name, cores, devices)
    result = simulate(program, MACHINE, RunOptions())
    assert [stats.device for stats in result.stats] == list(range(devices))
    for part, stats in zip(program.devices, result.stats, strict=True):
        records = stats.of(SectionId.OP_REC)
        ran = {
            (int(core), int(oc)) for core, oc in zip(records["core"], records["oc"], strict=True)
        }
        assert ran == {op.key for op in part.all_ops()}
        again = read_buffer(write_buffer(stats), program.layout, stats.name)
        assert again.notes == ()


def test_ops_start_when_all_they_wait_for_has_ended() -> None:
    program = compiled("encoder", 4)
    stats = simulate(program, MACHINE, RunOptions()).stats[0]
    records, moves = stats.of(SectionId.OP_REC), stats.of(SectionId.DMA_REC)
    start = {(int(row["core"]), int(row["oc"])): int(row["start_uc"]) for row in records}
    end = {(int(row["core"]), int(row["oc"])): int(row["barrier_uc"]) for row in records}
    end |= {(int(row["core"]), int(row["oc"])): int(row["done_uc"]) for row in moves}
    waits = [(op.key, key) for op in program.devices[0].all_ops() for key in op.waits_for]
    assert len(waits) > 100
    assert all(start[target] >= end[source] for target, source in waits)


def test_peers_agree_on_every_transfer() -> None:
    result = simulate(compiled("encoder", 4, 2), MACHINE, RunOptions())
    sides = [
        Counter(
            (int(row["src_dev"]), int(row["dst_dev"]), int(row["txn"]), int(row["bytes"]))
            for row in stats.of(SectionId.P2P_REC)
        )
        for stats in result.stats
    ]
    assert sides[0] == sides[1] and len(sides[0]) > 10
    assert max(sides[0].values()) == 1
    ports = [set(stats.of(SectionId.P2P_REC)["port"].tolist()) for stats in result.stats]
    assert not ports[0] & ports[1]


def test_the_last_op_knows_the_size_of_the_buffer() -> None:
    program = compiled("encoder", 2)
    stats = simulate(program, MACHINE, RunOptions()).stats[0]
    ends = [op.info for op in program.devices[0].all_ops() if op.info.kind == "aicendcyclestats"]
    assert {info.out_bytes for info in ends} == {len(write_buffer(stats))}


def test_more_cores_are_faster_where_the_work_is_large() -> None:
    """Each core has half of the rows; what they tell each other is little beside that."""
    graph = graph_of(encoder(EncoderShape(1, hidden=256, sequence=128, feed_forward=512, batch=2)))
    programs = [compile_graph(graph, MACHINE, CoreCompileOptions(cores)) for cores in (1, 2)]
    times = [simulate(program, MACHINE, RunOptions()).iterations[0] for program in programs]
    busy = [one.exec_us - one.input_wait_us for one in times]
    assert busy[1] < busy[0]
