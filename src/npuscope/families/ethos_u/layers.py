"""Constants of a convolution: weights and scales from the memory where a kernel finds them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError
from npuscope.families.ethos_u.arithmetic.convolution import Layer
from npuscope.families.ethos_u.jobs import MemorySpan, NpuKernel
from npuscope.families.ethos_u.memory import Memories
from npuscope.families.ethos_u.stream import NpuConfiguration, NpuProduct
from npuscope.families.ethos_u.weight_order import (
    WeightPlan,
    order_u55,
    order_u85,
    order_u85_fast,
    unordered,
)
from npuscope.families.ethos_u.weights import decode_fast_weights, decode_weights

Array = np.ndarray[Any, np.dtype[Any]]
_RECORD = 10  # bytes of bias, scale and shift per channel


class WeightCache(Struct):
    """Stripes of one layer share their weights: decoded once by their bytes."""

    layers: dict[tuple[bytes, WeightPlan], Array]


def layer_of(
    kernel: NpuKernel, memories: Memories, configuration: NpuConfiguration, cache: WeightCache
) -> Layer:
    if kernel.weights_are_ifm2:
        return _input_weights(kernel, memories)
    plan = weight_plan(kernel, configuration)
    parts = [memories.bytes(span).tobytes() for span in kernel.weights]
    key = (b"".join(parts), plan)
    weights = cache.layers.get(key)
    if weights is None:
        weights = cache.layers[key] = _weights(kernel, plan, parts)
    bias, factors, shifts = _scales(kernel, memories, plan)
    if not kernel.per_channel:
        factors = np.full(len(bias), kernel.ofm_scale.scale)
        shifts = np.full(len(bias), kernel.ofm_scale.shift)
    return Layer(weights, bias, factors, shifts)


def _input_weights(kernel: NpuKernel, memories: Memories) -> Layer:
    """U85 multiplies two inputs: a row of the second holds the weights of an output channel."""
    channels = kernel.shape[2]
    values = memories.read(kernel.ifm2, (1, channels, kernel.ifm_depth)).astype(np.int32)
    weights = (values - kernel.ifm2.zero_point).reshape(channels, 1, 1, kernel.ifm_depth)
    scale = kernel.ofm_scale
    factors, shifts = np.full(channels, scale.scale), np.full(channels, scale.shift)
    return Layer(weights, np.zeros(channels, np.int64), factors, shifts)


def weight_plan(kernel: NpuKernel, configuration: NpuConfiguration) -> WeightPlan:
    depthwise = kernel.kind == "DEPTHWISE"
    macs = configuration.macs_per_cycle
    wide, part_kernel = kernel.ifm.item_bytes == 2, kernel.window.part_kernel and not depthwise
    shape = (kernel.shape[2], *kernel.window.size, 1 if depthwise else kernel.ifm_depth)
    streams, unit, input_block = 1, 4 if macs == 32 else 8, 0
    if configuration.product is NpuProduct.U85:
        rows, columns = kernel.micro_block
        streams, unit = max(1, min(4, macs // 256)), macs // 8 // (rows * columns)
        input_block = 64
        if part_kernel:
            input_block = 16
        elif kernel.ifm.item_bytes == 4 or (
            macs <= 256 and unit == 16 and not kernel.sparse_weights
        ):
            input_block = 32
        elif kernel.sparse_weights and not wide:
            input_block = 128
    elif configuration.product is NpuProduct.U65:
        streams = max(1, macs // 256)
    return WeightPlan(
        shape,
        kernel.block[2],
        depthwise,
        part_kernel,
        wide,
        kernel.window.stride,
        kernel.window.dilation,
        streams,
        unit,
        8,
        input_block,
        macs,
        kernel.sparse_weights,
    )


def _weights(kernel: NpuKernel, plan: WeightPlan, parts: list[bytes]) -> Array:
    if not parts:
        raise FileError(f"kernel {kernel.number} has no weights")
    fast = kernel.is_u85 and kernel.fast_weights
    values = [decode_fast_weights(part) if fast else decode_weights(part) for part in parts]
    # Before an order of that size is computed.
    if sum(map(len, values)) < prod(plan.shape):
        raise FileError(f"too few weights for {plan.shape}", where=f"kernel {kernel.number}")
    if fast:
        return unordered(values[0], order_u85_fast(plan), plan.shape)
    weights = np.zeros(plan.shape, np.int16)
    order = order_u85 if kernel.is_u85 else order_u55
    for stream, part in enumerate(values):
        weights += unordered(part, order(plan, stream), plan.shape)
    return weights


def _scales(kernel: NpuKernel, memories: Memories, plan: WeightPlan) -> tuple[Array, Array, Array]:
    channels = kernel.shape[2]
    if not kernel.scales:
        zeros = np.zeros(channels, np.int64)
        return zeros, zeros, zeros
    streams = 1 if kernel.is_u85 else plan.streams
    records = np.zeros((channels, _RECORD), np.int64)
    for stream, span in enumerate(kernel.scales[:streams]):
        own = (channels + streams - 1 - stream) // streams
        needed = MemorySpan(span.region, span.base, own * _RECORD)
        records[stream::streams] = memories.bytes(needed).reshape(own, _RECORD)
    if not kernel.is_u85:
        return _signed(records[:, :5]), _number(records[:, 5:9]), records[:, 9] & 63
    if kernel.accumulator == "I48":
        return _signed(records[:, :6]), _number(records[:, 6:8]), records[:, 8] & 63
    return _signed(records[:, :4]), _number(records[:, 4:8]), records[:, 8] & 63


def _number(columns: Array) -> Array:
    numbers: Array = (columns << 8 * np.arange(columns.shape[1])).sum(axis=1)
    return numbers


def _signed(columns: Array) -> Array:
    bits = 8 * columns.shape[1]
    number = _number(columns)
    signed: Array = number - (number >> bits - 1 << bits)
    return signed
