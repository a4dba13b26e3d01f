"""Streams and layers of an epoch of a c_info.json, chain by chain.

What moves data, or combines tensors, takes as long as its longest stream: that follows from the
tensors, and from how many channels of each lie together. A layer takes its frames: their depth is
how the weights are stored, and how many results they have is how sums or coefficients are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import npuscope.program.c_info.names as names
from npuscope.program.c_info.records import BufferInfo, NodeInfo
from npuscope.program.c_info.to_epochs import kind_name
from npuscope.program.calls import MOVES, kernel_name
from npuscope.program.stated import StatedPipe, StatedStream

_CONV = "Conv"
_PASSIVE = MOVES | {"ATONN_bucket"}  # the vendor's word for a place that parts are put in
_MOST_KERNELS = 24  # of a 1x1 layer at once
Buffers = Mapping[int, BufferInfo]


def unit_name(operator: NodeInfo) -> str:
    return names.unit_of(kind_name(operator), (operator.attributes or {}).get(names.UNIT_KEY))


def elements_of(buffer: BufferInfo) -> int:
    return buffer.size_bytes * 8 // max(1, buffer.nbits)


def streams_of(
    operators: Sequence[NodeInfo], buffers: Buffers, longest: int, compute_cycles: int
) -> tuple[tuple[StatedStream, ...], tuple[StatedPipe, ...] | None]:
    """Streams, and layers as far as all of them are known."""
    chains = _chains(operators, buffers)
    # The compiler's cycles are those of the slowest chain.
    own_cycles = compute_cycles if len(chains) == 1 else 0
    pipes = [
        _pipe(number, chain, buffers, own_cycles)
        for number, chain in enumerate(chains)
        if any(kind_name(one) == _CONV for one in chain)
    ]
    known = tuple(pipe for pipe in pipes if pipe is not None)
    by_chain = {pipe.chain: pipe for pipe in known}
    streams = tuple(
        stream
        for number, chain in enumerate(chains)
        for stream in _chain_streams(number, chain, buffers, longest, by_chain.get(number))
    )
    return streams, known if len(known) == len(pipes) else None


def _chains(operators: Sequence[NodeInfo], buffers: Buffers) -> list[list[NodeInfo]]:
    """Operators are listed chain by chain: directly after a result, one that reads a tensor begins
    a new chain. Views are left out."""
    chains: list[list[NodeInfo]] = []
    for one in operators:
        if not (one.inputs or one.outputs) and kernel_name(kind_name(one)) in _PASSIVE:
            continue
        reads = any(id in buffers and not buffers[id].is_param for id in one.inputs or ())
        if not chains or (reads and chains[-1][-1].outputs):
            chains.append([])
        chains[-1].append(one)
    return chains


def _chain_streams(
    number: int,
    chain: Sequence[NodeInfo],
    buffers: Buffers,
    longest: int,
    pipe: StatedPipe | None,
) -> Iterator[StatedStream]:
    copies = MOVES.issuperset(kernel_name(kind_name(one)) for one in chain)
    layers = {id for one in chain if kind_name(one) == _CONV for id in one.inputs or ()}
    partial: set[int] = set()
    if pipe is not None and pipe.sums:
        partial = {id for one in chain if kind_name(one) == _CONV for id in one.outputs or ()}
    sums = {id for one in chain if unit_name(one) == "ARITH" for id in one.inputs or ()}
    read = dict.fromkeys(id for one in chain for id in one.inputs or () if id in buffers)
    written = dict.fromkeys(id for one in chain for id in one.outputs or () if id in buffers)
    # Coefficients stay in a unit, as long as they fit; weights are the layer's.
    read = {id: None for id in read if copies or not _is_held(buffers[id], id in layers, longest)}
    largest = max((elements_of(buffers[id]) for id in (*read, *written)), default=0)
    if not copies:
        largest = _most(chain, read, written, buffers, pipe) or largest
    tensors = [buffers[id] for id in (*read, *written)]
    whole = [one for one in tensors if copies or elements_of(one) >= largest]
    depth = min((_together(buffer) for buffer in whole), default=1)
    # What a copy writes it has read; files name one part of what is joined or split.
    moved = max(sum(elements_of(buffers[id]) for id in ids) for ids in (read, written))
    for ids, writes in ((read, False), (written, True)):
        for id in ids:
            buffer = buffers[id]
            at_once = depth
            if pipe is not None:
                at_once = pipe.depth if id in layers else pipe.kernels
            vector = not (writes or layers) and id in sums and 1 < elements_of(buffer) < largest
            yield StatedStream(
                buffer.name,
                writes,
                number,
                copies,
                moved // len(ids) if copies else min(elements_of(buffer), largest),
                at_once if _together(buffer) > at_once and not vector else 0,
                min(depth, elements_of(buffer)) if vector else 0,
                id in layers,
                id in partial,
            )


def _most(
    chain: Sequence[NodeInfo],
    read: Mapping[int, None],
    written: Mapping[int, None],
    buffers: Buffers,
    pipe: StatedPipe | None,
) -> int:
    """Elements that pass at most: a tensor may be one part of what is joined or cut."""
    if pipe is not None:
        operands = (buffers[id] for one in chain for id in one.inputs or () if id in buffers)
        outputs = next(one.shape[0] for one in operands if one.name == pipe.weights)
        return pipe.results * outputs
    if any(unit_name(one) == "POOL" for one in chain):
        return 0
    return min(max((elements_of(buffers[id]) for id in ids), default=0) for ids in (read, written))


def _is_held(buffer: BufferInfo, is_weight: bool, longest: int) -> bool:
    return bool(buffer.is_param) and (is_weight or elements_of(buffer) <= longest)


def _together(buffer: BufferInfo) -> int:
    """Channels of a pixel that lie together."""
    return max(1, buffer.batch or 1)


# --- Layers ---


def _pipe(
    number: int, chain: Sequence[NodeInfo], buffers: Buffers, compute_cycles: int
) -> StatedPipe | None:
    layers = [one for one in chain if kind_name(one) == _CONV]
    read = dict.fromkeys(id for one in layers for id in one.inputs or () if id in buffers)
    weights = [buffers[id] for id in read if buffers[id].is_param]
    features = [buffers[id] for id in read if not buffers[id].is_param]
    written = [buffers[id] for one in chain for id in one.outputs or () if id in buffers]
    if len(weights) != 1 or len(features) != 1 or not written:
        return None
    if any(unit_name(one) == "POOL" for one in chain):
        return None
    shapes = [_as_map(buffer.shape) for buffer in (weights[0], features[0], written[0])]
    if any(len(shape) != 4 or 0 in shape for shape in shapes):
        return None
    (outputs, inputs, *window), (_, channels, rows, columns), (_, _, high, wide) = shapes
    depth, grouped = _together(weights[0]), inputs < channels
    kernels, repeats = _kernels_at_once(chain, buffers), 1
    if not kernels and grouped:
        # Frames that are read for one half of the results, then for the other.
        repeats = max(1, round(compute_cycles / (channels * rows * columns)))
        kernels = -(-depth // repeats)
    elif not kernels and window == [1, 1]:
        # The largest share [code: 274 of 274 layers of 9 public builds].
        kernels = max(n for n in range(1, _MOST_KERNELS + 1) if outputs % n == 0)
    if not kernels:
        return None
    if grouped:
        kernels = min(kernels, depth)  # sums that are stored otherwise than they are made
    passes = -(-inputs // depth)
    frames = channels // depth * repeats if grouped else passes * -(-outputs // kernels)
    if not frames or frames % len(layers) or (grouped and len(layers) > 1):
        return None
    stride = round(rows / high)
    padded = window[0] > 1 and (high - 1) * stride + window[0] > rows
    return StatedPipe(
        chain=number,
        units=len(layers),
        weights=weights[0].name,
        depth=depth,
        kernels=kernels,
        frames=frames // len(layers),
        pixels=rows * columns,
        results=high * wide,
        window=(window[0], window[1]),
        drained=0 if not padded else -1 if stride > 1 else (window[0] - 1) * columns,
        sums=not grouped and passes > len(layers) and any(one.outputs for one in layers),
        grouped=grouped,
    )


def _as_map(shape: Sequence[int]) -> tuple[int, ...]:
    """A row of features is a map of one pixel."""
    return (*shape, 1, 1) if len(shape) == 2 else tuple(shape)


def _kernels_at_once(chain: Sequence[NodeInfo], buffers: Buffers) -> int:
    """As sums are stored, else as the coefficients behind the layer; 0 where neither is there."""
    last = max(place for place, one in enumerate(chain) if kind_name(one) == _CONV)
    sums = [buffers[id] for id in chain[last].outputs or () if id in buffers]
    if sums:
        return _together(sums[0])
    behind = (id for one in chain[last + 1 : last + 3] for id in one.inputs or ())
    vectors = [buffers[id] for id in behind if id in buffers and len(buffers[id].shape) > 2]
    held = [one for one in vectors if one.is_param and elements_of(one) > 1]
    return min(map(_together, held), default=0)
