"""The epochs of a c_info.json: kind, operators, blob, kernel call, claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from npuscope.errors import FileError
from npuscope.program.c_info import names
from npuscope.program.c_info.records import AccessInfo, CInfo, GraphInfo, NodeInfo
from npuscope.program.model import Access, Call, Claims, Epoch, EpochKind
from npuscope.program.operators import kernel_name
from npuscope.text import safe_terminal

# A blob's name is not its number: they are counted, from one, in the order they run.
_FIRST_BLOB = 1


def epochs_of(
    info: CInfo, graph: GraphInfo, buffers: Mapping[int, str], pools: Mapping[int, str]
) -> tuple[Epoch, ...]:
    """All epochs but the parameters' and the closing one."""
    nodes = [(index, node) for index, node in enumerate(graph.nodes) if not _pseudo(node)]
    claims = _claims(info, pools)
    blobs = _blobs(info, [node for _, node in nodes])
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
    _check_order(epochs)
    return epochs


def _check_order(epochs: Iterable[Epoch]) -> None:
    for before, after in pairwise(epochs):
        if after.number <= before.number:
            raise FileError(
                f"epoch {after.number} follows epoch {before.number}", where="$.graphs[0].nodes"
            )


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
    return Call(
        kernel=stated[0] if stated else kernel_name(_kernel(node)),
        inputs=tuple(buffers.get(id, "") for id in node.inputs or ()),
        outputs=tuple(buffers.get(id, "") for id in node.outputs or ()),
    )


def _kernel(node: NodeInfo) -> str:
    """The first operator that runs in software, else the first."""
    inner = node.subgraph_nodes or ()
    software = [n for n in inner if names.KINDS.get(n.mapping) is EpochKind.SW]
    return next((_kind_name(n) for n in (*software, *inner)), "")


def _blobs(info: CInfo, nodes: list[NodeInfo]) -> dict[int, int]:
    """Node id to blob; files of 2.0 and 2.1 do not list blobs: there each run of epochs is one."""
    if info.ec_blobs_info:
        listed = enumerate(info.ec_blobs_info, _FIRST_BLOB)
        return {id: number for number, blob in listed for id in blob.nodes_id}
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
        if _moves(row) and row.mpool_id in pools:
            accesses.setdefault(row.node_id, []).append(_access(row, pools))
    stated = {
        row.node_id: Claims(row.ops, row.compute_cycles, row.max_cycles)
        for row in info.power_estimates or ()
    }
    return {
        id: _with(stated.get(id, Claims()), accesses.get(id, ())) for id in {*stated, *accesses}
    }


def _moves(row: AccessInfo) -> bool:
    return any((row.reads, row.writes, row.read_cycles, row.write_cycles))


def _access(row: AccessInfo, pools: Mapping[int, str]) -> Access:
    cycles = float(row.read_cycles or 0), float(row.write_cycles or 0)
    return Access(pools[row.mpool_id], row.reads, row.writes, *cycles)


def _with(claims: Claims, accesses: Iterable[Access]) -> Claims:
    return Claims(claims.ops, claims.compute_cycles, claims.max_cycles, tuple(accesses))
