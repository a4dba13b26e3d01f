"""How long a command stream takes: kernels and transfers side by side, as its waits allow.

A kernel takes as long as the part of the NPU that is busy longest: MAC units, output stage, a port,
or the reads of weights and scales. Before it its first reads must arrive, after it its last block
must be written; before the first kernel all that its first block reads. Commands are read a few at
a time. Nothing here is fitted to a network; sources are in `work.py` and the machines."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from npuscope.families.ethos_u.beats import transfer_bytes
from npuscope.families.ethos_u.jobs import NpuKernel, NpuTransfer, NpuWait
from npuscope.families.ethos_u.machine import EthosMachine
from npuscope.families.ethos_u.registers import jobs_of
from npuscope.families.ethos_u.stream import CommandStream
from npuscope.families.ethos_u.work import KernelWork, fill_cycles, kernel_work

COMMANDS = 0  # the region of the constants; commands are beside them


class KernelLimit(StrEnum):
    """What a kernel waits for."""

    MAC = "MAC units"
    OUTPUT = "output stage"
    PORT = "memory port"
    CONSTANTS = "weights and scales"


class KernelTime(Struct, frozen=True):
    kernel: NpuKernel
    work: KernelWork
    start: float  # cycles from the beginning of the stream
    end: float
    waited: float  # for transfers, before it could start
    limit: KernelLimit

    @property
    def cycles(self) -> float:
        return self.end - self.start + self.waited


class TransferTime(Struct, frozen=True):
    transfer: NpuTransfer
    start: float
    end: float


class StreamTime(Struct, frozen=True):
    kernels: tuple[KernelTime, ...]
    transfers: tuple[TransferTime, ...]
    cycles: float
    command_beats: int

    def beats(self, machine: EthosMachine, *, writes: bool) -> dict[int, int]:
        """By region; commands are read with the constants of region 0."""
        totals: dict[int, int] = {} if writes else {0: self.command_beats}
        for one in self.kernels:
            for region, beats in (one.work.writes if writes else one.work.reads).items():
                totals[region] = totals.get(region, 0) + beats
        for moved in self.transfers:
            job = moved.transfer
            span = job.target if writes else job.source
            if not (writes and job.to_table):
                beats = -(-transfer_bytes(job) // machine.port_bytes)
                totals[span.region] = totals.get(span.region, 0) + beats
        return totals


def time_stream(stream: CommandStream, machine: EthosMachine) -> StreamTime:
    line = _Timeline(machine)
    for job in jobs_of(stream):
        if isinstance(job, NpuWait):
            line.wait(job)
        elif isinstance(job, NpuTransfer):
            line.transfer(job)
        else:
            line.kernel(job)
    ends = [one.end for one in line.kernels] + [one.end for one in line.transfers]
    beats = -(-4 * len(stream.words) // machine.port_bytes)
    kernels, transfers = tuple(line.kernels), tuple(line.transfers)
    return StreamTime(kernels, transfers, max(ends, default=0.0), beats)


class _Timeline:
    """Commands are looked at in their order, when they have been read and the queues have room."""

    def __init__(self, machine: EthosMachine) -> None:
        self.machine = machine
        self.kernels: list[KernelTime] = []
        self.transfers: list[TransferTime] = []
        self.now = 0.0
        self.reads: list[float] = []  # when each beat of commands was taken

    def wait(self, job: NpuWait) -> None:
        self._reach(job.place)
        self._until(self.kernels if job.kind == "KERNEL" else self.transfers, job.count)

    def transfer(self, job: NpuTransfer) -> None:
        self._reach(job.place)
        self._until(self.transfers, self.machine.transfer_queue - 1)
        start = max(self.now, self.transfers[-1].end if self.transfers else 0.0)
        end = start + _transfer_cycles(job, self.machine)
        self.transfers.append(TransferTime(job, start, end))

    def kernel(self, job: NpuKernel) -> None:
        self._reach(job.place)
        self._until(self.kernels, self.machine.kernel_queue - 1)
        free = self.kernels[-1].end if self.kernels else 0.0
        start = max(self.now, free)
        work = kernel_work(job, self.machine)
        duration, limit = _kernel_cycles(work, self.machine)
        if not self.kernels:
            duration += fill_cycles(job, self.machine)
        elif job.blockdep == 0 or not self.machine.reads_ahead:
            duration += work.edge_cycles(self.machine)
        self.kernels.append(KernelTime(job, work, start, start + duration, start - free, limit))

    def _reach(self, place: int) -> None:
        """A beat of commands is asked for when there is room for it."""
        machine = self.machine
        latency = machine.port(COMMANDS).read_latency_cycles
        room = max(machine.command_buffer_bytes // machine.port_bytes, 1)
        while len(self.reads) * machine.port_bytes <= place:
            asked = self.reads[-room] if len(self.reads) >= room else 0.0
            self.now = max(self.now, asked + latency)
            self.reads.append(self.now)

    def _until(self, queue: Sequence[KernelTime | TransferTime], count: int) -> None:
        """No more than `count` of them are under way."""
        if len(queue) > count:
            self.now = max(self.now, queue[-1 - count].end)


def _transfer_cycles(job: NpuTransfer, machine: EthosMachine) -> float:
    source = machine.port(job.source.region)
    target = machine.sram if job.to_table else machine.port(job.target.region)
    rate = min(source.bytes_per_cycle, target.bytes_per_cycle)
    return transfer_bytes(job) / rate + source.read_latency_cycles


def _kernel_cycles(work: KernelWork, machine: EthosMachine) -> tuple[float, KernelLimit]:
    """The output stage follows the MAC units by one block."""
    parts = {
        KernelLimit.MAC: work.mac_cycles,
        KernelLimit.OUTPUT: work.output_cycles,
        KernelLimit.PORT: work.port_cycles(machine),
        KernelLimit.CONSTANTS: work.constant_cycles,
    }
    limit = max(parts, key=parts.__getitem__)
    first = max((machine.port(r).read_latency_cycles for r in work.reads), default=0.0)
    last = max((machine.port(r).write_latency_cycles for r in work.writes), default=0.0)
    block = min(work.mac_cycles, work.output_cycles) / max(work.blocks, 1)
    return first + parts[limit] + block + last, limit
