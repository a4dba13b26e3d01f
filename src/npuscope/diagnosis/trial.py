"""A fault that was tried, and two causes as one."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.causes.registry import FaultCause
from npuscope.diagnosis.evidence import Likeness
from npuscope.diagnosis.fault import BoardFault
from npuscope.diagnosis.sights import Array, Sight, SightView

_LIVELY = 8  # values in a buffer that comes of the input, and of nothing else


class FaultTrial(Struct, frozen=True):
    """A fault with how it fits: `explains` counts pieces of evidence that a right board fails,
    `bits` is what they weigh, `held_bits` what they weigh beside once the input is known to be
    right."""

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


def tells_of_input(sight: Sight, values: Array) -> bool:
    """Would these values, where they are right, be others with a wrong input?"""
    if sight.view is SightView.INPUT_RAM:
        return True
    return sight.view is SightView.BUFFER and np.unique(values).size >= _LIVELY
