"""c_info.json as a document: read, checked, told apart by flavour, written again without loss."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from npuscope.errors import FileError
from npuscope.machine.foreign_json import read_record
from npuscope.program.c_info.records import BufferInfo, CInfo, GraphInfo, NodeInfo, PoolInfo
from npuscope.records import encode
from npuscope.text import safe_terminal

# What a c_info.json says must hold together: ids that lead somewhere, names that are unique.

_NONE = 0  # an id that stands for no buffer, no pool

Problem = tuple[str, str]  # JSON path, what


def check(info: CInfo, file: str) -> None:
    """Raise FileError for the first thing that does not hold."""
    for path, what in problems(info):
        raise FileError(f"{path}: {what}", where=file)


def problems(info: CInfo) -> Iterator[Problem]:
    pools, buffers = info.memory_pools or (), info.buffers or ()
    yield from _unique("$.memory_pools", pools)
    yield from _unique("$.buffers", buffers)
    pool_ids, buffer_ids = {pool.id for pool in pools}, {buffer.id for buffer in buffers}
    yield from _buffers(buffers, pool_ids)
    parts = {pool.id for pool in pools if not pool.subpools}
    for index, pool in enumerate(pools):
        path = f"$.memory_pools[{index}]"
        yield from _known(f"{path}.buffers", pool.buffers or (), buffer_ids, "buffer")
        yield from _known(f"{path}.subpools", pool.subpools or (), parts, "undivided pool")
        for key in ("byte_width", "freq_ratio"):
            if getattr(pool.attributes, key, 1) == 0:
                yield f"{path}.attributes.{key}", "is 0"
    node_ids: set[int] = set()
    for index, graph in enumerate(info.graphs or ()):
        yield from _graph(f"$.graphs[{index}]", graph, buffer_ids, node_ids)
    for index, access in enumerate(info.memory_accesses or ()):
        path = f"$.memory_accesses[{index}]"
        yield from _one(f"{path}.node_id", access.node_id, node_ids, "node")
        yield from _one(f"{path}.mpool_id", access.mpool_id, pool_ids, "pool", _NONE)
    for index, power in enumerate(info.power_estimates or ()):
        path = f"$.power_estimates[{index}].node_id"
        yield from _one(path, power.node_id, node_ids, "node")
    for index, blob in enumerate(info.ec_blobs_info or ()):
        path = f"$.ec_blobs_info[{index}].nodes_id"
        yield from _known(path, blob.nodes_id or (), node_ids, "node")
        yield from _one(f"$.ec_blobs_info[{index}].blob_id", blob.blob_id, node_ids, "node")


def _unique(path: str, rows: Iterable[BufferInfo | PoolInfo]) -> Iterator[Problem]:
    ids: set[int] = set()
    names: set[str] = set()
    for index, row in enumerate(rows):
        if row.id in ids:
            yield f"{path}[{index}].id", f"{row.id} occurs twice"
        if row.name in names:
            yield f"{path}[{index}].name", f"'{safe_terminal(row.name)}' occurs twice"
        ids.add(row.id)
        names.add(row.name)


def _known(
    path: str,
    ids: Iterable[int],
    valid_ids: Collection[int],
    what: str,
    none: int | None = None,
) -> Iterator[Problem]:
    for index, value in enumerate(ids):
        if value != none and value not in valid_ids:
            yield f"{path}[{index}]", f"no {what} has the id {value}"


def _one(
    path: str, id: int | None, valid_ids: Collection[int], what: str, none: int | None = None
) -> Iterator[Problem]:
    if id not in (None, none) and id not in valid_ids:
        yield path, f"no {what} has the id {id}"


def _buffers(buffers: Iterable[BufferInfo], pool_ids: set[int]) -> Iterator[Problem]:
    for index, buffer in enumerate(buffers):
        path = f"$.buffers[{index}]"
        yield from _one(f"{path}.mpool_id", buffer.mpool_id, pool_ids, "pool", _NONE)
        if buffer.epochs and buffer.epochs.end < buffer.epochs.start:
            yield f"{path}.epochs", "ends before it starts"
        if buffer.intq and len(buffer.intq.scales) != len(buffer.intq.offsets):
            counts = f"{len(buffer.intq.scales)} scales and {len(buffer.intq.offsets)} offsets"
            yield f"{path}.intq", f"has {counts}"
        elif buffer.intq and not buffer.intq.scales:
            yield f"{path}.intq.scales", "has no scale"


def _graph(
    path: str, graph: GraphInfo, buffer_ids: set[int], node_ids: set[int]
) -> Iterator[Problem]:
    yield from _known(f"{path}.inputs", graph.inputs or (), buffer_ids, "buffer")
    yield from _known(f"{path}.outputs", graph.outputs or (), buffer_ids, "buffer")
    for index, node in enumerate(graph.nodes):
        yield from _node(f"{path}.nodes[{index}]", node, buffer_ids, node_ids)
    for index, edge in enumerate(graph.edges or ()):
        place = f"{path}.edges[{index}]"
        yield from _one(f"{place}.start.node_id", edge.start.node_id, node_ids, "node")
        yield from _one(f"{place}.end.node_id", edge.end.node_id, node_ids, "node")
        yield from _one(f"{place}.buffer", edge.buffer, buffer_ids, "buffer", _NONE)


def _node(path: str, node: NodeInfo, buffer_ids: set[int], node_ids: set[int]) -> Iterator[Problem]:
    if node.id in node_ids:
        yield f"{path}.id", f"{node.id} occurs twice"
    node_ids.add(node.id)
    for key in ("inputs", "outputs", "scratchs"):
        yield from _known(f"{path}.{key}", getattr(node, key) or (), buffer_ids, "buffer", _NONE)
    for index, inner in enumerate(node.subgraph_nodes or ()):
        yield from _node(f"{path}.subgraph_nodes[{index}]", inner, buffer_ids, node_ids)


# c_info.json as a document: read, told apart by flavour, written again without loss.


class Flavour(Enum):
    """Who wrote the file last."""

    RAW = "compiler"  # the NPU compiler's workspace
    FRONT_END = "front end"  # the same with the memory footprint
    VALIDATED = "validated"  # measurements of a board, alone or merged into the others


def read_c_info(path: str | Path) -> CInfo:
    """The file, with every id in it checked."""
    info = read_record(path, CInfo)
    check(info, str(path))
    return info


def c_info_json(info: CInfo) -> dict[str, Any]:
    """The file's JSON value; equal to what was read."""
    result: dict[str, Any] = encode(info)
    return result


def flavour(info: CInfo) -> Flavour:
    if info.validation is not None or info.aton_execution_time is not None:
        return Flavour.VALIDATED
    return Flavour.RAW if info.memory_footprint is None else Flavour.FRONT_END
