"""Our Program as c_info.json, the compiler's flavour, in the dialect of its generation."""

from __future__ import annotations

import npuscope.program.c_info.names as names
from npuscope.machine.model import Machine
from npuscope.program.c_info.from_epochs import (
    Ids,
    blobs_of,
    graph_nodes,
    memory_power_mw,
    pool_power_mw,
)
from npuscope.program.c_info.operators import ListedLayout, layouts
from npuscope.program.c_info.records import (
    AccessInfo,
    BufferInfo,
    BufferLife,
    CInfo,
    DataFormat,
    Environment,
    GraphInfo,
    ListedFile,
    ModelEntry,
    OriginalTensor,
    PoolAttributes,
    PoolInfo,
    PowerInfo,
    Tool,
)
from npuscope.program.model import Access, Buffer, Pool, Program
from npuscope.version import __version__

_NO_BURST_LIMIT = (1 << 32) - 1
_SHAPE_MAPS = {2: ("BATCH", "CH"), 3: ("BATCH", "H", "CH"), 4: ("BATCH", "H", "W", "CH")}


def c_info_of(program: Program, machine: Machine) -> CInfo:
    """Pools, buffers, epochs and what the program claims of them."""
    ids = Ids.of(program)
    nodes = graph_nodes(program, ids)
    # A row for each epoch and pool: those it uses in their order, then the others.
    real = [pool.name for pool in program.pools if not pool.virtual]
    accesses = []
    for epoch in program.epochs:
        used = {access.pool for access in epoch.claims.accesses}
        idle = (Access(pool) for pool in real if pool not in used)
        node = ids.epochs[epoch.number]
        accesses += [_access(one, node, ids) for one in (*epoch.claims.accesses, *idle)]
    buffers, shapes = program.buffer_map(), layouts(program)
    graph = GraphInfo(
        name=program.name,
        id=1,
        inputs=tuple(ids.buffers[name] for name in program.inputs),
        outputs=tuple(ids.buffers[name] for name in program.outputs),
        nodes=nodes.nodes,
        edges=nodes.edges,
        original_inputs=tuple(_original(buffers[name]) for name in program.inputs),
        original_outputs=tuple(_original(buffers[name]) for name in program.outputs),
    )
    return CInfo(
        json_schema_version=names.SCHEMA_VERSION,
        environment=_environment(program),
        buffers=tuple(_buffer(buffer, ids, shapes.get(buffer.name)) for buffer in program.buffers),
        graphs=(graph,),
        memory_pools=tuple(_pool(pool, program, machine, ids) for pool in program.pools),
        memory_accesses=tuple(accesses),
        power_estimates=_power(program, machine, ids),
        ec_blobs_info=blobs_of(program, ids),
    )


def _environment(program: Program) -> Environment:
    """The tool's settings carry what the format has no key for."""
    settings = (
        f"GENERATION={program.generation}",
        f"EPOCH_CONTROLLER={int(program.epoch_controller)}",
        f"MACHINE={program.machine}",
        *((f"MACS={program.macs}",) if program.macs else ()),
    )
    parameters = [buffer for buffer in program.buffers if buffer.is_param]
    model = ModelEntry(
        name=program.name,
        type=program.model_file.rpartition(".")[2] if "." in program.model_file else "",
        size=sum(int(buffer.size_bytes) for buffer in parameters),
        n_params=program.params,
        model_files=_model_files(program),
        generated_time="",
    )
    tool = Tool(names.OWN_TOOL, __version__, "", settings, model)
    images = [pool.file_name for pool in program.pools if pool.file_name]
    files = (names.image_name(image) for image in images)
    return Environment(
        (tool,),
        ModelEntry(program.name, "", 0, 0, tuple(ListedFile(file, "") for file in files), ""),
        "",
        "",
        "",
    )


def _model_files(program: Program) -> tuple[ListedFile, ...]:
    if not program.model_file and not program.model_md5:
        return ()
    return (ListedFile(program.model_file, f"0x{program.model_md5}" if program.model_md5 else ""),)


def _buffer(buffer: Buffer, ids: Ids, layout: ListedLayout | None) -> BufferInfo:
    first, last = names.layout_flags(buffer)
    return BufferInfo(
        name=buffer.name,
        id=ids.buffers[buffer.name],
        mpool_id=ids.pools.get(buffer.pool, 0),
        alignment=1,
        offset_start=int(buffer.offset) if buffer.pool else -1,
        size_bytes=int(buffer.size_bytes),
        is_param=buffer.is_param,
        flags="",
        epochs=BufferLife(int(buffer.first), int(buffer.last)),
        shape=layout.shape if layout else names.listed_shape(buffer),
        shape_map=(),
        channel_first=first,
        channel_last=last,
        batch=layout.batch if layout else int(buffer.batch),
        format=names.format_name(buffer),
        nbits=int(buffer.nbits),
        qmn=names.fixed_point(buffer),
        intq=names.affine(buffer),
    )


def _original(buffer: Buffer) -> OriginalTensor:
    axes = _SHAPE_MAPS.get(len(buffer.shape), ())
    shape = tuple(int(size) for size in buffer.shape)
    return OriginalTensor(buffer.tensor or buffer.name, _data_format(buffer), shape, axes, axes)


def _data_format(buffer: Buffer) -> DataFormat:
    if buffer.is_float:
        return DataFormat("NONE", (), (), "FLOAT", int(buffer.nbits))
    kind = "SIGNED" if buffer.signed else "UNSIGNED"
    affine = names.affine(buffer)
    if affine is None:
        return DataFormat("NONE", (), (), kind, int(buffer.nbits))
    return DataFormat("UNIFORM", affine.scales, affine.offsets, kind, int(buffer.nbits))


def _pool(pool: Pool, program: Program, machine: Machine, ids: Ids) -> PoolInfo:
    return PoolInfo(
        name=pool.name,
        fname=names.image_name(pool.file_name),
        id=ids.pools[pool.name],
        alignment=machine.placement.alignment_bytes,
        address=str(int(pool.address)),
        offset_start=0,
        size_bytes=int(pool.size_bytes),
        used_size_bytes=int(pool.used_bytes),
        rights="ACC_WRITE" if pool.writable else "ACC_READ",
        cacheable="CACHEABLE_ON" if pool.cacheable else "CACHEABLE_OFF",
        pipelined="PIPELINED_ON",
        user_allocated=False,
        persistent=True,
        attributes=_attributes(pool, program, machine),
        subpools=tuple(ids.pools[name] for name in pool.subpools),
        buffers=tuple(ids.buffers[b.name] for b in program.buffers if b.pool == pool.name),
    )


def _attributes(pool: Pool, program: Program, machine: Machine) -> PoolAttributes:
    read, write = pool_power_mw(pool, machine)
    # Throughput and latency in the vendor's classes: the fastest pools, others, external ones.
    fastest = max(other.byte_width / other.freq_ratio for other in program.pools)
    fast = pool.byte_width / pool.freq_ratio == fastest
    if pool.cacheable:
        throughput, latency = "MID", "HIGH"
    else:
        throughput, latency = (
            ("HIGH" if fast else "MID"),
            ("LOW" if fast and not pool.virtual else "MID"),
        )
    return PoolAttributes(
        throughput=throughput,
        latency=latency,
        byte_width=int(pool.byte_width),
        freq_ratio=pool.freq_ratio,
        burst_max_length=_NO_BURST_LIMIT,
        burst_penalty=0,
        read_power=read,
        write_power=write,
        use_for_initrs=pool.cacheable,
        score=int(pool.score),
    )


def _access(access: Access, node: int, ids: Ids) -> AccessInfo:
    return AccessInfo(
        node_id=node,
        mpool_id=ids.pools[access.pool],
        reads=int(access.reads),
        read_cycles=_short(access.read_cycles),
        writes=int(access.writes),
        write_cycles=_short(access.write_cycles),
    )


def _short(cycles: float) -> float:
    """Whole numbers are written as such."""
    return int(cycles) if cycles == int(cycles) else float(cycles)


def _power(program: Program, machine: Machine, ids: Ids) -> tuple[PowerInfo, ...]:
    """The units' own power is not estimated: 0."""
    return tuple(
        PowerInfo(
            node_id=ids.epochs[epoch.number],
            ops=int(epoch.claims.ops),
            compute_cycles=int(epoch.claims.compute_cycles),
            max_cycles=int(epoch.claims.max_cycles),
            average_acc_power_mw=0,
            average_memory_power_mw=int(memory_power_mw(epoch, program, machine)),
        )
        for epoch in program.epochs
    )
