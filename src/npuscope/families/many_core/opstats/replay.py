"""A timed inference run again with other durations: its critical path, and what levers bring.

Every op starts when its thread group is free and all that it waits for has ended; what it waited
beyond that in the buffer (a doorbell, the order of transfers) is kept. So the buffer's own times
come out again, and with shorter ops the times that would follow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.compiler.kinds import END_STATS
from npuscope.families.many_core.layout import Engine
from npuscope.families.many_core.opstats.index import ENGINES, OpIndex
from npuscope.families.many_core.opstats.runs import OpRuns, Transfers, boundaries
from npuscope.families.many_core.records import SectionId
from npuscope.structs import replace

MOST_OPS = 100_000  # more would take longer than all the rest of a summary
_ENGINE_NAMES = {Engine.HVX: "HVX", Engine.HMX: "HMX"}
_SYNC = "synchronisation"
_HOST_SHARE = 0.9  # of the longest wait for the host: an op that waited so long waited for it


class ReplayTimes(Struct, frozen=True):
    """Ticks by op, in the order of start. `move` is the transfer behind an op."""

    work: np.ndarray
    barrier: np.ndarray
    move: np.ndarray
    late: np.ndarray  # waited for something that no op stands for


class Replay(Struct, frozen=True):
    """Ops that ran, each once, in the order in which they started."""

    op: np.ndarray  # row of the index
    queue: np.ndarray  # thread group of a core
    engine: np.ndarray
    moves: np.ndarray  # whether there is a transfer behind it
    outside: np.ndarray  # whether it reads or writes DDR
    constant: np.ndarray  # whether it brings constants
    waits: tuple[tuple[int, ...], ...]
    times: ReplayTimes
    before: tuple[tuple[int, bool], ...]  # by op, whom it started behind (-1: nobody), and
    # whether behind the transfer of that one
    last: int  # the op that ends last

    def ticks(self, times: ReplayTimes) -> float:
        """From the first start to the last end."""
        free = [0.0] * (int(self.queue.max(initial=0)) + 1)
        road = list(free)
        released = [0.0] * len(self.op)
        rows = zip(
            self.queue.tolist(), self.moves.tolist(), self.waits, times.work.tolist(),
            times.barrier.tolist(), times.move.tolist(), times.late.tolist(), strict=True,
        )  # fmt: skip
        for number, (queue, moves, waits, work, barrier, move, late) in enumerate(rows):
            ready = free[queue]
            for other in waits:
                ready = max(ready, released[other])
            if moves:
                ready = max(ready, road[queue])
            end = ready + late + work
            free[queue] = released[number] = end + barrier
            if moves:
                released[number] = road[queue] = end + move
        return max(released, default=0.0)

    def without_host(self, longest_wait: int) -> Replay:
        """The same without the wait for the host's input."""
        if longest_wait <= 0:
            return self
        late = np.where(self.times.late >= _HOST_SHARE * longest_wait, 0, self.times.late)
        return replace(self, times=replace(self.times, late=late))

    def path(self) -> tuple[tuple[str, float], ...]:
        """What the ops that the end waits for spent their time with, as shares of it."""
        spent: dict[str, float] = {}
        for name, ticks in self._spent():
            spent[name] = spent.get(name, 0.0) + ticks
        total = sum(spent.values())
        rows = [(name, ticks / total) for name, ticks in spent.items() if total and ticks]
        return tuple(sorted(rows, key=lambda row: (-row[1], row[0])))

    def _spent(self) -> Iterator[tuple[str, float]]:
        times, number, moved = self.times, self.last, bool(self.moves[self.last])
        while number >= 0:
            engine = _ENGINE_NAMES.get(ENGINES[self.engine[number]], _SYNC)
            # Threads that reach into DDR themselves wait for it: activations that left VTCM.
            reaches = engine == "HVX" and self.outside[number] and not self.moves[number]
            yield "DDR" if reaches else engine, float(times.work[number])
            if moved:
                yield "DDR" if self.outside[number] else "transfers", float(times.move[number])
            else:
                yield _SYNC, float(times.barrier[number])
            yield "waiting", float(times.late[number])  # for the host, or for a turn
            number, moved = self.before[number]


def replay_of(stats: Stats, index: OpIndex, runs: OpRuns, moves: Transfers) -> Replay | None:
    """None where ops were not timed, or are too many."""
    first = boundaries(runs.op)
    if not 0 < len(first) <= MOST_OPS or not stats.network.dependencies:
        return None
    order = first[np.lexsort((runs.op[first], runs.start_at[first]))]
    op = runs.op[order]
    ends = np.full(len(index.infos), -1, np.int64)
    np.maximum.at(ends, moves.op, moves.records["done_uc"].astype(np.int64))
    queue = index.core[op] * len(stats.layout.groups) + index.group[op]
    waits = _waits(stats, index, op)
    start, end = runs.start_at[order], runs.end_at[order]
    barrier, arrived = runs.barrier_at[order], ends[op]
    asynchronous = arrived >= 0
    ready, before = _ready(queue, waits, asynchronous, barrier, arrived)
    # Where the host is late, threads have begun long before their first op.
    threads = stats.of(SectionId.THREAD_INF)["start_uc"].astype(np.int64)
    begin = min(int(start.min()), int(threads.min(initial=start.min())))
    times = ReplayTimes(
        work=end - start,
        barrier=barrier - end,
        move=np.where(asynchronous, np.maximum(arrived - end, 0), 0),
        late=np.maximum(start - np.where(ready >= 0, ready, begin), 0),
    )
    infos = [index.infos[row] for row in op.tolist()]
    # Ops that use a buffer of constants; of these, transfers bring it.
    places = stats.network.held[stats.network.held["constant"] != 0]
    uses_constants = np.zeros(len(index.infos), bool)
    rows = index.rows(places["op_core"], places["oc"])
    uses_constants[rows[rows >= 0]] = True
    return Replay(
        op=op,
        queue=queue,
        engine=index.engine[op],
        moves=asynchronous,
        outside=np.array(
            [bool(info.rd_bytes or info.wr_bytes) and info.kind != END_STATS for info in infos]
        ),
        constant=uses_constants[op] & asynchronous,
        waits=waits,
        times=times,
        before=before,
        last=int(np.argmax(np.where(asynchronous, arrived, barrier))),
    )


def _waits(stats: Stats, index: OpIndex, op: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """By op, the numbers of those before it that it waits for."""
    edges = stats.network.dependencies
    ends = np.array([(*edge.source, *edge.target) for edge in edges], np.int64).reshape(-1, 4)
    number = np.full(len(index.infos), -1, np.int64)
    number[op] = np.arange(len(op))
    source = number[index.rows(ends[:, 0], ends[:, 1])]
    target = number[index.rows(ends[:, 2], ends[:, 3])]
    before: list[list[int]] = [[] for _ in op]
    # An op that started in the same tick may stand behind: it holds nothing up.
    valid = (source >= 0) & (target > source)
    for one, other in zip(source[valid].tolist(), target[valid].tolist(), strict=True):
        before[other].append(one)
    return tuple(map(tuple, before))


def _ready(
    queue: np.ndarray,
    waits: tuple[tuple[int, ...], ...],
    asynchronous: np.ndarray,
    barrier: np.ndarray,
    arrived: np.ndarray,
) -> tuple[np.ndarray, tuple[tuple[int, bool], ...]]:
    """When each op could have started by the buffer's own times, and behind which other."""
    released = np.where(asynchronous, arrived, barrier).tolist()
    leaves, moving = barrier.tolist(), asynchronous.tolist()
    last: dict[int, int] = {}
    road: dict[int, int] = {}
    ready, before = [], []
    for number, (line, others) in enumerate(zip(queue.tolist(), waits, strict=True)):
        candidates = [(released[other], other, moving[other]) for other in others]
        if line in last:
            candidates.append((leaves[last[line]], last[line], False))
        if moving[number] and line in road:
            candidates.append((released[road[line]], road[line], True))
        when, *who = max(candidates, default=(-1, -1, False))
        ready.append(when)
        before.append((int(who[0]), bool(who[1])))
        last[line] = number
        if moving[number]:
            road[line] = number
    return np.array(ready, np.int64), tuple(before)
