"""Layers with weights on integers: which rule rounds their sums, and its multipliers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.model import Activation
from npuscope.ops.kernels.between import quantized
from npuscope.ops.kernels.conv import IntegerWeights, output_factors
from npuscope.ops.kernels.dense import product_factor
from npuscope.ops.kernels.requantize import (
    Multipliers,
    litert_target,
    quantized_multipliers,
    real_limits,
    reduced_multipliers,
)
from npuscope.ops.kernels.step import Array
from npuscope.ops.layers import ConvAttrs, DenseAttrs, TransposeConvAttrs
from npuscope.program.kernel_calls.model import (
    PREFIX,
    ElementType,
    KernelCall,
    NoKernel,
    Operand,
    prepared,
)
from npuscope.program.kernel_calls.tables import tensor_of
from npuscope.program.kernel_calls.values import value_call
from npuscope.program.kernel_calls.work import Work, snake, whole_numbers

_INPUTS = (ElementType.int8, ElementType.uint8, ElementType.int16, ElementType.uint16)
_WEIGHTS = (ElementType.int8, ElementType.uint8, ElementType.int16)
_WHOLE_BIASES = (ElementType.int32, ElementType.int64)
_LONGEST_SHIFT = 62


class Rule(IntEnum):
    """npuscope_rule."""

    TWICE = 0
    REDUCED = 1
    IN_DOUBLE = 2
    TO_EVEN = 3
    TO_REAL = 4


@dataclass(frozen=True, slots=True)
class Rescale:
    """How the sums of a layer become outputs."""

    rule: Rule
    limits: tuple[int, int] = (0, 0)
    factors: Array | None = None  # (2, channels): multipliers, shifts
    activation: Activation = Activation.NONE


def _layer(work: Work, rescale: Rescale) -> KernelCall:
    """The op's own numbers without the activation, then the rule's."""
    own = whole_numbers(work.attrs)
    own = own if work.kind == "MatMul" else own[:-1]
    activation = list(Activation).index(rescale.activation)
    numbers = (*own, rescale.rule, *rescale.limits, int(len(work.inputs) > 2), activation)
    extra = () if rescale.factors is None else (prepared(rescale.factors),)
    function = f"{PREFIX}{snake(work.kind)}_integer"
    return KernelCall(function, (*work.inputs, *extra), work.outputs, numbers)


def litert_conv2d(work: Work) -> KernelCall:
    return _layer(work, _fixed(work, work.attrs_as(ConvAttrs).activation))


def litert_transpose_conv(work: Work) -> KernelCall:
    return _layer(work, _fixed(work, work.attrs_as(TransposeConvAttrs).activation))


def litert_fully_connected(work: Work) -> KernelCall:
    _check_litert(work)
    limits = _litert_limits(work, work.attrs_as(DenseAttrs).activation)
    return _layer(work, Rescale(Rule.IN_DOUBLE, limits))


def litert_matmul(work: Work) -> KernelCall:
    """Product of two activations with one multiplier for all."""
    for operand in work.inputs:
        _check_one_scale(work, operand)
    _check_one_scale(work, work.outputs[0])
    a, b, target = (
        tensor_of(n, o) for n, o in zip("aby", (*work.inputs, *work.outputs), strict=True)
    )
    factors = quantized_multipliers(product_factor(a, b, target))
    limits = _litert_limits(work, Activation.NONE)
    return _layer(work, Rescale(Rule.TWICE, limits, _twice(factors)))


def _fixed(work: Work, activation: Activation) -> Rescale:
    """16-bit inputs have 64-bit sums and a rule of their own, unless the bias has 32 bits."""
    _check_litert(work)
    limits, factors = _litert_limits(work, activation), _factors(work)
    short_bias = len(work.inputs) > 2 and work.inputs[2].type is ElementType.int32
    if work.inputs[0].type is ElementType.int16 and not short_bias:
        return Rescale(Rule.REDUCED, limits, _reduced(factors))
    return Rescale(Rule.TWICE, limits, _twice(factors))


def _factors(work: Work) -> Multipliers:
    weights = work.inputs[1]
    if weights.quant is None:
        raise NoKernel(f"{work.kind} with weights that have no scale")
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


def _litert_limits(work: Work, activation: Activation) -> tuple[int, int]:
    target = litert_target(tensor_of("y", work.outputs[0]), activation)
    return target.low, target.high


def _check_litert(work: Work) -> None:
    _check_one_scale(work, work.inputs[0])
    _check_one_scale(work, work.outputs[0])
    _check_weights(work)
    if len(work.inputs) > 2 and work.inputs[2].type not in _WHOLE_BIASES:
        raise NoKernel(f"{work.kind} with a bias of {work.inputs[2].type.name}")


def _check_one_scale(work: Work, operand: Operand) -> None:
    if operand.type not in _INPUTS or operand.quant is None or operand.quant.per_channel:
        raise NoKernel(
            f"{work.kind} on integers takes 8 or 16 bits with one scale a tensor, "
            f"not {operand.type.name}"
        )


def _check_weights(work: Work) -> None:
    weights = work.inputs[1]
    if weights.type not in _WEIGHTS or not weights.constant:
        raise NoKernel(f"{work.kind} on integers takes constant weights of 8 or 16 bits")
    if weights.quant is None or weights.quant.axis not in (None, 0):
        raise NoKernel(f"{work.kind} on integers takes weights with scales along their outputs")


def qdq_conv2d(work: Work) -> KernelCall:
    return _qdq(work, work.attrs_as(ConvAttrs).activation)


def qdq_transpose_conv(work: Work) -> KernelCall:
    return _qdq(work, work.attrs_as(TransposeConvAttrs).activation)


def qdq_fully_connected(work: Work) -> KernelCall:
    return _qdq(work, work.attrs_as(DenseAttrs).activation)


def _qdq(work: Work, activation: Activation) -> KernelCall:
    """Integers where the reference takes them too, else reals between two conversions."""
    if not _takes_integers(work):
        return value_call(work)
    _check_one_scale(work, work.inputs[0])
    _check_weights(work)
    if len(work.inputs) > 2:
        _check_real_bias(work)
    target = work.outputs[0]
    if target.quant is None:
        return _layer(work, Rescale(Rule.TO_REAL, activation=activation))
    _check_one_scale(work, target)
    reals = np.asarray(real_limits(activation), np.float32)
    low, high = quantized(reals, tensor_of("y", target)).tolist()
    return _layer(work, Rescale(Rule.TO_EVEN, (low, high)))


def _takes_integers(work: Work) -> bool:
    source, weights = work.inputs[:2]
    if source.quant is None or weights.quant is None or not weights.constant:
        return False
    return not source.quant.per_channel and weights.quant.axis in (None, 0)


def _check_real_bias(work: Work) -> None:
    bias = work.inputs[2]
    if not bias.constant or (bias.quant is None and bias.type is not ElementType.float32):
        raise NoKernel(f"{work.kind} with a bias of {bias.type.name} that is not constant or real")
