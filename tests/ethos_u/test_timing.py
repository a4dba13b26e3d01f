"""Beats and cycles from a stream, machines as data."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ethos_u.networks import Convolution, vela_file
from ethos_u.streams import U55_128, U85_256, Builder
from npuscope.errors import UsageError
from npuscope.families.ethos_u.build import read_build, timed
from npuscope.families.ethos_u.jobs import FeatureMap, NpuKernel
from npuscope.families.ethos_u.machine import load_machine, machine_names, memory_modes, systems
from npuscope.families.ethos_u.registers import jobs_of
from npuscope.families.ethos_u.stream import CommandStream, build_stream
from npuscope.families.ethos_u.timing import KernelLimit, time_stream
from npuscope.families.ethos_u.vela import system_config
from npuscope.families.ethos_u.work import fill_cycles, kernel_work, output_beats


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
    # Rows -1..4 and 3..6 of 6, columns -1..4 and 3..5 of 5, twice for two blocks of channels.
    assert work.reads[1] == 2 * (5 + 3) * (5 + 2)


def test_bricks_are_written_whole() -> None:
    place = FeatureMap(1, (0, 0, 0, 0), 160, 16, 160, 2, 2, 5, True, "i1", 0)
    assert output_beats(place, (2, 5, 20), 8) == 2 * 5 * 2 * 2
    assert output_beats(place, (2, 5, 20), 16) == 2 * 5 * 2


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
    # A byte per cycle, and the latency of flash, before it that of the commands.
    assert both.kernels[0].start == 4096 + 64 + 64
    assert both.cycles == alone.cycles + 4096 + 64


def test_a_stream_begins_with_what_its_first_block_reads() -> None:
    layer, machine = Convolution(U55_128), load_machine("ethos-u55-128")
    kernel = kernel_of(layer)
    # Rows and columns -1..4 without padding from SRAM, and 8 of 12 channels' constants from flash.
    constants = sum(
        8 * -(-span.length * 8 // 12 // 8) for span in (*kernel.weights, *kernel.scales)
    )
    assert fill_cycles(kernel, machine) == constants
    near = load_machine("ethos-u55-128", memory_mode="Sram_Only")
    assert fill_cycles(kernel, near) == constants / 8 + 5 * 5
    one, two = time_stream(layer.stream(), machine), time_stream(twice(layer), machine)
    first, second = two.kernels
    assert one.kernels[0].cycles - one.kernels[0].waited == first.end - first.start
    assert first.end - first.start == second.end - second.start + constants


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


def test_the_interval_knows_of_starts_and_of_boards(tmp_path: Path) -> None:
    build = read_build(vela_file(Convolution(U55_128), tmp_path), {})
    profile = timed(build)
    low, high = profile.interval_ms
    assert low == pytest.approx(0.9 * profile.total_ms)
    start_ms = 1000 / (1e3 * build.machine.clock_mhz)
    assert high == pytest.approx(1.1 * profile.total_ms + start_ms)
    board = timed(replace(build, machine=load_machine("ethos-u55-256", system="Renesas_RA8P1")))
    assert board.interval_ms[1] == pytest.approx(2.75 * board.total_ms)
    assert "RA8P1" in board.model_error
