"""The first op whose NPU arithmetic differs from the reference."""

from __future__ import annotations

from npuscope.errors import UsageError
from npuscope.profiling.agreement import LayerAgreement
from npuscope.profiling.validate import Validation
from npuscope.shown import ShownRecord, counted

_BROKEN = "differs by more than rounding"
_FAR = "none broken: a few elements differ by more than rounding"
_INEXACT = "none broken: elements differ only by the NPU's rounding"


class Bisection(ShownRecord, frozen=True):
    """`first` is the first layer that breaks the rule of `validate`, or else that differs at all.

    Every layer is given the reference's own inputs, so that an earlier one cannot be the cause.
    """

    first: LayerAgreement | None
    rule: str  # what it breaks; empty where every layer is exact
    passed: bool  # as validate says
    differing: int
    layers: int
    seeds: int

    @property
    def op(self) -> str | None:
        """The source op, where the program names one."""
        if self.first is None:
            return None
        return next(iter(self.first.origin or self.first.ops), None)

    def told(self) -> str:
        if self.first is None:
            return f"no difference in {counted(self.layers, 'layer')}"
        return f"{self.op} in {self.first.epoch}: up to {self.first.max_lsb:g} LSB"


def bisect(validation: Validation) -> Bisection:
    """From what was compared layer by layer, in the order of execution. Refused where no layer
    was, though some run on the NPU: that would look as if none differed."""
    layers = validation.layers
    if not layers and validation.not_compared:
        raise UsageError(
            "; ".join(validation.notes) or "the layers of this build cannot be compared",
            where="SOURCE",
            hint="npuscope validate compares the outputs",
        )
    broken = validation.broken
    differing = [layer for layer in layers if layer.exact_share < 1]
    far = [layer for layer in differing if layer.near_share < 1]
    first = next(iter(broken or far or differing), None)
    rule = "" if first is None else _BROKEN if broken else _FAR if far else _INEXACT
    return Bisection(first, rule, validation.passed, len(differing), len(layers), validation.seeds)
