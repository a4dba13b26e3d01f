"""Sparse constants against the dense arrays that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import FileError
from npuscope.files.tflite.sparse import SparseAxis, Sparsity, dense

EYE = Sparsity(
    (0, 1), (), (SparseAxis(3), SparseAxis(0, np.array([0, 1, 2, 3]), np.array([0, 1, 2])))
)


def test_rows_with_their_columns() -> None:
    assert dense(EYE, np.array([1, 2, 3]), (3, 3)).tolist() == np.diag([1, 2, 3]).tolist()


def test_columns_first() -> None:
    """A row vector of columns: the order of the walk is not that of the axes."""
    table = Sparsity(
        (1, 0), (), (SparseAxis(2), SparseAxis(0, np.array([0, 2, 3]), np.array([0, 2, 1])))
    )
    found = dense(table, np.array([5, 6, 7]), (3, 2))
    assert found.tolist() == [[5, 0], [0, 7], [6, 0]]


def test_blocks() -> None:
    """4x4 in blocks of 1x4: two of four rows are stored."""
    rows = SparseAxis(0, np.array([0, 2]), np.array([1, 3]))
    table = Sparsity((0, 1, 2), (1,), (rows, SparseAxis(1), SparseAxis(4)))
    found = dense(table, np.arange(1, 9), (4, 4))
    assert found.tolist() == [[0] * 4, [1, 2, 3, 4], [0] * 4, [5, 6, 7, 8]]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (Sparsity((0, 0), (), EYE.axes), "not a permutation"),
        (Sparsity((0, 1), (), (SparseAxis(4), EYE.axes[1])), "fewer rows"),
        (
            Sparsity(
                (0, 1), (), (SparseAxis(1), SparseAxis(0, np.array([0, 2]), np.array([0, 7])))
            ),
            "positions outside",
        ),
        (Sparsity((0, 1), (), (SparseAxis(99), SparseAxis(99))), "more values than it has"),
    ],
)
def test_damaged(table: Sparsity, text: str) -> None:
    with pytest.raises(FileError, match=text):
        dense(table, np.arange(9), (3, 3))


def test_missing_values() -> None:
    with pytest.raises(FileError, match="stores 2 of 3 values"):
        dense(EYE, np.array([1, 2]), (3, 3))
