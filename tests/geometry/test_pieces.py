"""Numbers as products, and kernels in pieces."""

from __future__ import annotations

from itertools import product

import pytest

from compiler.nets import MACHINES
from npuscope.geometry.divisors import (
    is_prime,
    largest_divisor,
    largest_prime_factor,
    whole_and_rest,
)
from npuscope.geometry.pieces import extent, kernel_spans, piece_count

LATEST = MACHINES["4.0"]


def test_factors() -> None:
    primes = [number for number in range(60) if is_prime(number)]
    assert primes == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59]
    for number in range(2, 300):
        factor = largest_prime_factor(number)
        assert is_prime(factor) and number % factor == 0
        assert not any(number % n == 0 and is_prime(n) for n in range(factor + 1, number + 1))
        assert largest_divisor(number, number - 1) == 1 or not is_prime(number)


@pytest.mark.parametrize("limit", [2, 4, 8, 24])
def test_no_two_parts_take_fewer_tiles(limit: int) -> None:
    for count in range(2, 200):
        whole, rest = whole_and_rest(count, limit)
        assert whole + rest == count and min(whole, rest) > 0
        tiles = {
            first: first // largest_divisor(first, limit)
            + (count - first) // largest_divisor(count - first, limit)
            for first in range(1, count)
        }
        assert tiles[whole] == min(tiles.values())


@pytest.mark.parametrize("stride", [1, 2])
def test_pieces_cover_the_kernel_once(stride: int) -> None:
    for window in product(range(1, 15), range(1, 15)):
        spans = kernel_spans(window, (stride, stride), LATEST)
        assert len(spans) == piece_count(window, (stride, stride), LATEST)
        taps = [tap for rows, columns in spans for tap in product(range(*rows), range(*columns))]
        assert sorted(taps) == list(product(range(window[0]), range(window[1])))
        assert all(rows[1] - rows[0] <= 3 for rows, _ in spans)
        assert all(columns[1] - columns[0] <= 6 * stride for _, columns in spans)


def test_a_kernel_of_any_size_is_counted() -> None:
    """Files state what they like: no list is made for it."""
    assert extent((3, 3), (2**31, 4)) == (2**32 + 1, 9)
    assert piece_count((2**32 + 1, 9), (1, 1), LATEST) == 2 * -(-(2**32 + 1) // 3)
