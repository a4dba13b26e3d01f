"""Beats and cycles from a stream, machines as data."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ethos_u.networks import Convolution, vela_file
from ethos_u.streams import U55_128, U85_256, Builder
from npuscope.errors import UsageError
from npuscope.families.ethos_u.beats import input_beats, map_beats, output_beats
from npuscope.families.ethos_u.build import read_build, timed
from npuscope.families.ethos_u.jobs import FeatureMap, NpuKernel
from npuscope.families.ethos_u.known_error import KnownError
from npuscope.families.ethos_u.machine import load_machine, machine_names, memory_modes, systems
from npuscope.families.ethos_u.registers import jobs_of
from npuscope.families.ethos_u.stream import CommandStream, build_stream
from npuscope.families.ethos_u.timing import KernelLimit, time_stream
from npuscope.families.ethos_u.vela import system_config
from npuscope.families.ethos_u.work import fill_cycles, kernel_work


def test_every_machine_is_complete() -> None:
    assert len(machine_names()) == 11
    for name in machine_names():
        for mode in memory_modes():
            machine = load_machine(name, memory_mode=mode)
            assert machine.port(2) is machine.sram
            assert machine.name == name
    for system in systems():
        assert load_machine("ethos-u85-256", system=system).clock_mhz > 0


def test_a_value_is_replaced_and_a_wrong_one_refused() -> None:
    changed = load_machine("ethos-u55-128", overrides={"sram.read_latency_cycles": 5})
    assert changed.sram.read_latency_cycles == 5
    assert load_machine("ethos-u55-128").sram.read_latency_cycles == 32
    for key in ("sram.nothing", "macs"):
        with pytest.raises(UsageError):
            load_machine("ethos-u55-128", overrides={key: 1})
    with pytest.raises(UsageError):
        load_machine("ethos-u55-128", system="Ethos_U55_Nowhere")


def kernel_of(layer: Convolution) -> NpuKernel:
    return next(job for job in jobs_of(layer.stream()) if isinstance(job, NpuKernel))


def test_steps_of_the_mac_units() -> None:
    """U55-128: blocks of 4x4 pixels and 8 channels; micro-blocks of 1x2 pixels and 8 channels; 32
    inputs of 9 taps take 4 cycles each."""
    work = kernel_work(kernel_of(Convolution(U55_128)), load_machine("ethos-u55-128"))
    pixels = 4 * 2 + 4 * 1 + 2 * 2 + 2 * 1  # four blocks: 4x4, 4x1, 2x4, 2x1
    weights = 32 * 8 / 8  # decoded for a micro-block: never less than that
    steps = sum(max(4 * n, weights) for n in (4 * 2, 4 * 1, 2 * 2, 2 * 1))
    assert pixels == 18
    assert work.mac_cycles == 9 * 2 * steps
    assert work.blocks == 8
    assert work.macs == 6 * 5 * 12 * 9 * 8


def test_beats_of_a_convolution() -> None:
    layer = Convolution(U55_128)
    work = kernel_work(kernel_of(layer), load_machine("ethos-u55-128"))
    assert work.writes == {1: 6 * 8}  # rows of 60 bytes at 512, 572, ...: 8 beats each
    constants = -(-len(layer.scales) // 8) + -(-len(layer.packed) // 8)
    assert work.reads[0] == 4 * constants  # once for each block of pixels
    # Rows -1..4 and 3..6 of 6, columns -1..4 and 3..5 of 5, once: 8 channels are kept.
    assert work.reads[1] == (5 + 3) * (5 + 2)
    assert work.inputs == {1: 56}


def test_bricks_are_written_whole() -> None:
    place = FeatureMap(1, (0, 0, 0, 0), 160, 16, 160, 2, 2, 5, True, "i1", 0)
    assert output_beats(place, (2, 5, 20), 8) == 2 * 5 * 2 * 2
    assert output_beats(place, (2, 5, 20), 16) == 2 * 5 * 2


def bricks_of(kernel: NpuKernel, inputs: int, outputs: int) -> NpuKernel:
    """A 1x1 convolution of 8x8 pixels, in one block of pixels and blocks of 32 channels."""
    window = replace(kernel.window, size=(1, 1), pads=(0, 0, 0, 0))
    place = FeatureMap(1, (0, 0, 0, 0), 8 * 16, 16, 8 * 8 * 16, 8, 8, 8, True, "i1", 0)
    return replace(
        kernel, ifm=place, ifm_depth=inputs, shape=(8, 8, outputs), block=(8, 8, 32), window=window
    )


@pytest.mark.parametrize(("inputs", "passes"), [(64, 1), (68, 3)])
def test_two_blocks_of_inputs_are_kept(inputs: int, passes: int) -> None:
    """U55 reads deeper inputs again for every block of output channels."""
    kernel = bricks_of(kernel_of(Convolution(U55_128)), inputs, 96)
    once = 8 * 8 * -(-inputs // 16) * 2
    assert list(input_beats(kernel, load_machine("ethos-u55-128"))) == [(1, passes * once)]


def test_a_kernel_in_parts_keeps_nothing() -> None:
    kernel = bricks_of(kernel_of(Convolution(U55_128)), 16, 96)
    machine = load_machine("ethos-u55-128")
    parts = replace(kernel, window=replace(kernel.window, size=(1, 9), pads=(0, 4, 0, 4)))
    ((_, whole),) = input_beats(kernel, machine)
    ((_, again),) = input_beats(parts, machine)
    assert whole == 8 * 8 * 2
    assert again == 3 * 8 * (8 + 4) * 2  # the ninth column reads half of them once more


@pytest.mark.parametrize(
    ("name", "outputs", "again"),
    [
        ("ethos-u85-256", 32, 0),
        ("ethos-u85-256", 64, 4),  # forwards: the first block is gone
        ("ethos-u85-256", 96, 4 + 2),  # backwards: the last one, of 20 channels
        ("ethos-u85-2048", 96, 4 + 2),
    ],
)
def test_u85_goes_through_its_inputs_forwards_and_backwards(name, outputs, again) -> None:
    """276 channels are five blocks, of which four are kept."""
    kernel = bricks_of(kernel_of(Convolution(U85_256)), 276, outputs)
    kernel = replace(kernel, micro_block=(2, 2))
    assert list(input_beats(kernel, load_machine(name))) == [(1, 64 * (18 + again))]


def test_large_blocks_of_inputs_leave_room_for_two() -> None:
    kernel = bricks_of(kernel_of(Convolution(U85_256)), 192, 64)
    kernel = replace(kernel, shape=(8, 16, 64), block=(8, 16, 32), micro_block=(2, 2))
    # 128 pixels of 64 channels are 8 KB, of which the U85-1024 has 16.
    assert list(input_beats(kernel, load_machine("ethos-u85-1024"))) == [(1, 128 * (12 + 4))]
    assert list(input_beats(kernel, load_machine("ethos-u85-2048"))) == [(1, 128 * 12)]


def test_deep_pixels_are_read_in_groups_of_16_channels() -> None:
    """20 channels, channels last: 16 bytes at 0, 20, 40, ... and 4 bytes behind each."""
    place = FeatureMap(0, (0, 0, 0, 0), 160, 20, 1, 8, 8, 8, False, "i1", 0)
    rows, columns = [range(8)], range(8)
    assert map_beats(place, rows, columns, 20, 8, deep_rows=False) == 8 * (4 * 2 + 4 * 3 + 8)
    assert map_beats(place, rows, columns, 20, 16, deep_rows=False) == 8 * (2 * 1 + 6 * 2 + 8)
    assert map_beats(place, rows, columns, 20, 8) == 8 * 160 // 8


def test_the_output_stage_takes_eight_channels() -> None:
    kernel = bricks_of(kernel_of(Convolution(U55_128)), 16, 4)
    for name, rate in (("ethos-u55-32", 2.0), ("ethos-u55-256", 0.25)):
        work = kernel_work(replace(kernel, ofm=kernel.ifm), load_machine(name))
        assert work.output_cycles == rate * 8 * 8 * 8


@pytest.mark.parametrize("size", [1, 3])
def test_pooling_takes_four_cycles_per_tap(size: int) -> None:
    kernel = bricks_of(kernel_of(Convolution(U55_128)), 16, 16)
    window = replace(kernel.window, size=(size, size))
    pool = replace(kernel, kind="POOL", mode="AVERAGE", window=window)
    work = kernel_work(pool, load_machine("ethos-u55-256"))
    assert work.mac_cycles == 4 * size * size * (4 * 4) * 2  # micro-blocks of 2x2x8


def twice(layer: Convolution) -> CommandStream:
    builder = Builder(U55_128)
    builder.commands += layer.stream().commands()[:-1]
    return builder.op("CONV").stream()


def test_a_kernel_waits_for_its_transfer() -> None:
    layer = Convolution(U55_128)
    alone = time_stream(layer.stream(), load_machine("ethos-u55-128"))
    builder = Builder(U55_128).set("DMA0_SRC_REGION").set("DMA0_DST_REGION", region=1)
    builder.set("DMA0_LEN", address=4096).op("DMA_START").op("DMA_WAIT")
    words = (*builder.stream().words, *layer.stream().words)
    both = time_stream(build_stream(U55_128, words), load_machine("ethos-u55-128"))
    # The latency of the commands, then that of flash and its rate; 128 bytes of commands are read
    # ahead, the others later.
    assert both.kernels[0].start == pytest.approx(64 + 64 + 4096 / 1.086 + 64)
    before = alone.kernels[0].start
    assert before == 2 * 64
    assert both.cycles == pytest.approx(alone.cycles - before + both.kernels[0].start)


def test_a_stream_begins_with_what_its_first_block_reads() -> None:
    layer, machine = Convolution(U55_128), load_machine("ethos-u55-128")
    kernel = kernel_of(layer)
    # Rows and columns -1..4 without padding from SRAM, and 8 of 12 channels' constants from flash.
    constants = sum(
        8 * -(-span.length * 8 // 12 // 8) for span in (*kernel.weights, *kernel.scales)
    )
    assert fill_cycles(kernel, machine) == pytest.approx(constants / 1.086)
    near = load_machine("ethos-u55-128", memory_mode="Sram_Only")
    assert fill_cycles(kernel, near) == constants / 8 + 5 * 5
    one, two = time_stream(layer.stream(), machine), time_stream(twice(layer), machine)
    first, second = two.kernels
    assert one.kernels[0].cycles - one.kernels[0].waited == first.end - first.start
    work = second.work
    edges = (work.inputs[1] + work.writes[1]) / work.blocks  # its first inputs, its last outputs
    assert work.edge_cycles(machine) == edges
    difference = (first.end - first.start) - (second.end - second.start)
    assert difference == pytest.approx(constants / 1.086 - edges)


def test_u85_reads_inputs_ahead_unless_they_depend() -> None:
    layer, machine = Convolution(U85_256), load_machine("ethos-u85-256")
    builder = Builder(U85_256)
    builder.commands += layer.stream().commands()[:-1]
    first = builder.commands[-1]
    ends = {}
    for name, blocks in (("dependent", 0), ("free", 7)):
        stream = Builder(U85_256)
        stream.commands += builder.commands
        stream.set("BLOCKDEP", value=blocks)
        stream.commands.append(first)
        ends[name] = time_stream(stream.stream(), machine).kernels[1]
    edges = ends["free"].work.edge_cycles(machine)
    assert edges > 0
    assert ends["dependent"].end == pytest.approx(ends["free"].end + edges)


def test_commands_are_read_a_few_at_a_time() -> None:
    """2,000 bytes of registers before a kernel, of which 128 are on their way at once."""
    layer = Convolution(U85_256)
    builder = Builder(U85_256)
    for _ in range(500):
        builder.set("IFM_REGION", region=1)
    builder.commands += layer.stream().commands()
    machine = load_machine("ethos-u85-256")
    latency = machine.external.read_latency_cycles
    start = time_stream(builder.stream(), machine).kernels[0].start
    beats = -(-sum(4 * one.words for one in builder.commands[:-1]) // 16)
    assert start == pytest.approx(-(-beats // 8) * latency, abs=latency)
    wide = load_machine("ethos-u85-256", overrides={"command_buffer_bytes": 1 << 16})
    assert time_stream(builder.stream(), wide).kernels[0].start == latency


def test_a_third_kernel_waits_for_the_first() -> None:
    """Two are issued at once, so a transfer behind them waits."""
    layer, machine = Convolution(U55_128), load_machine("ethos-u55-128")
    commands = layer.stream().commands()[:-1]
    starts = []
    for kernels in (2, 3):
        builder = Builder(U55_128)
        builder.commands += commands[:-1] + kernels * commands[-1:]
        builder.set("DMA0_SRC_REGION").set("DMA0_DST_REGION", region=1)
        builder.set("DMA0_LEN", address=64).op("DMA_START")
        times = time_stream(builder.stream(), machine)
        starts.append(times.transfers[0].start)
        first = times.kernels[0]
    assert starts[0] < first.end <= starts[1]


def test_far_constants_hold_a_layer_up() -> None:
    stream = Convolution(U85_256).stream()
    near = time_stream(stream, load_machine("ethos-u85-256", memory_mode="Sram_Only"))
    latency = {"external.read_latency_cycles": 1000}
    far = time_stream(stream, load_machine("ethos-u85-256", overrides=latency))
    assert near.kernels[0].limit is KernelLimit.MAC
    assert far.kernels[0].limit is KernelLimit.CONSTANTS
    assert near.cycles < far.cycles


def test_a_board_is_written_for_vela() -> None:
    """In the words of the file that the board's maker publishes."""
    text = system_config(load_machine("ethos-u55-64", system="Himax_WE2"))
    assert text.splitlines() == [
        "[System_Config.Himax_WE2]",
        "core_clock=4e+08",
        "axi0_port=Sram",
        "axi1_port=OffChipFlash",
        "Sram_clock_scale=1.0",
        "Sram_burst_length=32",
        "Sram_read_latency=16",
        "Sram_write_latency=16",
        "OffChipFlash_clock_scale=0.015625",
        "OffChipFlash_burst_length=32",
        "OffChipFlash_read_latency=64",
        "OffChipFlash_write_latency=64",
    ]


@pytest.mark.parametrize(
    ("name", "system", "low", "high", "words"),
    [
        ("ethos-u55-128", "", 0.89, 1.18, "-11% to +18% on Arm's virtual platform"),
        ("ethos-u65-256", "", 0.79, 1.07, "-21% to +7% on Arm's virtual platform"),
        ("ethos-u85-256", "", 0.87, 1.31, "-13% to +31% on Arm's virtual platform"),
        ("ethos-u55-256", "Renesas_RA8P1", 0.82, 2.56, "-18% to +156% on one board (RA8P1)"),
    ],
)
def test_the_interval_is_that_of_the_product_or_of_boards(
    name: str, system: str, low: float, high: float, words: str, tmp_path: Path
) -> None:
    build = read_build(vela_file(Convolution(U55_128), tmp_path), {})
    profile = timed(replace(build, machine=load_machine(name, system=system)))
    assert profile.interval_ms == pytest.approx((low * profile.total_ms, high * profile.total_ms))
    assert profile.model_error.startswith(words)


def test_the_share_that_an_interval_holds_is_told() -> None:
    error = KnownError(0.5, 2.0, 25, 18, "a desk")
    assert error.words == ("-50% to +100% on a desk, expected to hold for 72 % of new networks")


def test_a_resize_reads_the_rows_around_each_of_its_own() -> None:
    """Counted on the platform: 900 beats for 6x6x96 to 12x12x96, not the whole input for each of
    72 blocks, which would be 7,344."""
    stream = (
        Builder(U85_256)
        .image("IFM", (6, 6, 96), 1, 0)
        .image("OFM", (12, 12, 96), 1, 8192)
        .set("KERNEL_HEIGHT_M1", value=5)
        .set("KERNEL_WIDTH_M1", value=5)
        .set("OFM_BLK_WIDTH_M1", value=27)
        .set("OFM_BLK_DEPTH_M1", value=15)
        .op("RESIZE")
        .stream()
    )
    kernel = next(job for job in jobs_of(stream) if isinstance(job, NpuKernel))
    (count,) = kernel_work(kernel, load_machine("ethos-u85-256")).reads.values()
    assert count == pytest.approx(900, rel=0.05)


def test_the_cost_of_the_host_is_an_assumption_that_is_added(tmp_path: Path) -> None:
    path = vela_file(Convolution(U55_128), tmp_path)
    plain = timed(read_build(path, {}))
    assert any("--set host_ms=MS" in note for note in plain.notes)
    assumed = timed(read_build(path, {"overrides": {"host_ms": 0.5}}))
    assert assumed.total_ms == pytest.approx(plain.total_ms + 0.5)
    added = [b - a for a, b in zip(plain.interval_ms, assumed.interval_ms, strict=True)]
    assert added == pytest.approx([0.5, 0.5])
    assert assumed.figures["cpu_operators"] == plain.figures["cpu_operators"]
    assert not any("--set host_ms=MS" in note for note in assumed.notes)
