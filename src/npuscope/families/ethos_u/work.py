"""What a kernel costs each part of the NPU: MAC units, output stage, weight decoder, and the ports.

Sources: the cost functions of Arm's compiler for MAC steps and rates of the output stage; rules of
beats from counters of Arm's virtual platforms."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, gcd

from msgspec import Struct

from npuscope.families.ethos_u.jobs import FeatureMap, NpuKernel, NpuTransfer, Storage
from npuscope.families.ethos_u.machine import EthosMachine
from npuscope.structs import replace

_SUB_KERNEL = 8
_BRICK = 16


class KernelWork(Struct, frozen=True):
    """Cycles of the parts of the NPU, and beats on ports by region."""

    blocks: int
    mac_cycles: float
    output_cycles: float
    constant_cycles: float  # until weights and scales are there
    reads: dict[int, int]
    writes: dict[int, int]
    macs: int

    def port_cycles(self, machine: EthosMachine) -> float:
        """Of the port that is busy longest; reads and writes have channels of their own."""
        longest = 0.0
        for totals, most in ((self.reads, machine.read_bytes_per_cycle), (self.writes, None)):
            for region, beats in totals.items():
                rate = machine.port(region).bytes_per_cycle
                rate = rate if most is None else min(rate, most)
                longest = max(longest, beats * machine.port_bytes / rate)
        return longest


def kernel_work(kernel: NpuKernel, machine: EthosMachine) -> KernelWork:
    blocks = mac = 0.0
    for count, block in _blocks(kernel):
        mac += count * _mac_steps(kernel, machine, block)
        blocks += count
    if not kernel.is_u85:  # cores share the channels
        mac /= machine.cores
    reads: dict[int, int] = {}
    writes: dict[int, int] = {}
    for region, beats in _input_beats(kernel, machine):
        reads[region] = reads.get(region, 0) + beats
    if kernel.ofm.storage is Storage.MEMORY:
        writes[kernel.ofm.region] = output_beats(kernel.ofm, kernel.shape, machine.port_bytes)
    return KernelWork(
        int(blocks),
        mac,
        _output_cycles(kernel, machine),
        _constant_cycles(kernel, machine),
        reads,
        writes,
        kernel_macs(kernel),
    )


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


# --- Blocks ---


def _blocks(kernel: NpuKernel) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """Sizes of blocks with how many there are of each."""
    axes = []
    for size, block in zip(kernel.shape, kernel.block, strict=True):
        whole, rest = divmod(size, block)
        axes.append([(whole, block)] * (whole > 0) + [(1, rest)] * (rest > 0))
    for rows, height in axes[0]:
        for columns, width in axes[1]:
            for layers, depth in axes[2]:
                yield rows * columns * layers, (height, width, depth)


def micro_block(kernel: NpuKernel, machine: EthosMachine) -> tuple[int, int, int]:
    if kernel.is_u85:
        height, width = kernel.micro_block
        return height, width, machine.macs // 8 // (height * width)
    height, width, depth = machine.output_unit
    # Two rows become two more columns where there is one row only.
    flat = height == 2 and kernel.kind == "CONV" and kernel.shape[0] == 1
    if flat and kernel.shape[1] % 2 == 0 and kernel.window.size[0] == 1:
        return 1, 4, depth
    return height, width, depth


def _mac_steps(kernel: NpuKernel, machine: EthosMachine, block: tuple[int, int, int]) -> float:
    """Cycles of the MAC units on a block. They wait for weights that are still being decoded."""
    if kernel.kind in ("ELEMENTWISE", "RESIZE"):
        return 0.0
    unit = micro_block(kernel, machine)
    pixels = ceil(block[0] / unit[0]) * ceil(block[1] / unit[1])
    depth = ceil(block[2] / unit[2])
    wide = kernel.ifm.item_bytes
    if kernel.kind == "POOL" and kernel.mode != "REDUCE_SUM":
        taps = kernel.window.size[0] * kernel.window.size[1]
        return max(4, taps) * pixels * depth * 4 * wide / (4 if machine.macs == 32 else 1)
    steps = (
        count * _steps_of_taps(kernel, machine, pixels, taps, unit[2])
        for count, taps in _sub_kernels(kernel)
    )
    return depth * sum(steps)


def _sub_kernels(kernel: NpuKernel) -> Iterator[tuple[int, int]]:
    """Taps of the parts that a kernel is cut into, with how many there are of each."""
    sizes = (1, 1) if kernel.kind == "POOL" else kernel.window.size
    parts = []
    for size, dilation in zip(sizes, kernel.window.dilation, strict=True):
        whole, rest = divmod(size, _SUB_KERNEL // dilation)
        parts.append([(whole, _SUB_KERNEL // dilation)] * (whole > 0) + [(1, rest)] * (rest > 0))
    for rows, height in parts[0]:
        for columns, width in parts[1]:
            yield rows * columns, height * width


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
    depth = 64 if kernel.is_u85 else 32
    if kernel.is_u85 and machine.macs <= 256 and unit_depth == 16:
        depth = 32
    if wide > 1:
        depth = depth // wide
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
        channels = ceil(channels / _BRICK) * _BRICK
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


# --- Beats ---


def output_beats(place: FeatureMap, shape: tuple[int, int, int], port: int) -> int:
    """Bricks are written whole; other maps by row where rows are dense, else by pixel."""
    height, width, channels = shape
    item = place.item_bytes
    if place.bricks:
        return height * width * ceil(channels / _BRICK) * ceil(_BRICK * item / port)
    if channels * item <= _BRICK and place.stride_x == channels * item:
        row = width * channels * item
        return _repeated_beats(place.bases[0], place.stride_y, height, port, row)
    # One transfer per pixel and 16 channels, by alignment.
    spans = [
        (first * item, min(_BRICK, channels - first) * item) for first in range(0, channels, _BRICK)
    ]
    return sum(
        count * _repeated_beats(place.bases[0] + offset + first, place.stride_x, width, port, size)
        for count, offset in _offsets(place.stride_y, height, port)
        for first, size in spans
    )


def _offsets(stride: int, count: int, port: int) -> Iterator[tuple[int, int]]:
    """Places of `count` things in steps of a stride, those of the same alignment as one."""
    period = port // gcd(stride, port)
    for number in range(min(period, count)):
        yield (count - number + period - 1) // period, number * stride


def _repeated_beats(first: int, stride: int, count: int, port: int, size: int) -> int:
    return sum(
        number * _span_beats(first + offset, size, port)
        for number, offset in _offsets(stride, count, port)
    )


def _span_beats(first: int, size: int, port: int) -> int:
    return (first + size - 1) // port - first // port + 1


def _input_beats(kernel: NpuKernel, machine: EthosMachine) -> Iterator[tuple[int, int]]:
    """Inputs of every block with its border, once per block of channels; weights and scales once
    per block of pixels."""
    port = machine.port_bytes
    across = ceil(kernel.shape[0] / kernel.block[0]) * ceil(kernel.shape[1] / kernel.block[1])
    if kernel.kind == "ELEMENTWISE":
        for place, operand in zip((kernel.ifm, kernel.ifm2), kernel.operands, strict=True):
            if place.storage is Storage.MEMORY and operand.scalar is None:
                shape = [
                    1 if repeated else size
                    for size, repeated in zip(kernel.shape, operand.broadcast, strict=True)
                ]
                rows, columns = [range(shape[0])], range(shape[1])
                yield place.region, map_beats(place, rows, columns, shape[2], port)
        return
    for span in (*kernel.weights, *kernel.scales):
        yield span.region, ceil(span.length / port) * across
    if kernel.ifm.storage is Storage.MEMORY:
        yield kernel.ifm.region, _window_beats(kernel, port)


def fill_cycles(kernel: NpuKernel, machine: EthosMachine) -> float:
    """Until the first block has its inputs, weights and scales. At the beginning of a stream
    nothing runs meanwhile."""
    height, width, depth = map(min, kernel.shape, kernel.block)
    top, left, bottom, right = kernel.window.pads
    ends = bottom * (height == kernel.shape[0]), right * (width == kernel.shape[1])
    window = replace(kernel.window, pads=(top, left, *ends))
    first = replace(kernel, shape=(height, width, depth), window=window, weights=(), scales=())
    beats = list(_input_beats(first, machine))
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


def _window_beats(kernel: NpuKernel, port: int) -> int:
    """U55 and U65 read the input of a block again for every block of channels and every part of
    a kernel; U85 does so for channels only where it works kernel first."""
    deep = ceil(kernel.shape[2] / kernel.block[2])
    whole_depth = kernel.kind == "CONV" or kernel.mode == "REDUCE_SUM"
    channels = kernel.ifm_depth if whole_depth else kernel.shape[2]
    again = deep if whole_depth and (kernel.window.part_kernel or not kernel.is_u85) else 1
    rows, columns = (list(_reads(kernel, axis)) for axis in (0, 1))
    return again * sum(map_beats(kernel.ifm, rows, span, channels, port) for span in columns)


def _reads(kernel: NpuKernel, axis: int) -> Iterator[range]:
    """Rows or columns that each block reads for each part of the kernel."""
    window, size, block = kernel.window, kernel.shape[axis], kernel.block[axis]
    before, after = window.pads[axis], window.pads[axis + 2]
    scale = 2 if kernel.upscale != "NONE" else 1
    stride, dilation = window.stride[axis], window.dilation[axis]
    last = (size - 1) * stride + window.reach[axis] - before - after
    taps = window.size[axis]
    part = taps if kernel.is_u85 or kernel.kind == "POOL" else _SUB_KERNEL // dilation
    for first in range(0, size, block):
        count = min(block, size - first)
        for tap in range(0, taps, part):
            start = first * stride - before + tap * dilation
            reach = (min(part, taps - tap) - 1) * dilation + 1
            low, high = max(start, 0), min(start + (count - 1) * stride + reach, last)
            if low < high:
                yield range(low // scale, ceil(high / scale))


def map_beats(
    place: FeatureMap, rows: list[range], columns: range, channels: int, port: int
) -> int:
    """Of a stripe of columns in blocks of rows."""
    width, item = len(columns), place.item_bytes
    height = sum(map(len, rows))
    if place.bricks:
        return height * width * ceil(channels / _BRICK) * ceil(_BRICK * item / port)
    if place.stride_x != channels * item:
        return height * width * ceil(channels * item / port)
    first, size = place.bases[0] + columns.start * place.stride_x, width * channels * item
    period = port // gcd(place.stride_y, port)
    # How many rows there are of each alignment.
    counts = [
        sum(
            (span.stop - number - 1) // period - (span.start - number - 1) // period
            for span in rows
        )
        for number in range(period)
    ]
    return sum(
        count * _span_beats(first + number * place.stride_y, size, port)
        for number, count in enumerate(counts)
    )


def transfer_bytes(job: NpuTransfer) -> int:
    return job.source.length * job.sizes[0] * job.sizes[1]
