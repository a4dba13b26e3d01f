"""The epochs of a c_info.json: kind, operators, blob, kernel call, claims, stated units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import npuscope.program.c_info.names as names
from npuscope.errors import FileError
from npuscope.machine.load import load_machine
from npuscope.program.c_info.records import (
    BufferInfo,
    CInfo,
    GraphInfo,
    NodeInfo,
)
from npuscope.program.calls import kernel_name
from npuscope.program.model import (
    Access,
    Call,
    Claims,
    Epoch,
    EpochKind,
    StatedUnits,
)
from npuscope.structs import replace
from npuscope.text import safe_terminal

# A blob's name is not its number: they are counted, from one, in the order they run.
_FIRST_BLOB = 1
MACHINE = "stm32n6"


def epochs_of(
    info: CInfo, graph: GraphInfo, buffers: Mapping[int, str], pools: Mapping[int, str]
) -> tuple[Epoch, ...]:
    """All epochs but the parameters' and the closing one."""
    nodes = _epoch_nodes(info, graph)
    claims = _claims(info, pools)
    blobs = _blobs(info, graph, [node for _, node in nodes])
    own = _is_own(info)
    epochs = tuple(
        Epoch(
            number=_number(node, index),
            last_number=_number(node, index),
            kind=_kind(node, index),
            operators=_operators(node),
            origin=_origin(node, own),
            blob=blobs.get(node.id),
            groups=None,
            call=_call(node, buffers, own),
            claims=claims.get(node.id, Claims()),
        )
        for index, node in nodes
    )
    for before, after in pairwise(epochs):
        if after.number <= before.number:
            raise FileError(
                f"epoch {after.number} follows epoch {before.number}", where="$.graphs[0].nodes"
            )
    return epochs


def _epoch_nodes(info: CInfo, graph: GraphInfo) -> list[tuple[int, NodeInfo]]:
    """Every epoch with the place of its node; from 4.0 on the node of a blob holds its epochs."""
    holders = {blob.blob_id for blob in info.ec_blobs_info or ()} - {None}
    listed = [
        (index, inner)
        for index, node in enumerate(graph.nodes)
        for inner in ((node.subgraph_nodes or ()) if node.id in holders else (node,))
    ]
    return [(index, node) for index, node in listed if not _pseudo(node)]


def _is_own(info: CInfo) -> bool:
    tools = info.environment.tools if info.environment else None
    return tools is not None and any(tool.name == names.OWN_TOOL for tool in tools[:1])


def _pseudo(node: NodeInfo) -> bool:
    """Epoch 0 holds the parameters; the last one only returns."""
    kinds = set(_operators(node))
    return kinds in ({names.PARAM}, {names.RETURN}) or (not kinds and node.name == "epoch_0")


def _number(node: NodeInfo, index: int) -> int:
    number = names.epoch_number(node.name)
    if number is None:
        raise FileError(
            f"expected 'epoch_<number>', found '{safe_terminal(node.name)}'",
            where=f"$.graphs[0].nodes[{index}].name",
            hint="only networks compiled for the Neural-ART NPU have epochs",
        )
    return number


def _kind(node: NodeInfo, index: int) -> EpochKind:
    kind = names.KINDS.get(node.mapping)
    if kind is None:
        raise FileError(
            f"unknown mapping '{safe_terminal(node.mapping)}'; known: {', '.join(names.KINDS)}",
            where=f"$.graphs[0].nodes[{index}].mapping",
        )
    return kind


def _operators(node: NodeInfo) -> tuple[str, ...]:
    return tuple(_kind_name(inner) for inner in node.subgraph_nodes or ())


def _kind_name(node: NodeInfo) -> str:
    return names.kind_of(node.type, node.description)


def _origin(node: NodeInfo, own: bool) -> tuple[str, ...]:
    """The vendor leaves `original_nodes` empty: its operators' names are the nearest thing."""
    if own:
        return _texts(node.original_nodes)
    return tuple(inner.name for inner in node.subgraph_nodes or ())


def _texts(values: Iterable[Any] | None) -> tuple[str, ...]:
    return tuple(value for value in values or () if isinstance(value, str))


def _call(node: NodeInfo, buffers: Mapping[int, str], own: bool) -> Call | None:
    if names.KINDS.get(node.mapping) not in (EpochKind.SW, EpochKind.HYBRID):
        return None
    stated = _texts(node.sw_functions) if own else ()
    # The first operator that runs in software, else the first.
    operators = node.subgraph_nodes or ()
    software = [one for one in operators if names.KINDS.get(one.mapping) is EpochKind.SW]
    first = next((_kind_name(one) for one in (*software, *operators)), "")
    return Call(
        kernel=stated[0] if stated else kernel_name(first),
        inputs=tuple(buffers.get(id, "") for id in node.inputs or ()),
        outputs=tuple(buffers.get(id, "") for id in node.outputs or ()),
    )


def _blobs(info: CInfo, graph: GraphInfo, nodes: list[NodeInfo]) -> dict[int, int]:
    """Node id to blob; files of 2.0 and 2.1 do not list blobs: there each run of epochs is one."""
    if info.ec_blobs_info:
        children = {node.id: node.subgraph_nodes or () for node in graph.nodes}
        listed = enumerate(info.ec_blobs_info, _FIRST_BLOB)
        return {
            id: number
            for number, blob in listed
            for id in (*(blob.nodes_id or ()), *(n.id for n in children.get(blob.blob_id or 0, ())))
        }
    result: dict[int, int] = {}
    number, running = _FIRST_BLOB - 1, False
    for node in nodes:
        controlled = node.mapping == names.CONTROLLER
        number += controlled and not running
        running = controlled
        if controlled:
            result[node.id] = number
    return result


def _claims(info: CInfo, pools: Mapping[int, str]) -> dict[int, Claims]:
    """By node id. Rows of pools that an epoch leaves alone say nothing."""
    accesses: dict[int, list[Access]] = {}
    for row in info.memory_accesses or ():
        if (
            any((row.reads, row.writes, row.read_cycles, row.write_cycles))
            and row.mpool_id in pools
        ):
            cycles = float(row.read_cycles or 0), float(row.write_cycles or 0)
            accesses.setdefault(row.node_id, []).append(
                Access(pools[row.mpool_id], row.reads, row.writes, *cycles)
            )
    stated = {
        row.node_id: Claims(row.ops, row.compute_cycles, row.max_cycles)
        for row in info.power_estimates or ()
    }
    return {
        id: replace(stated.get(id, Claims()), accesses=tuple(accesses.get(id, ())))
        for id in {*stated, *accesses}
    }


# What an epoch keeps busy, as far as the file tells.


def stated_units(info: CInfo, graph: GraphInfo) -> tuple[StatedUnits, ...]:
    """Units and streams of every hardware epoch; our own files do not say which operator reads."""
    if _is_own(info):
        return ()
    buffers = {buffer.id: buffer for buffer in info.buffers or ()}
    nodes = [(i, n) for i, n in _epoch_nodes(info, graph) if _kind(n, i) is EpochKind.HW]
    inner = [one for _, node in nodes for one in node.subgraph_nodes or ()]
    read = {id for one in (*graph.nodes, *inner) for id in one.inputs or ()}
    read |= set(graph.outputs or ())
    longest = load_machine(MACHINE).arith.max_vector
    return tuple(
        StatedUnits(
            _number(node, index),
            tuple(filter(None, map(_unit, node.subgraph_nodes or ()))),
            _streams_in(node, buffers, longest) + len(_partials(node, read)),
            sum(len(one.outputs or ()) for one in node.subgraph_nodes or ()),
            _kernels(node, buffers),
        )
        for index, node in nodes
    )


def _kernels(node: NodeInfo, buffers: Mapping[int, BufferInfo]) -> tuple[str, ...]:
    """Units in series name the same weights: each buffer once."""
    layers = [one for one in node.subgraph_nodes or () if _kind_name(one) == "Conv"]
    read = [buffers[id] for one in layers for id in one.inputs or () if id in buffers]
    return tuple(dict.fromkeys(buffer.name for buffer in read if buffer.is_param))


def _unit(operator: NodeInfo) -> str:
    return names.unit_of(_kind_name(operator), (operator.attributes or {}).get(names.UNIT_KEY))


def _streams_in(node: NodeInfo, buffers: Mapping[int, BufferInfo], longest: int) -> int:
    """Tensors once each, weights for every convolution, and vectors that no unit can hold."""
    pairs = [(one, id) for one in node.subgraph_nodes or () for id in one.inputs or () if id]
    tensors = {id for _, id in pairs if not buffers[id].is_param}
    params = [(_kind_name(one) == "Conv", buffers[id]) for one, id in pairs if id not in tensors]
    return len(tensors) + sum(
        is_conv or (vector.shape[0] if vector.shape else 0) > longest for is_conv, vector in params
    )


def _partials(node: NodeInfo, read: set[int]) -> list[int]:
    """Sums that only the epoch itself reads again."""
    return [id for one in node.subgraph_nodes or () for id in one.outputs or () if id not in read]
