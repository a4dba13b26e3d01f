"""CoreProgram: what a many-core device executes, core by core and thread group by group."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from npuscope.many_core.layout import CoreOpInfo, Layout


class Space(IntEnum):
    """Ends of a transfer, with the numbers that records have."""

    DDR = 0
    VTCM = 1
    L2TCM = 2
    HOST = 3
    PEER = 4


@dataclass(frozen=True, slots=True)
class Transfer:
    """What a DMA op moves. `receivers` is a mask of cores where it is a multicast."""

    bytes: int
    source: Space
    target: Space
    receivers: int = 0
    multicast: int | None = None  # entry of the multicast table
    port: int | None = None
    peer: int | None = None


@dataclass(frozen=True, slots=True)
class CoreOp:
    """An op in its place: when it may start is when all that it waits for has ended."""

    info: CoreOpInfo
    core: int
    group: int
    waits_for: tuple[tuple[int, int], ...] = ()  # (core, oc)
    transfer: Transfer | None = None
    semaphore: int | None = None  # incremented by it
    port_wait: int | None = None  # doorbell that it waits for
    vtcm_offset: int | None = None

    @property
    def key(self) -> tuple[int, int]:
        return self.core, self.info.oc


@dataclass(frozen=True, slots=True)
class MulticastEntry:
    receivers: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DevicePart:
    """The ops of one device, by core and thread group, in the order of issue."""

    name: str
    ops: tuple[tuple[tuple[CoreOp, ...], ...], ...]
    multicast: tuple[MulticastEntry, ...] = ()
    vtcm_bytes: tuple[int, ...] = ()  # most in use, by core

    def all_ops(self) -> list[CoreOp]:
        return [op for groups in self.ops for group in groups for op in group]


@dataclass(frozen=True, slots=True)
class Binding:
    """An input or output of the network."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int


@dataclass(frozen=True, slots=True)
class CoreProgram:
    """Made by the many-core compiler, run by its simulator."""

    layout: Layout
    devices: tuple[DevicePart, ...]
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    constants: dict[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)
    constant_bytes: int = 0
    macs: int = 0
    warnings: tuple[str, ...] = ()
