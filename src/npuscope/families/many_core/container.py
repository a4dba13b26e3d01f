"""programqpc.bin: a CoreProgram in the public container, and back.

Segments: networkdesc.bin and the constants as the vendor's runtime has them, then our own:
`osb.layout`, `osb.deps`, `osb.prog`, `osb.vtcm`. A container without `osb.layout` comes from the
vendor."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from npuscope.bounded_file import read_head
from npuscope.errors import FileError, InternalError
from npuscope.families.many_core.buffer_format import ALIGNMENT, HEADER, ROW, collected
from npuscope.families.many_core.container_prog import (
    constants_desc,
    pack_constants,
    program_json,
    program_of,
)
from npuscope.families.many_core.layout import HELD, CoreOpInfo, Dependency, Engine, Layout
from npuscope.families.many_core.layout_json import layout_from_json, layout_json, with_edges
from npuscope.families.many_core.networkdesc import (
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
    encode_networkdesc,
)
from npuscope.families.many_core.program import Binding, CoreProgram
from npuscope.families.many_core.qpc import (
    CONSTANTS,
    CONSTANTS_DESC,
    MAGIC,
    NETWORK_DESC,
    Qpc,
    read_qpc,
    write_qpc,
)
from npuscope.families.many_core.records import SECTIONS, SectionId
from npuscope.structs import replace

# --- The public descriptor of a CoreProgram ---
# The stats buffer is an output like the others, under the name that runtimes know to leave out.
# Of a program for several devices it describes the first; `osb.layout` has them all.

# Levels from which on ops are timed, and counted one by one.
_OP_STATS_LEVEL, _EXTENDED_PMU_LEVEL = 70, 100
# Field widths of the public schema; larger sizes are cut to fit.
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
            _io(STATS_OUTPUT, RAW_BYTES, (size,), stats_number, OUTBOUND),
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
    threads = layout.cores * len(layout.threads)
    ops = _op_threads(layout)
    counts = {
        SectionId.THREAD_INF: threads,
        SectionId.THREAD_ACT: threads,
        SectionId.PMU_THREAD: threads,
        SectionId.DDR_CORE: layout.cores,
        SectionId.PORT_WAIT: threads * len(layout.ports),
        SectionId.PORT_RING: layout.cores * len(layout.ports),
        SectionId.SEM_OP: _op_threads(layout, lambda op: "semaphoreinc" in op.kind),
        SectionId.OP_REC: ops,
        SectionId.DMA_REC: _op_threads(
            layout, lambda op: op.asynchronous or op.rd_bytes + op.wr_bytes > 0
        ),
        SectionId.P2P_REC: ops if len(layout.specializations) > 1 else 0,
        SectionId.OP_PMU: ops,
    }
    sections = collected(layout.stats_level, layout)
    total = HEADER.size + ROW.itemsize * len(sections)
    # At most one alignment of padding per section.
    total += sum(ALIGNMENT + counts[key] * SECTIONS[key].dtype.itemsize for key in sections)
    return min(total, _U32)


def _op_threads(layout: Layout, test: Callable[[CoreOpInfo], bool] = lambda op: True) -> int:
    """Ops of the device that has most, counted once per thread."""
    return max(
        sum(
            sum(map(test, ops)) * len(layout.groups[group].threads)
            for core in part.ops
            for group, ops in enumerate(core)
        )
        for part in layout.specializations
    )


LAYOUT, DEPENDENCIES, PROGRAM, VTCM = "osb.layout", "osb.deps", "osb.prog", "osb.vtcm"
FILE_NAME = "programqpc.bin"
_NO_ID = "0" * 32
_EDGE = np.dtype(
    [
        ("specialization", "<u2"),
        ("data", "<u2"),
        ("source_core", "<u2"),
        ("target_core", "<u2"),
        ("source_oc", "<u4"),
        ("target_oc", "<u4"),
    ]
)


def write_program(program: CoreProgram) -> bytes:
    """The container's bytes. Its id is that of the content, whatever the layout carries."""
    segments = _segments(program)
    # The id is a digest of all segments, taken with zeros in its place.
    layout = segments[LAYOUT].replace(_NO_ID.encode(), _digest(segments).encode(), 1)
    return write_qpc({**segments, LAYOUT: layout})


def with_program_id(program: CoreProgram) -> CoreProgram:
    """The program with the id that its container has: the last step of compiling."""
    layout = replace(program.layout, program_uuid=_digest(_segments(program)))
    return replace(program, layout=layout)


def holds_program(path: Path) -> bool:
    """Whether a file is a container, or a folder has one under the name that compilers write."""
    file = path / FILE_NAME if path.is_dir() else path
    return file.is_file() and read_head(file, 4) == MAGIC.to_bytes(4, "little")


def read_layout(data: bytes) -> Layout:
    """The layout of our own container, dependencies included."""
    qpc = _own(read_qpc(data))
    return _verified(qpc, _layout(qpc))


def read_program(data: bytes) -> CoreProgram:
    """The whole program of our own container."""
    qpc = _own(read_qpc(data))
    constants = qpc.get(CONSTANTS) or b""
    program = program_of(qpc.need(PROGRAM), _layout(qpc), constants)
    _verified(qpc, program.layout)
    return program


def _verified(qpc: Qpc, layout: Layout) -> Layout:
    """The id is a digest of the content: another one means that a byte has changed."""
    names = (NETWORK_DESC, CONSTANTS_DESC, CONSTANTS, LAYOUT, DEPENDENCIES, PROGRAM)
    segments = {name: qpc.get(name) or b"" for name in names}
    if VTCM in qpc.names:  # older containers do without
        segments[VTCM] = qpc.need(VTCM)
    plain = segments[LAYOUT].replace(layout.program_uuid.encode(), _NO_ID.encode(), 1)
    digest = _digest({**segments, LAYOUT: plain})
    if digest != layout.program_uuid:
        raise FileError(
            f"is damaged: its content has the id {digest}, it says {layout.program_uuid}",
            hint="compile the network again",
        )
    return layout


def is_own(qpc: Qpc) -> bool:
    """Whether the container has what we write beside the vendor's segments."""
    return LAYOUT in qpc.names


def _segments(program: CoreProgram) -> dict[str, bytes]:
    """All segments, with an empty id: it is computed from them."""
    # The layout and the devices describe the same ops; what is stored once must be the same.
    parts = program.layout.specializations
    infos = [
        tuple(tuple(tuple(op.info for op in group) for group in core) for core in device.ops)
        for device in program.devices
    ]
    if infos != [part.ops for part in parts]:
        raise InternalError("the ops of the layout are not those of the program's devices")
    constants = pack_constants(program.constants)
    places = b"".join(part.held.tobytes() for part in parts)
    edges = [
        (index, edge.data, edge.source[0], edge.target[0], edge.source[1], edge.target[1])
        for index, part in enumerate(parts)
        for edge in part.dependencies
    ]
    return {
        NETWORK_DESC: encode_networkdesc(networkdesc_of(program)),
        CONSTANTS_DESC: constants_desc(len(constants)),
        CONSTANTS: constants,
        LAYOUT: layout_json(replace(program.layout, program_uuid=_NO_ID), dependencies=False),
        DEPENDENCIES: np.array(edges, _EDGE).tobytes(),
        PROGRAM: program_json(program),
        **({VTCM: places} if places else {}),
    }


def _digest(segments: Mapping[str, bytes]) -> str:
    """128 bits over names, sizes and bytes."""
    digest = hashlib.sha256()
    for name, data in segments.items():
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()[:32]


def _layout(qpc: Qpc) -> Layout:
    layout = layout_from_json(qpc.need(LAYOUT))
    data = qpc.get(DEPENDENCIES) or b""
    if len(data) % _EDGE.itemsize:
        raise FileError(
            f"has {len(data):,} bytes, not a multiple of {_EDGE.itemsize}", where=DEPENDENCIES
        )
    edges = [
        (index, Dependency((source_core, source), (target_core, target), bool(true)))
        for index, true, source_core, target_core, source, target in np.frombuffer(
            data, _EDGE
        ).tolist()
    ]
    layout = with_edges(layout, edges)
    data = qpc.get(VTCM) or b""
    if len(data) % HELD.itemsize:
        raise FileError(f"has {len(data):,} bytes, not a multiple of {HELD.itemsize}", where=VTCM)
    rows = np.frombuffer(data, HELD)
    if (rows["core"] >= layout.cores).any():
        raise FileError("names a core that the layout does not have", where=VTCM)
    parts = tuple(
        replace(part, held=rows[rows["specialization"] == number])
        for number, part in enumerate(layout.specializations)
    )
    return replace(layout, specializations=parts)


def _own(qpc: Qpc) -> Qpc:
    if not is_own(qpc):
        raise FileError(
            f"the container has no {LAYOUT}: it comes from the vendor's compiler, and the layout "
            "of that one's stats buffers is not public",
            hint="compile with `npuscope manycore compile`, or give the vendor tool's summary or "
            "trace to `npuscope opstats`",
        )
    return qpc
