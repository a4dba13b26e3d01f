"""Decompression unit: known by its registers only."""

from __future__ import annotations

from npuscope.errors import TargetError
from npuscope.program.units import Decun


def refuse(unit: Decun) -> TargetError:
    return TargetError(
        "not executed: semantics of DECUN are not known",
        where=f"DECUN {unit.id}",
        hint="compile the network without weight compression",
    )
