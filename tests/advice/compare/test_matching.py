"""Rows by source op: a partition of the epochs of both sides, and the finest one."""

from __future__ import annotations

import random

import pytest

from npuscope.advice.compare.matching import has_common_op, match
from npuscope.advice.compare.model import ComparedRow
from npuscope.profiling.model import EpochProfile
from npuscope.structs import replace
from sample_profile import sample_profile

SAMPLE = sample_profile().epochs[0]


def epoch(index: int, *origin: str, operators: tuple[str, ...] = ("Conv",)) -> EpochProfile:
    return replace(SAMPLE, index=index, origin=origin, operators=operators, ms=1.0 + index)


def shown(rows: tuple[ComparedRow, ...]) -> list[tuple[list[int], list[int]]]:
    return [([e.index for e in row.a], [e.index for e in row.b]) for row in rows]


def test_an_op_in_several_epochs_and_an_epoch_of_several_ops() -> None:
    a = (epoch(0, "x", "y"), epoch(1, "z"), epoch(2, "z"), epoch(3, "w"))
    b = (epoch(0, "x"), epoch(1, "y"), epoch(2, "z"), epoch(3, "w"))
    rows = match(a, b)
    assert shown(rows) == [([0], [0, 1]), ([1, 2], [2]), ([3], [3])]
    assert [row.ops for row in rows] == [("x", "y"), ("z",), ("w",)]


def test_ops_that_one_side_joins_stay_together_on_the_other() -> None:
    a = (epoch(0, "x"), epoch(1, "y"), epoch(2, "z"))
    b = (epoch(0, "x", "y"), epoch(1, "y", "z"))
    assert shown(match(a, b)) == [([0, 1, 2], [0, 1])]


def test_names_as_vendor_tools_write_them() -> None:
    rows = match((epoch(0, "CONV_2D:#68"),), (epoch(0, "CONV_2D_68"),))
    assert shown(rows) == [([0], [0])]
    assert rows[0].ops == ("CONV_2D:#68",)


def test_epochs_without_a_source_op_match_by_their_operators_in_turn() -> None:
    a = (epoch(0, operators=("Copy",)), epoch(1, "x"), epoch(2, operators=("Copy",)))
    b = (epoch(0, "x"), epoch(1, operators=("Copy",)), epoch(2, operators=("Pool",)))
    assert shown(match(a, b)) == [([0], [1]), ([1], [0]), ([2], []), ([], [2])]


def test_nothing_in_common() -> None:
    assert not has_common_op(match((epoch(0, "x"),), (epoch(0, "y"),)))
    assert has_common_op(match((epoch(0, "x"),), (epoch(0, "x"),)))


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_the_finest_partition_that_both_sides_keep(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"op{n}" for n in range(chance.randint(1, 12))]
    a, b = (_random_run(chance, names) for _ in range(2))
    rows = match(a, b)
    for side, run in ((0, a), (1, b)):
        placed = [e.index for row in rows for e in (row.a, row.b)[side]]
        assert sorted(placed) == [e.index for e in run]
    for row in rows:
        others = {name for other in rows if other is not row for name in other.ops}
        assert not others & set(row.ops)
        assert _reached(row) == {id(e) for e in (*row.a, *row.b)}


def _random_run(chance: random.Random, names: list[str]) -> tuple[EpochProfile, ...]:
    count = chance.randint(0, 10)
    picks = (chance.sample(names, chance.randint(1, min(3, len(names)))) for _ in range(count))
    return tuple(epoch(index, *pick) for index, pick in enumerate(picks))


def _reached(row: ComparedRow) -> set[int]:
    """Epochs that can be reached from the first one over shared ops."""
    epochs = [*row.a, *row.b]
    found, border = {id(epochs[0])}, [epochs[0]]
    while border:
        here = border.pop()
        near = [e for e in epochs if set(e.origin) & set(here.origin) and id(e) not in found]
        found |= {id(e) for e in near}
        border += near
    return found
