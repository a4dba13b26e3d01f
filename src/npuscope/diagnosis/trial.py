"""A fault that was tried, and two causes as one."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.causes.registry import FaultCause
from npuscope.diagnosis.evidence import Likeness
from npuscope.diagnosis.fault import BoardFault
from npuscope.diagnosis.sights import Array, Sight, SightView

_DEAD_BITS = 6  # what a constant inside the network proves, however many values follow from it
_LIVELY = 8  # values in a buffer that comes of the input, and of nothing else


class FaultTrial(Struct, frozen=True):
    """A fault with how it fits: `explains` counts pieces of evidence that a right board fails,
    `bits` is what they weigh, `held_bits` what they weigh beside once something else is known to
    be right: of a constant inside the network the input, of outputs that are misread their RAM."""

    cause: FaultCause
    fault: BoardFault
    fit: Likeness
    explains: int
    contradicted: bool
    bits: int = 0
    held_bits: int = 0

    def reproduces(self, tolerant: bool) -> bool:
        return not self.contradicted and self.explains > 0 and self.fit.holds(tolerant)


class Joint(Struct, frozen=True):
    """Two causes as one, of which the second has one fault."""

    cause: FaultCause
    first: FaultCause
    second: FaultTrial


def paired(first: FaultCause, second: FaultCause) -> FaultCause:
    """Two causes as one."""
    return FaultCause(
        f"{first.id}+{second.id}",
        first.kind,
        f"Two faults at once: {first.title}. {second.title}",
        f"{first.remedy}; {second.remedy}",
        0,
        lambda scene: iter(()),
    )


def frees(fault: BoardFault, sight: Sight, values: Array | None) -> bool:
    """Would these values, where they are right, say that what the fault starts from is so? None
    where only their checksum is known."""
    if fault.only_reads:
        return sight.view is SightView.OUTPUT_RAM
    if not fault.deadens or sight.view is SightView.INPUT_RAM:
        return fault.deadens
    if sight.view is not SightView.BUFFER or values is None:
        return False
    return np.unique(values).size >= _LIVELY


def weighed(fault: BoardFault, bits: int, bytes_: int, is_free: bool) -> tuple[int, int]:
    """What counts of the bits, and what is held. A constant inside may come of a wrong input, and
    any byte may be made of a right one: there each is as good as eight values of a network."""
    if fault.deadens:
        kept = bits if is_free else min(bits, _DEAD_BITS)
        return kept, bits - kept
    more = max(0, 8 * bytes_ - bits) if fault.only_reads else 0
    return (bits + more, 0) if is_free else (bits, more)
