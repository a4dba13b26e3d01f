"""What the machine asks for each op: cycles, rates of transfers, shared roads, latencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from npuscope.many_core.machine import CoreMachine
from npuscope.many_core.program import CoreOp, Space, Transfer
from npuscope.many_core.records import UTIMER_HZ

_GB, _US = 1e9, 1e-6
# Roads of a device, by number.
_DDR, _NOC, _PEER, _HOST = range(4)
_ROADS = 4


@dataclass(frozen=True, slots=True)
class Costs:
    """`level` is that of the records whose storing costs time: 0 unless overhead is modelled."""

    machine: CoreMachine
    level: int = 0
    op_counters: bool = False

    def cycles(self, op: CoreOp) -> float:
        """Of the slowest thread; of the issue alone where bytes move."""
        return self._work(op) + self._records(op) * self.machine.stats.record_cycles

    def _work(self, op: CoreOp) -> float:
        machine, info = self.machine, op.info
        if op.transfer is not None:
            return machine.dma.issue_cycles
        if op.semaphore is not None or op.port_wait is not None:
            return machine.sync.semaphore_cycles
        if info.kind == "aicendcyclestats":
            return 0.0
        dtype = info.dtypes[0] if info.dtypes else "float16"
        executed = machine.pcycles(info.kind, info.out_bytes, info.macs, dtype)
        return max(executed, self._ddr_cycles(op), 1.0)

    def _ddr_cycles(self, op: CoreOp) -> float:
        """An op whose threads reach into DDR by themselves is held by what a core gets of it."""
        seconds = (op.info.rd_bytes + op.info.wr_bytes) / self.machine.ddr_bytes_per_s()
        return seconds * self.machine.core_hz

    def _records(self, op: CoreOp) -> int:
        if self.level >= 70:
            return 1 + int(self.level >= 100 and self.op_counters)
        return int(self.level >= 50 and op.semaphore is not None)

    def cap(self, op: CoreOp) -> float:
        """Bytes per tick that the engine of the transfer can do by itself."""
        transfer, machine = op.transfer, self.machine
        ends = () if transfer is None else (transfer.source, transfer.target)
        if Space.PEER in ends:
            return _per_tick(machine.peer.gb_per_s)
        if Space.HOST in ends:
            return _per_tick(machine.host.gb_per_s)
        if Space.DDR in ends:
            return machine.ddr_bytes_per_s() / UTIMER_HZ
        return machine.multicast_bytes_per_s() / UTIMER_HZ

    def resources(self, transfer: Transfer, device: int) -> tuple[int, ...]:
        """The roads that the bytes take. A multicast takes each once, however many receive it."""
        ends, first = (transfer.source, transfer.target), device * _ROADS
        roads = {Space.DDR: _DDR, Space.PEER: _PEER, Space.HOST: _HOST}
        return (first + _NOC, *(first + road for space, road in roads.items() if space in ends))

    def capacity(self, devices: int) -> tuple[float, ...]:
        machine = self.machine
        rates = (machine.ddr.effective_gb_per_s, machine.noc.gb_per_s)
        links = (machine.peer.gb_per_s, machine.host.gb_per_s)
        return tuple(_per_tick(rate) for rate in (*rates, *links)) * devices

    def latency_ticks(self, op: CoreOp) -> float:
        """Until the first byte moves."""
        transfer, machine = op.transfer, self.machine
        ends = () if transfer is None else (transfer.source, transfer.target)
        latency = machine.noc.latency_us
        for space, part in ((Space.DDR, machine.ddr), (Space.PEER, machine.peer)):
            if space in ends:
                latency = max(latency, part.latency_us)
        return latency * _US * UTIMER_HZ

    @property
    def steps_hz(self) -> tuple[float, ...]:
        return tuple(mhz * 1e6 for mhz in self.machine.clocks.dvfs_mhz)

    @property
    def step_ticks(self) -> float:
        return self.machine.clocks.dvfs_period_us * _US * UTIMER_HZ


def _per_tick(gb_per_s: float) -> float:
    return gb_per_s * _GB / UTIMER_HZ


# Transfers that share DDR, network on chip and links: each gets the largest fair rate.

# Bytes that rounding may leave behind at the end of a transfer.
_NOTHING = 1e-3


@dataclass(slots=True)
class Flow:
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
        left, waiting = list(self._capacity), self._flows
        while waiting:
            fair = _fair_shares(left, waiting)
            limits = [min(flow.cap, *(fair[r] for r in flow.resources)) for flow in waiting]
            lowest = min(limits) * (1 + 1e-9)
            unsettled = []
            for flow, limit in zip(waiting, limits, strict=True):
                if limit > lowest:
                    unsettled.append(flow)
                    continue
                flow.rate = limit
                for resource in flow.resources:
                    left[resource] -= limit
            waiting = unsettled


def _fair_shares(left: list[float], flows: list[Flow]) -> list[float]:
    users = [0] * len(left)
    for flow in flows:
        for resource in flow.resources:
            users[resource] += 1
    return [rate / count if count else inf for rate, count in zip(left, users, strict=True)]
