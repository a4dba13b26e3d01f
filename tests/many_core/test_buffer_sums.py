"""Sums by core, thread and kind against a plain loop."""

from __future__ import annotations

from collections import Counter

import pytest

from many_core import samples
from npuscope.families.many_core.buffer import read_buffer, sums, write_buffer
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.layout import Layout
from npuscope.families.many_core.records import SectionId
from npuscope.structs import replace

LAYOUT = samples.layout()
STATS = samples.stats()


def naive(stats: Stats, key: SectionId) -> dict[tuple[int, int, str], list[int]]:
    kinds = {
        (core, op.oc): op.kind
        for core, groups in enumerate(stats.network.ops)
        for group in groups
        for op in group
    }
    totals: dict[tuple[int, int, str], Counter[str]] = {}
    for row in stats.of(key):
        place = (int(row["core"]), int(row["thread"]), kinds[int(row["core"]), int(row["oc"])])
        total = totals.setdefault(place, Counter())
        total["count"] += 1
        total["uc"] += int(row["end_uc"]) - int(row["start_uc"])
        total["pc"] += int(row["pc"])
        total["sync"] += int(row["start_uc"]) - int(row["sync_uc"])
        total["barrier"] += int(row["barrier_uc"]) - int(row["end_uc"])
    names = ("count", "uc", "pc", "sync", "barrier")
    return {place: [total[name] for name in names] for place, total in totals.items()}


def rows_of(stats: Stats) -> dict[tuple[int, int, str], list[int]]:
    found = sums(stats)
    columns = (found.count, found.ucycles, found.pcycles, found.sync_ucycles, found.barrier_ucycles)
    places = zip(found.core.tolist(), found.thread.tolist(), found.kind, strict=True)
    return {
        place: [int(value) for value in values]
        for place, *values in zip(places, *columns, strict=True)
    }


@pytest.mark.parametrize(("cores", "repeat"), [(2, 1), (5, 7)])
def test_sums_are_those_of_a_plain_loop(cores: int, repeat: int) -> None:
    stats = samples.stats(samples.layout(cores=cores, repeat=repeat))
    expected = naive(stats, SectionId.OP_REC)
    assert rows_of(stats) == expected
    assert next(iter(rows_of(stats)))[:2] == (0, 0)
    assert sum(row[0] for row in expected.values()) == len(stats.of(SectionId.OP_REC))


def test_sums_below_level_70_are_those_of_semaphores() -> None:
    stats = samples.stats(level=50)
    assert rows_of(stats) == naive(stats, SectionId.SEM_OP)
    assert rows_of(samples.stats(level=40)) == {}


def spread(layout: Layout, step: int) -> Layout:
    """The same ops with numbers far apart."""
    part = layout.specializations[0]
    ops = tuple(
        tuple(tuple(replace(op, oc=op.oc * step) for op in group) for group in groups)
        for groups in part.ops
    )
    return replace(layout, specializations=(replace(part, ops=ops),))


def test_numbers_of_ops_may_lie_far_apart() -> None:
    step = 300_000_000
    wide = spread(LAYOUT, step)
    rows = STATS.of(SectionId.OP_REC).copy()
    rows["oc"] *= step
    rows["oc"][5] += 1
    data = write_buffer(samples.with_rows(samples.stats(level=70), SectionId.OP_REC, rows))
    stats = read_buffer(data, wide, "x")
    assert "OP_REC: 1 of 56 records dropped: op not in the program (1)" in stats.notes
    assert rows_of(stats) == naive(stats, SectionId.OP_REC)


def test_sums_with_more_kinds_than_a_small_table_takes() -> None:
    part = LAYOUT.specializations[0]
    ops = tuple(
        tuple(tuple(replace(op, kind=f"k{core}_{op.oc}") for op in group) for group in groups)
        for core, groups in enumerate(samples.layout(cores=40, repeat=40).specializations[0].ops)
    )
    layout = replace(samples.layout(cores=40), specializations=(replace(part, ops=ops),))
    made = samples.stats(samples.layout(cores=40, repeat=40))
    stats = replace(made, layout=layout)
    assert rows_of(stats) == naive(stats, SectionId.OP_REC)


def test_a_program_without_ops() -> None:
    empty = replace(LAYOUT.specializations[0], ops=(((), (), ()),) * 2, dependencies=())
    layout = replace(LAYOUT, specializations=(empty,))
    stats = read_buffer(write_buffer(STATS), layout, "x")
    assert len(stats.of(SectionId.OP_REC)) == 0
    assert "OP_REC: 56 of 56 records dropped: op not in the program (56)" in stats.notes
    assert rows_of(stats) == {}
