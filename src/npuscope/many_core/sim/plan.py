"""A program made ready to run: tasks by number, queues of issue, who releases whom."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from npuscope.errors import TargetError
from npuscope.many_core.layout import Engine, Layout
from npuscope.many_core.program import CoreOp, CoreProgram, Space
from npuscope.many_core.sim.costs import Costs
from npuscope.text import safe_terminal

END_KIND = "aicendcyclestats"
NO_CHANNEL = -1


@dataclass(frozen=True, slots=True)
class Queue:
    """What one thread group of one core issues, in order."""

    device: int
    core: int
    group: int
    engine: Engine
    threads: tuple[int, ...]
    tasks: tuple[int, ...]


@dataclass(slots=True)
class Task:
    """An op with its place in the run. `row` is the first of its records, one a thread."""

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

    @property
    def asynchronous(self) -> bool:
        return self.op.info.asynchronous and self.op.transfer is not None

    @property
    def is_end(self) -> bool:
        """The pseudo-op that writes the stats buffer."""
        return self.op.info.kind == END_KIND


@dataclass(frozen=True, slots=True)
class PeerTransfer:
    """Bytes from one device to another: the task that sends and the one that receives."""

    number: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Plan:
    layout: Layout
    tasks: tuple[Task, ...]
    queues: tuple[Queue, ...]
    peers: tuple[PeerTransfer, ...]
    costs: Costs
    rows: int
    devices: int
    cores: int


def plan_of(program: CoreProgram, costs: Costs) -> Plan:
    """Number the ops of all devices and link who waits with who is waited for."""
    tasks: list[Task] = []
    queues = [
        _queue(tasks, number, program.layout, costs, where)
        for number, where in enumerate(_places(program))
    ]
    keys = {(task.device, *task.op.key): task for task in tasks}
    for task in tasks:
        _link_waits(task, keys)
    peers = tuple(_peer_transfers(tasks))
    for pair in peers:
        _link(tasks[pair.source], tasks[pair.target])
    rows = sum(task.rows for task in tasks)
    devices, cores = len(program.devices), program.layout.cores
    return Plan(program.layout, tuple(tasks), tuple(queues), peers, costs, rows, devices, cores)


_Place = tuple[int, int, int, tuple[CoreOp, ...]]


def _places(program: CoreProgram) -> Iterator[_Place]:
    for device, part in enumerate(program.devices):
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
        tasks.append(_task(tasks, op, device, number, len(threads), costs))
    return Queue(device, core, group, engine, threads, tuple(range(first, len(tasks))))


def _task(
    tasks: list[Task],
    op: CoreOp,
    device: int,
    queue: int,
    threads: int,
    costs: Costs,
) -> Task:
    row = tasks[-1].row + tasks[-1].rows if tasks else 0
    # One thread issues an asynchronous transfer for its group; the others go on.
    rows = 1 if op.info.asynchronous and op.transfer is not None else threads
    task = Task(len(tasks), op, device, queue, row, rows, costs.cycles(op))
    if op.transfer is not None:
        task.bytes = op.transfer.bytes
        task.channel = queue * 2 + int(_is_remote(op))
        task.cap = costs.cap(op)
        task.resources = costs.resources(op.transfer, device)
    return task


def _is_remote(op: CoreOp) -> bool:
    """Transfers to peers have an engine of their own, so that they do not hold up local ones."""
    return op.transfer is not None and Space.PEER in (op.transfer.source, op.transfer.target)


def _link_waits(task: Task, keys: dict[tuple[int, int, int], Task]) -> None:
    for core, oc in task.op.waits_for:
        source = keys.get((task.device, core, oc))
        if source is None:
            raise TargetError(
                f"waits for op {oc} of core {core}, which the program does not have",
                where=_name(task),
            )
        _link(source, task)


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
        receiver = _matching(sender, waiting)
        if receiver is None:
            raise TargetError(
                f"sends to device {peer}, which does not receive it", where=_name(sender)
            )
        waiting.remove(receiver)
        given = transaction(sender.op)
        yield PeerTransfer(number if given is None else given, sender.index, receiver.index)
    for task in (task for waiting in arriving.values() for task in waiting):
        raise TargetError("receives what no device sends", where=_name(task))


def _matching(sender: Task, waiting: list[Task]) -> Task | None:
    wanted, size = transaction(sender.op), sender.bytes
    same = (task for task in waiting if transaction(task.op) == wanted and task.bytes == size)
    return next(same, None)


def transaction(op: CoreOp) -> int | None:
    """The number that sender and receiver have in common, where the compiler gave one."""
    found = re.fullmatch(r"txn=(\d{1,9})", op.info.attributes)
    return int(found[1]) if found else None


def _name(task: Task) -> str:
    return f"device {task.device} core {task.op.core} op {safe_terminal(task.op.info.name)}"
