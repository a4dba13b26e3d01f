"""One inference: order of issue, waits, barriers, transfers, doorbells."""

from __future__ import annotations

import numpy as np
import pytest

from many_core.samples import DMA, HMX, HVX
from many_core.sim_programs import KB, Writer, program_of
from npuscope.errors import TargetError
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.machine import CoreMachine, load_core_machine
from npuscope.families.many_core.program import CoreProgram, Space, Transfer
from npuscope.families.many_core.records import ASYNCHRONOUS, UTIMER_HZ, SectionId
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate
from npuscope.structs import replace


@pytest.fixture(scope="module")
def even() -> CoreMachine:
    """A machine without spread, on which times can be computed by hand."""
    return load_core_machine(
        overrides={
            "stats.end_spread": 0.0,
            "stats.start_skew_ticks": 0,
            "clocks.dvfs_steps": [1.0],
            "clocks.core_mhz": 1920.0,
            "sync.hvx_barrier_share": 0.0,
            "sync.hmx_barrier_share": 0.0,
            "sync.dma_barrier_share": 0.0,
            "sync.hand_over_cycles": 0.0,
        }
    )


def run(program: CoreProgram, machine: CoreMachine, **options: object) -> Stats:
    return simulate(program, machine, RunOptions(**options)).stats[0]  # type: ignore[arg-type]


def row(stats: Stats, oc: int, core: int = 0) -> dict[str, int]:
    return _found(stats.of(SectionId.OP_REC), oc, core)


def move(stats: Stats, oc: int, core: int = 0) -> dict[str, int]:
    return _found(stats.of(SectionId.DMA_REC), oc, core)


def _found(records: np.ndarray, oc: int, core: int) -> dict[str, int]:
    record = records[(records["oc"] == oc) & (records["core"] == core)][0]
    return {name: int(record[name]) for name in records.dtype.names}


def test_ops_of_a_group_follow_each_other(even: CoreMachine) -> None:
    writer = Writer()
    writer.add(0, HVX, "elementadd", 100)
    writer.add(0, HVX, "elementmul", 100)
    stats = run(program_of([writer.end()]), even)
    first, second = row(stats, 0), row(stats, 1)
    assert first["pc"] == round(12.7 * 100) and second["pc"] == round(18.2 * 100)
    assert second["sync_uc"] == second["start_uc"] == first["barrier_uc"]
    assert second["end_uc"] - second["start_uc"] == pytest.approx(1820 / 100, abs=1)


def test_an_op_waits_for_another_engine_and_core(even: CoreMachine) -> None:
    writer = Writer(cores=2)
    slow = writer.add(1, HVX, "aicsoftmax", 100)
    product = writer.add(0, HMX, "aicconvolutiond32", 10, macs=4096 * 1000, waits_for=(slow.key,))
    stats = run(program_of([writer.end()]), even)
    waited = row(stats, product.info.oc)
    assert waited["start_uc"] == row(stats, slow.info.oc, core=1)["barrier_uc"]
    assert waited["start_uc"] - waited["sync_uc"] == pytest.approx(24590 / 100, abs=1)
    # Its products, one row for the time of 64, and then the vectors that it stores.
    assert waited["pc"] == 1000 * 64 + 10 * KB // 128


def test_threads_of_a_group_end_apart_and_come_together() -> None:
    writer = Writer()
    writer.add(0, HVX, "aicsoftmax", 200)
    writer.add(0, HVX, "aicsoftmax", 200)
    records = run(program_of([writer.end()]), load_core_machine()).of(SectionId.OP_REC)
    first, second = (records[records["oc"] == oc] for oc in (0, 1))
    assert list(first["thread"]) == [0, 1, 2, 3]
    assert len(set(first["end_uc"])) > 1
    assert len(set(first["barrier_uc"])) == 1 and first["barrier_uc"][0] >= first["end_uc"].max()
    assert set(second["sync_uc"]) == set(first["barrier_uc"])


def test_a_transfer_runs_beside_its_thread(even: CoreMachine) -> None:
    writer = Writer()
    load = writer.copy(0, 500)
    user = writer.add(0, HVX, "elementadd", 10, waits_for=(load.key,))
    stats = run(program_of([writer.end()]), even)
    issued, moved = row(stats, load.info.oc), move(stats, load.info.oc)
    assert issued["flags"] == ASYNCHRONOUS
    assert issued["pc"] == even.dma.issue_cycles
    assert moved["issue_uc"] == issued["end_uc"]
    latency = even.ddr.latency_us * 19.2
    assert moved["done_uc"] - moved["issue_uc"] == pytest.approx(500 * 0.753 + latency, abs=1)
    assert row(stats, user.info.oc)["start_uc"] == moved["done_uc"]


def test_a_transfer_that_is_waited_for_keeps_its_thread(even: CoreMachine) -> None:
    writer = Writer()
    load = writer.copy(0, 500, asynchronous=False)
    stats = run(program_of([writer.end()]), even)
    held, moved = row(stats, load.info.oc), move(stats, load.info.oc)
    assert held["flags"] == 0
    assert (held["start_uc"], held["end_uc"]) == (moved["issue_uc"], moved["done_uc"])
    assert held["pc"] == pytest.approx((held["end_uc"] - held["start_uc"]) * 100, abs=100)


def test_an_engine_moves_one_thing_at_a_time(even: CoreMachine) -> None:
    writer = Writer()
    for _ in range(3):
        writer.copy(0, 100)
    moves = run(program_of([writer.end()]), even).of(SectionId.DMA_REC)
    assert (moves["issue_uc"][1:] >= moves["done_uc"][:-1]).all()


def test_cores_share_ddr(even: CoreMachine) -> None:
    writer = Writer(cores=8)
    for core in range(8):
        writer.copy(core, 4000)
    moves = run(program_of([writer.end()]), even).of(SectionId.DMA_REC)
    seconds = int(moves["done_uc"].max() - moves["issue_uc"].min()) / UTIMER_HZ
    assert 8 * 4000 * KB / seconds == pytest.approx(even.ddr.effective_gb_per_s * 1e9, rel=0.01)


def test_a_doorbell_holds_who_waits_for_it(even: CoreMachine) -> None:
    writer = Writer()
    writer.add(0, HVX, "elementadd", 1)
    heard = writer.add(0, DMA, "aicinputsemaphoreinc", port_wait=100, semaphore=0)
    stats = run(program_of([writer.end()]), even)
    ring = stats.of(SectionId.PORT_RING)[0]
    assert (ring["port"], ring["core"]) == (100, 0)
    assert row(stats, heard.info.oc)["start_uc"] == ring["uc"]
    waits = stats.of(SectionId.PORT_WAIT)
    held = waits[(waits["thread"] == 5) & (waits["port"] == 100)][0]
    assert held["waits"] == 1
    assert held["wait_uc"] == ring["uc"] - row(stats, heard.info.oc)["sync_uc"]
    assert waits["wait_uc"].sum() == held["wait_uc"]
    semaphores = stats.of(SectionId.SEM_OP)
    assert list(semaphores["oc"]) == [heard.info.oc]


def peers(size: int = 100 * KB) -> CoreProgram:
    sender, receiver = Writer(), Writer()
    made = sender.add(0, HVX, "aicsoftmax", 100)
    out = Transfer(size, Space.VTCM, Space.PEER, port=102, peer=1)
    sender.add(0, DMA, "aicp2psend", 100, transfer=out, waits_for=(made.key,))
    into = Transfer(size, Space.PEER, Space.VTCM, port=103, peer=0)
    got = receiver.add(0, DMA, "aicp2preceive", 100, transfer=into)
    receiver.add(0, HVX, "elementadd", 100, waits_for=(got.key,))
    return program_of([sender.end(), receiver.end()])


def test_both_devices_tell_of_a_peer_transfer(even: CoreMachine) -> None:
    result = simulate(peers(), even, RunOptions())
    sent, received = (stats.of(SectionId.P2P_REC)[0] for stats in result.stats)
    for name in ("src_dev", "dst_dev", "txn", "bytes"):
        assert sent[name] == received[name]
    assert (sent["src_dev"], sent["dst_dev"], sent["bytes"]) == (0, 1, 100 * KB)
    assert (sent["port"], received["port"]) == (102, 103)
    assert received["start_uc"] >= sent["end_uc"]
    used = row(result.stats[1], 1)
    assert used["start_uc"] == received["end_uc"]


def test_devices_can_have_other_numbers(even: CoreMachine) -> None:
    result = simulate(peers(), even, RunOptions(devices=(4, 2)))
    assert [stats.device for stats in result.stats] == [4, 2]
    assert [stats.specialization for stats in result.stats] == [0, 1]
    sent = result.stats[0].of(SectionId.P2P_REC)[0]
    assert (sent["src_dev"], sent["dst_dev"]) == (4, 2)


def test_what_is_sent_must_be_received(even: CoreMachine) -> None:
    program = peers()
    lonely = replace(program, devices=(program.devices[0], Writer().end().part("x")))
    with pytest.raises(TargetError, match="sends to device 1, which has no matching receive"):
        simulate(lonely, even, RunOptions())
    other = replace(program, devices=(Writer().end().part("x"), program.devices[1]))
    with pytest.raises(TargetError, match="receives what no device sends"):
        simulate(other, even, RunOptions())


def test_ops_that_wait_for_each_other_are_an_error(even: CoreMachine) -> None:
    writer = Writer()
    writer.add(0, HVX, "elementadd", 1, waits_for=((0, 1),))
    writer.add(0, HMX, "aicconvolutiond32", 1, waits_for=((0, 0),))
    with pytest.raises(TargetError, match="op elementadd__0 waits forever"):
        simulate(program_of([writer.end()]), even, RunOptions())


def test_waiting_for_an_op_that_is_not_there_is_an_error(even: CoreMachine) -> None:
    writer = Writer()
    writer.add(0, HVX, "elementadd", 1, waits_for=((0, 99),))
    with pytest.raises(TargetError, match="waits for op 99 of core 0"):
        simulate(program_of([writer.end()]), even, RunOptions())


def test_a_size_out_of_all_proportion_is_an_error(even: CoreMachine) -> None:
    writer = Writer()
    writer.add(0, HVX, "aicsoftmax", 10**12)
    with pytest.raises(TargetError, match="one inference takes more than 300,000 steps"):
        simulate(program_of([writer.end()]), even, RunOptions())


def test_a_group_without_threads_is_an_error(even: CoreMachine) -> None:
    program = program_of([Writer().end()])
    empty = replace(program.layout, threads=program.layout.threads[:4])
    with pytest.raises(TargetError, match="thread group 1 has no thread"):
        simulate(replace(program, layout=empty), even, RunOptions())
