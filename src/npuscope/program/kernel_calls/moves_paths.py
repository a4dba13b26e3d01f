"""How a moved value becomes the output's: as bytes, by a table, or as a real number."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np
from msgspec import Struct

from npuscope.graph.model import Activation, Attrs, Numerics
from npuscope.ops.images import ResizeAttrs, ResizeMode
from npuscope.ops.kernels.resize import (
    integer_shares,
    litert_nearest_of,
    litert_shares,
    nearest_of,
    shares,
)
from npuscope.ops.kernels.step import Array
from npuscope.ops.moves import ConcatAttrs
from npuscope.program.kernel_calls.model import (
    PREFIX,
    ElementType,
    KernelCall,
    KernelOperand,
    KernelTask,
    NoKernel,
    one_op_table,
    prepared,
)
from npuscope.structs import replace

_BYTES = (ElementType.int8, ElementType.uint8)


class Way(IntEnum):
    """npuscope_way."""

    AS_BYTES = 0
    BY_TABLE = 1
    AS_REALS = 2


class ValuePath(Struct, frozen=True):
    """`table` holds 256 values of the output's type."""

    way: Way
    table: KernelOperand | None = None
    activation: Activation = Activation.NONE

    def numbers(self, inputs: list[KernelOperand]) -> tuple[int, int, int]:
        """Way, place of the table behind the inputs so far, activation."""
        if self.table is not None:
            inputs.append(self.table)
        place = len(inputs) - 1 if self.table is not None else 0
        return int(self.way), place, list(Activation).index(self.activation)


def path_of(
    work: KernelTask, source: KernelOperand, target: KernelOperand, always_raw: bool = False
) -> ValuePath:
    """LiteRT moves raw values, QDQ where both sides share the quantization."""
    raw = always_raw or not work.quantized or work.numerics is Numerics.LITERT
    if raw or _same(source, target):
        if source.type != target.type:
            raise NoKernel(f"{work.kind} from {source.type.name} to {target.type.name}")
        return ValuePath(Way.AS_BYTES)
    if _per_tensor_bytes(source, target):
        table = one_op_table("Identity", Attrs(), work.numerics, source, target)
        return _by_table(work, source, table)
    return as_reals(work, source, target)


def concat_path(work: KernelTask, source: KernelOperand) -> ValuePath:
    """Parts of another scale are rounded to the output's; the activation clamps all."""
    target, activation = work.outputs[0], work.attrs_as(ConcatAttrs).activation
    if _same(source, target) and activation is Activation.NONE:
        return ValuePath(Way.AS_BYTES)
    if _per_tensor_bytes(source, target):
        attrs = ConcatAttrs(0, activation)
        return _by_table(work, source, one_op_table("Concat", attrs, work.numerics, source, target))
    if _real_join(work):
        return replace(as_reals(work, source, target), activation=activation)
    raise NoKernel(f"Concat of {source.type.name} parts needs one scale and no activation")


def _real_join(work: KernelTask) -> bool:
    """Does the reference join real values? With equal quantizations it clamps raw ones."""
    if not work.quantized:
        return True
    alike = all(_same(source, work.outputs[0]) for source in work.inputs)
    return work.numerics is Numerics.QDQ and not alike


def as_reals(work: KernelTask, source: KernelOperand, target: KernelOperand) -> ValuePath:
    for operand in (source, target):
        if operand.type is not ElementType.float32 and operand.quant is None:
            raise NoKernel(
                f"{work.kind} between {operand.type.name} without a scale and other "
                f"types has no kernel"
            )
    return ValuePath(Way.AS_REALS)


def _by_table(work: KernelTask, source: KernelOperand, table: Array | None) -> ValuePath:
    if table is None:
        raise NoKernel(f"{work.kind} from {source.type.name} to these types has no kernel")
    same = np.arange(256, dtype=np.uint8).view(source.type.name)
    if table.dtype == same.dtype and np.array_equal(table, same):
        return ValuePath(Way.AS_BYTES)
    return ValuePath(Way.BY_TABLE, prepared(table))


def _same(source: KernelOperand, target: KernelOperand) -> bool:
    return (source.quant, source.type) == (target.quant, target.type)


def _per_tensor_bytes(source: KernelOperand, target: KernelOperand) -> bool:
    """True if a table can do it: 8 bits in, and at most one scale on each side."""
    if source.type not in _BYTES or source.quant is None:
        return False
    return not any(o.quant is not None and o.quant.per_channel for o in (source, target))


# --- Resize: neighbours and weights along each axis are prepared, as in the reference kernel ---

Shares = Callable[[ResizeAttrs, int, int], tuple[Array, Array, Array]]


def resize_call(work: KernelTask) -> KernelCall:
    if work.attrs_as(ResizeAttrs).mode == ResizeMode.NEAREST:
        return _nearest(work)
    source, target = work.inputs[0], work.outputs[0]
    signed = source.type in (ElementType.int8, ElementType.int16)
    if work.quantized and work.numerics is Numerics.LITERT:
        if source.type != target.type:
            raise NoKernel(f"Resize from {source.type.name} to {target.type.name} has no kernel")
        if signed:
            return _linear(work, "resize_linear_integer", integer_shares, np.int32)
        if source.type is ElementType.uint8:
            return _linear(work, "resize_linear_bytes", litert_shares, np.float32)
    as_reals(work, source, target)
    return _linear(work, "resize_linear", shares, np.float32)


def _nearest(work: KernelTask) -> KernelCall:
    attrs, source = work.attrs_as(ResizeAttrs), work.inputs[0]
    litert = work.quantized and work.numerics is Numerics.LITERT
    choose = litert_nearest_of if litert else nearest_of
    maps = [choose(attrs, axis, source.shape[1 + axis]).astype(np.int32) for axis in (0, 1)]
    inputs = [source, *map(prepared, maps)]
    numbers = path_of(work, source, work.outputs[0]).numbers(inputs)
    return KernelCall(
        f"{PREFIX}resize_nearest", tuple(inputs), work.outputs, numbers, rounding=work.rounding
    )


def _linear(work: KernelTask, function: str, shares_of: Shares, share_type: type) -> KernelCall:
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
