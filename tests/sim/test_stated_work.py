"""Epochs that a report names by their tensors take what the same streams take with registers."""

from __future__ import annotations

import pytest

from npuscope.compiler.place import program_pools
from npuscope.machine.load import load_machine
from npuscope.program.model import (
    Access,
    Buffer,
    Claims,
    Epoch,
    EpochKind,
    Program,
    StatedStream,
    StatedUnits,
)
from npuscope.sim.counters import Bound, EpochCounters
from npuscope.sim.epochs import count_epochs
from npuscope.structs import replace
from sim.bench import Bench

MACHINE = load_machine(generation="2.2")
TIMING = MACHINE.timing
PIXELS, CHANNELS = 400, 24
ELEMENTS = PIXELS * CHANNELS


def tensor(name: str, batch: int = CHANNELS, pool: str = "npuRAM5", nbits: int = 8) -> Buffer:
    shape = (1, 20, 20, CHANNELS)
    return Buffer(name, ELEMENTS * nbits // 8, shape, nbits, batch, pool=pool)


def stream(name: str, writes: bool = False, **more: object) -> StatedStream:
    fields = {"chain": 0, "copies": False, "elements": ELEMENTS} | more
    return StatedStream(name, writes, **fields)  # type: ignore[arg-type]


def counted(streams: list[StatedStream], buffers: list[Buffer], machine=MACHINE) -> EpochCounters:
    claims = Claims(0, 50, 50, (Access("npuRAM5", 8000),))
    epoch = Epoch(1, 1, EpochKind.HW, ("Add",), groups=None, claims=claims)
    row = StatedUnits(1, ("ARITH",), 1, 1, streams=tuple(streams))
    empty = Bench().program((), (), (), ())
    program: Program = replace(
        empty,
        epochs=(epoch,),
        buffers=tuple(buffers),
        pools=program_pools(machine),
        stated_units=(row,),
    )
    (counters,) = count_epochs(program, machine)
    return counters


def core(streams: list[StatedStream], buffers: list[Buffer], machine=MACHINE) -> float:
    return counted(streams, buffers, machine).core_cycles - TIMING.move_start_cycles


def test_an_element_of_the_longest_stream_takes_a_cycle() -> None:
    buffers = [tensor("x"), tensor("y", pool="npuRAM4", nbits=16)]
    assert core([stream("x"), stream("y", True)], buffers) == ELEMENTS


def test_a_copy_of_adjacent_bytes_moves_two_at_once() -> None:
    buffers = [tensor("x"), tensor("y", batch=8, pool="npuRAM4")]
    pair = [stream("x", copies=True, run=8), stream("y", True, copies=True)]
    assert core(pair, buffers) == ELEMENTS / 2


@pytest.mark.parametrize("writes", [False, True])
def test_a_copy_of_single_elements(writes: bool) -> None:
    buffers = [tensor("x"), tensor("y", pool="npuRAM4")]
    pair = [
        stream("x", copies=True, run=int(not writes)),
        stream("y", True, copies=True, run=int(writes)),
    ]
    assert core(pair, buffers) == pytest.approx(TIMING.strided_write_cycles * ELEMENTS)
    # Of four bytes each they go in halves.
    wide = [replace(buffer, nbits=32, size_bytes=4 * ELEMENTS) for buffer in buffers]
    assert core(pair, wide) == 2 * ELEMENTS


def test_single_elements_of_a_slow_memory_are_accesses_each() -> None:
    buffers = [tensor("x", pool="cpuRAM2"), tensor("y", batch=1, pool="npuRAM4")]
    pair = [stream("x", copies=True, run=1), stream("y", True, copies=True)]
    counters = counted(pair, buffers)
    assert counters.bound is Bound.BANK
    assert counters.core_cycles > 4 * ELEMENTS


@pytest.mark.parametrize("entries", [1, 4, 24])
def test_a_computed_vector_begins_anew_for_every_frame(entries: int) -> None:
    vector = replace(tensor("v"), size_bytes=CHANNELS, shape=(1, 1, 1, CHANNELS))
    buffers = [tensor("x"), vector, tensor("y", pool="npuRAM4")]
    streams = [
        stream("x"),
        stream("v", elements=CHANNELS, again=entries),
        stream("y", True),
    ]
    expected = (TIMING.product_cycles + TIMING.broadcast_cycles / entries) * ELEMENTS
    assert core(streams, buffers) == pytest.approx(expected)
    # Builds of 4.0 read the whole vector at once.
    whole = (TIMING.product_cycles + TIMING.broadcast_cycles / CHANNELS) * ELEMENTS
    assert core(streams, buffers, load_machine(generation="4.0")) == pytest.approx(whole)


def test_a_table_in_flash_that_no_unit_can_hold() -> None:
    table = replace(tensor("t", pool="octoFlash"), is_param=True)
    buffers = [tensor("x"), table, tensor("y", pool="npuRAM4")]
    streams = [stream("x"), stream("t", again=1), stream("y", True)]
    assert core(streams, buffers) == pytest.approx(TIMING.vector_cycles * ELEMENTS)


def test_a_second_chain_holds_the_first_up() -> None:
    buffers = [tensor("x"), tensor("y", pool="npuRAM4"), tensor("a", pool="npuRAM3")]
    one = [stream("x"), stream("y", True)]
    two = [stream("a", chain=1), replace(stream("y", True), chain=1)]
    assert core([*one, *two], buffers) == pytest.approx((1 + TIMING.side_share) * ELEMENTS)
