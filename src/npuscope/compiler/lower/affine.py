"""One ARITH stage that multiplies and adds, from its numbers."""

from __future__ import annotations

from npuscope.compiler.numbers import Affine
from npuscope.compiler.stages import ArithStage, Value

Clip = tuple[int, int] | None


def affine_stage(
    name: str,
    operator: str,
    source: Value,
    output: Value,
    numbers: Affine,
    origin: tuple[str, ...],
    clip: Clip = None,
) -> ArithStage:
    return ArithStage(
        name,
        operator,
        (source,),
        output,
        origin,
        a=numbers.a,
        c=numbers.c,
        shift=numbers.shift,
        ax_shift=numbers.ax_shift,
        c_shift=numbers.c_shift,
        clip=clip,
    )
