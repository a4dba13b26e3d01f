"""The epochs of a c_info.json: kind, operators, blob, kernel call, claims, stated units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import npuscope.program.c_info.names as names
from npuscope.errors import FileError
from npuscope.machine.npu_ops import OnCpu, support
from npuscope.program.c_info.records import (
    CInfo,
    GraphInfo,
    NodeInfo,
)
from npuscope.program.calls import MOVES, kernel_name
from npuscope.program.model import (
    Access,
    Call,
    Claims,
    Epoch,
    EpochKind,
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
    own = is_own(info)
    # Our own files say of an epoch that it is empty, or that a library call drives the NPU's DMA.
    has_claims = not own and any(claim.max_cycles for claim in claims.values())
    epochs = tuple(
        Epoch(
            number=_number(node, index),
            last_number=_number(node, index),
            kind=(
                EpochKind.EMPTY
                if has_claims and _moves_nothing(node, claims.get(node.id, Claims()))
                else EpochKind.HYBRID
                if not own and _drives_dma(node)
                else _kind(node, index)
            ),
            operators=_own_operators(node) if own else _operators(node),
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


def is_own(info: CInfo) -> bool:
    tools = info.environment.tools if info.environment else None
    return tools is not None and any(tool.name == names.OWN_TOOL for tool in tools[:1])


def _pseudo(node: NodeInfo) -> bool:
    """Epoch 0 holds the parameters; the last one only returns."""
    kinds = set(_operators(node))
    return kinds in ({names.PARAM}, {names.RETURN}) or (not kinds and node.name == "epoch_0")


def _moves_nothing(node: NodeInfo, claims: Claims) -> bool:
    """A reshape, transpose or join in place: the compiler writes no code for it [59 of 59 epochs of
    7 public repositories, 2.0 to 2.2, whose network.c is there too]."""
    kinds = {kernel_name(kind) for kind in _operators(node)}
    is_hardware = names.KINDS.get(node.mapping) is EpochKind.HW
    return is_hardware and claims == Claims() and kinds <= MOVES


def _drives_dma(node: NodeInfo) -> bool:
    """Files call it software; network.c marks such a block as hybrid [93 of 93 epochs of 8 public
    builds, and none of 266 with other kernels]."""
    kinds = [kernel_name(kind) for kind in _operators(node)]
    is_software = names.KINDS.get(node.mapping) is EpochKind.SW
    moves = [kind in MOVES or support(kind).on_cpu is OnCpu.BY_DMA for kind in kinds]
    return is_software and bool(moves) and all(moves)


def hardware_nodes(info: CInfo, graph: GraphInfo) -> list[tuple[int, NodeInfo]]:
    """Number and node of every epoch that is mapped to hardware."""
    nodes = _epoch_nodes(info, graph)
    return [(_number(n, i), n) for i, n in nodes if _kind(n, i) is EpochKind.HW]


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
    return tuple(kind_name(inner) for inner in node.subgraph_nodes or ())


def _own_operators(node: NodeInfo) -> tuple[str, ...]:
    """In the order of the epoch, which the names state; the file lists chain by chain."""
    listed = [(names.operator_place(one.name), one) for one in node.subgraph_nodes or ()]
    ours = sorted(((place, kind_name(one)) for place, one in listed if place >= 0))
    return tuple(kind for _, kind in ours)


def kind_name(node: NodeInfo) -> str:
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
    first = next((kind_name(one) for one in (*software, *operators)), "")
    # What is listed on both sides is scratch memory of the kernel.
    scratch = {*(node.inputs or ())} & {*(node.outputs or ())}
    return Call(
        kernel=stated[0] if stated else kernel_name(first),
        inputs=tuple(buffers.get(id, "") for id in node.inputs or () if id not in scratch),
        outputs=tuple(buffers.get(id, "") for id in node.outputs or () if id not in scratch),
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
