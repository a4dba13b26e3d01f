"""Boxes: cutting, meeting, and the same elements under another shape."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.families.many_core.compiler.boxes import around, common, cut, elements, full, reshaped


def test_cuts_are_whole_granules_and_all_of_the_box() -> None:
    assert cut(((0, 2), (0, 100)), 1, 3, 32) == (
        ((0, 2), (0, 64)),
        ((0, 2), (64, 96)),
        ((0, 2), (96, 100)),
    )
    assert cut(((0, 3),), 0, 16) == (((0, 1),), ((1, 2),), ((2, 3),))
    assert cut(((5, 12),), 0, 2) == (((5, 9),), ((9, 12),))


def test_what_boxes_share_and_what_holds_them() -> None:
    assert common(((0, 4), (0, 4)), ((2, 6), (1, 3))) == ((2, 4), (1, 3))
    assert common(((0, 4),), ((4, 5),)) is None
    assert around([((0, 1), (5, 6)), ((3, 4), (2, 3))]) == ((0, 4), (2, 6))
    assert elements(full((3, 4, 5))) == 60


SHAPES = [
    ((1, 16, 64), (1, 16, 2, 32)),
    ((1, 16, 2, 32), (1, 16, 64)),
    ((1, 2, 32, 16), (1, 64, 16)),
    ((2, 3, 4), (6, 4)),
    ((2, 3, 4), (24,)),
    ((1, 1, 1, 32), (1, 32)),
    ((12,), (4, 1, 3)),
    ((4, 6), (6, 4)),
    ((2, 2, 2), (1, 8, 1)),
]


@pytest.mark.parametrize(("old", "new"), SHAPES)
def test_a_reshaped_box_holds_the_same_elements(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    numbers = np.arange(np.prod(old)).reshape(old)
    found = 0
    for axis in range(len(old)):
        for box in cut(full(old), axis, 2):
            other = reshaped(box, old, new)
            if other is not None:
                found += 1
                mine = numbers[tuple(slice(*bounds) for bounds in box)]
                theirs = numbers.reshape(new)[tuple(slice(*bounds) for bounds in other)]
                assert sorted(mine.ravel()) == sorted(theirs.ravel())
    assert found


def test_boxes_that_fall_apart_have_no_other_shape() -> None:
    assert reshaped(((0, 4), (0, 3)), (4, 6), (24,)) is None
    assert reshaped(((0, 1), (0, 6)), (4, 6), (3, 8)) is None
    assert reshaped(((0, 4), (0, 6)), (4, 6), (3, 8)) == ((0, 3), (0, 8))
