"""The silicon's time of groups built by hand: T = L0 + sum of max(L, S) + S_last + start, term by
term. A set of kernels is loaded (L) while the frame before it streams (S).

The machine's constants are round numbers here, so that every expectation is plain arithmetic.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from compiler.nets import MACHINES, Net
from npuscope.compiler.pipeline import CompileOptions, compile_graph
from npuscope.compiler.place import program_pools
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine, MemoryPath
from npuscope.program.model import Buffer, Group, Program
from npuscope.program.modes import ArithOp
from npuscope.program.units import Arith, Convacc, PoolUnit, Ref, Streng
from npuscope.sim.counters import Bound
from npuscope.sim.epochs import count_epochs
from npuscope.sim.group_work import group_work
from npuscope.sim.memory import Banks
from npuscope.sim.spans import group_span, speeds_of
from npuscope.structs import replace
from sim.bench import link

START, MOVE = 1000.0, 500.0
RAM, CPU_RAM, FLASH, EXTERNAL = 0.125, 1.25, 2.0, 1.5  # cycles a byte
BASE = load_machine(generation="4.0")
TIMING = replace(
    BASE.timing,
    epoch_start_cycles=START,
    move_start_cycles=MOVE,
    flush_lines=2.0,
    flush_strided_cycles=70.0,
    strided_read_cycles=1.25,
    strided_write_cycles=1.5,
    vector_cycles=3.0,
    second_vector_cycles=0.5,
    vector_frame_cycles=40.0,
    broadcast_cycles=30.0,
    product_cycles=1.5,
    elementwise_cycles=1.0,
    external_read_ns=80.0,
    external_write_ns=60.0,
    pair_cycles=1.3,
    accumulation_turn_cycles=0.0,
    overlap_weights=10_000,
    side_share=0.0,
    apart_word_cycles=1.2,
    wide_word_cycles=1.0,
)
_RATES = {"nic": RAM, "noc": CPU_RAM, "xspi1": EXTERNAL, "xspi2": FLASH}
PATHS = {name: MemoryPath("npu_mhz", 1 / rate, 1.0) for name, rate in _RATES.items()}
MACHINE = replace(BASE, timing=TIMING, paths=PATHS)
POOLS = program_pools(MACHINE)


def time(*groups: Group, machine=MACHINE):
    """(cycles, bound) of units started together. A buffer's name is the pool it lies in."""
    units = tuple(unit for group in groups for unit in group.units)
    links = tuple(link for group in groups for link in group.links)
    buffers = tuple(Buffer(pool.name, 0, (1,), 8, 1, pool.name) for pool in POOLS)
    program = Program("bench", "stm32n6", "4.0", True, POOLS, buffers, (), (), ())
    banks = Banks(program, machine)
    work = group_work(Group(units, links), banks)
    span = group_span(work, speeds_of(machine, banks.by_name()))
    return span.cycles, span.bound


def frames(id, pool, side, depth, count=1, nbits=8, dir=0, **more) -> Streng:
    """An engine over `count` frames of side x side pixels, channels together."""
    step = depth * nbits // 8
    settings = {"fwidth": side, "fheight": side, "batch_depth": depth, "batch_offset": step}
    settings |= {"frame_tot_cnt": count, "frame_offset": side * side * step} | more
    return Streng(id=id, dir=dir, addr_base=Ref(pool), nbits_in=nbits, nbits_out=nbits, **settings)


def kernels(id, pool, elements, count) -> Streng:
    return Streng(
        id=id,
        dir=0,
        addr_base=Ref(pool),
        raw=1,
        continuous=1,
        frame_count=elements,
        frame_tot_cnt=count,
    )


def convolution(
    passes=3,
    side=8,
    depth=8,
    nkernels=8,
    weights="octoFlash",
    features="npuRAM5",
    loop=1,
    first=0,
    unit=0,
    **conv,
) -> Group:
    """Engines first, first + 1, first + 2: features, kernels, output. Kernels are 1x1."""
    settings = {"kernelWidth": 1, "kernelHeight": 1} | conv
    acc = Convacc(
        id=unit, fWidth=side, fHeight=side, nKernels=nkernels, batchDepth=depth, **settings
    )
    units = (
        frames(first, features, side, depth, passes, frame_loop_cnt=loop),
        kernels(first + 1, weights, acc.kernel_elements, passes),
        acc,
        frames(first + 2, "npuRAM4", acc.out_size[0], nkernels, passes, dir=1),
    )
    links = (
        link(f"STRENG{first}", f"CONVACC{unit}"),
        link(f"STRENG{first + 1}", f"CONVACC{unit}.1"),
        link(f"CONVACC{unit}", f"STRENG{first + 2}"),
    )
    return Group(units, links)


def extended(group: Group, *units, links=()) -> Group:
    return Group((*group.units, *units), (*group.links, *links))


# Convolutions: load against stream.


def test_stream_bound():
    """64 weights load in 128 cycles, a frame takes 512: only the first load shows."""
    assert time(convolution()) == (128 + 3 * 512 + START, Bound.FEATURES)


def test_load_bound():
    """A frame of 32 words hides behind each load but the last."""
    assert time(convolution(side=2)) == (3 * 128 + 32 + START, Bound.FLASH)


def test_kernel_sets_in_one_long_frame_load_one_by_one():
    """Builds of 3.0 and later send all sets at once: the load still hides behind the frames."""
    group = convolution()
    whole = tuple(kernels(1, "octoFlash", 3 * 64, 1) if u.id == 1 else u for u in group.units)
    assert time(Group(whole, group.links)) == time(group)


def test_one_pass_hides_nothing():
    assert time(convolution(passes=1)) == (128 + 512 + START, Bound.FEATURES)


def test_one_pass_that_waits_for_its_kernels_is_bound_by_them():
    assert time(convolution(passes=1, side=2)) == (128 + 32 + START, Bound.FLASH)


@pytest.mark.parametrize(
    ("weights", "load", "bound"),
    [
        ("npuRAM6", 64, Bound.WEIGHTS),  # the link's one word a cycle, not the memory
        ("cpuRAM2", 64 * CPU_RAM, Bound.WEIGHTS),
        ("hyperRAM", 64 * EXTERNAL, Bound.EXTERNAL_RAM),
        ("octoFlash", 64 * FLASH, Bound.FLASH),
    ],
)
def test_where_the_weights_lie(weights, load, bound):
    assert time(convolution(side=2, weights=weights)) == (3 * load + 32 + START, bound)


def test_output_bound():
    """24 kernels: 64 * 24 words leave for 64 * 8 that enter."""
    assert time(convolution(nkernels=24)) == (384 + 3 * 1536 + START, Bound.OUTPUT)


def test_more_passes_cost_one_frame_each():
    few, many = (time(convolution(passes=passes))[0] for passes in (3, 10))
    assert many - few == 7 * 512


# Series of units and partial sums.


def pipe() -> Group:
    """Two units in series share one kernel stream of 2 x 64 weights a pass."""
    base = convolution()
    features, _, acc, out = base.units
    units = (features, kernels(1, "octoFlash", 128, 3), acc, out, replace(features, id=3))
    links = (
        *base.links[:2],
        link("STRENG3", "CONVACC1"),
        link("STRENG1", "CONVACC1.1"),
        link("CONVACC0", "CONVACC1.2"),
        link("CONVACC1", "STRENG2"),
    )
    return Group((*units, replace(acc, id=1)), links)


def test_a_pipe_loads_all_its_kernels_and_streams_once():
    assert time(pipe()) == (256 + 3 * 512 + START, Bound.FEATURES)


def test_partial_sums_stream_beside_the_features():
    """16-bit sums of 512 words a pass: as long as the features, so nothing is added."""
    sums = frames(3, "npuRAM4", 8, 8, 3, nbits=16)
    group = extended(convolution(), sums, links=[link("STRENG3", "CONVACC0.2")])
    assert time(group)[0] == time(convolution())[0]


def test_a_gemm_on_chip_is_bound_by_its_weights():
    """Each weight is used once: their engine works all the time, that of the features hardly."""
    net = Net(3)
    net.dense(net.input((1, 256), (0.05, 3)), 1024)
    machine = MACHINES["2.2"]
    inside = tuple(replace(p, size_bytes=0) if p.cacheable else p for p in machine.pools)
    machine = machine.with_pools(inside)
    program = compile_graph(net.graph(), machine, CompileOptions(3))
    counted = count_epochs(program, machine)[0]
    assert counted.bound is Bound.WEIGHTS
    shares = {e.id: e.active_cycles / counted.core_cycles for e in counted.engines if e.dir == "i"}
    assert shares[1] > 0.95 and shares[0] < 0.1


def test_accumulator_bound():
    sums = frames(3, "npuRAM4", 8, 16, 3, nbits=16)
    group = extended(convolution(), sums, links=[link("STRENG3", "CONVACC0.2")])
    assert time(group) == (128 + 3 * 1024 + START, Bound.ACCUMULATOR)


# Banks and external RAM.


def test_bank_bound():
    """512 bytes a frame from cpuRAM2 take 640 cycles."""
    assert time(convolution(features="cpuRAM2")) == (128 + 3 * 640 + START, Bound.BANK)


def with_sums(features, sums) -> Group:
    """Partial sums of 512 words of 16 bits a pass."""
    engine = frames(3, sums, 8, 8, 3, nbits=16)
    return extended(convolution(features=features), engine, links=[link("STRENG3", "CONVACC0.2")])


def test_engines_of_one_bank_and_direction_add_up():
    found = time(with_sums("cpuRAM2", "cpuRAM2"))
    assert found == (128 + 3 * (640 + 1280) + START, Bound.BANK)


def test_engines_of_two_banks_work_side_by_side():
    assert time(with_sums("cpuRAM2", "npuRAM6"))[0] == time(convolution(features="cpuRAM2"))[0]


def test_reads_and_writes_of_one_bank_do_not_add_up():
    base = convolution(features="cpuRAM2")
    out = replace(base.units[3], addr_base=Ref("cpuRAM2"))
    assert time(replace(base, units=(*base.units[:3], out))) == time(base)


READ, WRITE = 80, 60  # cycles of an access to external RAM


def outside(size: int, accesses: float, each: float = READ) -> float:
    """Cycles that external RAM takes for so many bytes."""
    return accesses * each + size * EXTERNAL


def test_adjacent_bytes_of_external_ram_go_in_the_longest_bursts():
    """512 bytes a pass are eight accesses; every pass reads all of them again."""
    found = time(convolution(features="hyperRAM"))
    assert found == (128 + 3 * outside(512, 8) + START, Bound.EXTERNAL_RAM)


def test_writes_to_external_ram_do_not_wait_for_an_answer():
    base = convolution()
    out = replace(base.units[3], addr_base=Ref("hyperRAM"))
    found = time(replace(base, units=(*base.units[:3], out)))
    assert found == (128 + 3 * outside(512, 8, WRITE) + START, Bound.EXTERNAL_RAM)


@pytest.mark.parametrize(("run", "bursts"), [(1, 1), (4, 1), (8, 1), (12, 1), (24, 2), (56, 3)])
def test_a_run_of_bytes_apart_from_the_next_is_an_access_or_more(run, bursts):
    """Bursts are of 1, 2, 4 and 8 beats of 8 bytes: 24 bytes are two of them, 56 three."""
    reader = frames(0, "hyperRAM", 8, run, batch_offset=64)
    group = Group((reader, frames(1, "npuRAM4", 8, run, dir=1)), (link("STRENG0", "STRENG1"),))
    assert time(group) == (outside(64 * run, 64 * bursts) + MOVE, Bound.EXTERNAL_RAM)


def test_accesses_of_all_engines_to_external_ram_follow_each_other():
    cycles, bound = time(with_sums("hyperRAM", "hyperRAM"))
    assert cycles == 128 + 3 * (outside(512, 8) + outside(1024, 16)) + START
    assert bound is Bound.EXTERNAL_RAM


@pytest.mark.parametrize("npu_mhz", [400, 800, 2000])
def test_an_access_to_external_ram_takes_its_time_at_any_clock_of_the_npu(npu_mhz):
    """Its cycles grow with the clock, as those of its bytes do."""
    group = convolution(features="hyperRAM", weights="npuRAM6")
    start = BASE.timing.epoch_start_cycles + 64  # words of the first kernels
    machine = replace(BASE, clocks=replace(BASE.clocks, npu_mhz=npu_mhz))
    usual, other = (time(group, machine=m)[0] for m in (BASE, machine))
    assert (other - start) / npu_mhz == pytest.approx((usual - start) / 1000)


# Lines behind padded kernels, single channels.

PADDED = {"kernelWidth": 3, "kernelHeight": 3, "top_padding": 1, "bot_padding": 1}
PADDED |= {"left_padding": 1, "right_padding": 1}


def test_a_padded_kernel_drains_its_lines():
    """Two rows of 8 x 8 elements, at two cycles each; 576 weights from RAM."""
    found, _ = time(convolution(weights="npuRAM6", **PADDED))
    assert found == 576 + 3 * (512 + 2 * 2 * 64) + START


def test_a_strided_kernel_drains_less():
    found, _ = time(convolution(weights="npuRAM6", vstride=2, hstride=2, **PADDED))
    assert found == 576 + 2 * max(576, 582) + (512 + 70) + START


def test_without_padding_nothing_drains():
    found, _ = time(convolution(weights="npuRAM6", kernelWidth=3, kernelHeight=3))
    assert found == 576 + 2 * 576 + 512 + START


def apart(group: Group, **changes) -> Group:
    """The features' channels lie `changes` apart, one an access."""
    units = (replace(group.units[0], **changes), *group.units[1:])
    return Group(units, group.links)


def test_single_channels_that_lie_apart_are_a_little_slower():
    together = convolution(side=16, depth=1, nkernels=1)
    assert time(together)[0] == pytest.approx(2 + 3 * 256 + START)
    found, bound = time(apart(together, batch_offset=8))
    assert found == pytest.approx(2 + 3 * 256 * 1.2 + START)
    assert bound is Bound.FEATURES


def short_access(clocks: float) -> Machine:
    road = replace(PATHS["noc"], access=clocks)
    return replace(MACHINE, paths={**PATHS, "noc": road})


def test_an_access_to_less_than_a_word_takes_its_own_time_whatever_its_bytes():
    """Up to four bytes an access: 256 pixels of one channel or of four, 256 accesses a frame."""
    for depth in (1, 4):
        group = convolution(side=16, depth=depth, nkernels=1, features="cpuRAM2", passes=1)
        found, bound = time(apart(group, batch_offset=16), machine=short_access(20.0))
        assert (found, bound) == (2 * depth + 256 * 20 + START, Bound.BANK)
    whole_words = convolution(side=16, depth=8, nkernels=1, features="cpuRAM2", passes=1)
    assert time(apart(whole_words, batch_offset=16), machine=short_access(20.0))[0] == (
        16 + 256 * 8 * CPU_RAM + START
    )


def test_accesses_of_two_engines_to_one_bank_follow_each_other():
    """Pieces of a depthwise kernel, which read a byte each; in two banks they do not meet."""
    one = _pieces(side=16, banks=("cpuRAM2", "cpuRAM2"))
    two = _pieces(side=16, banks=("cpuRAM2", "npuRAM5"))
    machine = short_access(20.0)
    assert time(one, machine=machine)[0] == 1 + 3 * 2 * 256 * 20 + START
    assert time(two, machine=machine)[0] == 1 + 3 * 256 * 20 + START


def test_channels_of_one_pixel_share_the_word_read_last():
    group = convolution(side=16, depth=1, nkernels=1, features="cpuRAM2", passes=1)
    found, _ = time(apart(group, batch_offset=2), machine=short_access(20.0))
    assert found == 2 + 256 * 2 / 8 * 20 + START


def test_a_pool_that_reads_memory_takes_single_elements_from_a_slow_bank():
    """A short access is slower than a word there; elsewhere it streams."""
    pool = PoolUnit(id=0, operation=0, inputX=16, inputY=16, outputX=1, outputY=1, batchSize=8)
    write = frames(9, "npuRAM4", 1, 8, dir=1)
    links = (link("STRENG0", "POOL0"), link("POOL0", "STRENG9"))
    for bank, cycles in (("cpuRAM2", 2048 * 20), ("npuRAM5", 2048)):
        read = frames(0, bank, 16, 8, batch_offset=32)
        group = Group((read, pool, write), links)
        assert time(group, machine=short_access(20.0))[0] == cycles + MOVE


def test_a_kernel_of_more_columns_than_the_unit_takes_at_stride_1_needs_two_cycles_a_word():
    wide = {"kernelWidth": 7, "kernelHeight": 3, "hstride": 2, "vstride": 2}
    one_row = {**wide, "kernelHeight": 1}
    slow = replace(MACHINE, timing=replace(TIMING, wide_word_cycles=2.0))
    for settings, factor in ((wide, 2), (one_row, 1)):
        group = convolution(side=32, depth=1, nkernels=1, passes=1, weights="npuRAM6", **settings)
        load = settings["kernelHeight"] * 7
        assert time(group, machine=slow)[0] == load + factor * 1024 + START


def test_a_tile_whose_sums_go_through_memory_turns_round():
    turning = replace(MACHINE, timing=replace(TIMING, accumulation_turn_cycles=30.0))
    group = with_sums("npuRAM5", "npuRAM4")
    assert time(group, machine=turning)[0] == pytest.approx(time(group)[0] + 3 * 30)
    plain = convolution(side=16)
    assert time(plain, machine=turning) == time(plain)


def test_a_dense_kernel_set_that_fills_the_buffer_is_not_loaded_ahead():
    small_buffer = replace(MACHINE, timing=replace(TIMING, overlap_weights=1))
    again = convolution(side=16, kernelWidth=3, kernelHeight=3)  # features again for every tile
    group = convolution(side=16, kernelWidth=3, kernelHeight=3, loop=0)
    assert time(again, machine=small_buffer)[0] > time(again)[0]
    assert time(group, machine=small_buffer) == time(group)  # features that advance: depthwise


# Coefficients streamed into an arithmetic unit.


def with_vectors(count=1, pool="octoFlash", **conv) -> Group:
    """Arithmetic units behind the convolution; each reads one line of 64 values 24 times."""
    base = convolution(**conv)
    vectors = [
        frames(3 + n, pool, 8, 1, 24, frame_loop_cnt=8, frame_offset=0) for n in range(count)
    ]
    shape = {"fWidth": 8, "fHeight": 8, "fChannels": 8, "batchDepth": 8}
    stages = [Arith(id=n, operation=ArithOp.MUL, **shape) for n in range(count)]
    feeds = [link(f"STRENG{3 + n}", f"ARITH{n}.1") for n in range(count)]
    chain = ["CONVACC0", *(f"ARITH{n}" for n in range(count)), "STRENG2"]
    through = [link(a, b) for a, b in pairwise(chain)]
    units = (*base.units, *vectors, *stages)
    return Group(units, (*base.links[:2], *feeds, *through))


PLAIN = 128 + 3 * 512 + START
VALUES = 24 * 64


def test_streamed_coefficients_slow_every_value():
    assert time(with_vectors()) == (PLAIN + 3.0 * VALUES, Bound.ARITH_VECTOR)


def test_a_second_vector_costs_less_than_the_first():
    assert time(with_vectors(2)) == (PLAIN + 3.5 * VALUES, Bound.ARITH_VECTOR)


def test_vectors_that_advance_with_the_features_cost_more_a_frame():
    assert time(with_vectors(loop=0))[0] == PLAIN + 3.0 * VALUES + 3 * 40


def test_coefficients_in_internal_ram_are_free():
    assert time(with_vectors(pool="npuRAM3")) == (PLAIN, Bound.FEATURES)


def test_vectors_are_the_bound_only_when_they_take_most_of_the_time():
    assert time(with_vectors(passes=30))[1] is Bound.FEATURES


# Epochs without a convolution.


def copy(source="npuRAM5", target="npuRAM4", read=None, write=None, first=0) -> Group:
    """32 x 32 pixels of 4 bytes."""
    units = (
        frames(first, source, 32, 4, **(read or {})),
        frames(first + 1, target, 32, 4, dir=1, **(write or {})),
    )
    return Group(units, (link(f"STRENG{first}", f"STRENG{first + 1}"),))


SINGLE = {"fwidth": 128, "batch_depth": 1, "batch_offset": 4}


def test_a_copy_moves_one_word_a_cycle():
    assert time(copy())[0] == 4096 + MOVE


def test_single_elements_are_slower_to_read_and_to_write():
    assert time(copy(read=SINGLE)) == (4096 * 1.25 + MOVE, Bound.FEATURES)
    assert time(copy(write=SINGLE)) == (4096 * 1.5 + MOVE, Bound.OUTPUT)
    assert time(copy(read=SINGLE, write=SINGLE)) == (4096 * 1.5 + MOVE, Bound.OUTPUT)


def test_a_copy_from_external_ram_waits_for_it():
    assert time(copy("hyperRAM")) == (outside(4096, 64) + MOVE, Bound.EXTERNAL_RAM)


def test_external_ram_costs_what_it_did_with_the_compilers_of_the_time():
    half = replace(MACHINE, generation=replace(BASE.generation, external_factor=0.5))
    assert time(copy("hyperRAM"), machine=half)[0] == outside(4096, 32) + MOVE


def elementwise(second: Streng) -> Group:
    """y = x * second on 8 x 8 pixels of 8 channels."""
    unit = Arith(id=0, operation=ArithOp.MUL, fWidth=8, fHeight=8, fChannels=8, batchDepth=8)
    units = (frames(0, "npuRAM5", 8, 8), second, unit, frames(2, "npuRAM4", 8, 8, dir=1))
    links = (link("STRENG0", "ARITH0"), link("STRENG1", "ARITH0.1"), link("ARITH0", "STRENG2"))
    return Group(units, links)


def test_an_elementwise_epoch_moves_one_word_a_cycle():
    assert time(elementwise(frames(1, "npuRAM3", 8, 8)))[0] == 512 + MOVE


def test_a_vector_that_an_engine_reads_again_costs_by_the_frame():
    """Eight values, 64 times."""
    again = elementwise(frames(1, "npuRAM3", 1, 8, 64, frame_loop_cnt=64, frame_offset=0))
    assert time(again) == (512 * 1.5 + 64 * 30 + MOVE, Bound.ARITH_VECTOR)


def test_parts_of_a_vector_are_read_as_the_registers_say():
    """Two values, 64 times, then the next two."""
    parts = frames(1, "npuRAM3", 1, 2, 256, frame_loop_cnt=64, frame_offset=0, loop_offset=2)
    assert time(elementwise(parts))[0] == 512 * 1.5 + 256 * 30 + MOVE


def test_an_engine_reads_no_more_than_the_other_stream_takes():
    """Eight values offered 512 times beside 64 pixels."""
    often = frames(1, "npuRAM3", 1, 8, 512, frame_loop_cnt=64, frame_offset=0)
    group = elementwise(often)
    both = tuple(replace(u, dualinput=1) if isinstance(u, Arith) else u for u in group.units)
    found = time(Group(both, group.links))
    assert found[0] == 512 * 1.5 + 64 * 30 + MOVE


def test_a_vector_that_is_read_again_from_flash_is_prefetched():
    again = frames(1, "octoFlash", 1, 8, 64, frame_loop_cnt=64, frame_offset=0)
    assert time(elementwise(again)) == (512 * 3 + MOVE, Bound.ARITH_VECTOR)


def test_frames_that_advance_by_the_loop_are_no_broadcast():
    ahead = frames(1, "npuRAM3", 1, 8, 64, frame_loop_cnt=1, frame_offset=0, loop_offset=8)
    assert time(elementwise(ahead))[0] == 512 + MOVE


# Units side by side.


def test_the_slower_chain_counts():
    slow = convolution()
    fast = convolution(passes=2, first=5, unit=1, features="npuRAM3", weights="npuRAM6")
    assert time(slow, fast) == time(fast, slow) == time(slow)


SHARING = replace(MACHINE, timing=replace(TIMING, side_share=0.25))


def test_the_features_of_the_others_hold_the_slowest_chain_up():
    slow = convolution()
    fast = convolution(passes=2, first=5, unit=1, features="npuRAM3", weights="npuRAM6")
    expected = time(slow)[0] + 2 * 512 / 4
    assert time(slow, fast, machine=SHARING) == (expected, Bound.FEATURES)
    assert time(fast, slow, machine=SHARING) == (expected, Bound.FEATURES)


def test_chains_that_wait_for_external_ram_hold_nobody_up():
    """They wait one after another, which has a term of its own."""
    slow = copy("hyperRAM")
    fast = convolution(passes=2, first=5, unit=1, features="npuRAM3", weights="npuRAM6")
    other = convolution(passes=60, first=5, unit=1, features="npuRAM3", weights="npuRAM6")
    assert time(slow, fast, machine=SHARING)[0] == time(slow)[0] + 2 * 512 / 4
    assert time(slow, other, machine=SHARING) == time(other)


def _pieces(side: int, banks: tuple[str, str]) -> Group:
    """Two pieces of a depthwise kernel, channel by channel, whose sums are added."""
    features = [
        frames(n, bank, side, 1, 3, batch_offset=24, frame_offset=1) for n, bank in enumerate(banks)
    ]
    kernel = {"nKernels": 1, "batchDepth": 1, "kernelWidth": 1, "kernelHeight": 1}
    convs = [Convacc(id=n, fWidth=side, fHeight=side, **kernel) for n in (0, 1)]
    weights = [kernels(2 + n, "npuRAM6", convs[n].kernel_elements, 3) for n in (0, 1)]
    size = {"fWidth": side, "fHeight": side, "fChannels": 1, "batchDepth": 1}
    add = Arith(id=0, operation=ArithOp.AFFINE, dualinput=1, **size)
    out = frames(4, "npuRAM4", side, 1, 3, dir=1)
    links = [link(f"STRENG{n}", f"CONVACC{n}") for n in (0, 1)]
    links += [link(f"STRENG{2 + n}", f"CONVACC{n}.1") for n in (0, 1)]
    links += [link("CONVACC0", "ARITH0"), link("CONVACC1", "ARITH0.1"), link("ARITH0", "STRENG4")]
    return Group((*features, *weights, *convs, add, out), tuple(links))


def test_chains_share_their_bank():
    """Each copy alone takes 5120 + start; the bank has 2 x 5120 cycles of work."""
    both = time(copy("cpuRAM2"), copy("cpuRAM2", first=2))
    assert both == (2 * 4096 * CPU_RAM, Bound.BANK)


def test_chains_share_their_bus():
    """Engines 0 to 4 read 3 bytes a word each; the interface carries 8 bytes a cycle."""
    banks = ("npuRAM3", "npuRAM4", "npuRAM5", "npuRAM6", "npuRAM3")
    copies = []
    for n, bank in enumerate(banks):
        read = frames(n, bank, 32, 4, nbits=24)
        write = frames(5 + n, bank, 32, 4, nbits=24, dir=1)
        copies.append(Group((read, write), (link(f"STRENG{n}", f"STRENG{5 + n}"),)))
    assert time(*copies[:2])[0] == 4096 + MOVE
    assert time(*copies) == (5 * 3 * 4096 / 8, Bound.BUSIF)


def test_the_npu_clock_moves_only_what_memory_does_not_bind():
    """At twice the NPU clock a byte of flash takes twice the cycles, a word on a link does not."""
    machine = BASE
    fast = replace(machine, clocks=replace(machine.clocks, npu_mhz=2000))
    start = machine.timing.epoch_start_cycles
    slow_load, quick_load = (time(convolution(side=2), machine=m)[0] for m in (machine, fast))
    assert quick_load - start - 32 == pytest.approx(2 * (slow_load - start - 32))
    load = 64 * machine.cycles_per_byte("xspi2")
    assert time(convolution(), machine=fast)[0] == time(convolution(), machine=machine)[0] + load
