"""A command stream, executed to the bit: memories in, memories changed."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from npuscope.blas_threads import one_thread
from npuscope.errors import FileError
from npuscope.families.ethos_u.arithmetic.activation import finished
from npuscope.families.ethos_u.arithmetic.convolution import Layer, convolved
from npuscope.families.ethos_u.arithmetic.elementwise import UNARY, combined
from npuscope.families.ethos_u.arithmetic.pooling import pooled
from npuscope.families.ethos_u.arithmetic.resize import resized
from npuscope.families.ethos_u.jobs import (
    TURNS,
    ElementOperand,
    FeatureMap,
    NpuKernel,
    NpuTransfer,
    Storage,
)
from npuscope.families.ethos_u.layers import WeightCache, layer_of
from npuscope.families.ethos_u.memory import MOST_ELEMENTS, Memories
from npuscope.families.ethos_u.registers import jobs_of
from npuscope.families.ethos_u.stream import CommandStream, NpuConfiguration

Array = np.ndarray[Any, np.dtype[Any]]
_MOST_STEPS = 1 << 32  # pixels under all windows of a kernel
# What numpy raises for shapes that do not fit and sizes beyond the memory.
_REFUSALS = (ValueError, IndexError, TypeError, MemoryError, OverflowError)
# Sees what a kernel has stored, and may give what is to be there instead.
Watch = Callable[[NpuKernel, Array], Array | None]


def execute(
    stream: CommandStream,
    memories: Memories,
    cache: WeightCache | None = None,
    watch: Watch | None = None,
) -> None:
    """Jobs one after the other: waits and overlaps change times, not results."""
    configuration = stream.configuration
    if configuration is None:
        raise FileError("the stream does not say which machine it is for")
    cache = cache or WeightCache({})
    with one_thread():
        for job in jobs_of(stream):
            if isinstance(job, NpuTransfer):
                memories.transfer(job)
            elif isinstance(job, NpuKernel):
                values = _checked_kernel(job, memories, configuration, cache)
                if watch is not None and (other := watch(job, values)) is not None:
                    memories.write(job.ofm, other)


def _checked_kernel(
    kernel: NpuKernel, memories: Memories, configuration: NpuConfiguration, cache: WeightCache
) -> Array:
    """Errors name the kernel."""
    try:
        return run_kernel(kernel, memories, configuration, cache)
    except _REFUSALS as error:
        raise FileError(
            f"the kernel cannot run: {error}", where=f"kernel {kernel.number} ({kernel.kind})"
        ) from error
    except FileError as error:
        name = f"kernel {kernel.number} ({kernel.kind} {kernel.mode})"
        error.where = error.where or name.strip()
        raise


def run_kernel(
    kernel: NpuKernel, memories: Memories, configuration: NpuConfiguration, cache: WeightCache
) -> Array:
    if kernel.keeps_accumulator or kernel.adds_ifm2:
        raise FileError("kernels that keep or load accumulators are not supported")
    if is_too_large(kernel):
        raise FileError(f"an output of {kernel.shape} is too large")
    if kernel.kind in ("CONV", "DEPTHWISE"):
        image = _upscaled(kernel, memories.read(kernel.ifm, _input_shape(kernel)))
        layer: Layer = layer_of(kernel, memories, configuration, cache)
        values = convolved(kernel, layer, image)
    elif kernel.kind == "POOL":
        image = _upscaled(kernel, memories.read(kernel.ifm, _input_shape(kernel)))
        values = pooled(kernel, image.astype(np.int64) - kernel.ifm.zero_point)
    elif kernel.kind == "RESIZE":
        image = memories.read(kernel.ifm, _input_shape(kernel)).astype(np.int64)
        values = resized(kernel, image - kernel.ifm.zero_point)
    else:
        values = combined(kernel, *_operand_values(kernel, memories))
    result = _turned(kernel, finished(kernel, values, memories.tables))
    memories.write(kernel.ofm, result)
    return result


def is_too_large(kernel: NpuKernel) -> bool:
    """The window of a resize is its whole input: rows are made first, on lines as wide as that."""
    rows, columns, channels = kernel.shape
    if kernel.kind == "RESIZE":
        return rows * max(columns, kernel.window.size[1]) * channels > MOST_ELEMENTS
    taps = 1 if kernel.kind == "ELEMENTWISE" else prod(kernel.window.size)
    return rows * columns * channels > min(MOST_ELEMENTS, _MOST_STEPS // max(taps, 1))


def _input_shape(kernel: NpuKernel) -> tuple[int, int, int]:
    """What the windows of the output reach, without padding."""
    height, width, channels = kernel.shape
    window = kernel.window
    if kernel.kind == "RESIZE":
        return window.size[0], window.size[1], channels
    depth = channels
    if kernel.kind == "CONV" or kernel.mode == "REDUCE_SUM":
        depth = kernel.ifm_depth
    rows = (height - 1) * window.stride[0] + window.reach[0] - window.pads[0] - window.pads[2]
    columns = (width - 1) * window.stride[1] + window.reach[1] - window.pads[1] - window.pads[3]
    if kernel.upscale != "NONE":
        rows, columns = -(-rows // 2), -(-columns // 2)
    if rows < 1 or columns < 1:
        raise FileError("a kernel reads nothing but padding")
    return rows, columns, depth


def _upscaled(kernel: NpuKernel, image: Array) -> Array:
    if kernel.upscale == "NEAREST":
        return image.repeat(2, axis=0).repeat(2, axis=1)
    if kernel.upscale == "ZEROS":
        height, width, depth = image.shape
        wide = np.full((2 * height, 2 * width, depth), kernel.ifm.zero_point, image.dtype)
        wide[::2, ::2] = image
        return wide
    return image


def _operand_values(kernel: NpuKernel, memories: Memories) -> tuple[Array, Array]:
    first = _operand(kernel, kernel.ifm, kernel.operands[0], memories)
    if kernel.mode in UNARY:
        return first, first
    second = _operand(kernel, kernel.ifm2, kernel.operands[1], memories)
    return (second, first) if kernel.swapped else (first, second)


def _operand(
    kernel: NpuKernel, place: FeatureMap, operand: ElementOperand, memories: Memories
) -> Array:
    if operand.scalar is not None or place.storage is Storage.NONE:
        return np.full((1, 1, 1), (operand.scalar or 0) - place.zero_point, np.int64)
    height, width, channels = (
        1 if repeated else size
        for size, repeated in zip(kernel.shape, operand.broadcast, strict=True)
    )
    values = memories.read(place, (height, width, channels)).astype(np.int64) - place.zero_point
    return np.broadcast_to(values, kernel.shape)


_AXES = {"H": 0, "W": 1, "C": 2}


def _turned(kernel: NpuKernel, values: Array) -> Array:
    if kernel.transpose not in ("", "HWC"):
        values = values.transpose(TURNS[kernel.transpose])
    if kernel.reverse not in ("", "NONE"):
        values = np.flip(values, _AXES[kernel.reverse])
    return values
