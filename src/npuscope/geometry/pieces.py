"""Kernels larger than the unit's, cut into pieces that are convolutions of their own.

Rows go in groups of three, columns in groups of six (twelve when strided). A dilated kernel is
filled up with zeros first, as the vendor's compiler does.
"""

from __future__ import annotations

from npuscope.machine.model import Machine

Span = tuple[int, int]
# Pieces that share an epoch, where nothing is left of their sums: always [code: 10 of 10 layers],
# and where units and engines suffice [RAM of two networks, cut in three and in six].
ALWAYS_TOGETHER, MOST_TOGETHER = 2, 3


def extent(window: tuple[int, int], dilations: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns from the first tap to the last."""
    return (window[0] - 1) * dilations[0] + 1, (window[1] - 1) * dilations[1] + 1


def kernel_spans(
    window: tuple[int, int], strides: tuple[int, int], machine: Machine
) -> list[tuple[Span, Span]]:
    """Rows and columns of each piece, row by row."""
    height, width = largest_piece(strides, machine)
    return [
        (rows, columns)
        for rows in _spans(window[0], height)
        for columns in _spans(window[1], width)
    ]


def piece_count(window: tuple[int, int], strides: tuple[int, int], machine: Machine) -> int:
    """Of a kernel of any size: no list is made of them."""
    height, width = largest_piece(strides, machine)
    return -(-window[0] // height) * -(-window[1] // width)


def largest_piece(strides: tuple[int, int], machine: Machine) -> tuple[int, int]:
    """Rows and columns that a unit takes."""
    limits = machine.convacc
    width = limits.max_kernel_width if strides[1] == 1 else limits.max_kernel_width_strided
    return limits.max_kernel_height, width


def _spans(length: int, limit: int) -> list[Span]:
    return [(first, min(first + limit, length)) for first in range(0, length, limit)]
