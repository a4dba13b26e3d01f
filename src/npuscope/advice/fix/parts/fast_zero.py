"""The nearest quantization whose zero point leaves the convolution unit in its fast mode."""

from __future__ import annotations

from npuscope.advice.fix.parts.steps import HIGHEST, LOWEST
from npuscope.graph.edit.document import NotFitting
from npuscope.graph.model import Quant

FREE = (LOWEST, 0)  # zero points that cost nothing
_NEAR = 4  # steps of the range that may be cut off rather than made coarser


def fast_quant(quant: Quant, offset: int = 0) -> Quant:
    """`offset` is 128 for uint8. Near a free zero point the steps stay and a few values at one
    end are cut; else they grow until both sides of zero fit."""
    zero = quant.zero_point - offset
    if zero in FREE:
        raise NotFitting(f"zero point {quant.zero_point} is free already")
    near = min(FREE, key=lambda free: abs(free - zero))
    if abs(near - zero) <= _NEAR:
        return Quant(quant.scales, (near + offset,))
    lowest, highest = (LOWEST - zero) * quant.scale, (HIGHEST - zero) * quant.scale
    return Quant((max(lowest / LOWEST, highest / HIGHEST),), (offset,))
