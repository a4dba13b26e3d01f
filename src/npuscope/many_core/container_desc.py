"""The public descriptor of a CoreProgram: inputs and outputs, buffers, threads, the table of ops.

The stats buffer is an output like the others, under the name that runtimes know to leave out.
Of a program for several devices it describes the first; `osb.layout` has them all.
"""

from __future__ import annotations

from collections.abc import Callable

from npuscope.many_core.buffer_format import ALIGNMENT, HEADER, ROW, collected
from npuscope.many_core.layout import CoreOpInfo, Engine, Layout
from npuscope.many_core.networkdesc import (
    COPY_DMA_BUFFER,
    DATA_TYPES,
    INBOUND,
    MAJOR,
    MINOR,
    OUTBOUND,
    RAW_BYTES,
    STATS_OUTPUT,
    UTIMER_TICKS_PER_MS,
    CopyDmaBuffer,
    CoreOps,
    DmaBuffer,
    GroupOps,
    IoBinding,
    IoDescriptor,
    NetworkDesc,
    OpNameKind,
    StatsDesc,
    Transform,
)
from npuscope.many_core.program import Binding, CoreProgram
from npuscope.many_core.records import SECTIONS, SectionId

_OP_STATS_LEVEL, _EXTENDED_PMU_LEVEL = 70, 100
_I31, _U32 = 0x7FFFFFFF, 0xFFFFFFFF


def networkdesc_of(program: CoreProgram) -> NetworkDesc:
    layout = program.layout
    size = stats_bytes(layout)
    incoming, outgoing = program.inputs, program.outputs
    stats_number = len(incoming) + len(outgoing)
    return NetworkDesc(
        major_version=MAJOR,
        minor_version=MINOR,
        network_name=layout.network,
        inputs=tuple(_binding(entry, i, INBOUND) for i, entry in enumerate(incoming)),
        outputs=(
            *(_binding(entry, i, OUTBOUND) for i, entry in enumerate(outgoing, len(incoming))),
            _stats_output(size, stats_number),
        ),
        dma_buffers=(
            *(DmaBuffer(min(entry.bytes, _U32), INBOUND) for entry in incoming),
            *(DmaBuffer(min(entry.bytes, _U32), OUTBOUND) for entry in outgoing),
            DmaBuffer(size, OUTBOUND),
        ),
        num_cores=layout.cores,
        num_threads=len(layout.threads),
        num_hvx_threads=sum(thread.engine is Engine.HVX for thread in layout.threads),
        thread_groups=tuple(thread.group for thread in layout.threads),
        thread_group_issue_count=len(layout.groups),
        stats=_stats(layout, stats_number),
        thread_group_names=tuple(group.name for group in layout.groups),
        batch_size=layout.stats_batch,
    )


def _binding(entry: Binding, number: int, direction: int) -> IoBinding:
    return _io(entry.name, DATA_TYPES.get(entry.dtype, RAW_BYTES), entry.shape, number, direction)


def _stats_output(size: int, number: int) -> IoBinding:
    return _io(STATS_OUTPUT, RAW_BYTES, (size,), number, OUTBOUND)


def _io(name: str, kind: int, dims: tuple[int, ...], number: int, direction: int) -> IoBinding:
    tensor = IoDescriptor(type=kind, dims=tuple(min(size, _I31) for size in dims))
    copy = CopyDmaBuffer(direction, 0, number)
    transform = Transform(kind=COPY_DMA_BUFFER, type=kind, dims=tensor.dims, copy_dma_buffer=copy)
    return IoBinding(name, tensor, tensor, (transform,), align=64)


def _stats(layout: Layout, number: int) -> StatsDesc:
    table = layout.specializations[0].ops
    by_op = layout.stats_level >= _OP_STATS_LEVEL
    return StatsDesc(
        buff_num=number,
        print_stats=1,
        stats_level=layout.stats_level,
        print_op_stats=int(by_op),
        op_stats_level=int(by_op),
        batch_size=layout.stats_batch,
        count_ddr_bw=int(layout.ddr_stats),
        utimer_freq_ms=UTIMER_TICKS_PER_MS,
        pmu_events=layout.pmu.events,
        ops_per_core=tuple(sum(map(len, groups)) for groups in table),
        core_op_name_kinds=tuple(
            CoreOps(tuple(GroupOps(tuple(map(_op, ops))) for ops in groups)) for groups in table
        ),
        pmu_stats_level=int(bool(layout.pmu.events) and layout.stats_level >= _EXTENDED_PMU_LEVEL),
    )


def _op(op: CoreOpInfo) -> OpNameKind:
    return OpNameKind(
        name=op.name,
        kind=op.kind,
        type=", ".join(op.dtypes),
        memory=op.memory.value,
        shape="x".join(map(str, op.shape)),
        output_size=op.out_bytes,
        attributes=op.attributes,
        operands=op.operands,
    )


def stats_bytes(layout: Layout) -> int:
    """Room for one inference in which every op runs once and each doorbell rings once."""
    counts = _counts(layout)
    kept = collected(layout.stats_level, layout)
    total = HEADER.size + ROW.itemsize * len(kept)
    total += sum(ALIGNMENT + counts[key] * SECTIONS[key].dtype.itemsize for key in kept)
    return min(total, _U32)


def _counts(layout: Layout) -> dict[SectionId, int]:
    threads = layout.cores * len(layout.threads)
    ops = _op_threads(layout)
    return {
        SectionId.THREAD_INF: threads,
        SectionId.THREAD_ACT: threads,
        SectionId.PMU_THREAD: threads,
        SectionId.DDR_CORE: layout.cores,
        SectionId.PORT_WAIT: threads * len(layout.ports),
        SectionId.PORT_RING: layout.cores * len(layout.ports),
        SectionId.SEM_OP: _op_threads(layout, lambda op: "semaphoreinc" in op.kind),
        SectionId.OP_REC: ops,
        SectionId.DMA_REC: _op_threads(layout, _moves),
        SectionId.P2P_REC: ops if len(layout.specializations) > 1 else 0,
        SectionId.OP_PMU: ops,
    }


def _moves(op: CoreOpInfo) -> bool:
    return op.asynchronous or op.rd_bytes + op.wr_bytes > 0


def _op_threads(layout: Layout, wanted: Callable[[CoreOpInfo], bool] = lambda op: True) -> int:
    """Ops of the device that has most, counted once a thread."""
    return max(
        sum(
            sum(map(wanted, ops)) * len(layout.groups[group].threads)
            for core in part.ops
            for group, ops in enumerate(core)
        )
        for part in layout.specializations
    )
