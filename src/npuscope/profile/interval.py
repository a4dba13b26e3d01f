"""How far a prediction may be off: an interval from what the network is made of.

Fitted on published latencies (docs/accuracy.md): 91 % of those rows lie inside. With a family left
out when the coefficients were chosen, 83 % did: that is what to expect of a new network.
"""

from __future__ import annotations

from npuscope.profile.model import EpochProfile, TimeShares
from npuscope.sim.counters import Bound

BASE = 0.06
CPU_SHARE = 0.10  # software and library calls are known by few measurements
EXTERNAL_SHARE = 0.27  # external RAM is bound by accesses: placement decides
PER_EPOCH = 0.00025  # each epoch adds a grouping that may be another
MOST_EPOCHS = 250


def half_width(epochs: tuple[EpochProfile, ...], time: TimeShares, total_ms: float) -> float:
    """Half of the interval, as a share of the total."""
    if not total_ms:
        return BASE
    cpu = (time.software_ms + time.hybrid_ms) / total_ms
    outside = sum(e.ms for e in epochs if e.counters.bound is Bound.EXTERNAL_RAM) / total_ms
    grouping = PER_EPOCH * min(len(epochs), MOST_EPOCHS)
    return BASE + CPU_SHARE * cpu + EXTERNAL_SHARE * outside + grouping


def error_text(half: float) -> str:
    return f"±{half:.0%}, which about 83 % of new networks should keep"
