"""How long a command stream takes: kernels and transfers side by side, as its waits allow.

A kernel takes as long as the part of the NPU that is busy longest: MAC units, output stage, a port,
or the reads of weights and scales. Before it its first reads must arrive, after it its last block
must be written; before the first kernel the commands and all that its first block reads. Nothing
here is fitted to a network; sources are in `work.py` and the machines."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from npuscope.families.ethos_u.jobs import NpuKernel, NpuTransfer, NpuWait
from npuscope.families.ethos_u.machine import EthosMachine
from npuscope.families.ethos_u.registers import jobs_of
from npuscope.families.ethos_u.stream import CommandStream
from npuscope.families.ethos_u.work import (
    KernelWork,
    fill_cycles,
    kernel_work,
    transfer_bytes,
)

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
    kernels: list[KernelTime] = []
    transfers: list[TransferTime] = []
    # When the next command is looked at; the first ones must be read.
    issue = machine.port(COMMANDS).read_latency_cycles
    for job in jobs_of(stream):
        if isinstance(job, NpuWait):
            queue = [one.end for one in transfers]
            if job.kind == "KERNEL":
                queue = [one.end for one in kernels]
            if len(queue) > job.count:
                issue = max(issue, queue[-1 - job.count])
        elif isinstance(job, NpuTransfer):
            start = max(issue, transfers[-1].end if transfers else 0.0)
            transfers.append(TransferTime(job, start, start + _transfer_cycles(job, machine)))
        else:
            free = kernels[-1].end if kernels else 0.0
            start = max(issue, free)
            work = kernel_work(job, machine)
            duration, limit = _kernel_cycles(job, work, machine)
            if not kernels:
                duration += fill_cycles(job, machine)
            kernels.append(KernelTime(job, work, start, start + duration, start - free, limit))
    ends = [one.end for one in kernels] + [one.end for one in transfers]
    beats = -(-4 * len(stream.words) // machine.port_bytes)
    return StreamTime(tuple(kernels), tuple(transfers), max(ends, default=0.0), beats)


def _transfer_cycles(job: NpuTransfer, machine: EthosMachine) -> float:
    source = machine.port(job.source.region)
    target = machine.sram if job.to_table else machine.port(job.target.region)
    rate = min(source.bytes_per_cycle, target.bytes_per_cycle)
    return transfer_bytes(job) / rate + source.read_latency_cycles


def _kernel_cycles(
    kernel: NpuKernel, work: KernelWork, machine: EthosMachine
) -> tuple[float, KernelLimit]:
    parts = {
        KernelLimit.MAC: work.mac_cycles,
        KernelLimit.OUTPUT: work.output_cycles,
        KernelLimit.PORT: work.port_cycles(machine),
        KernelLimit.CONSTANTS: work.constant_cycles,
    }
    limit = max(parts, key=parts.__getitem__)
    first = max((machine.port(r).read_latency_cycles for r in work.reads), default=0.0)
    last = max((machine.port(r).write_latency_cycles for r in work.writes), default=0.0)
    drain = work.output_cycles / max(work.blocks, 1)
    return first + parts[limit] + drain + last, limit
