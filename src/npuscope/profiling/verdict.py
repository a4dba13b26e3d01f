"""What a comparison with the reference proves: passed, differs, wrong, or nothing at all.

The outputs come first. Rounding adds up along a network, so they are held against what rounding
alone does to the reference. Layers, each given the reference's own inputs, must hold as well: the
outputs of a network that is sensitive to rounding, or nearly constant, cannot tell by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from npuscope.profiling.agreement import Agreement, LayerAgreement
from npuscope.profiling.rounding import MOVED_SHARE
from npuscope.shown import counted

# --- The limits ---

# Of all elements of an output: what a single rounding can do.
EQUAL_LSB = 1.0
# An output may be this many times as far off (root mean square) as rounding alone moves it. Over
# networks of many kinds right builds were 0.3 to 1.2 times as far off, damaged ones over 3.
ROUNDING_FACTOR = 2.0
# A layer rounds up to three times: sums in pieces, their scale, a function after them. A steep
# function makes the steps before it larger (`steps_inside`) and is allowed that many times as much.
LAYER_LSB = 3.0
# Elements of a layer within LAYER_LSB. The rest is room for 16-bit sums that saturate, as the
# NPU's do and the reference's do not.
LAYER_SHARE = 0.9
# The same of the elements of each channel: a damaged weight moves its channel alone.
CHANNEL_SHARE = 0.5
# The mean difference of a layer, in parts of what is near. Rounding goes up as often as down: over
# 34 right programs it was 0.05 at most.
MOST_BIAS = 0.15
# Layers that have to be compared before they can speak for the build.
COMPARED_SHARE = 0.5
# 16-bit sums that the clamp changed; with more than this, an output that is off is blamed on them.
MUCH_SATURATED = 0.01

RULE = (
    f"outputs at most {ROUNDING_FACTOR:g} times as far off as rounding explains (of "
    f"{MOVED_SHARE:.0%} of the values of each layer, or of those that it rounds otherwise by "
    f"itself); each layer, run on the reference's inputs, has "
    f"{LAYER_SHARE:.0%} of its values and {CHANNEL_SHARE:.0%} of each channel within "
    f"{LAYER_LSB:g} LSB and a mean error within {MOST_BIAS * LAYER_LSB:.2g} LSB; "
    f"at least {COMPARED_SHARE:.0%} of the layers are compared"
)


class Verdict(StrEnum):
    PASSED = "passed"  # outputs within 1 LSB
    DIFFERS = "differs"  # further off, but not further than rounding explains
    WRONG = "wrong"
    UNJUDGED = "unjudged"  # too little could be compared

    @property
    def holds(self) -> bool:
        return self in (Verdict.PASSED, Verdict.DIFFERS)


class Coverage(Struct, frozen=True):
    """Layers of a program, and how many of them could be compared with a tensor of the network."""

    compared: int
    total: int

    @property
    def is_enough(self) -> bool:
        return self.compared >= COMPARED_SHARE * self.total

    def __str__(self) -> str:
        return f"{self.compared} of {counted(self.total, 'layer')} compared"


def agrees(layer: LayerAgreement) -> bool:
    """Whether a layer's difference from the reference is rounding."""
    is_near = layer.near_share >= LAYER_SHARE and layer.channel_near_share >= CHANNEL_SHARE
    return is_near and abs(layer.bias) <= MOST_BIAS


def is_rounding(output: Agreement) -> bool:
    """Whether an output is no further off than rounding in every layer explains."""
    limit = max(EQUAL_LSB, ROUNDING_FACTOR * output.rounding_rms_lsb)
    return output.rms_lsb <= limit


def judge(
    outputs: Sequence[Agreement], layers: Sequence[LayerAgreement], coverage: Coverage
) -> Verdict:
    if not all(map(is_rounding, outputs)) or not all(map(agrees, layers)):
        return Verdict.WRONG
    if not outputs or not coverage.is_enough:
        return Verdict.UNJUDGED
    within = all(output.max_lsb <= EQUAL_LSB for output in outputs)
    return Verdict.PASSED if within else Verdict.DIFFERS
