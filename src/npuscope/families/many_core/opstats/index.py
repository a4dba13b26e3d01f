"""The ops of a network as columns, found by core and number, with the label tables group by."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from npuscope.families.many_core import buffer_format as buffer_ops
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.layout import CoreOpInfo, Engine, Layout
from npuscope.families.many_core.opstats.model import DdrRow, OpLabel, PeerRow, PmuRow
from npuscope.families.many_core.records import PMU_COUNTERS, SectionId

_OC_BITS = 32  # core and oc as one sortable number


class OpIndex(Struct, frozen=True):
    """One row per op of any core; `label`, `engine` and `group` are numbers of their tables."""

    infos: tuple[CoreOpInfo, ...]
    labels: tuple[OpLabel, ...]
    core: np.ndarray
    group: np.ndarray
    label: np.ndarray
    engine: np.ndarray  # position in ENGINES
    out_bytes: np.ndarray
    asynchronous: np.ndarray
    places: buffer_ops.OpLookup  # the same ops in the same order

    def rows(self, core: np.ndarray, oc: np.ndarray) -> np.ndarray:
        """The row of each op; -1 for one that the program does not have."""
        return self.places.find(core, oc)


ENGINES = tuple(Engine)


def op_index(layout: Layout, specialization: int) -> OpIndex:
    """Columns of one network of the program."""
    placed = [
        (core, group, info)
        for core, groups in enumerate(layout.specializations[specialization].ops)
        for group, ops in enumerate(groups)
        for info in ops
    ]
    by_id = {thread.id: thread.engine for thread in layout.threads}
    engines = [by_id[group.threads[0]] for group in layout.groups]  # threads of a group share it
    numbers: dict[OpLabel, int] = {}
    label = [
        numbers.setdefault(
            OpLabel(info.kind, engines[group].value, info.memory.value, info.dtypes), len(numbers)
        )
        for _, group, info in placed
    ]
    core = _column(core for core, _, _ in placed)
    group = _column(group for _, group, _ in placed)
    return OpIndex(
        infos=tuple(info for _, _, info in placed),
        labels=tuple(numbers),
        core=core,
        group=group,
        label=np.array(label, np.int64),
        engine=np.array([ENGINES.index(engine) for engine in engines], np.int64)[group],
        out_bytes=_column(info.out_bytes for _, _, info in placed),
        asynchronous=np.array([info.asynchronous for _, _, info in placed], bool),
        places=buffer_ops.op_index(layout, specialization),
    )


def _column(values: Iterator[int]) -> np.ndarray:
    return np.fromiter(values, np.int64)


def op_key(core: np.ndarray, oc: np.ndarray) -> np.ndarray:
    """Core and oc in one number."""
    return (core.astype(np.int64) << _OC_BITS) | oc.astype(np.int64)


# --- PMU events and DDR traffic, and the shares computed from them ---
# Codes and names are those that are public for cores of the same family.

EVENT_NAMES = {
    0x03: "COMMITTED_PKT_ANY",
    0x3F: "AXI_READ_128B",
    0x40: "AXI_READ_ANY",
    0x41: "AXI_READ_32B",
    0x42: "AXI_WRITE_ANY",
    0x43: "AXI_WRITE_32B",
    0x46: "AXI_WRITE_128B",
    0x55: "AXI_WRITE_256B",
    0x7C: "L2_READ_ACCESS",
    0x7D: "L2_READ_MISS",
    0xCD: "AXI_READ_256B",
    0xCE: "AXI_READ_64B",
    0xCF: "AXI_WRITE_64B",
    0x100: "HVX_ACTIVE",
    0x105: "HVX_VTCM_OUTSTANDING",
    0x111: "HVX_PKT",
    0x200: "HMX_ACTIVE",
    0x205: "HMX_MAC",
    0x209: "HMX_ACTIVATION_WAIT",
    0x20A: "HMX_WEIGHT_WAIT",
    0x211: "HMX_MAC_FIXED",
    0x212: "HMX_MAC_FLOAT",
    0x214: "HMX_CLK",
    0x240: "UDMA_ACTIVE",
}
# Event -> what its share of the cycles is called, and the engine whose threads share them.
_ACTIVE = (
    (0x240, "DMAActivePct", Engine.DMA),
    (0x100, "HVXActivePct", Engine.HVX),
    (0x200, "HMXActivePct", Engine.HMX),
)


def event_name(code: int) -> str:
    """The code, with its name where that is known."""
    name = EVENT_NAMES.get(code)
    return f"0x{code:X} {name}" if name else f"0x{code:X}"


def pmu_rows(stats: Stats) -> list[PmuRow]:
    return [
        PmuRow(
            int(record["core"]),
            int(record["thread"]),
            tuple(int(record[f"count{i}"]) for i in range(min(int(record["n"]), PMU_COUNTERS))),
        )
        for record in stats.of(SectionId.PMU_THREAD)
    ]


def active_shares(
    layout: Layout, rows: list[PmuRow], core_pcycles: int
) -> tuple[tuple[str, float], ...]:
    """How much of the time each engine worked, in percent of its threads' cycles."""
    events = layout.pmu.events
    if not rows or not core_pcycles:
        return ()
    shares = []
    for code, name, engine in _ACTIVE:
        if code in events:
            place = events.index(code)
            total = sum(row.counts[place] for row in rows if place < len(row.counts))
            threads = max(1, sum(thread.engine is engine for thread in layout.threads))
            shares.append((name, 100 * total / (core_pcycles * threads)))
    return tuple(shares)


def ddr_rows(stats: Stats) -> dict[int, DdrRow]:
    return {
        int(record["core"]): DdrRow(
            *(
                int(record[name])
                for name in ("core", "rd_bytes", "wr_bytes", "mc_rd_bytes", "mc_wr_bytes")
            )
        )
        for record in stats.of(SectionId.DDR_CORE)
    }


def peer_rows(stats: Stats) -> tuple[PeerRow, ...]:
    """Transfers between devices, added up by direction and port."""
    records = stats.of(SectionId.P2P_REC)
    lanes = np.unique(records[["src_dev", "dst_dev", "port"]])
    rows = []
    for source, target, port in lanes.tolist():
        mine = records[
            (records["src_dev"] == source)
            & (records["dst_dev"] == target)
            & (records["port"] == port)
        ]
        ticks = mine["end_uc"].astype(np.int64) - mine["start_uc"].astype(np.int64)
        moved = int(mine["bytes"].sum())
        rows.append(PeerRow(source, target, port, len(mine), moved, int(ticks.sum())))
    return tuple(rows)
