"""Any buffers: those that live together never share a byte, and each lies inside its pool."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from compiler.nets import MACHINES
from npuscope.compiler.place import PlacedSoFar, _fit, place
from npuscope.errors import TargetError
from npuscope.program.model import Buffer, Pool, Program

SIZES = st.integers(1, 600_000) | st.sampled_from((1, 15, 16, 17, 448 * 1024, 448 * 1024 + 1))


@st.composite
def buffers(draw: st.DrawFn) -> tuple[Buffer, ...]:
    spans = draw(
        st.lists(st.tuples(SIZES, st.integers(0, 12), st.integers(0, 5)), min_size=1, max_size=14)
    )
    return tuple(
        Buffer(f"b{i}", size, (1, size), 8, size, first=first, last=first + more)
        for i, (size, first, more) in enumerate(spans)
    )


@given(buffers(), st.sampled_from(sorted(MACHINES)))
def test_no_overlap_and_inside_their_pools(made: tuple[Buffer, ...], generation: str) -> None:
    program = Program("p", "stm32n6", generation, True, (), made, (), ("b0",), ())
    try:
        placed = place(program, MACHINES[generation])
    except TargetError:
        assume(False)
    pools = placed.pool_map()
    ranges = []
    for buffer in placed.buffers:
        pool = pools[buffer.pool]
        assert 0 <= buffer.offset <= buffer.offset + buffer.size_bytes <= pool.size_bytes
        start = pool.address + buffer.offset
        ranges.append((buffer, start, start + buffer.size_bytes))
    for (one, start, end), (other, other_start, other_end) in combinations(ranges, 2):
        together = one.first <= other.last and other.first <= one.last
        assert not (together and start < other_end and other_start < end), (one, other)


def compared_with_all(memory: PlacedSoFar, buffer: Buffer) -> list[tuple[int, int]]:
    """What `PlacedSoFar` finds by epoch or as a union, without either."""
    alive = (row for row in memory.rows if row[2] <= buffer.last and row[3] >= buffer.first)
    return [row[:2] for row in alive]


ADDRESSES = st.integers(0, 4000).map(lambda n: n * 16)
PLACES = st.lists(
    st.tuples(ADDRESSES, st.integers(1, 900), st.integers(0, 900), st.integers(0, 500)),
    max_size=25,
)


@given(PLACES, st.integers(0, 900), st.integers(0, 900), st.integers(1, 900))
def test_a_gap_is_found_as_if_all_were_compared(
    places: list[tuple[int, int, int, int]], first: int, length: int, size: int
) -> None:
    pool = Pool("p", 1600, 48_000, 8, 1.0)
    memory = PlacedSoFar(16)
    for number, (start, bytes_, begin, more) in enumerate(places):
        buffer = Buffer(f"b{number}", bytes_, (1,), 8, 1, first=begin, last=begin + more)
        memory.add(buffer, start)
    memory.marks["p"] = 30_000
    wanted = Buffer("x", size, (1,), 8, 1, first=first, last=first + length)
    found = _fit(wanted, pool, memory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlacedSoFar, "_meeting", compared_with_all)
        assert found == _fit(wanted, pool, memory)
