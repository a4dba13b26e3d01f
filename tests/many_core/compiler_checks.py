"""Properties that every compiled many-core program has, checked on drafts and on programs."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from npuscope.families.many_core.compiler.boxes import Box, common, elements
from npuscope.families.many_core.compiler.draft import Draft, Role
from npuscope.families.many_core.compiler.emit import find_waits
from npuscope.families.many_core.compiler.kinds import GroupNumber
from npuscope.families.many_core.compiler.vtcm import VtcmPlacement
from npuscope.families.many_core.program import CoreOp, CoreProgram, DeviceProgram, Space
from npuscope.graph.model import Graph


def check_parts(graph: Graph, draft: Draft) -> None:
    """Parts of every tensor lie apart and together are all of it."""
    for name, value in draft.values.items():
        boxes = [box for _, box, _ in value.all_pieces()]
        assert sum(map(elements, boxes)) == graph.tensors[name].elements, name
        assert not any(common(a, b) for a, b in combinations(boxes, 2)), name


def check_received(draft: Draft) -> None:
    """What is loaded or received fills its buffer to the byte."""
    written: Counter[int] = Counter()
    for step in draft.steps:
        for access in step.writes:
            written[access.buffer] += access.bytes
    for buffer in draft.buffers:
        if buffer.role in (Role.RECEIVED, Role.CONSTANT, Role.INPUT):
            assert written[buffer.id] == buffer.bytes, buffer


def check_places(draft: Draft, placement: VtcmPlacement, size: int) -> None:
    """Buffers that share bytes of VTCM are never in use at the same time, in any timing."""
    before = _happens_before(draft, placement)
    users: dict[int, list[int]] = {}
    for number in placement.order:
        step = draft.steps[number]
        for buffer in {access.buffer for access in (*step.reads, *step.writes)}:
            users.setdefault(buffer, []).append(number)
    places: dict[int, list[tuple[int, int, int]]] = {}
    for buffer, offset in placement.offsets.items():
        owner = draft.buffers[buffer]
        assert offset + owner.bytes <= size
        places.setdefault(owner.core, []).append((offset, offset + max(owner.bytes, 1), buffer))
    for owners in places.values():
        for (low, high, a), (start, stop, b) in combinations(owners, 2):
            if low < stop and start < high:
                assert _apart(users[a], users[b], before), (draft.buffers[a], draft.buffers[b])


def check_reads(draft: Draft, placement: VtcmPlacement) -> None:
    """Who reads a buffer starts when all have ended that wrote it before."""
    before = _happens_before(draft, placement)
    writers: dict[int, list[int]] = {}
    for number in placement.order:
        step = draft.steps[number]
        for access in step.reads:
            for writer in writers.get(access.buffer, ()):
                assert before[number] >> writer & 1, (step, draft.steps[writer])
        for access in step.writes:
            writers.setdefault(access.buffer, []).append(number)


def _apart(first: list[int], second: list[int], before: dict[int, int]) -> bool:
    """All steps of one have ended before any of the other starts."""

    def ended(early: list[int], late: list[int]) -> bool:
        return all(before[b] >> a & 1 for a in early for b in late)

    return ended(first, second) or ended(second, first)


def _happens_before(draft: Draft, placement: VtcmPlacement) -> dict[int, int]:
    """By step a mask of those that have ended when it starts, from waits and order of issue."""
    waits = find_waits(draft, placement)
    sent = {
        step.sends_to.transaction: number
        for number, step in enumerate(draft.steps)
        if step.sends_to is not None
    }
    found: dict[int, int] = {}
    last: dict[tuple[int, GroupNumber], int] = {}
    for number in placement.order:
        step = draft.steps[number]
        mask = 0
        ended = [wait.step for wait in waits[number]]
        if step.receives_from is not None:
            ended.append(sent[step.receives_from.transaction])
        for other in ended:
            mask |= found[other] | 1 << other
        previous = last.get((step.core, step.group))
        if previous is not None:
            # A transfer in line has been issued, not ended.
            mask |= found[previous] | (step.group is not GroupNumber.DMA) << previous
        found[number] = mask
        last[step.core, step.group] = number
    return found


def check_program(graph: Graph, program: CoreProgram) -> None:
    check_covered(graph, program)
    check_acyclic(program)
    for part in program.devices:
        check_numbers(part)
        check_multicast(part)
        check_ends(part)


def check_covered(graph: Graph, program: CoreProgram) -> None:
    """Every op of the network is told by some op of some core."""
    told = {name for part in program.devices for op in part.all_ops() for name in op.info.origin}
    for op in graph.ops:
        missing = set(op.origin) - told
        assert not missing, missing


def check_numbers(part: DeviceProgram) -> None:
    """Numbers of a core's ops are 0, 1, 2 ... and rise in every group."""
    for groups in part.ops:
        numbers = sorted(op.info.oc for group in groups for op in group)
        assert numbers == list(range(len(numbers)))
        for group in groups:
            assert [op.info.oc for op in group] == sorted(op.info.oc for op in group)


def check_multicast(part: DeviceProgram) -> None:
    for op in part.all_ops():
        transfer = op.transfer
        if transfer is None or transfer.multicast is None:
            assert op.info.kind != "aicmulticastvtcm"
            continue
        entry = part.multicast[transfer.multicast]
        assert entry.receivers == transfer.receivers and transfer.bytes <= entry.bytes
        assert 0 < transfer.receivers < 1 << len(part.ops)
        if transfer.source is not Space.PEER:
            assert not transfer.receivers >> op.core & 1, "a core sends to itself"


def check_ends(part: DeviceProgram) -> None:
    for groups in part.ops:
        assert all(group[-1].info.kind == "aicendcyclestats" for group in groups)
        assert sum(op.info.kind == "aicendcyclestats" for group in groups for op in group) == 3


def check_acyclic(program: CoreProgram) -> None:
    """Waits, order of issue and transfers between devices leave somebody who can go on."""
    queues = {
        (device, core, group): list(ops)
        for device, part in enumerate(program.devices)
        for core, groups in enumerate(part.ops)
        for group, ops in enumerate(groups)
    }
    done: set[tuple[int, int, int]] = set()
    sent: set[str] = set()
    moved = True
    while moved:
        moved = False
        for (device, _, _), ops in queues.items():
            while ops and _ready(ops[0], device, done, sent):
                op = ops.pop(0)
                done.add((device, *op.key))
                if op.transfer is not None and op.transfer.target is Space.PEER:
                    sent.add(op.info.attributes)
                moved = True
    stuck = [ops[0].info for ops in queues.values() if ops]
    assert not stuck, stuck[:3]


def _ready(op: CoreOp, device: int, done: set[tuple[int, int, int]], sent: set[str]) -> bool:
    arrives = op.transfer is not None and op.transfer.source is Space.PEER
    if arrives and op.info.attributes not in sent:
        return False
    return all((device, *key) in done for key in op.waits_for)


def boxes_of(draft: Draft, name: str) -> list[Box]:
    return [box for _, box, _ in draft.values[name].all_pieces()]
