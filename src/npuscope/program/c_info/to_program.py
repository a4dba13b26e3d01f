"""A Program from c_info.json: all but the unit registers."""

from __future__ import annotations

from collections.abc import Mapping

from npuscope.errors import FileError
from npuscope.program.c_info import names, tensors
from npuscope.program.c_info.records import BufferInfo, CInfo, GraphInfo, PoolInfo, Tool
from npuscope.program.c_info.to_epochs import epochs_of
from npuscope.program.c_info.views import with_views
from npuscope.program.model import Buffer, Pool, Program
from npuscope.text import safe_terminal

_MACHINE = "stm32n6"
_PREFIX = "0x"


def program_from_c_info(info: CInfo) -> Program:
    """The network as the file states it; every epoch's `groups` is None."""
    graph = _graph(info)
    buffers = {buffer.id: buffer.name for buffer in info.buffers or ()}
    pools = {pool.id: pool.name for pool in info.memory_pools or ()}
    settings = _settings(info)
    epochs = epochs_of(info, graph, buffers, pools)
    blobs = any(epoch.blob is not None for epoch in epochs)
    file, md5 = _model(info)
    memory = tuple(_pool(i, pool, pools) for i, pool in enumerate(info.memory_pools or ()))
    return Program(
        name=graph.name,
        machine=settings.get("MACHINE", _MACHINE),
        generation=settings.get("GENERATION") or names.generation_of(_version(info)),
        epoch_controller=settings.get("EPOCH_CONTROLLER", str(int(blobs))) == "1",
        pools=memory,
        buffers=with_views([_buffer(buffer, pools) for buffer in info.buffers or ()], memory),
        epochs=epochs,
        inputs=tuple(buffers[id] for id in graph.inputs or ()),
        outputs=tuple(buffers[id] for id in graph.outputs or ()),
        model_file=file,
        model_md5=md5,
        source="c_info",
        notes=_notes(info),
    )


def _graph(info: CInfo) -> GraphInfo:
    if info.graphs:
        return info.graphs[0]
    raise FileError(
        "holds no network, only what was measured",
        where="$.graphs",
        hint="use the c_info.json in the compiler's workspace (st_ai_ws/neural_art__<name>)",
    )


def _tool(info: CInfo) -> Tool | None:
    tools = info.environment.tools if info.environment else None
    return tools[0] if tools else None


def _version(info: CInfo) -> str:
    tool = _tool(info)
    return tool.version if tool else ""


def _settings(info: CInfo) -> dict[str, str]:
    """What our own files state in the tool's environment."""
    tool = _tool(info)
    if tool is None or tool.name != names.OWN_TOOL:
        return {}
    pairs = (entry.partition("=") for entry in tool.environment or ())
    return {key: value for key, _, value in pairs}


def _model(info: CInfo) -> tuple[str, str]:
    """Name and MD5 of the model file that the first tool read."""
    tool = _tool(info)
    files = tool.input_model.model_files if tool and tool.input_model else None
    if not files:
        return "", ""
    return files[0].name, (files[0].signature or "").removeprefix(_PREFIX)


def _pool(index: int, info: PoolInfo, pools: Mapping[int, str]) -> Pool:
    attributes = info.attributes
    if attributes is None:
        raise FileError("'attributes' is missing", where=f"$.memory_pools[{index}]")
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


def _notes(info: CInfo) -> tuple[str, ...]:
    relative = [pool.name for pool in info.memory_pools or () if _address(pool) is None]
    return tuple(f"pool '{safe_terminal(name)}' has no fixed address" for name in relative)


def _buffer(info: BufferInfo, pools: Mapping[int, str]) -> Buffer:
    shape = tensors.logical_shape(info)
    offset = -1 if info.offset_start is None else info.offset_start
    placed = offset >= 0 and info.mpool_id in pools
    return Buffer(
        name=info.name,
        size_bytes=info.size_bytes,
        shape=shape,
        nbits=info.nbits,
        batch=tensors.stored_batch(info, shape[-1]),
        pool=pools[info.mpool_id] if placed and info.mpool_id else "",
        offset=offset if placed else 0,
        first=info.epochs.start if info.epochs else 0,
        last=info.epochs.end if info.epochs else 0,
        is_param=bool(info.is_param),
        is_float=tensors.is_float(info),
        signed=tensors.is_signed(info),
        quant=tensors.quant_of(info),
    )
