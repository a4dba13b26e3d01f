"""Epochs that a report names by their tensors take what the same streams take with registers."""

from __future__ import annotations

import pytest

from npuscope.compiler.place import program_pools
from npuscope.machine.load import load_machine
from npuscope.program.model import Access, Buffer, Claims, Epoch, EpochKind, Program
from npuscope.program.stated import StatedPipe, StatedStream, StatedUnits
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


def counted(
    streams: list[StatedStream],
    buffers: list[Buffer],
    machine=MACHINE,
    pipes: tuple[StatedPipe, ...] | None = (),
) -> EpochCounters:
    claims = Claims(0, 50, 50, (Access("npuRAM5", 8000),))
    epoch = Epoch(1, 1, EpochKind.HW, ("Add",), groups=None, claims=claims)
    row = StatedUnits(1, ("ARITH",), 1, 1, streams=tuple(streams), pipes=pipes)
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


# --- Layers ---


def layer(**more: object) -> StatedPipe:
    """24 channels in frames of eight, four results at once: 18 frames of 20x20."""
    fields = {
        "chain": 0,
        "units": 1,
        "weights": "w",
        "depth": 8,
        "kernels": 4,
        "frames": 18,
        "pixels": PIXELS,
        "results": PIXELS,
        "window": (3, 3),
        "drained": 0,
        "sums": False,
        "grouped": False,
    }
    return StatedPipe(**fields | more)  # type: ignore[arg-type]


WEIGHTS = replace(tensor("w", pool="npuRAM3"), is_param=True, size_bytes=18 * 288)
LAYER = [tensor("x", batch=8), tensor("y", batch=4, pool="npuRAM4"), WEIGHTS]
STREAMS = [stream("x", layer=True), stream("y", True)]


def frames_cycles(pipe: StatedPipe, frame: float, load: float) -> float:
    """The first load, then every frame with the next load behind it."""
    return load + (pipe.frames - 1) * max(frame, load) + frame + TIMING.epoch_start_cycles


def layer_cycles(pipe: StatedPipe, buffers: list[Buffer] | None = None) -> float:
    return counted(STREAMS, buffers or LAYER, pipes=(pipe,)).core_cycles


def test_a_layer_takes_its_frames() -> None:
    pipe = layer()
    assert layer_cycles(pipe) == pytest.approx(frames_cycles(pipe, 8 * PIXELS, 288))


def test_a_padded_window_drains_its_lines() -> None:
    pipe = layer(drained=2 * 20)
    frame = 8 * PIXELS + TIMING.flush_lines * 2 * 20 * 8
    assert layer_cycles(pipe) == pytest.approx(frames_cycles(pipe, frame, 288))


def test_a_stride_reads_all_features_for_a_quarter_of_the_results() -> None:
    """What the compiler claims for such a layer is its products alone."""
    pipe = layer(drained=-1, results=PIXELS // 4)
    frame = 8 * PIXELS + TIMING.flush_strided_cycles
    assert layer_cycles(pipe) == pytest.approx(frames_cycles(pipe, frame, 288))


def test_sums_through_memory_turn_once_a_frame() -> None:
    pipe = layer(sums=True)
    sums = replace(tensor("y", batch=4, pool="npuRAM4"), nbits=16, size_bytes=2 * ELEMENTS)
    streams = [STREAMS[0], stream("y", True, sums=True)]
    cycles = counted(streams, [LAYER[0], sums, WEIGHTS], pipes=(pipe,)).core_cycles
    frame = 8 * PIXELS + TIMING.accumulation_turn_cycles
    assert cycles == pytest.approx(frames_cycles(pipe, frame, 288))


def test_a_deep_layer_takes_three_channels_a_word() -> None:
    buffers = [replace(WEIGHTS, size_bytes=18 * 96), *LAYER[:2]]
    deep = layer(window=(1, 1), depth=48)
    assert layer_cycles(deep, buffers) == pytest.approx(frames_cycles(deep, 16 * PIXELS, 32))
    flat = layer(window=(1, 1), depth=24)
    assert layer_cycles(flat, buffers) == pytest.approx(frames_cycles(flat, 24 * PIXELS, 96))


def test_a_layer_that_is_not_stated_whole_keeps_the_compilers_claims() -> None:
    claimed = counted(STREAMS, LAYER, pipes=None).core_cycles
    assert claimed < layer_cycles(layer())


def test_tensors_that_the_application_places_leave_the_compilers_claims() -> None:
    nowhere = [replace(LAYER[0], pool=""), *LAYER[1:]]
    claimed = counted(STREAMS, LAYER, pipes=None).core_cycles
    assert counted(STREAMS, nowhere, pipes=(layer(),)).core_cycles == claimed


def test_short_runs_in_external_ram_are_accesses_each() -> None:
    """Two of 24 channels that lie together are read at once."""
    pipe = layer(depth=2, frames=72)
    outside = [tensor("x", pool="hyperRAM"), *LAYER[1:]]
    short = counted([replace(STREAMS[0], run=2), STREAMS[1]], outside, pipes=(pipe,))
    long = counted(STREAMS, outside, pipes=(pipe,))
    assert short.bound is Bound.EXTERNAL_RAM
    assert short.core_cycles > 10 * long.core_cycles
