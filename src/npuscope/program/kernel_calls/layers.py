"""Kernels that compute values, and layers with weights: which rule rounds their sums, and its
multipliers."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from msgspec import Struct

from npuscope.errors import ModelError
from npuscope.graph.model import Activation, Numerics
from npuscope.machine.npu_ops import support
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.kernels.between import quantized
from npuscope.ops.kernels.conv import IntegerWeights, output_factors
from npuscope.ops.kernels.dense import product_factor
from npuscope.ops.kernels.float_ops import whole_limits
from npuscope.ops.kernels.requantize import (
    Multipliers,
    clamp_limits,
    litert_target,
    quantized_multipliers,
    real_limits,
    reduced_multipliers,
)
from npuscope.ops.kernels.step import Array
from npuscope.ops.layers import ConvAttrs, DenseAttrs, TransposeConvAttrs
from npuscope.ops.reduce import PoolAttrs, ReduceAttrs
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.program.kernel_calls.model import (
    PREFIX,
    ElementType,
    KernelCall,
    KernelOperand,
    KernelTask,
    NoKernel,
    plain_call,
    prepared,
    snake,
    tensor_of,
    whole_numbers,
)
from npuscope.structs import replace

# --- Kernels that compute values: on real numbers, on integers, or on raw values as integers ---
#
# The C kernels take real numbers (floats, or integers with a scale) or whole numbers without a
# scale, never both in one call.

# The numpy kernels of these look at raw values, whatever the scales are.
_RAW = having(Trait.FINDS_PLACES) | {"Cast"}
_RAW_IN_LITERT = having(Trait.PICKS) | {"Where"}
_RAW_WHEN_ALIKE = having(Trait.PICKS) & having(Trait.MOVES)
_FREE_OUTPUT = having(Trait.COMPARISON, Trait.LOGIC, Trait.FINDS_PLACES) | {"Cast"}
_STORED = (ElementType.int8, ElementType.uint8, ElementType.int16, ElementType.uint16)


def works_on_raw(work: KernelTask) -> bool:
    if work.kind in _RAW:
        return True
    if not work.quantized:
        return False
    if work.numerics is Numerics.LITERT:
        return work.kind in _RAW_IN_LITERT
    output = work.outputs[0]
    alike = all((x.quant, x.type) == (output.quant, output.type) for x in work.inputs)
    return alike and work.kind in _RAW_WHEN_ALIKE


def raw_call(work: KernelTask) -> KernelCall:
    """The call on raw values: to C they are whole numbers without a scale."""
    if work.kind == "MaxPool":
        source, target = work.inputs[0], work.outputs[0]
        if source.type not in _STORED or source.type != target.type or target.quant is None:
            raise NoKernel(f"MaxPool from {source.type.name} to {target.type.name} has no kernel")
        tensor = tensor_of("y", target)
        limits = clamp_limits(tensor, *real_limits(work.attrs_as(PoolAttrs).activation))
        call = plain_call(work, "max_pool_raw")
        return replace(call, numbers=(*call.numbers, *limits))
    inputs = tuple(replace(operand, quant=None) for operand in work.inputs)
    outputs = tuple(replace(operand, quant=None) for operand in work.outputs)
    # LiteRT's Min and Max have no activation.
    attrs = BinaryAttrs() if isinstance(work.attrs, BinaryAttrs) else work.attrs
    return value_call(replace(work, inputs=inputs, outputs=outputs, attrs=attrs))


def value_call(work: KernelTask) -> KernelCall:
    """All operands real, or all whole where the kernel takes whole numbers."""
    operands = work.inputs[1:] if work.kind == "Where" else work.inputs
    if work.kind in having(Trait.LOGIC) and work.quantized:
        raise NoKernel(f"{work.kind} takes bool, not numbers with a scale")
    if all(map(_is_real, operands)):
        _check_real_output(work)
        return _numbered(work)
    kernel = support(work.kind).kernel
    if kernel is None or not kernel.whole or any(map(_is_real, operands)):
        raise NoKernel(f"{work.kind} on {_types(operands)} has no kernel")
    kinds = {operand.type for operand in operands}
    if work.kind not in _FREE_OUTPUT:
        kinds |= {output.type for output in work.outputs}
    scaled = any(output.quant is not None for output in work.outputs)
    if len(kinds) > 1 or ElementType.float64 in kinds or scaled:
        raise NoKernel(f"{work.kind} on {_types((*operands, *work.outputs))} has no kernel")
    if getattr(work.attrs, "activation", Activation.NONE) is not Activation.NONE:
        raise NoKernel(f"{work.kind} on integers without a scale takes no activation")
    return _whole_clip(work) if work.kind == "Clip" else _numbered(work)


def _numbered(work: KernelTask) -> KernelCall:
    """Axes of reductions are passed as bits: C cannot see where a list of them ends."""
    call = plain_call(work)
    if not isinstance(work.attrs, ReduceAttrs):
        return call
    return replace(call, numbers=(sum(1 << axis for axis in work.attrs.axes),))


def _is_real(operand: KernelOperand) -> bool:
    return operand.type is ElementType.float32 or operand.quant is not None


def _types(operands: tuple[KernelOperand, ...]) -> str:
    return " and ".join(sorted({operand.type.name for operand in operands}))


def _check_real_output(work: KernelTask) -> None:
    output = work.outputs[0]
    if work.kind in _FREE_OUTPUT:
        right = output.quant is None
    elif work.kind == "Dequantize":
        right = work.inputs[0].quant is not None and output.type is ElementType.float32
    elif output.quant is not None:
        right = output.type in _STORED
    else:
        right = output.type is ElementType.float32 and work.kind != "Quantize"
    if not right:
        scaled = " with a scale" if output.quant is not None else ""
        raise NoKernel(f"{work.kind} cannot store real numbers as {output.type.name}{scaled}")


def _whole_clip(work: KernelTask) -> KernelCall:
    source = work.inputs[0]
    if source.type is ElementType.int64:
        raise NoKernel("Clip on int64 has no kernel")
    limits = whole_limits(work.attrs_as(ClipAttrs), tensor_of("x", source).dtype)
    return replace(plain_call(work, "clip_whole"), numbers=limits, reals=())


# --- Layers with weights on integers: which rule rounds their sums, and its multipliers ---

_INPUTS = (ElementType.int8, ElementType.uint8, ElementType.int16, ElementType.uint16)
_WEIGHTS = (ElementType.int8, ElementType.uint8, ElementType.int16)
_WHOLE_BIASES = (ElementType.int32, ElementType.int64)
_LONGEST_SHIFT = 62


class SumRule(IntEnum):
    """npuscope_rule."""

    TWICE = 0
    REDUCED = 1
    IN_DOUBLE = 2
    TO_EVEN = 3
    TO_REAL = 4


class Rescale(Struct, frozen=True):
    """How the sums of a layer become outputs."""

    rule: SumRule
    limits: tuple[int, int] = (0, 0)
    factors: Array | None = None  # (2, channels): multipliers, shifts
    activation: Activation = Activation.NONE


def _layer(work: KernelTask, rescale: Rescale) -> KernelCall:
    """The op's own numbers without the activation, then the rule's."""
    own = whole_numbers(work.attrs)
    own = own if work.kind == "MatMul" else own[:-1]
    activation = list(Activation).index(rescale.activation)
    numbers = (*own, rescale.rule, *rescale.limits, int(len(work.inputs) > 2), activation)
    extra = () if rescale.factors is None else (prepared(rescale.factors),)
    function = f"{PREFIX}{snake(work.kind)}_integer"
    return KernelCall(function, (*work.inputs, *extra), work.outputs, numbers)


def litert_conv2d(work: KernelTask) -> KernelCall:
    return _layer(work, _fixed(work, work.attrs_as(ConvAttrs).activation))


def litert_transpose_conv(work: KernelTask) -> KernelCall:
    return _layer(work, _fixed(work, work.attrs_as(TransposeConvAttrs).activation))


def litert_fully_connected(work: KernelTask) -> KernelCall:
    _check_litert(work)
    limits = _litert_limits(work, work.attrs_as(DenseAttrs).activation)
    return _layer(work, Rescale(SumRule.IN_DOUBLE, limits))


def litert_matmul(work: KernelTask) -> KernelCall:
    """Product of two activations with one multiplier for all."""
    for operand in work.inputs:
        _check_one_scale(work, operand)
    _check_one_scale(work, work.outputs[0])
    a, b, target = (
        tensor_of(n, o) for n, o in zip("aby", (*work.inputs, *work.outputs), strict=True)
    )
    factors = quantized_multipliers(product_factor(a, b, target))
    limits = _litert_limits(work, Activation.NONE)
    if work.inputs[0].type is ElementType.int16:
        return _layer(work, Rescale(SumRule.REDUCED, limits, _reduced(factors)))
    return _layer(work, Rescale(SumRule.TWICE, limits, _twice(factors)))


def _fixed(work: KernelTask, activation: Activation) -> Rescale:
    """16-bit inputs have 64-bit sums and a rule of their own, unless the bias has 32 bits."""
    _check_litert(work)
    limits, factors = _litert_limits(work, activation), _factors(work)
    short_bias = len(work.inputs) > 2 and work.inputs[2].type is ElementType.int32
    if work.inputs[0].type is ElementType.int16 and not short_bias:
        return Rescale(SumRule.REDUCED, limits, _reduced(factors))
    return Rescale(SumRule.TWICE, limits, _twice(factors))


def _factors(work: KernelTask) -> Multipliers:
    weights = work.inputs[1]
    if weights.quant is None:
        raise NoKernel(f"{work.kind} with weights that have no scale has no kernel")
    nothing = np.zeros(weights.shape[0], np.int64)
    scales = np.broadcast_to(np.asarray(weights.quant.scales, np.float64), len(nothing))
    read = IntegerWeights(nothing, scales, nothing, nothing, tensor_of("x", work.inputs[0]))
    factors = output_factors(read, tensor_of("y", work.outputs[0]))
    try:
        return quantized_multipliers(factors)
    except ModelError as error:
        raise NoKernel(f"{work.kind}: {error.message}") from error


def _twice(factors: Multipliers) -> Array:
    return _stacked(factors.mantissa, factors.shift, -31)


def _reduced(factors: Multipliers) -> Array:
    return _stacked(*reduced_multipliers(factors), 1)


def _stacked(multipliers: Array, shifts: Array, least: int) -> Array:
    if shifts.size and (shifts.min() < least or shifts.max() > _LONGEST_SHIFT):
        raise NoKernel("the scales of a layer are too far apart for its multipliers")
    return np.stack([multipliers, shifts]).astype(np.int32)


def _litert_limits(work: KernelTask, activation: Activation) -> tuple[int, int]:
    target = litert_target(tensor_of("y", work.outputs[0]), activation)
    return target.low, target.high


def _check_litert(work: KernelTask) -> None:
    _check_one_scale(work, work.inputs[0])
    _check_one_scale(work, work.outputs[0])
    _check_weights(work)
    if len(work.inputs) > 2 and work.inputs[2].type not in _WHOLE_BIASES:
        raise NoKernel(f"{work.kind} with a bias of type {work.inputs[2].type.name} has no kernel")


def _check_one_scale(work: KernelTask, operand: KernelOperand) -> None:
    if operand.type not in _INPUTS or operand.quant is None or operand.quant.per_channel:
        raise NoKernel(
            f"{work.kind} on integers needs 8-bit or 16-bit tensors with one scale each, "
            f"not {operand.type.name}"
        )


def _check_weights(work: KernelTask) -> None:
    weights = work.inputs[1]
    if weights.type not in _WEIGHTS or not weights.constant:
        raise NoKernel(f"{work.kind} on integers needs constant weights of 8 or 16 bits")
    if weights.quant is None or weights.quant.axis not in (None, 0):
        raise NoKernel(f"{work.kind} on integers needs weights with scales along their outputs")


def qdq_conv2d(work: KernelTask) -> KernelCall:
    return _qdq(work, work.attrs_as(ConvAttrs).activation)


def qdq_transpose_conv(work: KernelTask) -> KernelCall:
    return _qdq(work, work.attrs_as(TransposeConvAttrs).activation)


def qdq_fully_connected(work: KernelTask) -> KernelCall:
    return _qdq(work, work.attrs_as(DenseAttrs).activation)


def _qdq(work: KernelTask, activation: Activation) -> KernelCall:
    """Integers where the reference takes them too, else reals between two conversions."""
    if not _takes_integers(work):
        return value_call(work)
    _check_one_scale(work, work.inputs[0])
    _check_weights(work)
    if len(work.inputs) > 2:
        bias = work.inputs[2]
        if not bias.constant or (bias.quant is None and bias.type is not ElementType.float32):
            raise NoKernel(
                f"{work.kind} with a {bias.type.name} bias that is neither constant nor "
                f"real has no kernel"
            )
    target = work.outputs[0]
    if target.quant is None:
        return _layer(work, Rescale(SumRule.TO_REAL, activation=activation))
    _check_one_scale(work, target)
    reals = np.asarray(real_limits(activation), np.float32)
    low, high = quantized(reals, tensor_of("y", target)).tolist()
    return _layer(work, Rescale(SumRule.TO_EVEN, (low, high)))


def _takes_integers(work: KernelTask) -> bool:
    source, weights = work.inputs[:2]
    if source.quant is None or weights.quant is None or not weights.constant:
        return False
    return not source.quant.per_channel and weights.quant.axis in (None, 0)
