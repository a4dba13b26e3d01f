"""Records written column by column, against the same records written field by field."""

from __future__ import annotations

import struct

import numpy as np

from npuscope.protobuf import FIXED64, VARINT, fields, tag
from npuscope.protobuf_columns import Fixed64, Literal, Part, Varints, inserted, sizes, table

COUNTS = np.array([0, 127, 128, 70_000])
HALVES = np.array([0.0, 0.5, 1.0, 1.5])
PRESENT = np.array([True, False, True, True])
PARTS = (
    Part((Literal(tag(1, VARINT)), Varints(COUNTS))),
    Part((Literal(tag(2, FIXED64)), Fixed64(HALVES)), PRESENT),
)


def test_columns_read_as_the_records_that_they_are() -> None:
    data = table(PARTS, slice(0, 4)).tobytes()
    found = [(number, value) for number, value, _ in fields(data)]
    expected: list[tuple[int, int | bytes]] = []
    for count, half, present in zip(COUNTS, HALVES, PRESENT, strict=True):
        expected.append((1, int(count)))
        expected += [(2, struct.pack("<d", half))] if present else []
    assert found == expected
    assert sizes(PARTS, 4).sum() == len(data)


def test_rows_of_a_block_are_those_rows() -> None:
    data = table(PARTS, slice(1, 3)).tobytes()
    assert [value for number, value, _ in fields(data) if number == 1] == [127, 128]


def test_numbers_below_zero_take_ten_bytes() -> None:
    column = Varints(np.array([-1, 1]))
    assert column.width == 10
    data = table((Part((Literal(tag(1, VARINT)), column)),), slice(0, 2)).tobytes()
    assert [value for _, value, _ in fields(data)] == [(1 << 64) - 1, 1]


def test_pieces_are_inserted_in_front_of_their_places() -> None:
    flat, more = np.frombuffer(b"abcd", np.uint8), np.frombuffer(b"XYZ", np.uint8)
    found = inserted(flat, np.array([0, 3]), np.array([1, 2]), more)
    assert found.tobytes() == b"XabcYZd"
