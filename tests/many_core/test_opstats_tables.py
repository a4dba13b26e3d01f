"""Tables of stats buffers: formulas, identities, and what a level lacks."""

from __future__ import annotations

import numpy as np
import pytest

from many_core.samples import RECIPE, layout, program, stats, with_rows
from npuscope.errors import FileError
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.layout import Pmu
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.opstats.index import op_index
from npuscope.families.many_core.opstats.model import CoreTables, OpRow, Opstats
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.records import LEVELS, SATURATED, SECTIONS, SectionId
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate
from npuscope.structs import replace


def row(tables: CoreTables, details: str) -> OpRow:
    (found,) = (row for row in tables.ops if row.details == details)
    return found


def simulated() -> list[Stats]:
    options = RunOptions(iterations=3, samples=2, start_iteration=1)
    return list(simulate(program(), load_core_machine(), options).stats)


@pytest.fixture(scope="module")
def runs() -> list[Opstats]:
    """By hand and by the simulator."""
    return [opstats_of(made) for made in (stats(), stats(layout(repeat=20)), *simulated())]


def test_an_op_of_four_threads_is_counted_once_with_its_longest_thread() -> None:
    softmax = row(opstats_of(stats()).cores[0], "aicsoftmax HVX TCM (float16)")
    assert (softmax.count, softmax.ucycles, softmax.out_kb) == (1, 123, 16.0)
    assert softmax.pcycles == 123 * 1_200_000_000 // 19_200_000
    assert softmax.ucycles_per_kb == 123 / 16
    assert softmax.pcycles_per_kb == softmax.pcycles / 16
    assert softmax.pcycles_per_kb_stddev == 0.0


def test_an_asynchronous_op_takes_until_its_transfer_ended_and_has_no_cycles() -> None:
    copied = row(opstats_of(stats()).cores[0], "aiccopytovtcm DMAIssue TCM (float16)")
    assert (copied.ucycles, copied.pcycles, copied.pcycles_per_kb_stddev) == (3 + 64, None, None)
    assert copied.ucycles_per_kb == 67 / 64


def test_the_longest_wait_of_a_group_counts() -> None:
    made = stats(level=70)
    ops = made.of(SectionId.OP_REC).copy()
    before = row(opstats_of(made).cores[0], "sync HVX")
    late = (ops["core"] == 0) & (ops["oc"] == 7) & (ops["thread"] == 2)
    ops["sync_uc"][late] -= 5
    after = row(opstats_of(with_rows(made, SectionId.OP_REC, ops)).cores[0], "sync HVX")
    assert (after.count, after.ucycles) == (before.count, before.ucycles + 5)


def test_the_spread_is_that_of_cycles_per_kb_from_op_to_op() -> None:
    added = row(opstats_of(stats()).cores[0], "elementadd HVX TCM (float16)")
    # 63 ticks for 128 KB and 33 for 64 KB, at 62.5 cycles a tick, rounded down.
    assert added.pcycles_per_kb_stddev == pytest.approx(np.std([3937 / 128, 2062 / 64]))


def test_an_op_without_output_has_no_figures_per_kb() -> None:
    increment = row(opstats_of(stats()).cores[0], "aicinputsemaphoreinc DMAIssue DDR (float16)")
    assert increment.pcycles == 125
    assert (increment.out_kb, increment.ucycles_per_kb, increment.pcycles_per_kb) == (None,) * 3


def test_rows_are_sorted_by_time(runs: list[Opstats]) -> None:
    for core in (core for made in runs for core in made.cores):
        ticks = [row.ucycles for row in core.ops]
        assert ticks == sorted(ticks, reverse=True)


def test_busy_wait_and_idle_fill_the_span_of_every_thread(runs: list[Opstats]) -> None:
    for thread in (row for made in runs for core in made.cores for row in core.threads):
        assert thread.busy_uc + thread.wait_uc + thread.idle_uc == thread.ucycles
        assert min(thread.busy_uc, thread.wait_uc, thread.idle_uc) >= 0
        assert 0 < thread.utilization <= 1


def test_barriers_are_as_many_as_ops_that_are_not_asynchronous(runs: list[Opstats]) -> None:
    for core in (core for made in runs for core in made.cores):
        for engine in ("HVX", "HMX"):
            ops = [r for r in core.ops if f" {engine} " in r.details and r.pcycles is not None]
            assert row(core, f"barrier {engine}").count == sum(r.count for r in ops)


def test_transfers_have_a_barrier_where_somebody_waits_for_them(runs: list[Opstats]) -> None:
    for core in (core for made in runs for core in made.cores):
        ops = [r for r in core.ops if " DMAIssue " in r.details]
        others = sum(r.count for r in ops if r.pcycles is not None)
        assert others <= row(core, "barrier DMAIssue").count <= sum(r.count for r in ops)


def test_totals_span_the_first_start_and_the_last_end(runs: list[Opstats]) -> None:
    for made in runs:
        threads = [row for core in made.cores for row in core.threads]
        totals = made.totals
        assert totals.start_uc == min(row.start_uc for row in threads)
        assert totals.end_uc == max(row.end_uc for row in threads)
        assert totals.seconds == (totals.end_uc - totals.start_uc) / 19.2e6
        assert totals.batches_per_s == 1 / totals.seconds
        assert totals.inferences_per_s == 8 / totals.seconds
        for core in made.cores:
            assert core.total_uc == max(row.ucycles for row in core.threads)
            assert core.total_pc == max(row.pcycles for row in core.threads)
            assert core.effective_mhz == core.total_pc * 19.2 / core.total_uc


def test_waits_of_a_direction_are_the_longest_of_its_ports() -> None:
    totals = opstats_of(stats()).totals
    assert (totals.max_input_wait_uc, totals.max_output_wait_uc) == (40, 1)


def test_a_thread_without_a_port_record_did_not_wait() -> None:
    made = stats()
    waits = made.of(SectionId.PORT_WAIT)
    made = with_rows(made, SectionId.PORT_WAIT, waits[waits["wait_uc"] > 0])
    rows = opstats_of(made).cores[0].ports
    assert len(rows) == 2 * 6
    assert sorted(row.wait_uc for row in rows) == [0] * 10 + [1, 40]


def test_shares_of_the_engines_come_from_their_events() -> None:
    made = opstats_of(simulated()[0])
    for core in made.cores:
        place = made.pmu_events.index(0x200)
        hmx = sum(row.counts[place] for row in core.pmu)
        assert dict(core.active)["HMXActivePct"] == 100 * hmx / core.total_pc
        assert 0 < dict(core.active)["HVXActivePct"] <= 100


def test_traffic_between_devices_is_added_up() -> None:
    made = opstats_of(stats(layout(devices=2), device=1))
    assert made.specialization == "QAicGraph_slice01"
    (peer,) = made.peers
    assert (peer.source, peer.target, peer.port, peer.bytes, peer.ucycles) == (1, 0, 102, 4096, 25)


@pytest.mark.parametrize("level", LEVELS)
def test_what_a_level_lacks_is_absent_and_noted(level: int) -> None:
    made = opstats_of(stats(level=level))
    core, notes = made.cores[0], " ".join(made.notes)
    assert bool(core.ports) == (level >= 50) == ("-stats-level=50" not in notes)
    assert any(r.details.startswith("sync ") for r in core.ops) == (level >= 70)
    assert (core.threads[0].utilization is not None) == (level >= 70)
    assert ("-stats-level=70" in notes) == (level < 70)
    assert any(r.counters for r in core.ops) == (level >= 100) == ("-stats-level=100" not in notes)
    kinds = {r.details.split()[0] for r in core.ops}
    if level == 50:
        assert kinds == {"aicinputsemaphoreinc", "aicoutputsemaphoreinc"}


@pytest.mark.parametrize("level", LEVELS)
def test_what_two_levels_have_in_common_is_equal(level: int) -> None:
    lower, higher = (opstats_of(stats(level=one)).cores[0] for one in (level, 100))
    assert lower.activations == higher.activations
    assert lower.pmu == higher.pmu
    known = {r.details: r for r in higher.ops}
    for found in lower.ops:
        assert found == replace(known[found.details], counters=found.counters)


def test_flags_that_were_not_given_are_named() -> None:
    made = opstats_of(stats(layout(level=70, pmu=Pmu(), ddr=False)))
    assert made.notes == (
        "no PMU counters: compile with -aic-pmu-recipe or -aic-pmu-events "
        "(this buffer has level 70)",
        "no DDR traffic: compile with -ddr-stats (this buffer has level 70)",
    )
    assert (made.cores[0].pmu, made.cores[0].ddr, made.ddr_bytes) == ((), None, None)


def test_counters_by_op_add_up_over_threads() -> None:
    softmax = row(opstats_of(stats()).cores[0], "aicsoftmax HVX TCM (float16)")
    assert softmax.counters == tuple(4 * (70 + i) for i in range(len(RECIPE.events)))


def test_an_op_in_a_loop_is_counted_each_time() -> None:
    made = stats(level=70)
    ops = made.of(SectionId.OP_REC)
    again = ops[(ops["oc"] == 7) & (ops["core"] == 0)].copy()
    again["sample"] = 1
    again["end_uc"] += 2
    again["barrier_uc"] += 2
    made = with_rows(made, SectionId.OP_REC, np.concatenate([ops, again]))
    softmax = row(opstats_of(made).cores[0], "aicsoftmax HVX TCM (float16)")
    assert (softmax.count, softmax.ucycles, softmax.out_kb) == (2, 123 + 125, 32.0)


def test_transfers_in_a_loop_are_matched_one_by_one() -> None:
    made = stats(level=70)
    ops, moves = made.of(SectionId.OP_REC), made.of(SectionId.DMA_REC)
    again = ops[(ops["oc"] == 1) & (ops["core"] == 0)].copy()
    again["sample"] = 1
    moved = moves[(moves["oc"] == 1) & (moves["core"] == 0)].copy()
    moved["done_uc"] += 10
    made = with_rows(made, SectionId.OP_REC, np.concatenate([ops, again]))
    made = with_rows(made, SectionId.DMA_REC, np.concatenate([moves, moved]))
    copied = row(opstats_of(made).cores[0], "aiccopytovtcm DMAIssue TCM (float16)")
    assert (copied.count, copied.ucycles) == (2, 67 + 77)


def test_unknown_ops_and_full_counters_are_noted() -> None:
    made = stats(level=70)
    ops = made.of(SectionId.OP_REC).copy()
    ops["oc"][0] = 4_000_000_000
    ops["flags"][1] |= SATURATED
    notes = opstats_of(with_rows(made, SectionId.OP_REC, ops)).notes
    assert "1 records of ops that the program does not have: left out" in notes
    assert "1 records whose cycle counter was at its end: too small" in notes


def test_a_buffer_without_threads_is_an_error() -> None:
    made = with_rows(
        stats(), SectionId.THREAD_INF, np.zeros(0, SECTIONS[SectionId.THREAD_INF].dtype)
    )
    with pytest.raises(FileError, match="no thread of any core was timed"):
        opstats_of(made)


def test_ops_with_far_numbers_are_found_without_a_table_of_that_size() -> None:
    made = layout(cores=1)
    (spec,) = made.specializations
    far = replace(spec.ops[0][0][0], oc=4_294_967_295)
    groups = ((far, *spec.ops[0][0][1:]), *spec.ops[0][1:])
    index = op_index(replace(made, specializations=(replace(spec, ops=(groups,)),)), 0)
    assert index.places.width == 0  # searched for, not looked up
    found = index.rows(np.array([0, 0, 0, 7]), np.array([4_294_967_295, 5, 3, 5]))
    assert index.infos[found[0]] is far
    assert index.infos[found[1]].oc == 5
    assert found[2:].tolist() == [-1, -1]
