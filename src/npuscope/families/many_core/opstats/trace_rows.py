"""Processes and threads of a timeline, named as the vendor's tool names them."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from msgspec import Struct, field

from npuscope.families.many_core.buffer_format import SIMULATED, Records, Stats
from npuscope.families.many_core.opstats.index import OpIndex
from npuscope.families.many_core.opstats.runs import OpRuns
from npuscope.families.many_core.program import Space
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.trace_builder import Args, TraceBuilder, lanes
from npuscope.trace_model import Column, floats, ints, texts, ticks_to_ns

# As in published traces: the host has pid 18, core c has 2000 + c.
HOST_PID, CORE_PID = 18, 2000
_DEVICES_APART = 1000  # pids of a device and its cores stand together


class Lane(IntEnum):
    """What a thread of a core shows."""

    OPS = 0
    TRANSFERS = 1
    BARRIERS = 2


_SUFFIX = {Lane.OPS: "", Lane.TRANSFERS: "_DMA", Lane.BARRIERS: "_Barrier"}


class Rows(Struct):
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
            self._processes[pid] = self.builder.process(name, pid, pid, SIMULATED)
        return self._processes[pid]

    def thread(self, process: int, name: str, sort: int = 0) -> int:
        key = process, name
        if key not in self._threads:
            self._threads[key] = self.builder.thread(process, name, sort=sort)
        return self._threads[key]

    def clock(self, stats: Stats, core: int) -> int:
        """The counter of a core's clock."""
        return self.core_counter(stats, core, "Freq", "FreqMHz")

    def core_counter(self, stats: Stats, core: int, name: str, unit: str) -> int:
        return self._counter((self.core(stats, core), name), unit)

    def device_counter(self, stats: Stats, name: str, unit: str) -> int:
        """A counter of the whole device."""
        return self._counter((self.device(stats), name), unit)

    def _counter(self, key: tuple[int, str], unit: str) -> int:
        if key not in self._clocks:
            self._clocks[key] = self.builder.counter(*key, unit)
        return self._clocks[key]

    def of_lane(self, stats: Stats, core: int, lane: int, what: Lane, spread: int) -> int:
        """`<network>_Core_<core>_<engine>`; a further row of the same has its number behind it."""
        engines = {thread.id: thread.engine.value for thread in stats.layout.threads}
        if self.by_thread:
            part = f"{engines.get(lane, '')}_t{lane}"
        else:  # with a number where several groups drive the same engine
            names = [engines[group.threads[0]] for group in stats.layout.groups]
            same = [place for place, name in enumerate(names) if name == names[lane]]
            part = names[lane] if len(same) == 1 else f"{names[lane]}{same.index(lane)}"
        name = f"{stats.network.name}_Core_{core}_{part}{_SUFFIX[what]}"
        sort = 1 + lane * len(Lane) + what
        return self.thread(self.core(stats, core), f"{name} {spread + 1}" if spread else name, sort)


def _first_pid(stats: Stats) -> int:
    return CORE_PID - 1 + max(_DEVICES_APART, stats.layout.cores + 1) * stats.device


class Scene(Struct, frozen=True):
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
        numbers = [
            self.rows.of_lane(
                self.stats, key // deep // width, key // deep % width, what, key % deep
            )
            for key in keys.tolist()
        ]
        return np.array(numbers, np.int32)[inverse]


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


# --- Arguments of slices, with the names of the vendor's traces ---

_TICKS_PER_US = UTIMER_HZ / 1e6
# Shorter ops say nothing about the clock: one tick of the timer is more than a percent of them.
TICKS_FOR_CLOCK = 100
_NO_MULTICAST = 0xFFFF  # in the record: this transfer is not a multicast


def op_args(scene: Scene, op: np.ndarray) -> Args:
    """What the program says of an op."""
    infos, builder = scene.index.infos, scene.builder
    sizes = scene.index.out_bytes[op]
    most = max((len(info.operands) for info in infos), default=0)
    return {
        "oc": ints(np.array([info.oc for info in infos], np.int64)[op]),
        "opKind": _texts(builder, [info.kind for info in infos], op),
        "opMemory": _texts(builder, [info.memory.value for info in infos], op),
        "opName": _texts(builder, [info.name for info in infos], op),
        "opShape": _texts(builder, ["x".join(map(str, info.shape)) for info in infos], op),
        "opTypes": _texts(builder, [", ".join(info.dtypes) for info in infos], op),
        "opAttributes": _texts(builder, [info.attributes for info in infos], op),
        **{
            f"opOperand{i}": _texts(
                builder, [info.operands[i] if i < len(info.operands) else "" for info in infos], op
            )
            for i in range(most)
        },
        "opOutputSize": ints(sizes, sizes > 0),
    }


def _texts(builder: TraceBuilder, values: list[str], op: np.ndarray) -> Column:
    ids = builder.texts(values)
    present = np.array([bool(value) for value in values], bool)
    return texts(ids[op], present[op])


def run_args(scene: Scene, runs: OpRuns, rows: np.ndarray) -> Args:
    """What was measured of a run. An asynchronous op's is only that of issuing it."""
    size = scene.index.out_bytes[runs.op[rows]]
    ticks, cycles = runs.execute_uc[rows], runs.pc[rows]
    here = ~runs.asynchronous[rows]
    writes = (size > 0) & here
    return {
        "opPCycle": ints(cycles),
        "opUCycle": ints(ticks),
        "effectiveFreq": floats(
            cycles * _TICKS_PER_US / np.maximum(ticks, 1), here & (ticks >= TICKS_FOR_CLOCK)
        ),
        "PCyclesPerKB": floats(cycles * 1024 / np.maximum(size, 1), writes),
        "UCyclesPerKB": floats(ticks * 1024 / np.maximum(size, 1), writes),
        "sample": ints(runs.sample[rows], runs.sample[rows] > 0),
    }


def transfer_args(scene: Scene, records: Records) -> Args:
    moved = records["bytes"].astype(np.int64)
    ticks = records["done_uc"].astype(np.int64) - records["issue_uc"].astype(np.int64)
    spaces = scene.builder.texts([*(space.name for space in Space), "?"])
    multicast = records["mcid"] != _NO_MULTICAST
    return {
        "opUCycle": ints(ticks),
        "bytes": ints(moved),
        "source": texts(spaces[np.minimum(records["src"], len(Space))]),
        "target": texts(spaces[np.minimum(records["dst"], len(Space))]),
        "multicastId": ints(records["mcid"], multicast),
        "UCyclesPerKB": floats(ticks * 1024 / np.maximum(moved, 1), moved > 0),
    }
