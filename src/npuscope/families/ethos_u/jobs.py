"""What a command stream starts: kernels and transfers, each with all that it needs.

Both encodings become these records; a rounding mode has the name that U85 gives it."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from msgspec import Struct


class NpuRounding(StrEnum):
    DOUBLE = "DOUBLE_SYMMETRIC"
    NATURAL = "NATURAL"
    DOUBLE_ASYMMETRIC = "DOUBLE_ASYMMETRIC"
    SYMMETRIC = "SYMMETRIC"
    TO_ZERO = "TRUNCATE_TO_ZERO"
    TO_LOWER = "TRUNCATE_TO_LOWER"


class Storage(StrEnum):
    MEMORY = "TILE2X2"
    ROWS = "TILE3X1"
    CHAINED = "CHAINED"
    NONE = "NONE"


# Axes of an output that U85 writes in another order.
TURNS = {
    "HWC": (0, 1, 2),
    "WHC": (1, 0, 2),
    "HCW": (0, 2, 1),
    "WCH": (1, 2, 0),
    "CHW": (2, 0, 1),
    "CWH": (2, 1, 0),
}


class FeatureMap(Struct, frozen=True):
    """Where a feature map is: up to four tiles. Chained ones never reach a memory; `region` is
    then the number of a chaining buffer."""

    region: int
    bases: tuple[int, int, int, int]
    stride_y: int
    stride_x: int
    stride_c: int
    height0: int
    height1: int
    width0: int
    bricks: bool  # NHCWB16
    dtype: str  # as NumPy writes it
    zero_point: int
    storage: Storage = Storage.MEMORY

    @property
    def item_bytes(self) -> int:
        return np.dtype(self.dtype).itemsize


class Scale(Struct, frozen=True):
    """value * scale / 2**shift."""

    scale: int
    shift: int
    rounding: NpuRounding
    double_shift: int = 0


class KernelWindow(Struct, frozen=True):
    """Pairs are (vertical, horizontal). `size` counts taps, without what dilation spreads."""

    size: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int, int, int]  # top, left, bottom, right
    part_kernel: bool

    @property
    def reach(self) -> tuple[int, int]:
        down, right = ((n - 1) * d + 1 for n, d in zip(self.size, self.dilation, strict=True))
        return down, right


class MemorySpan(Struct, frozen=True):
    region: int
    base: int
    length: int


class NpuActivation(Struct, frozen=True):
    function: str
    low: int
    high: int
    clips: bool
    table: int = 0
    forced: str = ""  # type that U55 clips to before a table, where it is not the output's


class ElementOperand(Struct, frozen=True):
    """How an elementwise kernel takes a scalar or repeats an axis."""

    broadcast: tuple[bool, bool, bool] = (False, False, False)  # height, width, channels
    scalar: int | None = None


class ResizeSteps(Struct, frozen=True):
    numerator: tuple[int, int]
    offset: tuple[int, int]
    whole: tuple[int, int]
    rest: tuple[int, int]


class NpuKernel(Struct, frozen=True):
    """A kernel operation with everything it needs."""

    number: int  # among the jobs of a stream
    place: int  # of its command in the stream, in bytes
    kind: str  # CONV, DEPTHWISE, POOL, ELEMENTWISE, RESIZE
    mode: str  # of pooling, elementwise, resize
    ifm: FeatureMap
    ifm2: FeatureMap
    ofm: FeatureMap
    ifm_depth: int
    shape: tuple[int, int, int]  # of the output: height, width, channels; before a transpose
    block: tuple[int, int, int]
    window: KernelWindow
    upscale: str
    weights: tuple[MemorySpan, ...]
    scales: tuple[MemorySpan, ...]
    fast_weights: bool
    sparse_weights: bool
    weights_are_ifm2: bool
    per_channel: bool
    ofm_scale: Scale
    ifm_scale: Scale
    ifm2_scale: Scale
    ifm_scale_mode: str
    activation: NpuActivation
    operands: tuple[ElementOperand, ElementOperand]
    swapped: bool  # U55: the second input is the first operand
    accumulator: str
    keeps_accumulator: bool
    adds_ifm2: bool
    micro_block: tuple[int, int]  # U85
    reverse: str
    transpose: str
    resize: ResizeSteps
    blockdep: int
    is_u85: bool

    @property
    def stored_shape(self) -> tuple[int, int, int]:
        """Of the output, as it is written."""
        if self.transpose in ("", "HWC"):
            return self.shape
        rows, columns, channels = (self.shape[axis] for axis in TURNS[self.transpose])
        return rows, columns, channels

    @property
    def output_scale(self) -> Scale:
        """Of kernels without weights. Those that are to scale by channel have no scales then: what
        the register still holds is of a kernel before."""
        return Scale(1, 0, self.ofm_scale.rounding) if self.per_channel else self.ofm_scale


class NpuTransfer(Struct, frozen=True):
    number: int
    source: MemorySpan
    target: MemorySpan
    to_table: bool  # into the NPU's own memory of tables
    sizes: tuple[int, int] = (1, 1)
    source_strides: tuple[int, int] = (0, 0)
    target_strides: tuple[int, int] = (0, 0)
    indices: MemorySpan | None = None
    scatters: bool = False
    place: int = 0  # as of kernels


class NpuWait(Struct, frozen=True):
    kind: str  # DMA, KERNEL
    count: int
    place: int = 0


Job = NpuKernel | NpuTransfer | NpuWait
