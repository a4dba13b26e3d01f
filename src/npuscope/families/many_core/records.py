"""Sections of a stats buffer: their numbers, levels and records, written down once.

Times are ticks of the common timer (`uc`, 19.2 MHz) or cycles of a core's own clock (`pc`).
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from msgspec import Struct

UTIMER_HZ = 19_200_000  # the common timer of all cores, as in the open runtime
LEVELS = (40, 50, 70, 100)  # the documented ones; each adds records to those of the one before
DEFAULT_LEVEL = 40
PMU_COUNTERS = 8  # of 32 bits each


class SectionId(IntEnum):
    THREAD_INF = 1
    THREAD_ACT = 2
    PMU_THREAD = 3
    DDR_CORE = 4
    PORT_WAIT = 5
    PORT_RING = 6
    SEM_OP = 7
    OP_REC = 8
    DMA_REC = 9
    P2P_REC = 10
    OP_PMU = 11


class Needs(IntEnum):
    """What has to be asked for beside the level."""

    NOTHING = 0
    PMU = 1
    DDR = 2


class Section(Struct, frozen=True):
    """One kind of record: from which level on, its fields as (name, type, unit, meaning)."""

    id: SectionId
    min_level: int
    needs: Needs
    fields: tuple[tuple[str, str, str, str], ...]

    @property
    def dtype(self) -> np.dtype[np.void]:
        """Packed, little endian."""
        return np.dtype([(name, kind) for name, kind, _, _ in self.fields])


_CORE = ("core", "<u2", "", "core of the device")
_THREAD = ("thread", "<u2", "", "hardware thread of the core")
_OC = ("oc", "<u4", "", "op of the core, as in the layout")


def _pad(kind: str, name: str = "pad") -> tuple[str, str, str, str]:
    return (name, kind, "", "zero")


def _tick(name: str, meaning: str) -> tuple[str, str, str, str]:
    return (name, "<u8", "uc", meaning)


_OP = (
    _CORE,
    _THREAD,
    _OC,
    _tick("sync_uc", "the op began to wait for its operands"),
    _tick("start_uc", "it began to execute"),
    _tick("end_uc", "it ended"),
    _tick("barrier_uc", "its thread group had come together again"),
    ("pc", "<u8", "pc", "cycles of execution"),
    ("flags", "<u4", "", "1 asynchronous, 2 saturated"),
    ("sample", "<u4", "", "which time the op ran, where it is in a loop"),
)
SECTIONS: dict[SectionId, Section] = {
    section.id: section
    for section in (
        Section(
            SectionId.THREAD_INF,
            40,
            Needs.NOTHING,
            (
                _CORE,
                _THREAD,
                ("flags", "<u4", "", "zero"),
                _tick("start_uc", "first instruction of the inference"),
                _tick("end_uc", "last one"),
                ("start_pc", "<u8", "pc", "the same by the core's clock"),
                ("end_pc", "<u8", "pc", "the same by the core's clock"),
            ),
        ),
        Section(
            SectionId.THREAD_ACT,
            40,
            Needs.NOTHING,
            (
                _CORE,
                _THREAD,
                _pad("<u4"),
                _tick("start_uc", "activation begins"),
                _tick("end_uc", "activation ends"),
            ),
        ),
        Section(
            SectionId.PMU_THREAD,
            40,
            Needs.PMU,
            (
                _CORE,
                _THREAD,
                ("n", "<u2", "", "counters in use"),
                _pad("<u2"),
                *((f"count{i}", "<u8", "", "counts of event i") for i in range(PMU_COUNTERS)),
            ),
        ),
        Section(
            SectionId.DDR_CORE,
            40,
            Needs.DDR,
            (
                ("core", "<u4", "", "core of the device"),
                _pad("<u4"),
                ("rd_bytes", "<u8", "byte", "read from DDR"),
                ("wr_bytes", "<u8", "byte", "written to DDR"),
                ("mc_rd_bytes", "<u8", "byte", "received by multicast"),
                ("mc_wr_bytes", "<u8", "byte", "sent by multicast"),
            ),
        ),
        Section(
            SectionId.PORT_WAIT,
            50,
            Needs.NOTHING,
            (
                _CORE,
                _THREAD,
                ("port", "<u2", "", "100 host input, 101 host output, others to peers"),
                _pad("<u2"),
                ("waits", "<u4", "", "how often"),
                _pad("<u4", "pad2"),
                _tick("wait_uc", "how long in all"),
            ),
        ),
        Section(
            SectionId.PORT_RING,
            50,
            Needs.NOTHING,
            (
                ("port", "<u2", "", "input port"),
                ("seq", "<u2", "", "ordinal of the doorbell"),
                ("core", "<u4", "", "core that heard it"),
                _tick("uc", "when it rang"),
            ),
        ),
        Section(SectionId.SEM_OP, 50, Needs.NOTHING, _OP),
        Section(SectionId.OP_REC, 70, Needs.NOTHING, _OP),
        Section(
            SectionId.DMA_REC,
            70,
            Needs.NOTHING,
            (
                _CORE,
                _THREAD,
                _OC,
                _tick("issue_uc", "the descriptor was given to the engine"),
                _tick("done_uc", "the transfer ended"),
                ("bytes", "<u8", "byte", "moved"),
                ("src", "<u1", "", "0 DDR, 1 VTCM, 2 L2TCM, 3 host, 4 peer"),
                ("dst", "<u1", "", "the same"),
                ("mcid", "<u2", "", "entry of the multicast table, 0xffff for none"),
                _pad("<u4"),
            ),
        ),
        Section(
            SectionId.P2P_REC,
            70,
            Needs.NOTHING,
            (
                ("src_dev", "<u2", "", "sending device"),
                ("dst_dev", "<u2", "", "receiving device"),
                ("port", "<u2", "", "port of this device"),
                _pad("<u2"),
                ("txn", "<u4", "", "transaction, equal on both sides"),
                _OC,
                _tick("start_uc", "transfer begins"),
                _tick("end_uc", "transfer ends"),
                ("bytes", "<u8", "byte", "moved"),
            ),
        ),
        Section(
            SectionId.OP_PMU,
            100,
            Needs.PMU,
            (
                _CORE,
                _THREAD,
                _OC,
                *((f"count{i}", "<u4", "", "counts of event i") for i in range(PMU_COUNTERS)),
            ),
        ),
    )
}
ASYNCHRONOUS, SATURATED = 1, 2
