"""What an epoch of a c_info.json keeps busy, as far as the file tells: units, streams, vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import npuscope.program.c_info.names as names
from npuscope.machine.load import load_machine
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.program.c_info.records import BufferInfo, CInfo, GraphInfo, NodeInfo
from npuscope.program.c_info.to_epochs import MACHINE, hardware_nodes, is_own, kind_name
from npuscope.program.calls import MOVES, kernel_name
from npuscope.program.model import StatedStream, StatedUnits

_VIEWS = having(Trait.VIEW)


def stated_units(info: CInfo, graph: GraphInfo) -> tuple[StatedUnits, ...]:
    """Units and streams of every hardware epoch; our own files do not say which operator reads."""
    if is_own(info):
        return ()
    buffers = {buffer.id: buffer for buffer in info.buffers or ()}
    nodes = hardware_nodes(info, graph)
    inner = [one for _, node in nodes for one in node.subgraph_nodes or ()]
    read = {id for one in (*graph.nodes, *inner) for id in one.inputs or ()}
    read |= set(graph.outputs or ())
    read |= _seen_by_others(read, buffers)
    longest = load_machine(MACHINE).arith.max_vector
    return tuple(
        StatedUnits(
            number,
            tuple(filter(None, map(_unit, node.subgraph_nodes or ()))),
            _streams_in(operators, buffers, longest) + len(_partials(operators, read)),
            sum(len(one.outputs or ()) for one in operators),
            _kernels(operators, buffers),
            _entries(operators, buffers, longest),
            _streams(operators, buffers, longest),
        )
        for number, node in nodes
        for operators in (_streaming(node),)
    )


def _seen_by_others(read: set[int], buffers: Mapping[int, BufferInfo]) -> set[int]:
    """Buffers that are read under another name: that of a view which begins before they end."""
    names_at: dict[tuple[int | None, int | None], list[BufferInfo]] = {}
    for id in read & buffers.keys():
        names_at.setdefault((buffers[id].mpool_id, buffers[id].offset_start), []).append(
            buffers[id]
        )
    return {
        id
        for id, buffer in buffers.items()
        for view in names_at.get((buffer.mpool_id, buffer.offset_start), ())
        if view.epochs and buffer.epochs and view.epochs.start <= buffer.epochs.end
    }


def _streaming(node: NodeInfo) -> Sequence[NodeInfo]:
    """A view of what the epoch itself writes has no stream of its own."""
    operators = node.subgraph_nodes or ()
    made = {id for one in operators for id in one.outputs or ()}
    return [
        one
        for one in operators
        if kernel_name(kind_name(one)) not in _VIEWS or not made.intersection(one.inputs or ())
    ]


def _kernels(operators: Sequence[NodeInfo], buffers: Mapping[int, BufferInfo]) -> tuple[str, ...]:
    """Units in series name the same weights: each buffer once."""
    layers = [one for one in operators if kind_name(one) == "Conv"]
    read = [buffers[id] for one in layers for id in one.inputs or () if id in buffers]
    return tuple(dict.fromkeys(buffer.name for buffer in read if buffer.is_param))


def _unit(operator: NodeInfo) -> str:
    return names.unit_of(kind_name(operator), (operator.attributes or {}).get(names.UNIT_KEY))


def _streams_in(
    operators: Sequence[NodeInfo], buffers: Mapping[int, BufferInfo], longest: int
) -> int:
    """Tensors once each, weights for every convolution, and vectors that no unit can hold."""
    pairs = [(one, id) for one in operators for id in one.inputs or () if id]
    tensors = {id for _, id in pairs if not buffers[id].is_param}
    params = [(kind_name(one) == "Conv", buffers[id]) for one, id in pairs if id not in tensors]
    return len(tensors) + sum(
        is_conv or (vector.shape[0] if vector.shape else 0) > longest for is_conv, vector in params
    )


def _partials(operators: Sequence[NodeInfo], read: set[int]) -> list[int]:
    """Sums that only the epoch itself reads again."""
    return [id for one in operators for id in one.outputs or () if id not in read]


def _entries(operators: Sequence[NodeInfo], buffers: Mapping[int, BufferInfo], longest: int) -> int:
    """Coefficients of the longest vector that an arithmetic unit holds; one alone is a register."""
    sums = [one for one in operators if _unit(one) == "ARITH"]
    read = [buffers[id] for one in sums for id in one.inputs or () if id in buffers]
    sizes = [_elements(vector) for vector in read if vector.is_param]
    return max((size for size in sizes if 1 < size <= longest), default=0)


# What moves data, or combines tensors, takes as long as its longest stream: that follows from the
# tensors, and from how many channels of each lie together.


def _streams(
    operators: Sequence[NodeInfo], buffers: Mapping[int, BufferInfo], longest: int
) -> tuple[StatedStream, ...]:
    if any(kind_name(one) == "Conv" for one in operators):
        return ()
    return tuple(
        stream
        for number, chain in enumerate(_chains(operators, buffers))
        for stream in _chain_streams(number, chain, buffers, longest)
    )


def _chains(
    operators: Sequence[NodeInfo], buffers: Mapping[int, BufferInfo]
) -> list[list[NodeInfo]]:
    """Operators are listed chain by chain: after a result, one that reads a tensor begins a new
    chain. Those without streams of their own are left out."""
    chains: list[list[NodeInfo]] = []
    for one in operators:
        reads = any(id in buffers and not buffers[id].is_param for id in one.inputs or ())
        wrote = bool(chains) and any(before.outputs for before in chains[-1])
        if not chains or (reads and wrote):
            chains.append([])
        if one.inputs or one.outputs:
            chains[-1].append(one)
    return chains


def _chain_streams(
    number: int, chain: Sequence[NodeInfo], buffers: Mapping[int, BufferInfo], longest: int
) -> Iterator[StatedStream]:
    copies = MOVES.issuperset(kernel_name(kind_name(one)) for one in chain)
    sums = {id for one in chain if _unit(one) == "ARITH" for id in one.inputs or ()}
    read = dict.fromkeys(id for one in chain for id in one.inputs or () if id in buffers)
    written = dict.fromkeys(id for one in chain for id in one.outputs or () if id in buffers)
    # Coefficients stay in a unit, as long as they fit.
    read = {id: None for id in read if copies or not _is_held(buffers[id], longest)}
    largest = max((_elements(buffers[id]) for id in (*read, *written)), default=0)
    tensors = [buffers[id] for id in (*read, *written)]
    whole = [one for one in tensors if copies or _elements(one) == largest]
    depth = min((_together(buffer) for buffer in whole), default=1)
    # What a copy writes it has read; files name one part of what is joined or split.
    moved = max(sum(_elements(buffers[id]) for id in ids) for ids in (read, written))
    for ids, writes in ((read, False), (written, True)):
        for id in ids:
            buffer = buffers[id]
            vector = not writes and id in sums and 1 < _elements(buffer) < largest
            yield StatedStream(
                buffer.name,
                writes,
                number,
                copies,
                moved // len(ids) if copies else _elements(buffer),
                depth if _together(buffer) > depth and not vector else 0,
                min(depth, _elements(buffer)) if vector else 0,
            )


def _is_held(buffer: BufferInfo, longest: int) -> bool:
    return bool(buffer.is_param) and _elements(buffer) <= longest


def _elements(buffer: BufferInfo) -> int:
    return buffer.size_bytes * 8 // buffer.nbits


def _together(buffer: BufferInfo) -> int:
    """Channels of a pixel that lie together."""
    return max(1, buffer.batch or 1)
