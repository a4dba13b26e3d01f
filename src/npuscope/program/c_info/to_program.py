"""A Program from c_info.json: all but the unit registers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import npuscope.program.c_info.names as names
from npuscope.errors import FileError
from npuscope.program.c_info.operators import SUM_BITS
from npuscope.program.c_info.records import (
    BufferInfo,
    CInfo,
    GraphInfo,
    PoolInfo,
)
from npuscope.program.c_info.stated import stated_units
from npuscope.program.c_info.to_epochs import MACHINE, epochs_of, is_own, kind_name
from npuscope.program.model import (
    Buffer,
    Pool,
    Program,
)
from npuscope.structs import replace
from npuscope.text import safe_terminal

# Which buffers of a c_info.json are views: the file lists them like any other.
#
# A reshape or a transpose that moves nothing gives a second name to live bytes.

Placed = tuple[int, Buffer]  # address


def with_views(buffers: Sequence[Buffer], pools: Iterable[Pool]) -> tuple[Buffer, ...]:
    """Buffers that lie within a live one name it in `view_of`."""
    addresses = {pool.name: pool.address for pool in pools}
    placed = [
        (addresses[b.pool] + b.offset, b)
        for b in buffers
        if b.pool in addresses and not b.is_param and b.size_bytes > 0
    ]
    # The one that holds another comes before it; of equals the one that lived first.
    placed.sort(key=lambda entry: (entry[0], -entry[1].size_bytes, entry[1].first))
    # View to the buffer it lies in, by name; `open` are those that may still hold others.
    homes: dict[str, str] = {}
    open_: list[Placed] = []
    for start, buffer in placed:
        open_ = [(at, other) for at, other in open_ if at + other.size_bytes > start]
        home = next((other for at, other in open_ if _holds(at, other, start, buffer)), None)
        if home is not None:
            homes[buffer.name] = home.name
        open_.append((start, buffer))
    return tuple(replace(b, view_of=homes[b.name]) if b.name in homes else b for b in buffers)


def _holds(at: int, other: Buffer, start: int, buffer: Buffer) -> bool:
    inside = start + buffer.size_bytes <= at + other.size_bytes
    return inside and other.first <= buffer.last and buffer.first <= other.last


_PREFIX = "0x"


def program_from_c_info(info: CInfo) -> Program:
    """The network as the file states it; every epoch's `groups` is None."""
    graph = _graph(info)
    _check_target(info)
    buffers = {buffer.id: buffer.name for buffer in info.buffers or ()}
    pools = {pool.id: pool.name for pool in info.memory_pools or ()}
    # What our own files state in the tool's environment.
    tools = info.environment.tools if info.environment else None
    tool = tools[0] if tools else None
    if tool is None or tool.name != names.OWN_TOOL:
        settings = {}
    else:
        pairs = (entry.partition("=") for entry in tool.environment or ())
        settings = {key: value for key, _, value in pairs}
    macs = settings.get("MACS", "")
    epochs = epochs_of(info, graph, buffers, pools)
    blobs = any(epoch.blob is not None for epoch in epochs)
    # Name and MD5 of the model file that the first tool read.
    files = tool.input_model.model_files if tool and tool.input_model else None
    if not files:
        file, md5 = "", ""
    else:
        file, md5 = files[0].name, (files[0].signature or "").removeprefix(_PREFIX)
    memory = tuple(_pool(i, pool, pools) for i, pool in enumerate(info.memory_pools or ()))
    relative = [pool.name for pool in info.memory_pools or () if _address(pool) is None]
    return Program(
        name=graph.name,
        machine=settings.get("MACHINE", MACHINE),
        generation=settings.get("GENERATION") or names.generation_of(tool.version if tool else ""),
        epoch_controller=settings.get("EPOCH_CONTROLLER", str(int(blobs))) == "1",
        pools=memory,
        buffers=with_views([_buffer(one, pools) for one in _stored(info, graph)], memory),
        epochs=epochs,
        inputs=tuple(buffers[id] for id in graph.inputs or ()),
        outputs=tuple(buffers[id] for id in graph.outputs or ()),
        model_file=file,
        model_md5=md5,
        source="c_info",
        notes=tuple(f"pool '{safe_terminal(name)}' has no fixed address" for name in relative),
        stated_units=stated_units(info, graph),
        macs=int(macs) if macs.isdecimal() and len(macs) < 20 else 0,
        params=(tool.input_model.n_params or 0) if tool and tool.input_model else 0,
    )


def _graph(info: CInfo) -> GraphInfo:
    if info.graphs:
        return info.graphs[0]
    if all(getattr(info, key) is None for key in ("environment", "validation", "memory_footprint")):
        raise FileError(
            "this JSON file is not a c_info.json of the vendor's compiler",
            hint="`npuscope inspect FILE` says what it is",
        )
    raise FileError(
        "has no network, only measurements",
        where="$.graphs",
        hint="use the c_info.json in the compiler's workspace (st_ai_ws/neural_art__<name>)",
    )


def _check_target(info: CInfo) -> None:
    """Memories of CPU targets have no speed, and their layers no epochs."""
    pools = info.memory_pools or ()
    if pools and all(is_for_cpu(pool) for pool in pools):
        raise FileError(
            "was made for the CPU only: it has layers, but no NPU epochs",
            hint="generate it again with --st-neural-art and a profile",
        )


def is_for_cpu(pool: PoolInfo) -> bool:
    return pool.attributes is not None and pool.attributes.byte_width is None


def _pool(index: int, info: PoolInfo, pools: Mapping[int, str]) -> Pool:
    attributes = info.attributes
    if attributes is None:
        raise FileError("'attributes' is missing", where=f"$.memory_pools[{index}]")
    if attributes.byte_width is None or attributes.freq_ratio is None:
        key = "byte_width" if attributes.byte_width is None else "freq_ratio"
        raise FileError(f"'{key}' is missing", where=f"$.memory_pools[{index}].attributes")
    return Pool(
        name=info.name,
        address=_address(info) or 0,
        size_bytes=max(info.size_bytes, 0),
        byte_width=attributes.byte_width,
        freq_ratio=float(attributes.freq_ratio),
        writable=info.rights != "ACC_READ",
        cacheable=info.cacheable == "CACHEABLE_ON",
        score=attributes.score or 0,
        subpools=tuple(pools[id] for id in info.subpools or ()),
        file_name=names.file_name(info.fname or ""),
        used_bytes=info.used_size_bytes or 0,
    )


def _address(info: PoolInfo) -> int | None:
    """None where the linker places the pool."""
    text = info.address or ""
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        return None
    return int(text) + max(info.offset_start or 0, 0)


def _stored(info: CInfo, graph: GraphInfo) -> Iterable[BufferInfo]:
    """Weights and coefficients of our own are a row of numbers; the file states them by layer."""
    if not is_own(info):
        return info.buffers or ()
    inner = [one for node in graph.nodes for one in node.subgraph_nodes or ()]
    layers = [one for one in inner if kind_name(one) == "Conv"]
    read = {id for one in layers for id in one.inputs or ()}
    sums = {id for one in layers for id in one.outputs or ()}
    return (
        _in_a_row(one)
        if _is_by_layer(one, read)
        else replace(one, batch=names.logical_shape(one)[-1])
        if one.id in sums and one.nbits == SUM_BITS
        else one
        for one in info.buffers or ()
    )


def _is_by_layer(info: BufferInfo, read: set[int]) -> bool:
    if not info.is_param:
        return False
    vector = len(info.shape) == 3 and info.shape[0] > 1 and info.shape[1:] == (1, 1)
    return vector or (len(info.shape) == 4 and info.id in read)


def _in_a_row(info: BufferInfo) -> BufferInfo:
    elements = info.size_bytes * 8 // max(1, info.nbits)
    return replace(info, shape=(elements,), batch=elements)


def _buffer(info: BufferInfo, pools: Mapping[int, str]) -> Buffer:
    shape = names.logical_shape(info)
    offset = -1 if info.offset_start is None else info.offset_start
    placed = offset >= 0 and info.mpool_id in pools
    return Buffer(
        name=info.name,
        size_bytes=info.size_bytes,
        shape=shape,
        nbits=info.nbits,
        batch=names.stored_batch(info, shape[-1]),
        pool=pools[info.mpool_id] if placed and info.mpool_id else "",
        offset=offset if placed else 0,
        first=info.epochs.start if info.epochs else 0,
        last=info.epochs.end if info.epochs else 0,
        is_param=bool(info.is_param),
        is_float=names.is_float(info),
        signed=names.is_signed(info),
        quant=names.quant_of(info),
    )
