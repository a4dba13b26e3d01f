"""Epochs of our Program as the nodes, edges and blobs of c_info.json, with the power of their
memories."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, groupby, pairwise
from typing import Any

from msgspec import Struct

import npuscope.program.c_info.names as names
from npuscope.machine.model import Machine
from npuscope.program.c_info.names import Vocabulary
from npuscope.program.c_info.operators import operators_of, vectors
from npuscope.program.c_info.records import BlobInfo, Edge, EdgeEnd, NodeInfo
from npuscope.program.model import Epoch, EpochKind, Pool, Program
from npuscope.program.units import Streng

# Memory power of an epoch, as the vendor's compiler estimates it.
#
# Inferred from public files: energy is twice the power of a pool for each of its words moved,
# averaged over the epoch's compute cycles. It gives the stated whole milliwatts for 96 % of the
# hardware epochs there; the others, of one network, are stated up to 8 % higher.

_WORD_CYCLES = 2  # fits the files; the reason is not known


def pool_power_mw(pool: Pool, machine: Machine) -> tuple[float, float]:
    """Power of reading and of writing; a virtual pool is as hungry as its hungriest part."""
    parts = pool.subpools or (pool.name,)
    memories = [memory for memory in machine.pools if memory.name in parts]
    read = max((memory.read_power_mw for memory in memories), default=0.0)
    return read, max((memory.write_power_mw for memory in memories), default=0.0)


def memory_energy(epoch: Epoch, program: Program, machine: Machine) -> float:
    """Milliwatts times cycles of all that the epoch moves; software epochs count nothing."""
    if epoch.kind is not EpochKind.HW:
        return 0.0
    pools, energy = program.pool_map(), 0.0
    for access in epoch.claims.accesses:
        pool = pools[access.pool]
        read, write = pool_power_mw(pool, machine)
        energy += (access.reads * read + access.writes * write) / pool.byte_width
    return _WORD_CYCLES * energy


def memory_power_mw(epoch: Epoch, program: Program, machine: Machine) -> float:
    """Average over the compute cycles; 0 for an epoch that only moves data."""
    cycles = epoch.claims.compute_cycles
    return memory_energy(epoch, program, machine) / cycles if cycles else 0.0


# Epochs of our Program as the nodes, edges and blobs of c_info.json.

_MOVES_ONLY = "NULL_UNIT 0"


class Ids(Struct, frozen=True):
    """Numbers for names; 0 stands for none."""

    pools: dict[str, int]
    buffers: dict[str, int]
    epochs: dict[int, int]  # epoch number to node id
    closing: int

    @staticmethod
    def of(program: Program) -> Ids:
        """Nodes are numbered as the file lists them: an epoch, then its operators."""
        pools = {pool.name: id for id, pool in enumerate(program.pools, 1)}
        buffers = {buffer.name: id for id, buffer in enumerate(program.buffers, 1)}
        following = 2 + len(_parameters(program))
        epochs = {}
        for epoch in program.epochs:
            epochs[epoch.number] = following
            following += 1 + len(operators_of(epoch))
        return Ids(pools, buffers, epochs, following)


class GraphParts(Struct, frozen=True):
    nodes: tuple[NodeInfo, ...]
    edges: tuple[Edge, ...]


def graph_nodes(program: Program, ids: Ids) -> GraphParts:
    words = names.dialect(program.generation)
    inner = tuple(
        _node(name, id, words.parameters, names.PARAM, words)
        for id, name in enumerate(_parameters(program), 2)
    )
    parameters = _node(names.epoch_name(0), 1, words.parameters, "", words, subgraph_nodes=inner)
    epochs = [_epoch_node(epoch, ids, words) for epoch in program.epochs]
    nodes = (parameters, *epochs, _closing_node(program, ids, words))
    return GraphParts(nodes, tuple(_edges(program, nodes, ids, words)))


def _parameters(program: Program) -> list[str]:
    return [buffer.name for buffer in program.buffers if buffer.is_param]


def _node(name: str, id: int, mapping: str, kind: str, words: Vocabulary, **more: Any) -> NodeInfo:
    settings = {
        "inputs": (),
        "outputs": (),
        "scratchs": (),
        "subgraph_nodes": (),
        "macc": 0,
        "original_nodes": (),
        "attributes": {},
        "sw_functions": (),
        words.kind_key: names.kind_text(kind, words),
    }
    return NodeInfo(name, id, mapping, **{**settings, **more})


def _closing_node(program: Program, ids: Ids, words: Vocabulary) -> NodeInfo:
    number = max((epoch.last_number for epoch in program.epochs), default=0) + 1
    outputs = tuple(ids.buffers[name] for name in program.outputs)
    inner = _node(
        "__NN__RETURN__", ids.closing + 1, words.closing, names.RETURN, words, inputs=outputs
    )
    return _node(
        names.epoch_name(number),
        ids.closing,
        words.closing,
        "",
        words,
        inputs=outputs,
        subgraph_nodes=(inner,),
    )


def _epoch_node(epoch: Epoch, ids: Ids, words: Vocabulary) -> NodeInfo:
    inputs, outputs = _buffers(epoch)
    return _node(
        names.epoch_name(epoch.number),
        ids.epochs[epoch.number],
        names.MAPPINGS[epoch.kind] if epoch.blob is None else names.CONTROLLER,
        "",
        words,
        inputs=tuple(ids.buffers.get(name, 0) for name in inputs),
        outputs=tuple(ids.buffers.get(name, 0) for name in outputs),
        subgraph_nodes=tuple(_operators(epoch, ids, words)),
        original_nodes=epoch.origin,
        sw_functions=(epoch.call.kernel,) if epoch.call else (),
    )


def _buffers(epoch: Epoch) -> tuple[list[str], list[str]]:
    """What the epoch reads and writes."""
    if epoch.call is not None:
        return list(epoch.call.inputs), list(epoch.call.outputs)
    inputs: dict[str, None] = {}
    outputs: dict[str, None] = {}
    for unit in epoch.units:
        writes = isinstance(unit, Streng) and unit.dir
        places = [unit.addr_base] if isinstance(unit, Streng) else vectors(unit)
        (outputs if writes else inputs).update({ref.buffer: None for ref in places})
    return list(inputs), list(outputs)


def _operators(epoch: Epoch, ids: Ids, words: Vocabulary) -> Iterator[NodeInfo]:
    moves = epoch.kind is EpochKind.HW and all(isinstance(u, Streng) for u in epoch.units)
    for number, one in enumerate(operators_of(epoch), ids.epochs[epoch.number] + 1):
        unit = one.unit or (_MOVES_ONLY if moves and epoch.units else "")
        attributes = {names.UNIT_KEY: unit} if unit and words.states_units else {}
        # The first operator of a hybrid epoch is the library call, the others are its DMA.
        if epoch.kind is EpochKind.HYBRID:
            mapping = names.HARDWARE if one.place else names.SOFTWARE
        else:
            mapping = names.MAPPINGS[epoch.kind]
        yield _node(
            names.operator_name(one.kind, epoch.number, one.place, one.series),
            number,
            mapping,
            one.kind,
            words,
            attributes=attributes,
            inputs=tuple(ids.buffers[name] for name in one.inputs if name in ids.buffers),
            outputs=tuple(ids.buffers[name] for name in one.outputs if name in ids.buffers),
        )


def _edges(
    program: Program, nodes: tuple[NodeInfo, ...], ids: Ids, words: Vocabulary
) -> Iterator[Edge]:
    numbers = count(1)
    # The nodes that the host starts: of a blob only the first.
    blobs = [None, *(epoch.blob for epoch in program.epochs), None]
    pairs = zip(nodes, blobs, strict=True)
    starts = [
        node for place, (node, blob) in enumerate(pairs) if blob is None or blobs[place - 1] != blob
    ]
    for before, after in pairwise(starts):
        ends = [names.epoch_number(node.name) for node in (before, after)]
        name = f"{words.dependency}_{ends[0]}_{ends[1]}"
        yield _edge(name, next(numbers), names.FLOW, 0, before.id, after.id)
    makers = {ids.buffers[inner.name]: inner.id for inner in nodes[0].subgraph_nodes or ()}
    text = {id: name for name, id in ids.buffers.items()}
    for node in nodes[1:]:
        for buffer in dict.fromkeys(node.inputs or ()):
            if buffer in makers:
                start = makers[buffer]
                yield _edge(text[buffer], next(numbers), names.MEMORY, buffer, start, node.id)
        makers.update(dict.fromkeys(node.outputs or (), node.id))


def _edge(name: str, id: int, kind: str, buffer: int, start: int, end: int) -> Edge:
    return Edge(name, id, kind, EdgeEnd(start, 0), EdgeEnd(end, 0), buffer, {})


def blobs_of(program: Program, ids: Ids) -> tuple[BlobInfo, ...]:
    """Blobs are named after their first epoch."""
    blob_epochs = [epoch for epoch in program.epochs if epoch.blob is not None]
    result = []
    for _, group in groupby(blob_epochs, key=lambda epoch: epoch.blob):
        epochs = list(group)
        name = f"_ec_blob_{program.name}_{epochs[0].number}"
        nodes = tuple(ids.epochs[epoch.number] for epoch in epochs)
        result.append(BlobInfo(name, nodes, encrypted=False))
    return tuple(result)
