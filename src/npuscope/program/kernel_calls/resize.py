"""Resize: neighbours and shares along each axis are prepared, as the reference kernel does it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuscope.graph.model import Numerics
from npuscope.ops.images import ResizeAttrs, ResizeMode
from npuscope.ops.kernels.moves import integer_shares, litert_nearest_of, nearest_of, shares
from npuscope.ops.kernels.step import Array
from npuscope.program.kernel_calls.model import PREFIX, ElementType, KernelCall, NoKernel, prepared
from npuscope.program.kernel_calls.moves_paths import as_reals, path_of
from npuscope.program.kernel_calls.work import Work

Shares = Callable[[ResizeAttrs, int, int], tuple[Array, Array, Array]]


def resize_call(work: Work) -> KernelCall:
    if work.attrs_as(ResizeAttrs).mode == ResizeMode.NEAREST:
        return _nearest(work)
    source, target = work.inputs[0], work.outputs[0]
    signed = source.type in (ElementType.int8, ElementType.int16)
    if work.quantized and work.numerics is Numerics.LITERT and signed:
        if source.type != target.type:
            raise NoKernel(f"Resize from {source.type.name} to {target.type.name}")
        return _linear(work, "resize_linear_integer", integer_shares, np.int32)
    as_reals(work, source, target)
    return _linear(work, "resize_linear", shares, np.float32)


def _nearest(work: Work) -> KernelCall:
    attrs, source = work.attrs_as(ResizeAttrs), work.inputs[0]
    litert = work.quantized and work.numerics is Numerics.LITERT
    choose = litert_nearest_of if litert else nearest_of
    maps = [choose(attrs, axis, source.shape[1 + axis]).astype(np.int32) for axis in (0, 1)]
    inputs = [source, *map(prepared, maps)]
    numbers = path_of(work, source, work.outputs[0]).numbers(inputs)
    return KernelCall(
        f"{PREFIX}resize_nearest", tuple(inputs), work.outputs, numbers, rounding=work.rounding
    )


def _linear(work: Work, function: str, shares_of: Shares, share_type: type) -> KernelCall:
    attrs, source = work.attrs_as(ResizeAttrs), work.inputs[0]
    arrays = []
    for axis in (0, 1):
        lower, upper, share = shares_of(attrs, axis, source.shape[1 + axis])
        arrays += [lower.astype(np.int32), upper.astype(np.int32), share.astype(share_type)]
    return KernelCall(
        PREFIX + function,
        (source, *map(prepared, arrays)),
        work.outputs,
        rounding=work.rounding,
    )
