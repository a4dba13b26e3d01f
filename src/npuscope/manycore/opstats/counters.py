"""PMU events and DDR traffic, and the shares that they tell.

Codes and names are those that are public for cores of the same family.
"""

from __future__ import annotations

from npuscope.manycore.layout import Engine, Layout
from npuscope.manycore.opstats.model import DdrRow, PmuRow
from npuscope.manycore.records import PMU_COUNTERS, SectionId
from npuscope.manycore.stats import Stats

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
    return tuple(
        (name, 100 * _total(rows, events.index(code)) / (core_pcycles * _threads(layout, engine)))
        for code, name, engine in _ACTIVE
        if code in events
    )


def _total(rows: list[PmuRow], place: int) -> int:
    return sum(row.counts[place] for row in rows if place < len(row.counts))


def _threads(layout: Layout, engine: Engine) -> int:
    return max(1, sum(thread.engine is engine for thread in layout.threads))


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
