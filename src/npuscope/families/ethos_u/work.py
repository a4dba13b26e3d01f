"""What a kernel costs each part of the NPU: MAC units, output stage, weight decoder, and the ports.

Sources: the cost functions of Arm's compiler for MAC steps and rates of the output stage; rules of
beats from counters of Arm's virtual platforms."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from msgspec import Struct

from npuscope.families.ethos_u.beats import constant_beats, input_beats, output_beats
from npuscope.families.ethos_u.blocks import blocks, deep_input_block, micro_block, sub_kernels
from npuscope.families.ethos_u.jobs import NpuKernel, Storage
from npuscope.families.ethos_u.machine import EthosMachine
from npuscope.structs import replace

_OUTPUT_GROUP = 8  # channels that the output stage takes at once


class KernelWork(Struct, frozen=True):
    """Cycles of the parts of the NPU, and beats on ports by region."""

    blocks: int
    mac_cycles: float
    output_cycles: float
    constant_cycles: float  # until weights and scales are there
    reads: dict[int, int]
    inputs: dict[int, int]  # without weights and scales
    writes: dict[int, int]
    macs: int

    def port_cycles(self, machine: EthosMachine) -> float:
        """Of the port that is busy longest; reads and writes have channels of their own."""
        return max(_read_cycles(self.reads, machine), _write_cycles(self.writes, machine))

    def edge_cycles(self, machine: EthosMachine) -> float:
        """Until the inputs of the first block are there, and after the last block is computed."""
        both = _read_cycles(self.inputs, machine) + _write_cycles(self.writes, machine)
        return both / max(self.blocks, 1)


def _read_cycles(beats: dict[int, int], machine: EthosMachine) -> float:
    most = machine.read_bytes_per_cycle
    rates = {region: min(machine.port(region).bytes_per_cycle, most) for region in beats}
    return max((beats[r] * machine.port_bytes / rate for r, rate in rates.items()), default=0.0)


def _write_cycles(beats: dict[int, int], machine: EthosMachine) -> float:
    size = machine.port_bytes
    return max((n * size / machine.port(r).bytes_per_cycle for r, n in beats.items()), default=0.0)


def kernel_work(kernel: NpuKernel, machine: EthosMachine) -> KernelWork:
    number = mac = 0.0
    for count, block in blocks(kernel):
        mac += count * _mac_steps(kernel, machine, block)
        number += count
    if not kernel.is_u85:  # cores share the channels
        mac /= machine.cores
    inputs = list(input_beats(kernel, machine))
    writes: dict[int, int] = {}
    if kernel.ofm.storage is Storage.MEMORY:
        writes[kernel.ofm.region] = output_beats(kernel.ofm, kernel.shape, machine.port_bytes)
    return KernelWork(
        int(number),
        mac,
        _output_cycles(kernel, machine),
        _constant_cycles(kernel, machine),
        _by_region([*inputs, *constant_beats(kernel, machine)]),
        _by_region(inputs),
        writes,
        kernel_macs(kernel),
    )


def _by_region(beats: Iterable[tuple[int, int]]) -> dict[int, int]:
    totals: dict[int, int] = {}
    for region, count in beats:
        totals[region] = totals.get(region, 0) + count
    return totals


def fill_cycles(kernel: NpuKernel, machine: EthosMachine) -> float:
    """Until the first block has its inputs, weights and scales. At the beginning of a stream
    nothing runs meanwhile."""
    height, width, depth = map(min, kernel.shape, kernel.block)
    top, left, bottom, right = kernel.window.pads
    ends = bottom * (height == kernel.shape[0]), right * (width == kernel.shape[1])
    window = replace(kernel.window, pads=(top, left, *ends))
    first = replace(kernel, shape=(height, width, depth), window=window)
    beats = list(input_beats(first, machine))
    for span in (*kernel.weights, *kernel.scales):
        length = span.length * depth / kernel.shape[2]
        beats.append((span.region, ceil(length / machine.port_bytes)))
    cycles: dict[bool, float] = {}
    for region, count in beats:
        port = machine.port(region)
        rate = min(port.bytes_per_cycle, machine.read_bytes_per_cycle)
        near = port is machine.sram
        cycles[near] = cycles.get(near, 0.0) + count * machine.port_bytes / rate
    return max(cycles.values(), default=0.0)


def _constant_cycles(kernel: NpuKernel, machine: EthosMachine) -> float:
    """Scales and weights are read for every block of pixels, and no more at a time than the NPU
    has room for: far memories keep it waiting."""
    across = ceil(kernel.shape[0] / kernel.block[0]) * ceil(kernel.shape[1] / kernel.block[1])
    longest = 0.0
    for spans, room in (
        (kernel.scales, machine.scale_buffer_bytes),
        (kernel.weights, machine.weight_buffer_bytes),
    ):
        cycles = 0.0
        for span in spans:
            port = machine.port(span.region)
            rate = min(port.bytes_per_cycle, room / max(port.read_latency_cycles, 1))
            cycles += across * span.length / rate
        longest = max(longest, cycles / (1 if kernel.is_u85 else machine.cores))
    return longest


def kernel_macs(kernel: NpuKernel) -> int:
    height, width, channels = kernel.shape
    taps = kernel.window.size[0] * kernel.window.size[1]
    if kernel.kind == "CONV":
        return height * width * channels * taps * kernel.ifm_depth
    return height * width * channels * taps if kernel.kind == "DEPTHWISE" else 0


# --- MAC units ---


def _mac_steps(kernel: NpuKernel, machine: EthosMachine, block: tuple[int, int, int]) -> float:
    """Cycles of the MAC units on a block. They wait for weights that are still being decoded."""
    if kernel.kind in ("ELEMENTWISE", "RESIZE"):
        return 0.0
    unit = micro_block(kernel, machine)
    pixels = ceil(block[0] / unit[0]) * ceil(block[1] / unit[1])
    depth = ceil(block[2] / unit[2])
    wide = kernel.ifm.item_bytes
    if kernel.kind == "POOL" and kernel.mode != "REDUCE_SUM":
        return 4 * kernel.window.size[0] * kernel.window.size[1] * pixels * depth * wide
    steps = (
        count * _steps_of_taps(kernel, machine, pixels, taps, unit[2])
        for count, taps in sub_kernels(kernel)
    )
    return depth * sum(steps)


def _steps_of_taps(
    kernel: NpuKernel, machine: EthosMachine, pixels: int, taps: int, unit_depth: int
) -> float:
    """For one micro-block of output channels. A decoder makes 8 weights per cycle."""
    wide = kernel.ifm.item_bytes
    rate = 8 * (machine.cores if kernel.is_u85 else 1)
    if kernel.kind == "DEPTHWISE":
        groups = ceil(taps / (10 if kernel.is_u85 else 4))  # filled up with zeros
        return groups * max(machine.depthwise_group * pixels * wide, 32 * unit_depth / rate)
    inputs = kernel.ifm_depth
    if kernel.window.part_kernel and kernel.is_u85:  # zeros that fill up its weights cost nothing
        steps = taps * ceil(inputs / 8) * wide
        return steps * max(pixels, 8 * unit_depth / rate)
    if kernel.window.part_kernel:
        groups = ceil(taps / (2 if wide == 2 else 4)) * ceil(inputs / 8)
        return groups * max(4 * pixels, 32 * unit_depth / rate)
    depth = deep_input_block(kernel, machine) if kernel.is_u85 else 32 // wide
    if not kernel.is_u85:  # the last block of inputs is filled up with zeros
        inputs = ceil(inputs / depth) * depth
    whole, rest = divmod(ceil(inputs / 8) * 8, depth)
    return sum(
        count * taps * max(size / 8 * pixels * wide, size * unit_depth / rate)
        for count, size in ((whole, depth), (1, rest))
    )


# --- The output stage ---


def _output_cycles(kernel: NpuKernel, machine: EthosMachine) -> float:
    height, width, channels = kernel.shape
    if kernel.ofm.bricks:
        channels = ceil(channels / _OUTPUT_GROUP) * _OUTPUT_GROUP
    rates, mode = machine.output_rates, kernel.mode
    if kernel.kind == "ELEMENTWISE" and kernel.ifm.item_bytes == 4:
        rate = rates.unary32 if mode in ("CLZ", "ABS", "LRELU") else rates.binary32
    elif mode == "MUL":
        rate = rates.mul32 if kernel.ofm.item_bytes == 4 else rates.mul
    elif kernel.kind != "ELEMENTWISE" and kernel.accumulator in ("I40", "I48"):
        rate = rates.mul
    elif mode in ("ADD", "SUB"):
        rate = rates.add
    else:
        rate = rates.max if kernel.kind == "POOL" and mode == "MAX" else rates.other
    if kernel.activation.function not in ("RELU", "LUT_NONE"):
        rate = max(rate, machine.table_rate)
    return rate * height * width * channels
