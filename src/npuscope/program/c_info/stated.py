"""What an epoch of a c_info.json keeps busy, as far as the file tells: units, streams, vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npuscope.machine.load import load_machine
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.program.c_info.records import BufferInfo, CInfo, GraphInfo, NodeInfo
from npuscope.program.c_info.streams import elements_of, streams_of, unit_name
from npuscope.program.c_info.to_epochs import MACHINE, hardware_nodes, kind_name
from npuscope.program.calls import kernel_name
from npuscope.program.stated import StatedUnits

_VIEWS = having(Trait.VIEW)


def stated_units(info: CInfo, graph: GraphInfo) -> tuple[StatedUnits, ...]:
    """Units and streams of every hardware epoch."""
    buffers = {buffer.id: buffer for buffer in info.buffers or ()}
    nodes = hardware_nodes(info, graph)
    inner = [one for _, node in nodes for one in node.subgraph_nodes or ()]
    read = {id for one in (*graph.nodes, *inner) for id in one.inputs or ()}
    read |= set(graph.outputs or ())
    read |= _seen_by_others(read, buffers)
    cycles = {row.node_id: row.compute_cycles for row in info.power_estimates or ()}
    longest = load_machine(MACHINE).arith.max_vector
    return tuple(
        StatedUnits(
            number,
            tuple(filter(None, map(unit_name, node.subgraph_nodes or ()))),
            _streams_in(operators, buffers, longest) + len(_partials(operators, read)),
            sum(len(one.outputs or ()) for one in operators),
            _kernels(operators, buffers),
            _entries(operators, buffers, longest),
            *streams_of(operators, buffers, longest, cycles.get(node.id, 0)),
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
    sums = [one for one in operators if unit_name(one) == "ARITH"]
    read = [buffers[id] for one in sums for id in one.inputs or () if id in buffers]
    sizes = [elements_of(vector) for vector in read if vector.is_param]
    return max((size for size in sizes if 1 < size <= longest), default=0)
