"""Steps in order, places and waits as ops of the devices."""

from __future__ import annotations

from collections import Counter

from npuscope.manycore.compiler.boxes import shape_of
from npuscope.manycore.compiler.draft import Access, Buffer, Draft, Role, Step
from npuscope.manycore.compiler.kinds import Group
from npuscope.manycore.compiler.transfers import Transfers
from npuscope.manycore.compiler.vtcm import Placement
from npuscope.manycore.compiler.waits import find_waits
from npuscope.manycore.layout import CoreOpInfo, Dependency, MemorySpace
from npuscope.manycore.machine import CoreMachine
from npuscope.manycore.program import CoreOp, DevicePart, Space, Transfer

_SHOWN_TARGETS = 2  # of a multicast, in the list of operands


class Emitter:
    """Ops of all devices, and the dependencies between them."""

    def __init__(self, draft: Draft, placement: Placement, machine: CoreMachine) -> None:
        self.draft, self.placement, self.machine = draft, placement, machine
        self.waits = find_waits(draft, placement)
        self.numbers = self._number()
        self.transfers = [Transfers(draft, placement) for _ in range(draft.devices)]
        self._names: Counter[tuple[int, str]] = Counter()

    def devices(self) -> list[DevicePart]:
        ops: list[list[list[list[CoreOp]]]] = [
            [[[] for _ in Group] for _ in range(self.draft.cores)]
            for _ in range(self.draft.devices)
        ]
        for number in self.placement.order:
            step = self.draft.steps[number]
            device, core = self.draft.device(step.core), self.draft.local(step.core)
            ops[device][core][step.group].append(self._op(number, step))
        return [self._part(device, cores) for device, cores in enumerate(ops)]

    def dependencies(self) -> list[tuple[Dependency, ...]]:
        """By device, in the order of the ops that wait."""
        found: list[list[Dependency]] = [[] for _ in range(self.draft.devices)]
        for number in self.placement.order:
            target = self.numbers[number]
            device = self.draft.device(self.draft.steps[number].core)
            for wait in self.waits[number]:
                found[device].append(Dependency(self.numbers[wait.step], target, wait.data))
        return [tuple(edges) for edges in found]

    def _number(self) -> dict[int, tuple[int, int]]:
        """By step (core of its device, oc): ops of a core are counted through its groups."""
        count: Counter[int] = Counter()
        found: dict[int, tuple[int, int]] = {}
        for number in self.placement.order:
            core = self.draft.steps[number].core
            found[number] = (self.draft.local(core), count[core])
            count[core] += 1
        return found

    def _part(self, device: int, cores: list[list[list[CoreOp]]]) -> DevicePart:
        ops = tuple(tuple(tuple(group) for group in groups) for groups in cores)
        first = device * self.draft.cores
        most = self.placement.most_bytes
        vtcm = tuple(most.get(first + core, 0) for core in range(self.draft.cores))
        return DevicePart("", ops, self.transfers[device].entries, vtcm)

    def _op(self, number: int, step: Step) -> CoreOp:
        core, oc = self.numbers[number]
        kind, transfer = step.kind, None
        if step.group is Group.DMA and step.semaphore is None:
            kind, transfer = self.transfers[self.draft.device(step.core)].of(step)
        waits = tuple(self.numbers[wait.step] for wait in self.waits[number])
        offset = self.placement.offsets.get(step.writes[0].buffer) if step.writes else None
        info = self._info(oc, kind, step, transfer)
        return CoreOp(
            info, core, step.group, waits, transfer, step.semaphore, step.port_wait, offset
        )

    def _info(self, oc: int, kind: str, step: Step, transfer: Transfer | None) -> CoreOpInfo:
        read, written = self._ddr_bytes(step, transfer)
        return CoreOpInfo(
            oc,
            self._name(step),
            kind,
            self._memory(step),
            step.dtypes,
            step.shape,
            step.out_bytes,
            step.macs,
            read,
            written,
            _attributes(step),
            self._operands(step),
            transfer is not None,
            step.origin,
        )

    def _name(self, step: Step) -> str:
        """With an ordinal, as one op of the network is several of a core."""
        key = (step.core, step.name)
        self._names[key] += 1
        return f"{step.name}/__{self._names[key] - 1}"

    def _memory(self, step: Step) -> MemorySpace:
        if not step.writes:
            return MemorySpace.DDR
        return self._where(self.draft.buffers[step.writes[0].buffer])

    def _where(self, buffer: Buffer) -> MemorySpace:
        """A spilled part that fits the cache goes through it."""
        if buffer.id in self.placement.offsets:
            return MemorySpace.TCM
        memory = self.machine.memory
        cached = buffer.bytes <= memory.l2_bytes - memory.l2tcm_bytes
        fits = cached and buffer.role is not Role.IN_DDR
        return MemorySpace.CACHED if fits else MemorySpace.DDR

    def _ddr_bytes(self, step: Step, transfer: Transfer | None) -> tuple[int, int]:
        if transfer is not None:
            read = transfer.bytes if transfer.source is Space.DDR else 0
            return read, transfer.bytes if transfer.target is Space.DDR else 0
        return self._outside(step.reads), self._outside(step.writes)

    def _outside(self, accesses: tuple[Access, ...]) -> int:
        offsets = self.placement.offsets
        return sum(access.bytes for access in accesses if access.buffer not in offsets)

    def _operands(self, step: Step) -> tuple[str, ...]:
        both = {access.buffer for access in step.reads} & {a.buffer for a in step.writes}
        reads = [a for a in step.reads if a.buffer not in both]
        said = [self._operand("in", access) for access in reads]
        for access in step.writes[:_SHOWN_TARGETS]:
            said.append(self._operand("inout" if access.buffer in both else "out", access))
        return tuple(said)

    def _operand(self, way: str, access: Access) -> str:
        buffer = self.draft.buffers[access.buffer]
        shape = "x".join(map(str, shape_of(buffer.box))) or "1"
        where = self._where(buffer).value
        size = f"{access.bytes / 1024:.2f}KB"
        return f"{way} {where} {buffer.role.value} {buffer.tensor} {buffer.dtype} {shape} {size}"


def _attributes(step: Step) -> str:
    peer = step.sends_to or step.receives_from
    return f"txn={peer.transaction}" if peer is not None else step.attributes
