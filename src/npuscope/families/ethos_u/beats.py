"""Beats on the memory ports, by counters of Arm's virtual platforms."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, gcd

from npuscope.families.ethos_u.blocks import BRICK, SUB_KERNEL, deep_input_block, sub_kernels
from npuscope.families.ethos_u.jobs import FeatureMap, NpuKernel, NpuTransfer, Storage
from npuscope.families.ethos_u.machine import EthosMachine


def output_beats(place: FeatureMap, shape: tuple[int, int, int], port: int) -> int:
    """Bricks are written whole; other maps by row where rows are dense, else by pixel."""
    height, width, channels = shape
    item = place.item_bytes
    if place.bricks:
        return height * width * ceil(channels / BRICK) * ceil(BRICK * item / port)
    if channels * item <= BRICK and place.stride_x == channels * item:
        row = width * channels * item
        return _repeated_beats(place.bases[0], place.stride_y, height, port, row)
    return sum(
        count * _row_beats(place, offset, range(width), channels, port)
        for count, offset in _offsets(place.stride_y, height, port)
    )


def _row_beats(place: FeatureMap, offset: int, columns: range, channels: int, port: int) -> int:
    """One transfer per pixel and 16 channels, by alignment."""
    item = place.item_bytes
    base = place.bases[0] + offset + columns.start * place.stride_x
    return sum(
        _repeated_beats(
            base + first * item,
            place.stride_x,
            len(columns),
            port,
            min(BRICK, channels - first) * item,
        )
        for first in range(0, channels, BRICK)
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


def constant_beats(kernel: NpuKernel, machine: EthosMachine) -> Iterator[tuple[int, int]]:
    """Weights and scales by region, once per block of pixels."""
    if kernel.kind == "ELEMENTWISE":
        return
    across = ceil(kernel.shape[0] / kernel.block[0]) * ceil(kernel.shape[1] / kernel.block[1])
    for span in (*kernel.weights, *kernel.scales):
        yield span.region, ceil(span.length / machine.port_bytes) * across


def input_beats(kernel: NpuKernel, machine: EthosMachine) -> Iterator[tuple[int, int]]:
    """Inputs of every block with its border, by region."""
    if kernel.kind != "ELEMENTWISE":
        if kernel.ifm.storage is Storage.MEMORY:
            yield kernel.ifm.region, _window_beats(kernel, machine)
        return
    for place, operand in zip((kernel.ifm, kernel.ifm2), kernel.operands, strict=True):
        if place.storage is Storage.MEMORY and operand.scalar is None:
            shape = [
                1 if repeated else size
                for size, repeated in zip(kernel.shape, operand.broadcast, strict=True)
            ]
            yield (
                place.region,
                map_beats(
                    place,
                    [range(shape[0])],
                    range(shape[1]),
                    shape[2],
                    machine.port_bytes,
                    deep_rows=not kernel.is_u85,
                ),
            )


def _window_beats(kernel: NpuKernel, machine: EthosMachine) -> int:
    whole_depth = kernel.kind == "CONV" or kernel.mode == "REDUCE_SUM"
    channels = kernel.ifm_depth if whole_depth else kernel.shape[2]
    reads = _resized if kernel.kind == "RESIZE" else _reads
    rows, columns = (list(reads(kernel, axis)) for axis in (0, 1))
    once = sum(
        map_beats(kernel.ifm, rows, span, channels, machine.port_bytes, deep_rows=False)
        for span in columns
    )
    if not whole_depth or not once:
        return once
    pixels = max(map(len, rows)) * max(map(len, columns))
    return round(once * _input_passes(kernel, machine, pixels))


def _input_passes(kernel: NpuKernel, machine: EthosMachine, pixels: int) -> float:
    """How often the inputs of a block are read for all its blocks of channels. A few blocks of
    inputs are kept, if the kernel has one part; of the others U55 and U65 read all again, and so
    does U85 kernel first; else U85 goes through them forwards and backwards."""
    passes = ceil(kernel.shape[2] / kernel.block[2])
    depth = 16 if kernel.window.part_kernel or kernel.ifm.item_bytes > 1 else 32
    if kernel.is_u85 and not kernel.window.part_kernel:
        depth = deep_input_block(kernel, machine)
    bricks = ceil(kernel.ifm_depth / BRICK)
    blocks = [min(depth // BRICK, bricks - n) for n in range(0, bricks, max(depth // BRICK, 1))]
    bytes_each = pixels * depth * kernel.ifm.item_bytes
    evicted = len(blocks) - min(machine.input_blocks, machine.input_buffer_bytes // bytes_each)
    turns = kernel.is_u85 and not kernel.window.part_kernel
    whole = sum(count for count, _ in sub_kernels(kernel)) == 1
    if evicted <= 0 and (whole or turns):
        return 1
    if not turns:
        return passes
    first, last = sum(blocks[:evicted]), sum(blocks[-evicted:])
    return 1 + (passes // 2 * first + (passes - 1) // 2 * last) / bricks


def _reads(kernel: NpuKernel, axis: int) -> Iterator[range]:
    """Rows or columns that each block reads for each part of the kernel."""
    window, size, block = kernel.window, kernel.shape[axis], kernel.block[axis]
    before, after = window.pads[axis], window.pads[axis + 2]
    scale = 2 if kernel.upscale != "NONE" else 1
    stride, dilation = window.stride[axis], window.dilation[axis]
    last = (size - 1) * stride + window.reach[axis] - before - after
    taps = window.size[axis]
    part = taps if kernel.is_u85 or kernel.kind == "POOL" else SUB_KERNEL // dilation
    for first in range(0, size, block):
        count = min(block, size - first)
        for tap in range(0, taps, part):
            start = first * stride - before + tap * dilation
            reach = (min(part, taps - tap) - 1) * dilation + 1
            low, high = max(start, 0), min(start + (count - 1) * stride + reach, last)
            if low < high:
                yield range(low // scale, ceil(high / scale))


def _resized(kernel: NpuKernel, axis: int) -> Iterator[range]:
    """What each block of a resize reads: from the first pixel that it needs to the one after the
    last, for it weighs two. The window of such a kernel is its whole input."""
    source, size, block = kernel.window.size[axis], kernel.shape[axis], kernel.block[axis]
    for first in range(0, size, block):
        last = min(first + block, size) - 1
        low = min(first * source // size, max(source - 2, 0))
        yield range(low, min(max(last * source // size, low) + 2, source))


def map_beats(
    place: FeatureMap,
    rows: list[range],
    columns: range,
    channels: int,
    port: int,
    *,
    deep_rows: bool = True,
) -> int:
    """Of a stripe of columns in blocks of rows; dense rows as a whole unless `deep_rows` is False
    and they have more than 16 channels."""
    width, item = len(columns), place.item_bytes
    if place.bricks:
        return sum(map(len, rows)) * width * ceil(channels / BRICK) * ceil(BRICK * item / port)
    by_row = place.stride_x == channels * item and (deep_rows or channels * item <= BRICK)
    first = place.bases[0] + columns.start * place.stride_x
    period = port // gcd(place.stride_y, port)
    beats = 0
    for number in range(period):
        # How many rows there are of each alignment.
        count = sum(
            (span.stop - number - 1) // period - (span.start - number - 1) // period
            for span in rows
        )
        offset = number * place.stride_y
        if by_row:
            beats += count * _span_beats(first + offset, width * channels * item, port)
        else:
            beats += count * _row_beats(place, offset, columns, channels, port)
    return beats


def transfer_bytes(job: NpuTransfer) -> int:
    return job.source.length * job.sizes[0] * job.sizes[1]
