"""Processes and threads of a timeline, named as the vendor's tool names them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from npuscope.manycore.layout import Layout
from npuscope.manycore.opstats.index import OpIndex
from npuscope.manycore.records import UTIMER_HZ
from npuscope.manycore.stats import Stats
from npuscope.trace_builder import TraceBuilder, lanes
from npuscope.trace_model import ticks_to_ns

HOST_PID, CORE_PID = 18, 2000
_DEVICES_APART = 1000  # pids of a device and its cores stand together


class Lane(IntEnum):
    """What a thread of a core shows."""

    OPS = 0
    TRANSFERS = 1
    BARRIERS = 2


_SUFFIX = {Lane.OPS: "", Lane.TRANSFERS: "_DMA", Lane.BARRIERS: "_Barrier"}


@dataclass(slots=True)
class Rows:
    """Makes each process and thread once, when it is first needed."""

    builder: TraceBuilder
    by_thread: bool = False
    _processes: dict[int, int] = field(default_factory=dict)
    _threads: dict[tuple[int, str], int] = field(default_factory=dict)
    _clocks: dict[tuple[int, str], int] = field(default_factory=dict)

    def device(self, stats: Stats) -> int:
        name = f"Device_{stats.device} [{stats.network.name}]"
        return self._process(_first_pid(stats), name)

    def core(self, stats: Stats, core: int) -> int:
        pid = _first_pid(stats) + 1 + core
        return self._process(pid, f"Program:0 [{stats.network.name}_Core_{core}]")

    def _process(self, pid: int, name: str) -> int:
        if pid not in self._processes:
            self._processes[pid] = self.builder.process(name, pid, pid)
        return self._processes[pid]

    def thread(self, process: int, name: str, sort: int = 0) -> int:
        key = process, name
        if key not in self._threads:
            self._threads[key] = self.builder.thread(process, name, sort=sort)
        return self._threads[key]

    def clock(self, stats: Stats, core: int) -> int:
        """The counter of a core's clock."""
        key = self.core(stats, core), "Freq"
        if key not in self._clocks:
            self._clocks[key] = self.builder.counter(*key, "FreqMHz")
        return self._clocks[key]

    def of_lane(self, stats: Stats, core: int, lane: int, what: Lane, spread: int) -> int:
        """`<network>_Core_<core>_<engine>`; a further row of the same has its number behind it."""
        part = _thread_part(stats.layout, lane) if self.by_thread else _part(stats.layout, lane)
        name = f"{stats.network.name}_Core_{core}_{part}{_SUFFIX[what]}"
        sort = 1 + lane * len(Lane) + what
        return self.thread(self.core(stats, core), f"{name} {spread + 1}" if spread else name, sort)


def _first_pid(stats: Stats) -> int:
    return CORE_PID - 1 + max(_DEVICES_APART, stats.layout.cores + 1) * stats.device


def _part(layout: Layout, group: int) -> str:
    """The engine of a group; with a number where several groups drive the same."""
    by_id = {thread.id: thread.engine.value for thread in layout.threads}
    names = [by_id[made.threads[0]] for made in layout.groups]
    same = [place for place, name in enumerate(names) if name == names[group]]
    return names[group] if len(same) == 1 else f"{names[group]}{same.index(group)}"


def _thread_part(layout: Layout, thread: int) -> str:
    engine = next((made.engine.value for made in layout.threads if made.id == thread), "")
    return f"{engine}_t{thread}"


@dataclass(frozen=True, slots=True)
class Scene:
    """One buffer on its way into a timeline."""

    rows: Rows
    stats: Stats
    index: OpIndex
    offset_ns: int
    cores: frozenset[int] | None

    @property
    def builder(self) -> TraceBuilder:
        return self.rows.builder

    def ns(self, ticks: np.ndarray) -> np.ndarray:
        return ticks_to_ns(ticks, UTIMER_HZ) + self.offset_ns

    def shown(self, core: np.ndarray) -> np.ndarray:
        """Which rows belong to cores that were asked for."""
        if self.cores is None:
            return np.ones(len(core), bool)
        return np.isin(core, sorted(self.cores))

    def threads(
        self, core: np.ndarray, lane: np.ndarray, what: Lane, start: np.ndarray, end: np.ndarray
    ) -> np.ndarray:
        """The thread of each event; what overlaps others of its lane goes to a further one."""
        width = int(lane.max(initial=0)) + 1
        spread = _apart(core * width + lane, start, end)
        deep = int(spread.max(initial=0)) + 1
        keys, inverse = np.unique((core * width + lane) * deep + spread, return_inverse=True)
        made = [
            self.rows.of_lane(
                self.stats, key // deep // width, key // deep % width, what, key % deep
            )
            for key in keys.tolist()
        ]
        return np.array(made, np.int32)[inverse]


def _apart(keys: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """0 for all where nothing overlaps; otherwise which of its lane's rows each goes to."""
    spread = np.zeros(len(keys), np.int64)
    order = np.lexsort((end, start, keys))
    k, s, e = keys[order], start[order], end[order]
    crossing = (k[1:] == k[:-1]) & (s[1:] < e[:-1])
    for key in np.unique(k[1:][crossing]):
        mine = keys == key
        spread[mine] = lanes(start[mine], end[mine])
    return spread
