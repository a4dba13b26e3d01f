"""What makes a program slower than it need be, as sentences."""

from __future__ import annotations

from npuscope.manycore.compiler.draft import Draft, Role
from npuscope.manycore.compiler.kinds import MULTICAST, SEND, Group
from npuscope.manycore.compiler.vtcm import Placement
from npuscope.manycore.machine import CoreMachine


def add_warnings(draft: Draft, placement: Placement, machine: CoreMachine) -> None:
    draft.warnings += _spills(draft, placement)
    draft.warnings += _exchanges(draft, machine)
    draft.warnings += _unknown_rates(draft, machine)


def _spills(draft: Draft, placement: Placement) -> list[str]:
    largest: dict[str, int] = {}
    for buffer in draft.buffers:
        largest[buffer.family] = max(largest.get(buffer.family, 0), buffer.bytes)
    return [
        f"{family}: {largest[family] / 1024:.0f} KB a core do not fit VTCM and go to DDR"
        for family in placement.spilled
    ]


def _exchanges(draft: Draft, machine: CoreMachine) -> list[str]:
    """Activations of which more than a cache full goes from core to core."""
    sent: dict[str, int] = {}
    for step in draft.steps:
        between_cores = step.kind in (MULTICAST, SEND)
        if between_cores and draft.buffers[step.reads[0].buffer].role is not Role.CONSTANT:
            sent[step.name] = sent.get(step.name, 0) + step.out_bytes
    limit = machine.memory.l2_bytes
    return [
        f"{name}: {size / 1024:.0f} KB of it go from core to core"
        for name, size in sent.items()
        if size > limit
    ]


def _unknown_rates(draft: Draft, machine: CoreMachine) -> list[str]:
    known = machine.pcycles_per_kb
    kinds = {step.kind for step in draft.steps if step.group is Group.HVX}
    return [
        f"{kind}: nobody published its speed; {machine.rate(kind):g} cycles per KB are assumed"
        for kind in sorted(kinds)
        if kind not in known
    ]
