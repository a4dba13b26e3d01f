"""CoreProgram: what a many-core device executes, core by core and thread group by group."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from msgspec import Struct, field

from npuscope.families.many_core.layout import CoreOpInfo, Layout
from npuscope.graph.model import Graph, Op, Tensor
from npuscope.structs import Apart


class Space(IntEnum):
    """Ends of a transfer, with the numbers that records have."""

    DDR = 0
    VTCM = 1
    L2TCM = 2
    HOST = 3
    PEER = 4


class Transfer(Struct, frozen=True):
    """What a DMA op moves. `receivers` is a mask of cores where it is a multicast."""

    bytes: int
    source: Space
    target: Space
    receivers: int = 0
    multicast: int | None = None  # entry of the multicast table
    port: int | None = None
    peer: int | None = None


class CoreOp(Struct, frozen=True):
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


class MulticastEntry(Struct, frozen=True):
    receivers: int
    bytes: int


class DeviceProgram(Struct, frozen=True):
    """The ops of one device, by core and thread group, in the order of issue."""

    name: str
    ops: tuple[tuple[tuple[CoreOp, ...], ...], ...]
    multicast: tuple[MulticastEntry, ...] = ()
    vtcm_bytes: tuple[int, ...] = ()  # most in use, by core

    def all_ops(self) -> list[CoreOp]:
        return [op for groups in self.ops for group in groups for op in group]


# --- What the ops compute: kept beside the program that was compiled, not in its container ---

Box = tuple[tuple[int, int], ...]  # a part of a tensor, start and stop by axis


class Made(Struct, frozen=True):
    """A part of an op's output, or of a tensor that is moved. Of a long sum, `channels` is what
    this part adds to it."""

    op: int | None  # number in the graph; None where values pass as they are
    box: Box
    channels: tuple[int, int] | None = None
    first: bool = True
    last: bool = True


class Held(Struct, frozen=True):
    """A buffer: a part of a tensor at a place in VTCM, or in DDR where it has no offset."""

    core: int  # through all devices; -1 in DDR
    tensor: str
    box: Box
    dtype: str
    offset: int | None


class StepWork(Struct, frozen=True):
    """What an op does to buffers. It sees each buffer that it reads as a part of a tensor."""

    tensor: str  # what it makes or moves a part of
    made: Made
    reads: tuple[tuple[int, str, Box], ...]  # buffer, tensor, part
    writes: tuple[int, ...]
    sends: int | None = None  # number of the transaction with another device
    receives: int | None = None


class Code(Struct, frozen=True):
    """`ends` are the ops that a product does where it stores its sums, by its output."""

    graph: Graph
    ends: dict[str, tuple[Op, ...]]
    between: dict[str, Tensor]  # tensors before and between these ops
    buffers: tuple[Held, ...]
    work: dict[tuple[int, int, int], StepWork]  # by device, core and op
    vtcm_bytes: int


class Binding(Struct, frozen=True):
    """An input or output of the network."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int


class Pace(Struct, frozen=True):
    """How much longer all takes than the rates of the machine say; see pace.py.

    `slowdowns` is by number of further copies: how much longer each takes than one alone. All are
    in thousandths, as the container stores them.
    """

    alone: int = 1000
    slowdowns: tuple[int, ...] = ()


class CoreProgram(Apart, frozen=True):
    """Made by the many-core compiler, run by its simulator."""

    apart = ("constants", "code", "spilled")

    layout: Layout
    devices: tuple[DeviceProgram, ...]
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    constant_bytes: int = 0
    macs: int = 0
    warnings: tuple[str, ...] = ()
    code: Code | None = None
    # Tensors that do not fit VTCM; like the code not in the container.
    spilled: tuple[str, ...] = ()
    pace: Pace = field(default_factory=Pace)
