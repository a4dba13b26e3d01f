"""The stages behind a convolution: 16-bit sums to the output's scale and zero point."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

import numpy as np

from npuscope.compiler.lower.affine import Clip, affine_stage
from npuscope.compiler.lower.context import ZERO, Context
from npuscope.compiler.numbers import (
    Affine,
    Scaling,
    int16,
    requantize_one_stage,
    requantize_per_channel,
    requantize_two_stage,
)
from npuscope.compiler.stages import ArithStage, Value

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Sums:
    """What a convolution leaves: 16-bit sums, shifted right by `shift_o`."""

    value: Value
    scaling: Scaling
    shift_o: int
    largest: Array | None  # per channel, before the shift; for stages per channel


def requantize_sums(
    context: Context, sums: Sums, output: Value, clip: Clip, origin: tuple[str, ...]
) -> Value:
    """Emit the generation's stages from raw sums to `output`."""
    generation = context.machine.generation
    value, scaling, shift_o = sums.value, sums.scaling, sums.shift_o
    if value.channels > context.machine.arith.max_vector:
        return _streamed(context, sums, output, clip, origin)
    if sums.largest is not None:
        stages = requantize_per_channel(scaling, shift_o, sums.largest)
        return _two_stage(context, value, output, stages, clip, origin)
    if generation.requantize == "mul_add":
        stages = requantize_two_stage(scaling, shift_o)
        return _two_stage(context, value, output, stages, clip, origin)
    affine = requantize_one_stage(scaling, shift_o)
    return context.emit(
        affine_stage(f"{output.name}.bias", "Add", value, output, affine, origin, clip)
    )


def _two_stage(
    context: Context,
    sums: Value,
    output: Value,
    stages: tuple[Affine, Affine],
    clip: Clip,
    origin: tuple[str, ...],
) -> Value:
    scaled = sums.named(f"{output.name}.scaled")
    mul, add = stages
    context.emit(affine_stage(f"{output.name}.mul", "Mul", sums, scaled, mul, origin))
    return context.emit(
        affine_stage(f"{output.name}.bias", "Add", scaled, output, add, origin, clip)
    )


def _streamed(
    context: Context, sums: Sums, output: Value, clip: Clip, origin: tuple[str, ...]
) -> Value:
    """More channels than the unit holds coefficients: an engine streams them into port Y.

    The scale multiplies, the bias is added in the same 16-bit fixed point.
    """
    scaling = sums.scaling
    mul, add = requantize_two_stage(scaling, sums.shift_o)
    fraction = _fraction_bits(add, scaling)
    scaled = sums.value.named(f"{output.name}.scaled")
    context.emit(_streamed_scale(f"{output.name}.mul", sums.value, scaled, mul, origin))
    factor = int(add.a[0])
    return context.emit(
        ArithStage(
            f"{output.name}.bias",
            "Add",
            (scaled,),
            output,
            origin,
            a=np.array([factor]),
            b=factor,
            c=np.array([scaling.output_zero]),
            c_shift=add.shift,
            shift=add.shift,
            clip=clip,
            table=int16(scaling.bias * 2.0**fraction),
        )
    )


def _streamed_scale(
    name: str, sums: Value, scaled: Value, mul: Affine, origin: tuple[str, ...]
) -> ArithStage:
    """One scale for all channels stays in a register; many are streamed."""
    if len(mul.a) == 1:
        return affine_stage(name, "Mul", sums, scaled, mul, origin)
    return ArithStage(
        name,
        "Mul",
        (sums,),
        scaled,
        origin,
        multiply=True,
        a=ZERO,
        c=ZERO,
        shift=mul.shift,
        table=mul.a,
    )


def _fraction_bits(add: Affine, scaling: Scaling) -> int:
    """Fraction bits of the value between the two stages."""
    factor_bits = round(log2(float(add.a[0]) * scaling.output_scale))
    return add.shift - factor_bits
