"""A program made ready to run: tasks by number, queues of issue, who releases whom."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import inf

from msgspec import Struct, field

from npuscope.errors import TargetError
from npuscope.families.many_core.layout import Engine, Layout
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.program import CoreOp, CoreProgram, Space, Transfer
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.text import safe_terminal

# --- Costs of an op: cycles, transfer rates, shared roads, latencies ---

_GB, _US = 1e9, 1e-6
# Roads of a device, by number.
_DDR, _NOC, _PEER, _HOST = range(4)
_ROADS = 4


class Costs(Struct, frozen=True):
    """`level` is that of the records whose storing costs time: 0 unless overhead is modelled.

    `copies` of the network run side by side on cores of their own and share the roads. All takes
    `pace` times as long as the rates of the machine say (see pace.py)."""

    machine: CoreMachine
    level: int = 0
    op_counters: bool = False
    copies: int = 1
    pace: float = 1.0

    def cycles(self, op: CoreOp) -> float:
        """Of the slowest thread; of the issue alone where bytes move."""
        records = int(self.level >= 50 and op.semaphore is not None)
        if self.level >= 70:
            records = 1 + int(self.level >= 100 and self.op_counters)
        return self.pace * self._work(op) + records * self.machine.stats.record_cycles

    def _work(self, op: CoreOp) -> float:
        machine, info = self.machine, op.info
        if op.transfer is not None:
            return machine.dma.issue_cycles
        if op.semaphore is not None or op.port_wait is not None:
            return machine.sync.semaphore_cycles
        if info.kind == "aicendcyclestats":
            return 0.0
        dtype = info.dtypes[0] if info.dtypes else "float16"
        executed = machine.pcycles(info.kind, info.out_bytes, info.macs, dtype, info.shape)
        # An op whose threads reach into DDR by themselves is held by what a core gets of it.
        seconds = (op.info.rd_bytes + op.info.wr_bytes) / self.machine.ddr_bytes_per_s()
        return max(executed, seconds * self.machine.core_hz, 1.0)

    def cap(self, op: CoreOp) -> float:
        """Bytes per tick that the engine of the transfer can do by itself."""
        machine, transfer = self.machine, op.transfer
        ends = () if transfer is None else (transfer.source, transfer.target)
        if Space.PEER in ends:
            rate = _per_tick(machine.peer.gb_per_s)
        elif Space.HOST in ends:
            rate = _per_tick(machine.host.gb_per_s)
        elif Space.DDR in ends:
            rate = machine.ddr_bytes_per_s() / UTIMER_HZ
        else:
            rate = machine.multicast_bytes_per_s() / UTIMER_HZ
        return rate / self.pace

    def resources(self, transfer: Transfer, device: int) -> tuple[int, ...]:
        """The roads that the bytes take. A multicast takes each once, however many receive it."""
        ends, first = (transfer.source, transfer.target), device // self.copies * _ROADS
        roads = {Space.DDR: _DDR, Space.PEER: _PEER, Space.HOST: _HOST}
        return (first + _NOC, *(first + road for space, road in roads.items() if space in ends))

    def capacity(self, devices: int) -> tuple[float, ...]:
        machine = self.machine
        rates = (machine.ddr.effective_gb_per_s, machine.noc.gb_per_s)
        links = (machine.peer.gb_per_s, machine.host.gb_per_s)
        return tuple(_per_tick(rate) / self.pace for rate in (*rates, *links)) * (
            devices // self.copies
        )

    def latency_ticks(self, op: CoreOp) -> float:
        """Until the first byte moves."""
        transfer, machine = op.transfer, self.machine
        ends = () if transfer is None else (transfer.source, transfer.target)
        latency = machine.noc.latency_us
        for space, part in ((Space.DDR, machine.ddr), (Space.PEER, machine.peer)):
            if space in ends:
                latency = max(latency, part.latency_us)
        return self.pace * latency * _US * UTIMER_HZ

    @property
    def steps_hz(self) -> tuple[float, ...]:
        return tuple(step * self.machine.core_hz for step in self.machine.clocks.dvfs_steps)

    @property
    def step_ticks(self) -> float:
        return self.machine.clocks.dvfs_period_us * _US * UTIMER_HZ


def _per_tick(gb_per_s: float) -> float:
    return gb_per_s * _GB / UTIMER_HZ


# --- Transfers that share DDR, network on chip and links: max-min fair rates ---

# Bytes that rounding may leave behind at the end of a transfer.
_NOTHING = 1e-3


class Flow(Struct):
    """A transfer under way. `cap` is what its own engine can do, in bytes per tick."""

    task: int
    remaining: float
    cap: float
    resources: tuple[int, ...]
    rate: float = 0.0


class Fabric:
    """Resources by number, with their rates in bytes per tick, and the flows over them."""

    def __init__(self, capacity: Sequence[float]) -> None:
        self._capacity = tuple(capacity)
        self._flows: list[Flow] = []
        self._now = 0.0

    def add(self, now: float, flow: Flow) -> None:
        self._advance(now)
        self._flows.append(flow)
        self._share()

    def next_end(self) -> float:
        """When the first flow ends if none joins; infinite where there is none."""
        return self._now + min(
            (max(flow.remaining, 0.0) / flow.rate for flow in self._flows), default=inf
        )

    def take_ended(self, now: float) -> list[Flow]:
        """The flows that have ended by now leave; the others share what they had."""
        self._advance(now)
        ended = [flow for flow in self._flows if flow.remaining <= _NOTHING]
        if ended:
            self._flows = [flow for flow in self._flows if flow.remaining > _NOTHING]
            self._share()
        return ended

    def _advance(self, now: float) -> None:
        passed = now - self._now
        for flow in self._flows:
            flow.remaining -= flow.rate * passed
        self._now = now

    def _share(self) -> None:
        """Max-min fairness: who is limited most is settled first, the rest share what is left."""
        rest, waiting = list(self._capacity), self._flows
        while waiting:
            users = [0] * len(rest)
            for flow in waiting:
                for resource in flow.resources:
                    users[resource] += 1
            fair = [rate / n if n else inf for rate, n in zip(rest, users, strict=True)]
            limits = [min(flow.cap, *(fair[r] for r in flow.resources)) for flow in waiting]
            # Flows with equal limits are settled together; rounding must not order them.
            lowest = min(limits) * (1 + 1e-9)
            unsettled = []
            for flow, limit in zip(waiting, limits, strict=True):
                if limit > lowest:
                    unsettled.append(flow)
                    continue
                flow.rate = limit
                for resource in flow.resources:
                    rest[resource] -= limit
            waiting = unsettled


END_KIND = "aicendcyclestats"
NO_CHANNEL = -1


class Queue(Struct, frozen=True):
    """What one thread group of one core issues, in order."""

    device: int
    core: int
    group: int
    engine: Engine
    threads: tuple[int, ...]
    tasks: tuple[int, ...]


class Task(Struct):
    """An op with its place in the run. `row` is the first of its records, one per thread."""

    index: int
    op: CoreOp
    device: int
    queue: int
    row: int
    rows: int
    cycles: float  # of the slowest thread; of the issue where the op is asynchronous
    bytes: int = 0  # that it moves
    channel: int = NO_CHANNEL  # the engine that moves them
    cap: float = 0.0  # bytes per tick that this engine can do
    resources: tuple[int, ...] = ()
    waits: int = 0
    releases: list[int] = field(default_factory=list)
    barrier_cycles: float = 0.0

    @property
    def asynchronous(self) -> bool:
        return self.op.info.asynchronous and self.op.transfer is not None

    @property
    def is_end(self) -> bool:
        """The pseudo-op that writes the stats buffer."""
        return self.op.info.kind == END_KIND


class PeerTransfer(Struct, frozen=True):
    """Bytes from one device to another: the task that sends and the one that receives."""

    number: int
    source: int
    target: int


class CardPlan(Struct, frozen=True):
    layout: Layout
    tasks: tuple[Task, ...]
    queues: tuple[Queue, ...]
    peers: tuple[PeerTransfer, ...]
    costs: Costs
    rows: int
    devices: int
    cores: int


def plan_of(program: CoreProgram, costs: Costs) -> CardPlan:
    """Number the ops of all devices and link who waits with who is waited for."""
    tasks: list[Task] = []
    queues = [
        _queue(tasks, number, program.layout, costs, where)
        for number, where in enumerate(_places(program, costs.copies))
    ]
    keys = {(task.device, *task.op.key): task for task in tasks}
    for task in tasks:
        for core, oc in task.op.waits_for:
            source = keys.get((task.device, core, oc))
            if source is None:
                raise TargetError(
                    f"waits for op {oc} of core {core}, which the program does not have",
                    where=_name(task),
                )
            _link(source, task)
    peers = tuple(_peer_transfers(tasks))
    for pair in peers:
        _link(tasks[pair.source], tasks[pair.target])
    for task in tasks:
        task.barrier_cycles = _barrier(task, tasks, queues, costs)
    rows = sum(task.rows for task in tasks)
    devices, cores = len(program.devices) * costs.copies, program.layout.cores
    return CardPlan(program.layout, tuple(tasks), tuple(queues), peers, costs, rows, devices, cores)


def _barrier(task: Task, tasks: list[Task], queues: list[Queue], costs: Costs) -> float:
    """Threads of a group always come together; a single one only where others wait for it.

    They end apart by a share of what the op takes; another core has to be told.
    """
    waited_for = any(tasks[other].queue != task.queue for other in task.releases)
    if task.is_end or not (task.rows > 1 or waited_for):
        return 0.0
    takes, machine = task.cycles, costs.machine
    if task.channel != NO_CHANNEL:
        takes = task.bytes / task.cap / UTIMER_HZ * machine.core_hz
    away = any(queues[tasks[other].queue].core != task.op.core for other in task.releases)
    share = machine.barrier_share(queues[task.queue].engine)
    return share * takes + costs.pace * machine.sync.hand_over_cycles * away


_Place = tuple[int, int, int, tuple[CoreOp, ...]]


def _places(program: CoreProgram, copies: int) -> Iterator[_Place]:
    """Copies of a device's part stand next to each other, each as if it were a device."""
    for device, part in enumerate(part for part in program.devices for _ in range(copies)):
        for core, groups in enumerate(part.ops):
            for group, ops in enumerate(groups):
                yield device, core, group, ops


def _queue(tasks: list[Task], number: int, layout: Layout, costs: Costs, where: _Place) -> Queue:
    device, core, group, ops = where
    threads = layout.groups[group].threads if group < len(layout.groups) else ()
    engine = next((thread.engine for thread in layout.threads if thread.group == group), None)
    if engine is None or not threads:
        raise TargetError(f"thread group {group} has no thread", where=f"core {core}")
    first = len(tasks)
    for op in ops:
        row = tasks[-1].row + tasks[-1].rows if tasks else 0
        # One thread issues an asynchronous transfer for its group; the others go on.
        rows = 1 if op.info.asynchronous and op.transfer is not None else len(threads)
        task = Task(len(tasks), op, device, number, row, rows, costs.cycles(op))
        if op.transfer is not None:
            task.bytes = op.transfer.bytes
            # Transfers to peers have an engine of their own and do not hold up local ones.
            is_remote = Space.PEER in (op.transfer.source, op.transfer.target)
            task.channel = number * 2 + int(is_remote)
            task.cap = costs.cap(op)
            task.resources = costs.resources(op.transfer, device)
        tasks.append(task)
    return Queue(device, core, group, engine, threads, tuple(range(first, len(tasks))))


def _link(source: Task, target: Task) -> None:
    source.releases.append(target.index)
    target.waits += 1


def _peer_transfers(tasks: list[Task]) -> Iterator[PeerTransfer]:
    """Senders with their receivers, by the transaction that both name, else by order."""
    arriving: dict[tuple[int, int], list[Task]] = {}
    sending: list[tuple[Task, int]] = []
    for task in tasks:
        transfer = task.op.transfer
        if transfer is not None and transfer.source is Space.PEER:
            arriving.setdefault((transfer.peer or 0, task.device), []).append(task)
        elif transfer is not None and transfer.target is Space.PEER:
            sending.append((task, transfer.peer or 0))
    for number, (sender, peer) in enumerate(sending):
        waiting = arriving.get((sender.device, peer), [])
        shared, size = transaction(sender.op), sender.bytes
        same = (task for task in waiting if transaction(task.op) == shared and task.bytes == size)
        receiver = next(same, None)
        if receiver is None:
            raise TargetError(
                f"sends to device {peer}, which has no matching receive", where=_name(sender)
            )
        waiting.remove(receiver)
        yield PeerTransfer(number if shared is None else shared, sender.index, receiver.index)
    for task in (task for waiting in arriving.values() for task in waiting):
        raise TargetError("receives what no device sends", where=_name(task))


def transaction(op: CoreOp) -> int | None:
    """The number that sender and receiver have in common, where the compiler gave one."""
    match = re.fullmatch(r"txn=(\d{1,9})", op.info.attributes)
    return int(match[1]) if match else None


def _name(task: Task) -> str:
    return f"device {task.device} core {task.op.core} op {safe_terminal(task.op.info.name)}"
