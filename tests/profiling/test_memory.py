"""Memory of a program: use by pool, the lower bound, and where a network fits."""

from __future__ import annotations

import pytest

from models import conv_net, dense_net, save, to_tflite
from npuscope.compiler.pipeline import compile_graph
from npuscope.compiler.place import place, program_pools
from npuscope.demo_network import demo_graph
from npuscope.errors import TargetError
from npuscope.files.load import load_model
from npuscope.machine.load import load_machine
from npuscope.profiling.facts import fit, memory_use, program_facts
from npuscope.profiling.model import Profile
from npuscope.profiling.ranges import ranges
from npuscope.profiling.run import estimate
from npuscope.program.model import Buffer, Program
from npuscope.report.figures import verdict
from npuscope.structs import replace

MACHINE = load_machine()
POOLS = program_pools(MACHINE)
VIRTUAL = next(pool for pool in POOLS if pool.virtual)


def network(folder, net):
    return load_model(save(folder, "net.tflite", to_tflite(net)))


@pytest.fixture(scope="module")
def too_large(tmp_path_factory):
    """Input and output of 3 MiB each: more than all RAM of the chip."""
    net = conv_net(size=1024, channels=3, out=3, kernel=1)
    return network(tmp_path_factory.mktemp("too_large"), net)


@pytest.fixture(scope="module")
def heavy(tmp_path_factory):
    """4 MiB of weights, hardly any activations."""
    net = dense_net(2048, (2048,))
    return network(tmp_path_factory.mktemp("heavy"), net)


# Use by pool, by hand.


def program(*buffers: Buffer) -> Program:
    return Program("bench", "stm32n6", "4.0", True, POOLS, buffers, (), (), ())


def buffer(name, pool, offset, size, first=1, last=1, **more) -> Buffer:
    return Buffer(name, size, (size,), 8, size, pool, offset, first, last, **more)


def use_of(found, pool):
    return next(row for row in found.pools if row.name == pool)


def test_marks_and_live_bytes():
    """Two buffers share their place one after the other, a third lies above them."""
    found = memory_use(
        program(
            buffer("a", "npuRAM5", 0, 100, 1, 2),
            buffer("b", "npuRAM5", 0, 80, 3, 4),
            buffer("c", "npuRAM5", 112, 50, 4, 5),
        ),
        MACHINE,
    )
    row = use_of(found, "npuRAM5")
    assert row.activations_bytes == 112 + 50
    assert row.live_bytes == 80 + 50
    assert found.internal_ram_bytes == 162
    assert found.lower_bound_bytes == 130
    assert found.external_ram_bytes == found.weights_bytes == 0


def test_neighbours_in_time_are_alive_together():
    """An epoch's input and output exist at the same time."""
    found = memory_use(
        program(buffer("a", "npuRAM5", 0, 100, 1, 2), buffer("b", "npuRAM4", 0, 80, 2, 3)), MACHINE
    )
    assert found.lower_bound_bytes == 180


def test_constants_in_external_ram_count_as_its_use():
    """A board without that memory cannot run the network."""
    pools = tuple(replace(pool, size_bytes=0) for pool in MACHINE.pools if not pool.writable)
    small = tuple(pool for pool in MACHINE.pools if pool.name == "hyperRAM")
    machine = MACHINE.with_pools((*pools, *small))
    placed = place(program(buffer("w", "", 0, 1000, is_param=True)), machine)
    found = memory_use(placed, machine)
    assert (found.internal_ram_bytes, found.external_ram_bytes) == (0, 1000)


def test_parameters_and_activations_are_told_apart():
    found = memory_use(
        program(
            buffer("w", "octoFlash", 0, 1000, is_param=True),
            buffer("v", "npuRAM6", 0, 30, is_param=True),
            buffer("x", "hyperRAM", 16, 500),
        ),
        MACHINE,
    )
    assert found.weights_bytes == 1030
    assert (found.internal_ram_bytes, found.external_ram_bytes) == (0, 516)
    assert use_of(found, "octoFlash").weights_bytes == 1000
    assert use_of(found, "npuRAM6").weights_bytes == 30


def test_a_buffer_of_the_virtual_pool_counts_in_the_banks_it_touches():
    """It starts 100 bytes before the end of cpuRAM2 and covers all of npuRAM3."""
    cpu, npu = (next(p for p in POOLS if p.name == name) for name in ("cpuRAM2", "npuRAM3"))
    start = cpu.address + cpu.size_bytes - 100 - VIRTUAL.address
    found = memory_use(program(buffer("a", VIRTUAL.name, start, 100 + npu.size_bytes + 7)), MACHINE)
    assert use_of(found, "cpuRAM2").live_bytes == 100
    assert use_of(found, "cpuRAM2").activations_bytes == cpu.size_bytes
    assert use_of(found, "npuRAM3").live_bytes == npu.size_bytes
    assert use_of(found, "npuRAM4").activations_bytes == 7
    assert VIRTUAL.name not in {row.name for row in found.pools}


def test_a_view_takes_no_memory():
    found = memory_use(
        program(buffer("a", "npuRAM5", 0, 100), buffer("v", "npuRAM5", 0, 100, view_of="a")),
        MACHINE,
    )
    assert found.lower_bound_bytes == found.internal_ram_bytes == 100


# The lower bound of real programs.


@pytest.mark.parametrize("generation", ["2.2", "4.0", "open"])
def test_the_lower_bound_is_what_lives_in_the_fullest_epoch(generation):
    machine = load_machine(generation=generation)
    made = compile_graph(demo_graph(), machine)
    found = memory_use(made, machine)
    own = [b for b in made.buffers if not b.is_param and not b.view_of]
    alive = [
        sum(b.size_bytes for b in own if b.first <= epoch.number <= b.last) for epoch in made.epochs
    ]
    assert found.lower_bound_bytes == max(alive)
    assert found.lower_bound_bytes <= found.internal_ram_bytes + found.external_ram_bytes
    for row in found.pools:
        assert row.live_bytes <= row.activations_bytes <= row.used_bytes <= row.size_bytes


# Where a network fits.


def test_a_small_network_fits_the_chip():
    made = compile_graph(demo_graph(), MACHINE)
    found = fit(made, MACHINE)
    assert (found.on_chip, found.with_flash, found.with_external_ram) == (True, True, True)
    assert found.reason == ""


def test_weights_larger_than_the_chip_need_flash(heavy):
    made = compile_graph(heavy, MACHINE)
    found = fit(made, MACHINE)
    assert (found.on_chip, found.with_flash, found.with_external_ram) == (False, True, True)
    use = memory_use(made, MACHINE)
    assert use.weights_bytes > 2048 * 2048 and use.lower_bound_bytes < 5000
    assert found.reason == (
        f"on chip alone: {use.weights_bytes:,} bytes of weights and at least "
        f"{use.lower_bound_bytes:,} of activations against 2,883,584 bytes of RAM"
    )


def test_activations_larger_than_the_chip_need_external_ram(too_large):
    found = estimate(compile_graph(too_large, MACHINE), MACHINE)
    verdict = found.fit
    assert (verdict.on_chip, verdict.with_flash, verdict.with_external_ram) == (False, False, True)
    assert found.memory.external_ram_bytes >= 3 * 1024 * 1024
    assert found.memory.lower_bound_bytes >= 6 * 1024 * 1024
    assert "6,291,456 of activations" in verdict.reason


def test_without_external_ram_such_a_network_is_refused(too_large):
    inner = tuple(m for m in MACHINE.pools if m.name != "hyperRAM")
    with pytest.raises(TargetError, match=r"the network does not fit: .* needs 3,145,728 bytes"):
        compile_graph(too_large, MACHINE.with_pools(inner))


def test_a_smaller_chip_changes_the_verdict():
    """The demo needs 270 KiB of RAM; a bank of 128 KiB does not hold it."""
    made = compile_graph(demo_graph(), MACHINE)
    bank = replace(MACHINE.memory("npuRAM5"), size_bytes=128 * 1024)
    outside = [m for m in MACHINE.pools if m.cacheable]
    small = MACHINE.with_pools((bank, *outside))
    found = fit(compile_graph(demo_graph(), small), small)
    assert (found.on_chip, found.with_flash, found.with_external_ram) == (False, False, True)
    assert fit(made, MACHINE).on_chip


def test_only_sizes_that_another_compiler_will_make_have_an_error():
    graph = demo_graph()
    stated = [size_text(name, name) for name in ("internal RAM", "weights")]
    for generation, words in (("4.0", "; ".join(stated)), ("open", "")):
        machine = load_machine(generation=generation)
        program = compile_graph(graph, machine)
        assert program_facts(program, machine, graph).memory.known_error == words
        assert not program_facts(program, machine, None).memory.known_error
    small = load_machine(overrides={f"pools.{name}.size_kib": 0 for name in VIRTUAL.subpools})
    program = compile_graph(graph, small)
    beside = size_text("internal RAM", "internal RAM beside external RAM")
    assert beside in program_facts(program, small, graph).memory.known_error


def size_text(name: str, kind: str) -> str:
    size = ranges().sizes[kind]
    held = f"held for {size.held.held} of {size.held.rows} published sizes"
    return f"{name} -{size.less:.1%} to +{size.more:.1%}, {held}"


def test_a_network_whose_range_exceeds_the_ram_fits_probably():
    graph = demo_graph()
    used = program_facts(compile_graph(graph, MACHINE), MACHINE, graph).memory
    inside = [m for m in MACHINE.pools if m.name == "cpuRAM2"]
    outside = [m for m in MACHINE.pools if m.cacheable]

    def judged(share: float) -> Profile:
        bank = replace(inside[0], size_bytes=round(used.internal_ram_bytes * share / 1024) * 1024)
        machine = MACHINE.with_pools((bank, *outside))
        return estimate(compile_graph(graph, machine), machine, graph)

    most = 1 + ranges().sizes["internal RAM"].more
    near, roomy = judged(1 + 0.5 * (most - 1)), judged(most + 0.2)
    assert near.fit.with_flash and not near.memory.external_ram_bytes
    assert verdict(near).startswith("fits, probably; ")
    assert "it may be up to" in near.fit.unsure
    assert not roomy.fit.unsure and verdict(roomy).startswith("fits; ")
