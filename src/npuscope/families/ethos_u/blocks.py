"""How a kernel is cut: blocks of outputs and inputs, micro-blocks, parts of the window."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.families.ethos_u.jobs import NpuKernel
from npuscope.families.ethos_u.machine import EthosMachine

SUB_KERNEL = 8  # taps along an axis that are computed together
BRICK = 16  # channels


def blocks(kernel: NpuKernel) -> Iterator[tuple[int, tuple[int, int, int]]]:
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


def sub_kernels(kernel: NpuKernel) -> Iterator[tuple[int, int]]:
    """Taps of the parts that a kernel is cut into, with how many there are of each."""
    sizes = (1, 1) if kernel.kind == "POOL" else kernel.window.size
    parts = []
    for size, dilation in zip(sizes, kernel.window.dilation, strict=True):
        whole, rest = divmod(size, SUB_KERNEL // dilation)
        parts.append([(whole, SUB_KERNEL // dilation)] * (whole > 0) + [(1, rest)] * (rest > 0))
    for rows, height in parts[0]:
        for columns, width in parts[1]:
            yield rows * columns, height * width


def deep_input_block(kernel: NpuKernel, machine: EthosMachine) -> int:
    """Channels of a block of inputs on U85, where a kernel works depth first."""
    shallow = machine.macs <= 256 and micro_block(kernel, machine)[2] == 16
    return (32 if shallow else 64) // kernel.ifm.item_bytes
