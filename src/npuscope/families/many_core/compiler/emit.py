"""Steps in order, places and waits as ops of the devices."""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.compiler.boxes import shape_of
from npuscope.families.many_core.compiler.draft import (
    BufferAccess,
    CoreStep,
    Draft,
    DraftBuffer,
    Role,
    arriving,
    leaving,
)
from npuscope.families.many_core.compiler.kinds import (
    COPY_DDR,
    COPY_IN,
    COPY_OUT,
    MULTICAST,
    GroupNumber,
    shown_types,
)
from npuscope.families.many_core.compiler.simplify import Prepared
from npuscope.families.many_core.compiler.vtcm import VtcmPlacement
from npuscope.families.many_core.layout import HELD, CoreOpInfo, Dependency, MemorySpace
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.program import (
    Code,
    CoreOp,
    DeviceProgram,
    Held,
    MulticastEntry,
    Space,
    StepWork,
    Transfer,
)

# --- Transfers of DMA steps, once VTCM is planned ---


class DeviceTransfers:
    """Transfers of one device, and the multicast table that they fill."""

    def __init__(self, draft: Draft, placement: VtcmPlacement) -> None:
        self.draft, self.placement = draft, placement
        self._entries: dict[int, int] = {}  # mask -> most bytes

    def of(self, step: CoreStep) -> tuple[str, Transfer]:
        """The kind of op that the step has become, and what it moves."""
        home, devices = self.draft.device(step.core), self.draft.devices
        source, target = self._space(step.reads), self._space(step.writes)
        if step.sends_to is not None:
            peer = step.sends_to.device
            port = leaving(devices, home, peer)
            return step.kind, Transfer(step.out_bytes, source, Space.PEER, port=port, peer=peer)
        if step.receives_from is not None:
            peer = step.receives_from.device
            port = arriving(devices, peer, home)
            arrival = Transfer(step.out_bytes, Space.PEER, target, port=port, peer=peer)
            return step.kind, self._spread(arrival, step) if target is Space.VTCM else arrival
        transfer = Transfer(step.out_bytes, source, target)
        if target is not Space.VTCM:
            return COPY_OUT if source is Space.VTCM else COPY_DDR, transfer
        if step.kind == MULTICAST:
            return MULTICAST, self._spread(transfer, step)
        return COPY_IN, transfer

    @property
    def entries(self) -> tuple[MulticastEntry, ...]:
        return tuple(MulticastEntry(mask, size) for mask, size in self._entries.items())

    def _spread(self, transfer: Transfer, step: CoreStep) -> Transfer:
        """To all cores whose buffers are written."""
        buffers = self.draft.buffers
        mask = 0
        for access in step.writes:
            mask |= 1 << self.draft.local(buffers[access.buffer].core)
        self._entries[mask] = max(self._entries.get(mask, 0), transfer.bytes)
        entry = list(self._entries).index(mask)
        return Transfer(
            transfer.bytes,
            transfer.source,
            transfer.target,
            mask,
            entry,
            transfer.port,
            transfer.peer,
        )

    def _space(self, accesses: tuple[BufferAccess, ...]) -> Space:
        """Buffers of one tensor are spilled together, so that the first speaks for all."""
        inside = bool(accesses) and accesses[0].buffer in self.placement.offsets
        return Space.VTCM if inside else Space.DDR


# --- Waits: for values, and for memory that was used before ---


class Wait(Struct, frozen=True):
    """A wait for a step; `data`: values flow."""

    step: int
    data: bool


def find_waits(draft: Draft, placement: VtcmPlacement) -> dict[int, tuple[Wait, ...]]:
    """By step. Groups issue in order, so what an earlier op has waited for is not named again."""
    return _Finder(draft, placement).run()


class _Finder:
    def __init__(self, draft: Draft, placement: VtcmPlacement) -> None:
        self.draft, self.placement = draft, placement
        self.position = {step: i for i, step in enumerate(placement.order)}
        self.writers: dict[int, list[int]] = {}  # buffer -> steps so far
        self.users: dict[int, list[int]] = {}
        self.waited: dict[tuple[int, GroupNumber], set[int]] = {}

    def run(self) -> dict[int, tuple[Wait, ...]]:
        waits: dict[int, tuple[Wait, ...]] = {}
        for number in self.placement.order:
            step = self.draft.steps[number]
            data = {w for access in step.reads for w in self.writers.get(access.buffer, ())}
            data |= set(step.after)
            places = {
                user
                for access in step.writes
                for old in self.placement.replaces.get(access.buffer, ())
                for user in self.users.get(old, ())
            }
            queue = (step.core, step.group)
            waited = self.waited.setdefault(queue, set())
            # A wait for data covers the wait for its place.
            schedule = {w for w in places - data if not self._in_line(w, queue)}
            rows = [Wait(w, True) for w in self._latest(data) if w not in waited]
            rows += [Wait(w, False) for w in self._latest(schedule) if w not in waited]
            waited.update(data, schedule)
            waits[number] = tuple(rows)
            for access in step.writes:
                self.writers.setdefault(access.buffer, []).append(number)
            for buffer in {access.buffer for access in (*step.reads, *step.writes)}:
                self.users.setdefault(buffer, []).append(number)
        return waits

    def _in_line(self, number: int, queue: tuple[int, GroupNumber]) -> bool:
        """An op of the same group, which ends before the next one is issued."""
        step = self.draft.steps[number]
        return (step.core, step.group) == queue and step.group is not GroupNumber.DMA

    def _latest(self, steps: set[int]) -> list[int]:
        """Of ops that one group runs one after the other only the last; transfers overlap."""
        last: dict[tuple[int, GroupNumber], int] = {}
        latest: list[int] = []
        for number in sorted(steps, key=self.position.__getitem__):
            step = self.draft.steps[number]
            if step.group is GroupNumber.DMA:
                latest.append(number)
            else:
                last[step.core, step.group] = number
        return sorted([*latest, *last.values()], key=self.position.__getitem__)


_SHOWN_TARGETS = 2  # of a multicast, in the list of operands


class Emitter:
    """Ops of all devices, and the dependencies between them."""

    def __init__(self, draft: Draft, placement: VtcmPlacement, machine: CoreMachine) -> None:
        self.draft, self.placement, self.machine = draft, placement, machine
        self.waits = find_waits(draft, placement)
        # By step (core of its device, oc): ops of a core are counted through its groups.
        self.numbers: dict[int, tuple[int, int]] = {}
        count: Counter[int] = Counter()
        for number in placement.order:
            core = draft.steps[number].core
            self.numbers[number] = (draft.local(core), count[core])
            count[core] += 1
        self.transfers = [DeviceTransfers(draft, placement) for _ in range(draft.devices)]
        self._names: Counter[tuple[int, str]] = Counter()

    def devices(self) -> list[DeviceProgram]:
        ops: list[list[list[list[CoreOp]]]] = [
            [[[] for _ in GroupNumber] for _ in range(self.draft.cores)]
            for _ in range(self.draft.devices)
        ]
        for number in self.placement.order:
            step = self.draft.steps[number]
            device, core = self.draft.device(step.core), self.draft.local(step.core)
            ops[device][core][step.group].append(self._op(number, step))
        parts = []
        for device, cores in enumerate(ops):
            rows = tuple(tuple(tuple(group) for group in groups) for groups in cores)
            first, most = device * self.draft.cores, self.placement.most_bytes
            vtcm = tuple(most.get(first + core, 0) for core in range(self.draft.cores))
            parts.append(DeviceProgram("", rows, self.transfers[device].entries, vtcm))
        return parts

    def code(self, ready: Prepared) -> Code:
        """What the ops compute, by their numbers."""
        buffers = tuple(
            Held(b.core, b.tensor, b.box, b.dtype, self.placement.offsets.get(b.id))
            for b in self.draft.buffers
        )
        work: dict[tuple[int, int, int], StepWork] = {}
        for number, key in self.numbers.items():
            step = self.draft.steps[number]
            if step.makes is None:
                continue
            op = step.makes.op
            targets = [access.buffer for access in step.writes]
            drafts = self.draft.buffers
            reads = [
                (a.buffer, *(a.view or (drafts[a.buffer].tensor, drafts[a.buffer].box)))
                for a in step.reads
                if a.buffer not in targets
            ]
            work[self.draft.device(step.core), *key] = StepWork(
                step.name if op is None else ready.graph.ops[op].outputs[0],
                step.makes,
                tuple(reads),
                tuple(targets),
                step.sends_to.transaction if step.sends_to else None,
                step.receives_from.transaction if step.receives_from else None,
            )
        size = self.machine.memory.vtcm_bytes
        return Code(ready.graph, ready.ends, ready.tensors, buffers, work, size)

    def dependencies(self) -> list[tuple[Dependency, ...]]:
        """By device, in the order of the ops that wait."""
        by_device: list[list[Dependency]] = [[] for _ in range(self.draft.devices)]
        for number in self.placement.order:
            target = self.numbers[number]
            device = self.draft.device(self.draft.steps[number].core)
            for wait in self.waits[number]:
                by_device[device].append(Dependency(self.numbers[wait.step], target, wait.data))
        return [tuple(edges) for edges in by_device]

    def held(self) -> list[np.ndarray]:
        """By device, who uses which place in VTCM."""
        by_device: list[list[tuple[int, ...]]] = [[] for _ in range(self.draft.devices)]
        for number, (core, oc) in self.numbers.items():
            step = self.draft.steps[number]
            device = self.draft.device(step.core)
            used = dict.fromkeys(access.buffer for access in (*step.writes, *step.reads))
            for buffer in (self.draft.buffers[b] for b in used if b in self.placement.offsets):
                local, offset = self.draft.local(buffer.core), self.placement.offsets[buffer.id]
                constant = buffer.role is Role.CONSTANT
                row = (device, local, core, constant, buffer.id, oc, offset, buffer.bytes)
                by_device[device].append(row)
        return [np.array(rows, HELD) for rows in by_device]

    def _op(self, number: int, step: CoreStep) -> CoreOp:
        core, oc = self.numbers[number]
        kind, transfer = step.kind, None
        if step.group is GroupNumber.DMA and step.semaphore is None:
            kind, transfer = self.transfers[self.draft.device(step.core)].of(step)
        waits = tuple(self.numbers[wait.step] for wait in self.waits[number])
        offset = self.placement.offsets.get(step.writes[0].buffer) if step.writes else None
        info = self._info(oc, kind, step, transfer)
        return CoreOp(
            info, core, step.group, waits, transfer, step.semaphore, step.port_wait, offset
        )

    def _info(self, oc: int, kind: str, step: CoreStep, transfer: Transfer | None) -> CoreOpInfo:
        if transfer is not None:
            from_ddr = transfer.bytes if transfer.source is Space.DDR else 0
            to_ddr = transfer.bytes if transfer.target is Space.DDR else 0
        else:
            from_ddr, to_ddr = self._outside(step.reads), self._outside(step.writes)
        memory = MemorySpace.DDR
        if step.writes and not (from_ddr and transfer):
            memory = self._where(self.draft.buffers[step.writes[0].buffer])
        peer = step.sends_to or step.receives_from
        # With an ordinal, as one op of the network is several of a core.
        ordinal = self._names[step.core, step.name]
        self._names[step.core, step.name] += 1
        return CoreOpInfo(
            oc,
            f"{step.name}/__{ordinal}",
            kind,
            memory,
            () if transfer is not None else shown_types(kind, step.dtypes),
            step.shape,
            step.out_bytes,
            step.macs,
            from_ddr,
            to_ddr,
            f"txn={peer.transaction}" if peer is not None else step.attributes,
            self._operands(step),
            transfer is not None,
            step.origin,
        )

    def _where(self, buffer: DraftBuffer) -> MemorySpace:
        """A spilled part that fits the cache goes through it."""
        if buffer.id in self.placement.offsets:
            return MemorySpace.TCM
        memory = self.machine.memory
        cached = buffer.bytes <= memory.l2_bytes - memory.l2tcm_bytes
        fits = cached and buffer.role is not Role.IN_DDR
        return MemorySpace.CACHED if fits else MemorySpace.DDR

    def _outside(self, accesses: tuple[BufferAccess, ...]) -> int:
        offsets = self.placement.offsets
        return sum(access.bytes for access in accesses if access.buffer not in offsets)

    def _operands(self, step: CoreStep) -> tuple[str, ...]:
        both = {access.buffer for access in step.reads} & {a.buffer for a in step.writes}
        reads = [a for a in step.reads if a.buffer not in both]
        said = [self._operand("in", access) for access in reads]
        for access in step.writes[:_SHOWN_TARGETS]:
            said.append(self._operand("inout" if access.buffer in both else "out", access))
        return tuple(said)

    def _operand(self, way: str, access: BufferAccess) -> str:
        buffer = self.draft.buffers[access.buffer]
        shape = "x".join(map(str, shape_of(buffer.box))) or "1"
        where = self._where(buffer).value
        size = f"{access.bytes / 1024:.2f}KB"
        return f"{way} {where} {buffer.role.value} {buffer.tensor} {buffer.dtype} {shape} {size}"
