"""One inference in discrete events: issue, wait, execute, come together, transfers beside."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf

from msgspec import Struct, field

from npuscope.errors import InternalError, TargetError
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.families.many_core.sim.conditions import Conditions
from npuscope.families.many_core.sim.plan import NO_CHANNEL, CardPlan, Fabric, Flow, Task
from npuscope.text import safe_terminal

# Ten minutes: a longer inference means a wrong figure, and simulating it would never end.
_LATEST_TICKS = 600 * UTIMER_HZ
_ISSUE, _DONE, _HAND_OVER, _BEGIN_FLOW, _FLOWS = range(5)


class Timeline(Struct):
    """When everything happened, in ticks from the begin of the inference."""

    sync: list[float]  # by record
    start: list[float]
    end: list[float]
    barrier: list[float]
    cycles: list[float]
    issued: list[float]  # by task, where it moves bytes
    done: list[float]  # by task
    port_waits: dict[tuple[int, int, int, int], list[float]] = field(default_factory=dict)
    port_asked: dict[int, float] = field(default_factory=dict)  # when first, by port

    @classmethod
    def of(cls, plan: CardPlan) -> Timeline:
        rows, tasks = plan.rows, len(plan.tasks)
        sync, start, end, barrier, cycles = ([0.0] * rows for _ in range(5))
        return cls(sync, start, end, barrier, cycles, [0.0] * tasks, [0.0] * tasks)


def run_inference(plan: CardPlan, conditions: Conditions) -> Timeline:
    """All devices of the program, once."""
    return _Run(plan, conditions).run()


class _Run:
    def __init__(self, plan: CardPlan, conditions: Conditions) -> None:
        self._plan, self._conditions = plan, conditions
        self._tasks = plan.tasks
        self._line = Timeline.of(plan)
        self._heap: list[tuple[float, int, int, int]] = []
        self._sequence = 0
        self._waits = [task.waits for task in plan.tasks]
        self._position = [0] * len(plan.queues)
        self._busy = [False] * len(plan.queues)
        skews = [float(conditions.skew[queue.device][queue.core]) for queue in plan.queues]
        self._free = [
            [skew] * len(queue.threads) for skew, queue in zip(skews, plan.queues, strict=True)
        ]
        self._moving = [False] * (2 * len(plan.queues))
        self._asked: set[int] = set()
        self._fabric = Fabric(plan.costs.capacity(plan.devices))
        self._version = 0
        self._left = len(plan.tasks)
        for queue, skew in enumerate(skews):
            self._push(skew, _ISSUE, queue)

    def run(self) -> Timeline:
        while self._heap:
            now, _, what, item = heappop(self._heap)
            if what == _DONE:
                self._leave(self._tasks[item], now)
            elif what == _ISSUE:
                self._issue(item, now)
            elif what == _HAND_OVER:
                self._hand_over(self._tasks[item], now)
            elif what == _BEGIN_FLOW:
                task = self._tasks[item]
                self._fabric.add(now, Flow(task.index, float(task.bytes), task.cap, task.resources))
                self._expect_flows()
            elif item == self._version:
                for flow in self._fabric.take_ended(now):
                    self._arrived(self._tasks[flow.task], now)
                self._expect_flows()
        if self._left:
            raise self._stuck()
        return self._line

    def _push(self, when: float, what: int, item: int) -> None:
        if when > _LATEST_TICKS:
            raise TargetError(
                f"one inference takes more than {_LATEST_TICKS / UTIMER_HZ:,.0f} s of the "
                "machine's time",
                where="machine",
                hint="a size in the program or a rate of the machine is far out of range",
            )
        self._sequence += 1
        # The sequence breaks ties: events of one moment run in the order in which they were pushed.
        heappush(self._heap, (when, self._sequence, what, item))

    def _issue(self, queue: int, now: float) -> None:
        """Start the next op of a queue unless something holds it; who frees it asks again."""
        tasks = self._plan.queues[queue].tasks
        if self._busy[queue] or self._position[queue] == len(tasks):
            return
        task = self._tasks[tasks[self._position[queue]]]
        if self._waits[task.index]:
            return
        if task.op.port_wait is not None and self._hears_later(task, task.op.port_wait, now):
            return
        # An engine does one transfer at a time; its end issues this queue again.
        if task.channel != NO_CHANNEL and self._moving[task.channel]:
            return
        self._busy[queue] = True
        if task.channel == NO_CHANNEL or task.asynchronous:
            self._execute(task, now)
        else:
            # A transfer that its threads wait for.
            line, free = self._line, self._free[task.queue]
            for nth in range(task.rows):
                line.sync[task.row + nth], line.start[task.row + nth] = free[nth], now
            self._hand_over(task, now)

    def _hears_later(self, task: Task, port: int, now: float) -> bool:
        """Whether the doorbell is still to ring; then the queue is asked again at that time."""
        ring = self._conditions.rings.get(port, 0)
        # A wait is recorded once, however often the queue is tried before the doorbell rings.
        if task.index not in self._asked:
            self._asked.add(task.index)
            self._line.port_asked.setdefault(port, now)
            queue = self._plan.queues[task.queue]
            key = (task.device, task.op.core, queue.threads[0], port)
            waited = self._line.port_waits.setdefault(key, [0, 0.0])
            waited[0] += 1
            waited[1] += max(ring - now, 0.0)
            if ring > now:
                self._push(ring, _ISSUE, task.queue)
        return ring > now

    def _execute(self, task: Task, now: float) -> None:
        line, conditions, free = self._line, self._conditions, self._free[task.queue]
        clock = conditions.clocks[task.device]
        if task.is_end:
            end = now + conditions.end_ticks[task.index]
            cycles = task.cycles + (clock.cycles_at(end) - clock.cycles_at(now))
        else:
            cycles = task.cycles * conditions.work[task.index]
        last = now
        for nth in range(task.rows):
            row = task.row + nth
            own = cycles * conditions.share[row]
            end = clock.after(now, own)
            line.sync[row], line.start[row], line.end[row] = free[nth], now, end
            line.cycles[row] = own
            last = max(last, end)
        if task.asynchronous:
            # The transfer begins at once; its thread stays until all that wait for it are told.
            self._moving[task.channel] = True
            self._push(last, _HAND_OVER, task.index)
        last = clock.after(last, task.barrier_cycles)
        for nth in range(task.rows):
            line.barrier[task.row + nth] = last
            free[nth] = last
        self._push(last, _DONE, task.index)

    def _leave(self, task: Task, now: float) -> None:
        """The op's threads are free for the next one."""
        self._busy[task.queue] = False
        self._position[task.queue] += 1
        if not task.asynchronous:
            self._complete(task, now)
        self._issue(task.queue, now)

    def _hand_over(self, task: Task, now: float) -> None:
        self._moving[task.channel] = True
        self._line.issued[task.index] = now
        self._push(now + self._plan.costs.latency_ticks(task.op), _BEGIN_FLOW, task.index)

    def _expect_flows(self) -> None:
        """Every change of the flows changes who ends next; older expectations are void."""
        self._version += 1
        when = self._fabric.next_end()
        if when < inf:
            self._push(when, _FLOWS, self._version)

    def _arrived(self, task: Task, now: float) -> None:
        self._moving[task.channel] = False
        if task.asynchronous:
            self._complete(task, now)
            self._issue(task.queue, now)
            return
        line, clock = self._line, self._conditions.clocks[task.device]
        for nth in range(task.rows):
            row = task.row + nth
            line.end[row] = line.barrier[row] = self._free[task.queue][nth] = now
            # The clock may change its frequency during a transfer, so cycles are counted, not
            # multiplied.
            line.cycles[row] = clock.cycles_at(now) - clock.cycles_at(line.start[row])
        self._leave(task, now)

    def _complete(self, task: Task, now: float) -> None:
        self._line.done[task.index] = now
        self._left -= 1
        for index in task.releases:
            self._waits[index] -= 1
            if not self._waits[index]:
                self._issue(self._tasks[index].queue, now)

    def _stuck(self) -> TargetError:
        for queue, position in zip(self._plan.queues, self._position, strict=True):
            if position < len(queue.tasks):
                info = self._tasks[queue.tasks[position]].op.info
                return TargetError(
                    f"op {safe_terminal(info.name)} waits forever",
                    where=f"device {queue.device} core {queue.core}",
                    hint="it waits for an op that comes after it: the program is not in order",
                )
        raise InternalError("transfers are under way that never end")
