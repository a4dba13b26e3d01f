"""The program around the ops: layout, bindings, constants, and the op that ends an inference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from npuscope.families.many_core.buffer_format import HEADER, ROW, aligned, present
from npuscope.families.many_core.compiler.boxes import full
from npuscope.families.many_core.compiler.depth_first import batch_of
from npuscope.families.many_core.compiler.draft import (
    INPUT_PORT,
    INPUT_SEMAPHORE_NUMBER,
    OUTPUT_PORT,
    OUTPUT_SEMAPHORE_NUMBER,
    BufferAccess,
    CoreStep,
    Draft,
    DraftContext,
    Role,
    ports,
)
from npuscope.families.many_core.compiler.kinds import (
    COPY_OUT,
    END_STATS,
    INPUT_SEMAPHORE,
    MULTICAST,
    OUTPUT_SEMAPHORE,
    SEND,
    UNREAD,
    GroupNumber,
    device_dtype,
    is_unread,
    size_bytes,
)
from npuscope.families.many_core.compiler.operands import operand
from npuscope.families.many_core.compiler.options import CoreCompileOptions, stats_level
from npuscope.families.many_core.compiler.vtcm import VtcmPlacement
from npuscope.families.many_core.layout import (
    Capacity,
    CoreOpInfo,
    Dependency,
    Layout,
    MemorySpace,
    Specialization,
)
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.program import Binding, CoreOp, CoreProgram, DeviceProgram, Space
from npuscope.families.many_core.records import SECTIONS, SectionId
from npuscope.graph.model import DType, Graph, Tensor
from npuscope.ops.table import total_macs
from npuscope.structs import replace

# --- Size of the stats buffer that the last op of every thread group writes ---


def stats_bytes(
    counts: Mapping[SectionId, int], level: int, *, has_pmu: bool, ddr_stats: bool
) -> int:
    """Header, table of contents and the sections that level and options allow."""
    sections = present(level, has_pmu=has_pmu, ddr_stats=ddr_stats)
    size = aligned(HEADER.size + ROW.itemsize * len(sections))
    return size + sum(
        aligned(counts.get(key, 0) * SECTIONS[key].dtype.itemsize) for key in sections
    )


# --- Inputs and outputs: doorbells for the cores, semaphores for the host ---


def add_outputs(context: DraftContext) -> None:
    """Every core writes its parts to DDR once the host has room, then tells the host."""
    draft = context.draft
    draft.rank = (len(context.graph.ops), 0, 0)
    draft.next_unit()
    copies: dict[int, list[int]] = {}
    for name in context.graph.outputs:
        value = draft.values.get(name)
        if value is None:  # an input or constant handed through
            whole = full(context.graph.tensors[name].shape)
            parts = operand(context, name, {0: whole}, (f"output:{name}",))
            pieces = [(core, whole, reads) for core, reads in parts.items()]
        else:
            pieces = [
                (core, box, (BufferAccess(buffer, context.bytes_of(name, box), (name, box)),))
                for core, box, buffer in value.all_pieces()
            ]
        for core, box, reads in pieces:
            writes = (BufferAccess(context.in_ddr(name), context.bytes_of(name, box)),)
            step = context.move(core, COPY_OUT, (name, box), reads, writes, (f"output:{name}",))
            wait = None if core in copies else OUTPUT_PORT
            copies.setdefault(core, []).append(draft.add_work(replace(step, port_wait=wait)))
    for core, steps in copies.items():
        step = _semaphore(core, OUTPUT_SEMAPHORE, OUTPUT_SEMAPHORE_NUMBER)
        draft.add_work(replace(step, after=tuple(steps)))


def mark_inputs(context: DraftContext) -> None:
    """The first load of an input waits for the doorbell; after the last the host may continue."""
    draft = context.draft
    loads: dict[int, list[int]] = {}
    last_unit: dict[int, int] = {}
    for number, unit in enumerate(draft.units):
        for step in unit.loads:
            targets = draft.steps[step].writes
            if all(draft.buffers[a.buffer].role is not Role.INPUT for a in targets):
                continue
            core = draft.steps[step].core
            loads.setdefault(core, []).append(step)
            last_unit[core] = number
    for core, steps in loads.items():
        draft.steps[steps[0]] = replace(draft.steps[steps[0]], port_wait=INPUT_PORT)
        semaphore = _semaphore(core, INPUT_SEMAPHORE, INPUT_SEMAPHORE_NUMBER)
        draft.steps.append(replace(semaphore, after=tuple(steps)))
        draft.units[last_unit[core]].work.insert(0, len(draft.steps) - 1)


def _semaphore(core: int, kind: str, number: int) -> CoreStep:
    return CoreStep(core, GroupNumber.DMA, kind, kind, (), (), 0, (), (), (), semaphore=number)


# --- Warnings: what makes a program slower than necessary ---


def add_warnings(draft: Draft, placement: VtcmPlacement, machine: CoreMachine) -> None:
    largest: dict[str, int] = {}
    for buffer in draft.buffers:
        largest[buffer.family] = max(largest.get(buffer.family, 0), buffer.bytes)
    draft.warnings += [
        f"{family}: {largest[family] / 1024:.0f} KB per core do not fit VTCM and go to DDR"
        for family in placement.spilled
    ]

    # Activations of which more than a cache full goes from core to core.
    traffic: dict[str, int] = {}
    for step in draft.steps:
        between_cores = step.kind in (MULTICAST, SEND)
        if between_cores and draft.buffers[step.reads[0].buffer].role is not Role.CONSTANT:
            traffic[step.name] = traffic.get(step.name, 0) + step.out_bytes
    draft.warnings += [
        f"{name}: {size / 1024:.0f} KB of it are sent from core to core"
        for name, size in traffic.items()
        if size > machine.memory.l2_bytes
    ]

    kinds = {step.kind for step in draft.steps if step.group is GroupNumber.HVX}
    draft.warnings += [
        f"{kind}: its speed is not published; {machine.rate(kind):g} cycles per KB are assumed"
        for kind in sorted(kinds)
        if kind not in machine.pcycles_per_kb
    ]


_NO_ID = "0" * 32
_HALF_FLOATS = "float values have 16 bits on the device; the host converts inputs and outputs"
_PIPELINE = "a pipeline: inferences do not overlap here, the rate is that of one in flight"
_MOST_HALF = float(np.finfo(np.float16).max)
Edges = tuple[Dependency, ...]


def with_ends(
    part: DeviceProgram, edges: Edges, machine: CoreMachine, options: CoreCompileOptions
) -> tuple[DeviceProgram, Edges]:
    """Every group of every core ends with the op that writes the stats buffer."""
    size = stats_bytes(
        record_counts(part, machine),
        options.stats_level,
        has_pmu=bool(options.pmu.events),
        ddr_stats=options.ddr_stats,
    )
    ops, more = [], list(edges)
    for core, groups in enumerate(part.ops):
        last = [group[-1].key for group in groups if group]
        first_free = sum(len(group) for group in groups)
        # It waits for the last op of all groups of its core, so that all records are there.
        ends = []
        for number in range(len(groups)):
            name, oc = f"{END_STATS}/__{number}", first_free + number
            info = CoreOpInfo(oc, name, END_STATS, MemorySpace.DDR, ("i8",), (size,), size)
            ends.append(CoreOp(replace(info, wr_bytes=size), core, number, tuple(last)))
        ops.append(tuple((*group, end) for group, end in zip(groups, ends, strict=True)))
        more += [Dependency(key, end.key, False) for end in ends for key in end.waits_for]
    return replace(part, ops=tuple(ops)), tuple(more)


def record_counts(part: DeviceProgram, machine: CoreMachine) -> Counter[SectionId]:
    """Records of one inference, those of the ops that end it included."""
    counts: Counter[SectionId] = Counter()
    width = [len(group.threads) for group in machine.groups()]
    cores, threads = len(part.ops), sum(width)
    for section in (SectionId.THREAD_INF, SectionId.THREAD_ACT, SectionId.PMU_THREAD):
        counts[section] = cores * threads
    counts[SectionId.DDR_CORE] = counts[SectionId.PORT_RING] = cores
    counts[SectionId.OP_REC] = cores * threads
    for op in part.all_ops():
        rows = 1 if op.info.asynchronous else width[op.group]
        counts[SectionId.OP_REC] += rows
        counts[SectionId.SEM_OP] += rows if op.semaphore is not None else 0
        counts[SectionId.DMA_REC] += op.transfer is not None
        counts[SectionId.P2P_REC] += _is_remote(op)
    counts[SectionId.OP_PMU] = counts[SectionId.OP_REC]
    # Every thread records both ports of the host; other ports only the threads that waited there.
    peers = {(op.core, op.port_wait) for op in part.all_ops() if _is_remote(op) and op.port_wait}
    counts[SectionId.PORT_WAIT] = 2 * cores * threads + len(peers)
    return counts


def _is_remote(op: CoreOp) -> bool:
    ends = (op.transfer.source, op.transfer.target) if op.transfer is not None else ()
    return Space.PEER in ends


def assemble(
    graph: Graph,
    draft: Draft,
    parts: list[tuple[DeviceProgram, Edges]],
    vtcm_rows: list[np.ndarray],
    machine: CoreMachine,
    options: CoreCompileOptions,
) -> CoreProgram:
    # What the program loads, as it lies in DDR.
    constants: dict[str, np.ndarray] = {}
    unread_bytes = 0
    for name in draft.in_ddr:
        tensor = graph.tensors[name]
        if is_unread(tensor):
            unread_bytes += size_bytes(tensor, tensor.elements)
        elif tensor.data is not None:
            as_half = device_dtype(tensor) == "float16"
            constants[name] = _halves(name, tensor.data, draft) if as_half else tensor.data
    names = [options.network]
    if options.devices > 1:
        names = [f"{options.network}_slice{i:02d}" for i in range(len(parts))]
    devices = [replace(part, name=name) for name, (part, _) in zip(names, parts, strict=True)]
    layout = _layout(graph, devices, [edges for _, edges in parts], machine, options)
    idle = _idle_depth_first(graph, draft, options)
    more = (*idle, *(_PIPELINE,) * bool(draft.stages), *(UNREAD,) * bool(unread_bytes))
    layout = replace(layout, notes=(*layout.notes, *more))
    networks = zip(layout.specializations, vtcm_rows, strict=True)
    layout = replace(
        layout, specializations=tuple(replace(part, held=rows) for part, rows in networks)
    )
    return CoreProgram(
        layout,
        tuple(devices),
        tuple(_binding(graph.tensors[name]) for name in graph.inputs),
        tuple(_binding(graph.tensors[name]) for name in graph.outputs),
        constants,
        unread_bytes + sum(data.nbytes for data in constants.values()),
        total_macs(graph),
        tuple(dict.fromkeys(draft.warnings)),
    )


def _layout(
    graph: Graph,
    parts: list[DeviceProgram],
    edges: list[Edges],
    machine: CoreMachine,
    options: CoreCompileOptions,
) -> Layout:
    networks = []
    for part, dependencies in zip(parts, edges, strict=True):
        infos = tuple(
            tuple(tuple(op.info for op in group) for group in groups) for groups in part.ops
        )
        networks.append(Specialization(part.name, infos, dependencies))
    level, note = stats_level(options.stats_level)
    floats = any(tensor.dtype is DType.FLOAT32 for tensor in graph.tensors.values())
    macs = machine.hmx.float16_macs_per_cycle if floats else machine.hmx.int8_macs_per_cycle
    return Layout(
        _NO_ID,
        options.network,
        level,
        options.stats_batch,
        options.ddr_stats,
        machine.core_hz,
        len(parts[0].ops),
        machine.threads(),
        machine.groups(),
        ports(options.devices),
        options.pmu,
        tuple(networks),
        tuple(
            text
            for text in (note, _HALF_FLOATS if floats else "", _stats_batch(graph, options))
            if text
        ),
        Capacity(
            machine.name,
            machine.cores.count,
            machine.memory.vtcm_bytes,
            round(macs),
            round(machine.ddr.effective_gb_per_s * 1e9),
        ),
    )


def _stats_batch(graph: Graph, options: CoreCompileOptions) -> str:
    """What the size of a batch does to the figures, and whether runs have it."""
    size, batch = options.stats_batch, batch_of(graph)
    if size == 1:
        return ""
    text = (
        f"-stats-batchsize={size}: a run counts as {size} inferences: opstats divides by it for "
        "inferences per second and cycles per inference; counters stay those of the whole run"
    )
    if batch == size:
        return text
    return f"{text}. The inputs have a batch of {batch}: a run computes {batch}, not {size}"


def _idle_depth_first(graph: Graph, draft: Draft, options: CoreCompileOptions) -> tuple[str, ...]:
    """Why the options for it change nothing, where they do not."""
    has_memory = options.depth_first_mb is not None
    if not options.depth_first:
        alone = "-aic-depth-first-mem: no effect without -aic-enable-depth-first"
        return (alone,) if has_memory else ()
    if draft.batch_parts:
        return ()
    if batch_of(graph) == 1:
        reason = "the inputs have no batch above 1"
    else:
        reason = "every layer holds the whole batch in VTCM"
    names = ("-aic-enable-depth-first", *("-aic-depth-first-mem",) * has_memory)
    return (f"{', '.join(names)}: no effect, {reason}",)


def _binding(tensor: Tensor) -> Binding:
    size = size_bytes(tensor, tensor.elements)
    return Binding(tensor.name, tensor.shape, device_dtype(tensor), size)


def _halves(name: str, data: np.ndarray, draft: Draft) -> np.ndarray:
    with np.errstate(over="ignore"):
        halves = data.astype(np.float16)
    if not np.isinf(halves).any():
        return halves
    draft.warnings.append(f"{name}: values beyond {_MOST_HALF:g} are clipped")
    within: np.ndarray = np.clip(data, -_MOST_HALF, _MOST_HALF)
    return within.astype(np.float16)
