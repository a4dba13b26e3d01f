"""What a stats buffer is about: cores, threads, ops, ports and dependencies of a program.

Stored as JSON in the program container (segment `osb.layout`), so that a buffer explains itself.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from msgspec import Struct, field

from npuscope.families.many_core.opstats.lever import Lever
from npuscope.structs import Apart


class Engine(Enum):
    """What a thread drives."""

    HVX = "HVX"
    HMX = "HMX"
    DMA = "DMAIssue"


class MemorySpace(Enum):
    """Where an op's output lies."""

    TCM = "TCM"
    DDR = "DDR"
    CACHED = "CacheableDDR"


class CoreThread(Struct, frozen=True):
    id: int
    engine: Engine
    group: int  # index in Layout.groups


class ThreadGroup(Struct, frozen=True):
    """Threads that execute an op together."""

    name: str
    threads: tuple[int, ...]


class CorePort(Struct, frozen=True):
    """100 is the host's input, 101 its output; others lead to peers."""

    id: int
    incoming: bool
    kind: str  # host, p2p
    name: str
    peer: int | None = None


class CoreOpInfo(Struct, frozen=True):
    """An op of one core and thread group, as tables and traces show it."""

    oc: int  # unique in its core
    name: str
    kind: str  # aicconvolutiond32, aicsoftmax, aiccopytovtcm, ...
    memory: MemorySpace
    dtypes: tuple[str, ...]
    shape: tuple[int, ...]
    out_bytes: int
    macs: int = 0
    rd_bytes: int = 0
    wr_bytes: int = 0
    attributes: str = ""
    operands: tuple[str, ...] = ()
    asynchronous: bool = False
    origin: tuple[str, ...] = ()  # ops of the source network


class Dependency(Struct, frozen=True):
    """Between ops (core, oc); `data` separates true dependencies from those of the schedule."""

    source: tuple[int, int]
    target: tuple[int, int]
    data: bool = True


class Pmu(Struct, frozen=True):
    recipe: str = ""
    events: tuple[int, ...] = ()


# An op (op_core, oc) that uses a buffer in the VTCM of `core`, one row each.
HELD = np.dtype(
    [
        ("specialization", "<u2"),
        ("core", "<u2"),
        ("op_core", "<u2"),
        ("constant", "<u2"),  # 1: loaded from DDR with every inference
        ("buffer", "<u4"),
        ("oc", "<u4"),
        ("offset", "<u8"),
        ("bytes", "<u8"),
    ]
)


class Specialization(Apart, frozen=True):
    """One network of a program: ops[core][group] in the order of execution."""

    apart = ("held",)

    name: str
    ops: tuple[tuple[tuple[CoreOpInfo, ...], ...], ...]
    dependencies: tuple[Dependency, ...] = ()
    # Rows of HELD: what lies where in VTCM.
    held: np.ndarray = field(default_factory=lambda: np.zeros(0, HELD))


class Capacity(Struct, frozen=True):
    """What the machine can do at most: roofs that a run is compared with."""

    machine: str
    cores: int  # of a device
    vtcm_bytes: int  # of a core
    macs_per_cycle: int  # of a core's HMX, for the types of this network
    ddr_bytes_per_s: int


class Layout(Struct, frozen=True):
    """One device's program; a multi-device program has one specialization per device."""

    program_uuid: str  # 32 hexadecimal digits
    network: str
    stats_level: int
    stats_batch: int
    ddr_stats: bool
    core_hz: int
    cores: int
    threads: tuple[CoreThread, ...]
    groups: tuple[ThreadGroup, ...]
    ports: tuple[CorePort, ...]
    pmu: Pmu
    specializations: tuple[Specialization, ...]
    notes: tuple[str, ...] = field(default=())
    capacity: Capacity | None = None  # None where the container does not say
    # What changes of the set-up give, as they were timed when it was compiled; likewise. They are
    # compared with one copy and one inference in flight.
    levers: tuple[Lever, ...] = ()
