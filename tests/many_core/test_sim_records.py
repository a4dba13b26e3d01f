"""Records of a run: identities, levels, counters, traffic; the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from many_core.samples import DMA, HMX, HVX, RECIPE, layout, program
from many_core.sim_programs import KB, Writer, at_level, program_of
from npuscope.errors import UsageError
from npuscope.families.many_core.buffer import read_buffer, write_buffer
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.layout import Pmu
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.program import CoreProgram, Space, Transfer
from npuscope.families.many_core.records import LEVELS, SECTIONS, UTIMER_HZ, SectionId
from npuscope.families.many_core.sim.conditions import RunOptions, RunResult
from npuscope.families.many_core.sim.run import simulate

MACHINE = load_core_machine()


def run(made: CoreProgram, **options: object) -> RunResult:
    return simulate(made, MACHINE, RunOptions(**options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole() -> Stats:
    return run(program(layout(cores=3, repeat=4))).stats[0]


def by_thread(stats: Stats) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    records = stats.of(SectionId.OP_REC)
    for thread in stats.of(SectionId.THREAD_INF):
        mine = (records["core"] == thread["core"]) & (records["thread"] == thread["thread"])
        rows = records[mine]
        yield thread, rows[np.argsort(rows["sync_uc"], kind="stable")]


def test_busy_wait_and_idle_make_the_span(whole: Stats) -> None:
    for thread, rows in by_thread(whole):
        edges = np.stack([rows[name] for name in ("sync_uc", "start_uc", "end_uc", "barrier_uc")])
        assert (np.diff(edges.astype(np.int64), axis=0) >= 0).all()
        stamps = edges.T.reshape(-1).astype(np.int64)
        assert (np.diff(stamps) >= 0).all()  # no op overlaps the next
        busy = int((rows["end_uc"] - rows["start_uc"]).sum())
        wait = int((rows["start_uc"] - rows["sync_uc"]).sum())
        wait += int((rows["barrier_uc"] - rows["end_uc"]).sum())
        between = stamps[4::4] - stamps[3:-1:4]
        ends = (stamps[0] - int(thread["start_uc"])) + (int(thread["end_uc"]) - stamps[-1])
        assert busy + wait + int(between.sum()) + ends == thread["end_uc"] - thread["start_uc"]
        assert ends == 0


def test_the_total_is_from_the_first_start_to_the_last_end() -> None:
    result = run(program(layout(cores=3)), iterations=4, samples=4)
    for stats, iteration in zip(result.stats, result.iterations, strict=True):
        threads = stats.of(SectionId.THREAD_INF)
        assert threads["start_uc"].min() == iteration.device_start
        assert threads["end_uc"].max() == iteration.device_end
        total = int(threads["end_uc"].max() - threads["start_uc"].min())
        assert iteration.exec_us == pytest.approx(total * 1e6 / UTIMER_HZ)


def test_cores_start_a_few_ticks_apart(whole: Stats) -> None:
    starts = whole.of(SectionId.THREAD_INF)["start_uc"]
    assert 0 < int(starts.max() - starts.min()) <= 5


def test_cycles_go_with_the_clocks_that_were_seen() -> None:
    for stats in run(program(), iterations=8, samples=8).stats:
        for thread in stats.of(SectionId.THREAD_INF):
            cycles = int(thread["end_pc"] - thread["start_pc"])
            mhz = cycles * 19.2 / int(thread["end_uc"] - thread["start_uc"])
            assert 990 < mhz < 1510


def test_every_group_op_has_one_barrier(whole: Stats) -> None:
    records = whole.of(SectionId.OP_REC)
    for core in range(3):
        ops = [op for op in whole.network.ops[core][HVX] if not op.asynchronous]
        mine = records[(records["core"] == core) & (records["thread"] == 2)]
        barriers = mine[mine["flags"] == 0]
        assert len(barriers) == len(ops)
        assert (barriers["barrier_uc"] >= barriers["end_uc"]).all()


def test_the_last_op_takes_as_long_as_was_seen(whole: Stats) -> None:
    last = {op.oc for op in whole.network.ops[0][DMA] if op.kind == "aicendcyclestats"}
    records = whole.of(SectionId.OP_REC)
    rows = records[np.isin(records["oc"], list(last)) & (records["thread"] == 5)]
    took = rows["end_uc"] - rows["start_uc"]
    assert len(took) == 3 and took.min() >= 48 and took.max() <= 330


def test_a_lower_level_has_the_same_records() -> None:
    made = program(layout(cores=2, level=100))
    full = run(made, samples=2, iterations=3).stats
    for level in LEVELS:
        fewer = run(at_level(made, level), samples=2, iterations=3).stats
        for stats, same in zip(fewer, full, strict=True):
            wanted = {key for key, section in SECTIONS.items() if section.min_level <= level}
            assert set(stats.sections) == wanted
            for key in wanted:
                assert stats.of(key).tobytes() == same.of(key).tobytes()


def test_flags_decide_over_counters_and_traffic() -> None:
    made = program(layout(cores=2, level=100, pmu=Pmu(), ddr=False))
    sections = run(made).stats[0].sections
    absent = {SectionId.PMU_THREAD, SectionId.DDR_CORE, SectionId.OP_PMU}
    assert set(SectionId) - set(sections) == absent


def test_records_survive_the_file(whole: Stats) -> None:
    again = read_buffer(write_buffer(whole), whole.layout, whole.name)
    assert again.notes == ()
    assert set(again.sections) == set(whole.sections)
    for key, records in whole.sections.items():
        assert again.of(key).tobytes() == records.tobytes()


def test_the_same_seed_gives_the_same_bytes() -> None:
    made = program()
    first, same, other = (
        [write_buffer(stats) for stats in run(made, iterations=5, samples=3, seed=seed).stats]
        for seed in (1, 1, 2)
    )
    assert first == same
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_storing_records_costs_nothing_unless_asked() -> None:
    made = program(layout(cores=2, level=70))
    free, charged = (run(made, stats_overhead=asked).iterations[0] for asked in (False, True))
    at_40 = run(at_level(made, 40), stats_overhead=True).iterations[0]
    assert charged.device_end > free.device_end
    assert at_40.device_end == free.device_end


def test_kernel_utilisation_counts_cycles_of_the_engines() -> None:
    writer = Writer()
    load = writer.copy(0, 200)
    made = writer.add(0, HVX, "elementadd", 100, waits_for=(load.key,))
    writer.add(0, HMX, "aicconvolutiond32", 10, macs=4096 * 500, waits_for=(made.key,))
    stats = run(program_of([writer.end()], level=100, pmu=RECIPE)).stats[0]
    counts = stats.of(SectionId.PMU_THREAD)
    records = stats.of(SectionId.OP_REC)
    for thread, column in ((1, "count0"), (4, "count1")):
        # Writing the stats buffer (the last op of each thread) is not work of these engines.
        spent = records[(records["thread"] == thread) & (records["oc"] < 3)]["pc"].sum()
        assert counts[counts["thread"] == thread][column][0] == spent
    assert set(counts["n"]) == {len(RECIPE.events)}
    moving = stats.of(SectionId.DMA_REC)[0]
    mhz = int(counts[counts["thread"] == 5]["count2"][0]) * 19.2
    mhz /= int(moving["done_uc"] - moving["issue_uc"])
    assert 990 < mhz < 1510
    per_op = stats.of(SectionId.OP_PMU)
    for column in ("count0", "count1", "count2"):
        assert per_op[column].sum() == counts[column].sum()


def test_bus_counts_give_the_bytes() -> None:
    writer = Writer()
    sizes = (8 * KB, 1000, 24)
    for size in sizes:
        writer.add(0, DMA, "aiccopytovtcm", transfer=Transfer(size, Space.DDR, Space.VTCM))
    events = (0x40, 0x41, 0xCE, 0x3F, 0xCD)
    stats = run(program_of([writer.end()], pmu=Pmu("AxiRd", events), ddr=True)).stats[0]
    row = stats.of(SectionId.PMU_THREAD)[5]
    every, b32, b64, b128, b256 = (int(row[f"count{i}"]) for i in range(5))
    beats = every - b32 - b64 - b128 - b256
    assert 32 * b32 + 64 * b64 + 128 * b128 + 256 * b256 + 8 * beats == sum(sizes)
    assert (b32, b64, b128, b256) == (1, 1, 1, 32 + 3)
    assert stats.of(SectionId.DDR_CORE)["rd_bytes"][0] == sum(sizes)


def test_macs_are_counted_by_their_kind() -> None:
    writer = Writer()
    writer.add(0, HMX, "aicconvolutiond32", 10, macs=123_456)
    events = (0x205, 0x211, 0x212)
    stats = run(program_of([writer.end()], pmu=Pmu("HmxMacs", events))).stats[0]
    row = stats.of(SectionId.PMU_THREAD)[4]
    assert [int(row[f"count{i}"]) for i in range(3)] == [123_456, 0, 123_456]


def test_an_event_that_is_not_modelled_is_told() -> None:
    writer = Writer()
    writer.add(0, HVX, "elementadd", 10)
    result = run(program_of([writer.end()], pmu=Pmu("", (0x70, 0x200))))
    assert result.notes == ("event 70 is not modelled: it counts 0",)
    assert not result.stats[0].of(SectionId.PMU_THREAD)["count0"].any()


def test_a_multicast_is_sent_once_and_received_by_the_others() -> None:
    writer = Writer(cores=3)
    spread = Transfer(64 * KB, Space.DDR, Space.VTCM, receivers=0b111, multicast=0)
    writer.add(1, DMA, "aicmulticastvtcm", 64, transfer=spread)
    stats = run(program_of([writer.end()], ddr=True)).stats[0]
    rows = stats.of(SectionId.DDR_CORE)
    assert list(rows["rd_bytes"]) == [0, 64 * KB, 0]
    assert list(rows["mc_wr_bytes"]) == [0, 64 * KB, 0]
    assert list(rows["mc_rd_bytes"]) == [64 * KB, 0, 64 * KB]
    move = stats.of(SectionId.DMA_REC)[0]
    assert (move["src"], move["dst"], move["mcid"], move["bytes"]) == (0, 1, 0, 64 * KB)


def test_activation_lies_before_the_first_inference(whole: Stats) -> None:
    spans = whole.of(SectionId.THREAD_ACT)
    took = spans["end_uc"] - spans["start_uc"]
    assert took.min() >= 1500 and took.max() <= 21000
    assert spans["end_uc"].max() <= whole.of(SectionId.THREAD_INF)["start_uc"].min()


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"iterations": 0}, "--num-iter"),
        ({"samples": 0}, "--aic-profiling-num-samples"),
        ({"start_iteration": -1}, "--aic-profiling-start-iter"),
        ({"start_delay_ms": -1.0}, "--aic-profiling-start-delay"),
        ({"devices": (0, 1)}, "--devices"),
        ({"devices": (70_000,)}, "--devices"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], where: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(program(), **options)
    assert caught.value.where == where


def test_events_of_the_vector_unit_differ() -> None:
    """Cycles at work, cycles with accesses to VTCM, packets: for an op of many cycles a vector
    accesses are few, for a copy-like op they are many."""
    shares = []
    for kind in ("aicsoftmax", "elementadd"):
        writer = Writer()
        writer.add(0, HVX, kind, 100)
        pmu = Pmu("", (0x100, 0x105, 0x111))
        counts = (
            run(program_of([writer.end()], level=100, pmu=pmu)).stats[0].of(SectionId.PMU_THREAD)
        )
        active, moving, packets = (
            int(counts[counts["thread"] == 0][f"count{i}"][0]) for i in range(3)
        )
        assert 0 < moving < active and moving < packets + moving and packets < active
        shares.append(moving / active)
    assert shares[0] < shares[1]


def test_the_host_is_told_when_the_stats_are_written() -> None:
    writer = Writer()
    writer.add(0, HVX, "elementadd", 100)
    for one in run(program_of([writer.end()]), iterations=4).iterations:
        assert one.completed > one.device_end
