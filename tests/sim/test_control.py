"""What surrounds an epoch's core: the CPU's phases, the controller's, and how they are counted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from npuscope.compiler.place import program_pools
from npuscope.machine.load import load_machine
from npuscope.machine.model import Control, Stated
from npuscope.program.model import Access, Call, Claims, Epoch, EpochKind, Group
from npuscope.program.modes import ArithOp
from npuscope.program.stated import StatedUnits
from npuscope.program.units import Arith
from npuscope.sim.counters import Bound
from npuscope.sim.epochs import count_epochs
from npuscope.sim.program_work import control_works, controller_phases, cpu_phases
from npuscope.structs import replace
from sim.bench import Bench, feature_reader, link, writer

CONTROL = Control(
    pre_fixed=1000,
    pre_per_unit=100,
    pre_per_engine=10,
    pre_per_entry=1,
    post_fixed=2000,
    post_per_unit=200,
    post_per_engine=20,
    controller_cycles=5000,
    controller_pre_cycles=300,
    controller_post_cycles=400,
)
_BASE = load_machine(generation="4.0")
MACHINE = replace(_BASE, generation=replace(_BASE.generation, control=CONTROL))
MEAN_ACCESS_NS = (MACHINE.timing.external_read_ns + MACHINE.timing.external_write_ns) / 2
FRAME = {"fWidth": 4, "fHeight": 4, "fChannels": 8, "batchDepth": 8}


def arith(id=0, **more) -> Arith:
    return Arith(id=id, operation=ArithOp.AFFINE, **FRAME, **more)


def program(*stages: Arith, bench: Bench | None = None, epochs=1, blobs=(None,)):
    """The same chain x -> stages -> y as every epoch."""
    bench = bench or Bench()
    x, y = bench.buffer("x", (1, 4, 4, 8)), bench.buffer("y", (1, 4, 4, 8))
    chain = ["STRENG0", *(f"ARITH{stage.id}" for stage in stages), "STRENG1"]
    links = tuple(link(a, b) for a, b in pairwise(chain))
    group = Group((feature_reader(0, x, 8), *stages, writer(1, y, 8)), links)
    made = tuple(
        Epoch(n + 1, n + 1, EpochKind.HW, groups=(group,), blob=blobs[n % len(blobs)])
        for n in range(epochs)
    )
    return replace(bench.program((), (), ("x",), ("y",)), epochs=made)


# The CPU starts every epoch.


def test_units_and_engines_cost():
    made = program(arith(0), arith(1))
    assert cpu_phases(control_works(made)[0], CONTROL) == (1000 + 200 + 20, 2000 + 400 + 40)


def test_coefficients_are_written_entry_by_entry():
    bench = Bench()
    scales = bench.constant("a", np.zeros(8, np.int16))
    made = program(arith(0, A_vector=scales), bench=bench)
    made = replace(made, buffers=tuple(as_words(b, "a", 16) for b in made.buffers))
    assert control_works(made)[0].entries == 8
    assert cpu_phases(control_works(made)[0], CONTROL)[0] == 1000 + 100 + 20 + 8


def test_two_vectors_cost_as_much_as_the_longer():
    """Boards show the same cost for one and for two vectors a channel."""
    bench = Bench()
    scales = bench.constant("a", np.zeros(8, np.int16))
    biases = bench.constant("c", np.zeros(6, np.int32))
    made = program(arith(0, A_vector=scales), arith(1, C_vector=biases), bench=bench)
    buffers = (as_words(as_words(b, "a", 16), "c", 32) for b in made.buffers)
    made = replace(made, buffers=tuple(buffers))
    assert control_works(made)[0].entries == 8


def as_words(buffer, name, nbits):
    return replace(buffer, nbits=nbits) if buffer.name == name else buffer


def test_without_vectors_there_are_no_entries():
    made = program(arith(0))
    assert control_works(made)[0].entries == 0


def test_a_cpu_scheduled_epoch_counts_the_phases_apart():
    made = program(arith(0))
    (counted,) = count_epochs(made, MACHINE)
    assert (counted.pre_cycles, counted.post_cycles) == (1000 + 100 + 20, 2000 + 200 + 40)
    assert counted.core_cycles == 128 + MACHINE.timing.move_start_cycles


# The epoch controller runs blobs.


def test_only_the_borders_of_a_blob_see_the_cpu():
    made = program(arith(0), epochs=5, blobs=(0, 0, 0, 1, 1))
    phases = [controller_phases(work, CONTROL) for work in control_works(made)]
    assert phases == [(300, 0), (0, 0), (0, 400), (300, 0), (0, 400)]


def test_a_blob_of_one_epoch_has_both_borders():
    made = program(arith(0), blobs=(0,))
    assert controller_phases(control_works(made)[0], CONTROL) == (300, 400)


def test_the_controller_works_inside_the_core():
    (by_cpu,) = count_epochs(program(arith(0)), MACHINE)
    (by_controller,) = count_epochs(program(arith(0), blobs=(0,)), MACHINE)
    assert by_controller.core_cycles - by_cpu.core_cycles == 5000
    assert by_controller.bound is Bound.CONTROL  # 628 cycles of work, 5000 to program them


def test_a_long_epoch_is_not_bound_by_its_control():
    control = replace(CONTROL, controller_cycles=600)
    machine = replace(MACHINE, generation=replace(MACHINE.generation, control=control))
    (counted,) = count_epochs(program(arith(0), blobs=(0,)), machine)
    assert counted.bound is Bound.FEATURES


# Epochs without units.


def software(kernel: str, **shapes):
    bench = Bench()
    for name, shape in shapes.items():
        bench.buffer(name, shape)
    epoch = Epoch(1, 1, EpochKind.SW, call=Call(kernel, ("x",), ("y",)))
    return replace(bench.program((), (), ("x",), ("y",)), epochs=(epoch,))


@pytest.mark.parametrize(
    ("kernel", "cost", "elements", "shapes"),
    [
        ("Dequantize", "Dequantize", 60, {"x": (1, 60), "y": (1, 60)}),
        ("Mean", "Mean", 98, {"x": (1, 7, 7, 2), "y": (1, 2)}),  # the larger side counts
        ("Softmax", "Softmax", 10, {"x": (1, 10), "y": (1, 10)}),
        ("Softmax", "SoftmaxRows", 40, {"x": (1, 4, 10), "y": (1, 4, 10)}),
        ("Transpose", "Transpose", 40, {"x": (1, 2, 4, 5), "y": (1, 2, 5, 4)}),
        ("Transpose", "TransposeByCpu", 40, {"x": (1, 1, 2, 4, 5), "y": (1, 1, 2, 5, 4)}),
        ("NoSuchKernel", "default", 60, {"x": (1, 60), "y": (1, 60)}),
    ],
)
def test_a_kernels_work_is_in_the_post_phase(kernel, cost, elements, shapes):
    (counted,) = count_epochs(software(kernel, **shapes), MACHINE)
    assert counted.post_cycles == MACHINE.software[cost].cycles(elements)
    assert counted.bound is Bound.CPU
    assert counted.pre_cycles == MACHINE.software_phases.pre_cycles
    assert counted.engines == () and counted.busif == ()


def layer(kernel: str, pool: str, x=(1, 4, 4, 64), w=(32, 1, 1, 64), y=(1, 4, 4, 32), **more):
    """A layer on the CPU whose weights lie in a pool of the machine."""
    bench = Bench()
    for name, shape in (("x", x), ("y", y)):
        bench.buffer(name, shape, **more)
    weights = replace(bench.buffer("w", w, is_param=True, **more), pool=pool, offset=0)
    epoch = Epoch(1, 1, EpochKind.SW, call=Call(kernel, ("x", "w"), ("y",)))
    made = bench.program((), (), ("x",), ("y",))
    pools = (*made.pools, *(p for p in program_pools(MACHINE) if p.name == pool))
    buffers = (*made.buffers[:2], weights)
    return replace(made, pools=pools, buffers=buffers, epochs=(epoch,))


def kernel_cycles(program, machine=MACHINE):
    return count_epochs(program, machine)[0].post_cycles


def moved(kernel: str, pool: str):
    """A call whose input lies in a pool of the machine."""
    bench = Bench()
    source = replace(bench.buffer("x", (1, 8, 8, 64)), pool=pool, offset=0)
    bench.buffer("y", (1, 8, 8, 64))
    made = bench.program((), (), ("x",), ("y",))
    pools = (*made.pools, *(p for p in program_pools(MACHINE) if p.name == pool))
    epoch = Epoch(1, 1, EpochKind.HYBRID, call=Call(kernel, ("x",), ("y",)))
    return replace(made, pools=pools, buffers=(source, made.buffers[1]), epochs=(epoch,))


def test_a_call_that_moves_external_ram_waits_for_it():
    (counted,) = count_epochs(moved("DepthToSpace", "hyperRAM"), MACHINE)
    accesses = 8 * 8 * 64 / MACHINE.timing.external_call_bytes
    npu_cycles = accesses * MEAN_ACCESS_NS + 8 * 8 * 64 * 1.25
    assert counted.post_cycles == pytest.approx(npu_cycles * 800 / 1000)
    assert counted.bound is Bound.EXTERNAL_RAM
    inside = kernel_cycles(moved("DepthToSpace", "npuRAM5"))
    assert inside == MACHINE.software["DepthToSpace"].cycles(8 * 8 * 64)


def test_a_call_that_computes_does_not_wait_for_external_ram_byte_by_byte():
    (counted,) = count_epochs(moved("Sigmoid", "hyperRAM"), MACHINE)
    assert counted.bound is Bound.CPU


def nic_cycles(size_bytes: int) -> float:
    """MCU cycles that weights in a bank of the NPU take on their way."""
    return size_bytes * MACHINE.cycles_per_byte("nic") * 800 / 1000


def test_a_layer_on_the_cpu_takes_its_products_and_the_way_of_its_weights():
    """16 positions of 256 x 512 weights."""
    deep = {"x": (1, 4, 4, 256), "w": (512, 1, 1, 256), "y": (1, 4, 4, 512)}
    wide = layer("Conv2D", "npuRAM5", **deep)
    products = 16 * 512 * 256 / MACHINE.software_limits.int8_macs_per_cycle
    assert kernel_cycles(wide) == pytest.approx(products + nic_cycles(512 * 256))


def test_a_transposed_layer_counts_positions_of_its_input():
    deep = {"x": (1, 4, 4, 256), "w": (512, 2, 2, 256), "y": (1, 8, 8, 512)}
    up = layer("TransposeConv", "npuRAM5", **deep)
    products = 16 * 4 * 512 * 256 / MACHINE.software_limits.int8_macs_per_cycle
    assert kernel_cycles(up) == pytest.approx(products + nic_cycles(4 * 512 * 256))


def test_products_of_floats_are_slower():
    more = {"nbits": 32, "is_float": True, "w": (512, 1, 1, 64), "y": (1, 4, 4, 512)}
    floats = layer("Conv2D", "npuRAM5", **more)
    products = 16 * 512 * 64 / MACHINE.software_limits.float_macs_per_cycle
    assert kernel_cycles(floats) == pytest.approx(products + nic_cycles(4 * 512 * 64))


def test_products_of_a_depthwise_layer_are_slower_still():
    deep = {"x": (1, 4, 4, 512), "w": (512, 3, 3, 1), "y": (1, 4, 4, 512)}
    rates = MACHINE.software_limits
    found = kernel_cycles(layer("Conv2D", "npuRAM5", **deep))
    products = 16 * 512 * 9 / rates.depthwise_macs_per_cycle
    assert found == pytest.approx(products + nic_cycles(512 * 9))


def test_each_line_of_weights_in_flash_waits_for_its_first_byte():
    """1024 inputs, 257 outputs; a board took 5.1 to 5.8 MCU cycles a byte for such layers."""
    dense = layer("FullyConnected", "octoFlash", x=(1, 1024), w=(257, 1024), y=(1, 257))
    products = 257 * 1024 / MACHINE.software_limits.int8_macs_per_cycle
    a_byte = (kernel_cycles(dense) - products) / (257 * 1024)
    assert a_byte == pytest.approx((25 + 32 / 2) * (800 / 200) / 32)
    assert 5.1 < a_byte < 5.8


def test_a_kernel_may_take_longer_than_its_products():
    small = layer("Conv2D", "npuRAM5", w=(32, 1, 1, 1), x=(1, 4, 4, 1))
    assert kernel_cycles(small) == MACHINE.software_cost("Conv2D").cycles(16 * 32)


def test_a_resize_costs_by_position_too():
    """The same bytes as two channels of many positions, and as many channels of few."""
    cost = MACHINE.software_cost("Resize")
    flat = software("Resize", x=(1, 4, 4, 2), y=(1, 16, 16, 2))
    deep = software("Resize", x=(1, 2, 2, 32), y=(1, 4, 4, 32))
    assert kernel_cycles(flat) - kernel_cycles(deep) == (256 - 16) * cost.per_pixel > 0


def test_a_cut_moves_what_it_keeps():
    cut = software("Slice", x=(1, 1344, 65), y=(1, 1344, 1))
    assert kernel_cycles(cut) == MACHINE.software_cost("Slice").cycles(1344)


def test_a_kernels_traffic():
    (counted,) = count_epochs(software("Mean", x=(1, 7, 7, 2), y=(1, 2)), MACHINE)
    (row,) = counted.traffic
    assert (row.read_bytes, row.write_bytes) == (98, 2)


def test_a_hybrid_epoch_counts_its_kernel():
    """A library call that drives the DMA itself: its work is in the post phase."""
    made = software("Concat", x=(1, 60), y=(1, 60))
    hybrid = replace(made.epochs[0], kind=EpochKind.HYBRID)
    (counted,) = count_epochs(replace(made, epochs=(hybrid,)), MACHINE)
    assert counted.post_cycles >= MACHINE.software_cost("Concat").cycles(60)


def stated(compute: int, reads: int):
    """An epoch known from the compiler's claims alone; "ram" is no pool of the machine."""
    claims = Claims(0, compute, 0, (Access("ram", reads),))
    epoch = Epoch(1, 1, EpochKind.HW, groups=None, claims=claims)
    return replace(Bench().program((), (), (), ()), epochs=(epoch,))


@pytest.mark.parametrize(("compute", "reads", "core"), [(500, 800, 500), (50, 800, 100)])
def test_without_registers_the_claims_are_timed(compute, reads, core):
    """The pool is 8 bytes wide at the NPU's clock."""
    (counted,) = count_epochs(stated(compute, reads), MACHINE)
    assert counted.core_cycles == core + MACHINE.timing.epoch_start_cycles


def reported(**more):
    made = stated(500, 800)
    epoch = replace(made.epochs[0], operators=("Conv", "Add"), **more)
    return replace(made, epochs=(epoch,))


def test_the_controller_costs_the_same_with_and_without_registers():
    (counted,) = count_epochs(reported(blob=0), MACHINE)
    assert counted.core_cycles == 500 + MACHINE.timing.epoch_start_cycles + 5000
    assert (counted.pre_cycles, counted.post_cycles) == (300, 400)


def test_without_registers_an_epoch_has_the_usual_units():
    """Two operators: 3 units, 4 engines, so many entries."""
    mean = Stated(
        2,
        1.0,
        1.5,
        entries=7,
        tail=0.0,
        series_tail=0.0,
        copy_cycles=0.0,
        element_cycles=0.0,
        access_bytes=1,
    )
    (counted,) = count_epochs(reported(), replace(MACHINE, stated=mean))
    assert (counted.pre_cycles, counted.post_cycles) == (1000 + 300 + 40 + 7, 2000 + 600 + 80)


def test_without_registers_stated_units_are_programmed():
    """One unit, three engines, five entries: as a network.c of the same epoch would have it."""
    made = replace(reported(), stated_units=(StatedUnits(1, ("CONVACC",), 2, 1, (), 5),))
    (counted,) = count_epochs(made, MACHINE)
    assert (counted.pre_cycles, counted.post_cycles) == (1000 + 100 + 30 + 5, 2000 + 200 + 60)


def test_without_registers_a_part_of_the_load_shows():
    """800 bytes of flash take longer than the 500 cycles of computation."""
    made = stated(500, 800)
    claims = replace(made.epochs[0].claims, accesses=(Access("octoFlash", 800),))
    flash = tuple(p for p in program_pools(MACHINE) if p.name == "octoFlash")
    epochs = (replace(made.epochs[0], claims=claims),)
    (counted,) = count_epochs(replace(made, pools=flash, epochs=epochs), MACHINE)
    load = 800 * MACHINE.cycles_per_byte("xspi2")
    shown = load + MACHINE.stated.tail * 500 + MACHINE.timing.epoch_start_cycles
    assert (counted.core_cycles, counted.bound) == (pytest.approx(shown), Bound.FLASH)


def test_without_registers_units_in_series_hide_their_loads():
    made = stated(500, 800)
    claims = replace(made.epochs[0].claims, accesses=(Access("octoFlash", 800),))
    flash = tuple(p for p in program_pools(MACHINE) if p.name == "octoFlash")
    epochs = (replace(made.epochs[0], claims=claims, operators=("Conv", "Conv", "Mul")),)
    (counted,) = count_epochs(replace(made, pools=flash, epochs=epochs), MACHINE)
    load = 800 * MACHINE.cycles_per_byte("xspi2")
    shown = load + MACHINE.stated.series_tail * 500 + MACHINE.timing.epoch_start_cycles
    assert counted.core_cycles == pytest.approx(shown)


def test_without_registers_a_copy_takes_its_bytes_both_ways():
    made = stated(50, 8000)
    epochs = (replace(made.epochs[0], operators=("Identity",)),)
    (counted,) = count_epochs(replace(made, epochs=epochs), MACHINE)
    moved = sum(access.reads + access.writes for access in made.epochs[0].claims.accesses)
    shown = MACHINE.stated.copy_cycles * moved + MACHINE.timing.epoch_start_cycles
    assert counted.core_cycles == pytest.approx(shown)


def test_without_registers_external_ram_is_read_in_usual_accesses():
    made = stated(500, 800)
    claims = replace(made.epochs[0].claims, accesses=(Access("hyperRAM", 800),))
    outside = tuple(p for p in program_pools(MACHINE) if p.name == "hyperRAM")
    epochs = (replace(made.epochs[0], claims=claims),)
    (counted,) = count_epochs(replace(made, pools=outside, epochs=epochs), MACHINE)
    accesses = 800 / MACHINE.stated.access_bytes * MEAN_ACCESS_NS
    waited = accesses + 800 * MACHINE.cycles_per_byte("xspi1") + MACHINE.timing.epoch_start_cycles
    assert (counted.core_cycles, counted.bound) == (pytest.approx(waited), Bound.EXTERNAL_RAM)


def test_claims_may_be_bound_by_a_bank():
    (counted,) = count_epochs(stated(50, 800), MACHINE)
    assert counted.bound is Bound.BANK


def test_claims_may_be_bound_by_computation():
    (counted,) = count_epochs(stated(500, 800), MACHINE)
    assert counted.bound is Bound.FEATURES


# Cache lines of engines that allocate.


def cached(**more):
    """640 bytes, four frames."""
    bench = Bench()
    x, y = bench.buffer("x", (1, 8, 8, 10)), bench.buffer("y", (4, 8, 8, 10))
    frames = {"cacheable": 1, "frame_offset": 0} | more
    units = (feature_reader(0, x, 10, 4, **frames), writer(1, y, 10, 4))
    epoch = Epoch(1, 1, EpochKind.HW, groups=(Group(units, (link("STRENG0", "STRENG1"),)),))
    made = replace(bench.program((), (), ("x",), ("y",)), epochs=(epoch,))
    return count_epochs(made, MACHINE)[0].cache


def test_lines_that_are_not_kept_always_miss():
    assert (cached().read_miss, cached().read_hit) == (40, 0)


def test_a_frame_that_is_kept_misses_once():
    cache = cached(cache_allocate=1, frame_loop_cnt=4)
    assert (cache.read_alloc_miss, cache.read_hit) == (10, 30)


def test_a_frame_that_is_kept_misses_once_however_it_repeats():
    cache = cached(cache_allocate=1, frame_loop_cnt=1)
    assert (cache.read_alloc_miss, cache.read_hit) == (10, 30)
