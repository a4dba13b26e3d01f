"""Records that cannot be right: dropped, counted and told."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from many_core import samples
from npuscope.families.many_core.buffer import read_buffer, write_buffer
from npuscope.families.many_core.buffer_format import Records, Stats
from npuscope.families.many_core.records import SectionId
from npuscope.structs import replace

LAYOUT = samples.layout()
STATS = samples.stats()


def read(data: bytes) -> Stats:
    return read_buffer(data, LAYOUT, STATS.name)


def with_rows(change: Callable[[Records], Records | None], key: SectionId) -> Stats:
    """Read back after one section's records were changed."""
    rows = STATS.of(key).copy()
    changed = change(rows)
    rows = rows if changed is None else changed
    return read(write_buffer(samples.with_rows(STATS, key, rows)))


# Section, field, value for the first record, and the reason that is told.
WRONG = [
    ("THREAD_INF", "core", 2, "core not in the program"),
    ("THREAD_INF", "thread", 6, "thread not in the program"),
    ("THREAD_INF", "end_uc", 1, "end before start"),
    ("THREAD_INF", "end_pc", 1, "cycles run backwards"),
    ("THREAD_INF", "end_uc", 1 << 60, "number out of range"),
    ("THREAD_INF", "thread", 1, "duplicate"),
    ("THREAD_ACT", "core", 99, "core not in the program"),
    ("THREAD_ACT", "start_uc", 1 << 40, "end before start"),
    ("PMU_THREAD", "n", 9, "more counters than there are"),
    ("PMU_THREAD", "count7", 1 << 53, "number out of range"),
    ("DDR_CORE", "core", 1, "duplicate"),
    ("DDR_CORE", "core", 1 << 31, "core not in the program"),
    ("PORT_WAIT", "port", 7, "port not in the program"),
    ("PORT_WAIT", "port", 101, "duplicate"),
    ("PORT_RING", "uc", 1 << 63, "number out of range"),
    ("SEM_OP", "oc", 999, "op not in the program"),
    ("OP_REC", "oc", 0xFFFFFFFF, "op not in the program"),
    ("OP_REC", "core", 0xFFFF, "op not in the program"),
    ("OP_REC", "thread", 0xFFFF, "thread not in the program"),
    ("OP_REC", "oc", 1, "duplicate"),
    ("OP_REC", "sync_uc", 1 << 50, "end before start"),
    ("OP_REC", "barrier_uc", 0, "end before start"),
    ("OP_REC", "pc", 1 << 60, "number out of range"),
    ("DMA_REC", "done_uc", 0, "end before start"),
    ("DMA_REC", "bytes", 1 << 62, "number out of range"),
    ("OP_PMU", "oc", 77, "op not in the program"),
]


@pytest.mark.parametrize(("name", "column", "value", "reason"), WRONG)
def test_a_record_that_cannot_be_right(name: str, column: str, value: int, reason: str) -> None:
    key = SectionId[name]

    def change(rows: Records) -> None:
        rows[column][0] = value

    stats = with_rows(change, key)
    total = len(STATS.of(key))
    assert f"{name}: 1 of {total} records dropped: {reason} (1)" in stats.notes
    # Of two equal ones the first is kept, else the one that was changed is gone.
    expected = STATS.of(key)[1:]
    if reason == "duplicate":
        assert len(stats.of(key)) == total - 1
        first = STATS.of(key)[:1].copy()
        first[column] = value
        assert stats.of(key)[:1] == first
    else:
        assert np.array_equal(stats.of(key), expected)


def test_peer_records_name_ports_and_ops() -> None:
    layout = samples.layout(devices=2)
    stats = samples.stats(layout)
    rows = np.repeat(stats.of(SectionId.P2P_REC), 3)
    rows["port"][1], rows["oc"][2] = 9, 4000
    data = write_buffer(samples.with_rows(stats, SectionId.P2P_REC, rows))
    again = read_buffer(data, layout, "x")
    assert again.notes == (
        "P2P_REC: 2 of 3 records dropped: port not in the program (1), op not in the program (1)",
    )


def test_loops_are_no_duplicates() -> None:
    def twice(rows: Records) -> Records:
        later = rows.copy()
        later["sample"] = 1
        return np.concatenate([rows, later, later[:5]])

    stats = with_rows(twice, SectionId.OP_REC)
    assert stats.notes == ("OP_REC: 5 of 117 records dropped: duplicate (5)",)
    assert len(stats.of(SectionId.OP_REC)) == 112


def test_samples_that_lie_far_apart() -> None:
    def far(rows: Records) -> None:
        rows["sample"][::2] = 0xFFFFFFFF

    assert with_rows(far, SectionId.OP_REC).notes == ()


def test_a_core_without_records() -> None:
    def first_only(rows: Records) -> Records:
        return rows[rows["core"] == 0]

    stats = with_rows(first_only, SectionId.THREAD_INF)
    assert stats.notes == ("THREAD_INF: no records of 1 of 2 cores: 1",)
    sections = {
        key: rows[rows["core"] == 0] if "core" in (rows.dtype.names or ()) else rows
        for key, rows in STATS.sections.items()
    }
    assert read(write_buffer(replace(STATS, sections=sections))).notes == (
        "THREAD_INF, THREAD_ACT, PMU_THREAD, DDR_CORE, OP_REC: no records of 1 of 2 cores: 1",
    )


def test_counters_that_wrapped() -> None:
    def wrap(rows: Records) -> None:
        # 0x20 now, 0xFFFFFFF0 before: the difference of 32-bit counters, kept in 64 bits.
        rows["count2"][3] = (0x20 - 0xFFFFFFF0) % (1 << 64)
        rows["count2"][4] = (0x20 - 0x30) % (1 << 64)

    stats = with_rows(wrap, SectionId.PMU_THREAD)
    assert stats.notes == ("PMU_THREAD: 2 counters wrapped at 32 bits",)
    assert stats.of(SectionId.PMU_THREAD)["count2"][3:5].tolist() == [0x30, 0xFFFFFFF0]
    assert np.array_equal(
        stats.of(SectionId.PMU_THREAD)["count1"], STATS.of(SectionId.PMU_THREAD)["count1"]
    )


def test_a_core_that_has_no_ops_still_has_spans() -> None:
    part = LAYOUT.specializations[0]
    idle = replace(part, ops=(part.ops[0], ((), (), ())), dependencies=())
    layout = replace(LAYOUT, specializations=(idle,))
    sections = {
        key: rows[rows["core"] == 0] if key in (SectionId.OP_REC, SectionId.THREAD_ACT) else rows
        for key, rows in samples.stats(level=40).sections.items()
    }
    sections[SectionId.OP_REC] = STATS.of(SectionId.OP_REC)[:10]
    data = write_buffer(replace(STATS, sections=sections))
    assert read_buffer(data, layout, "x").notes == ("THREAD_ACT: no records of 1 of 2 cores: 1",)
