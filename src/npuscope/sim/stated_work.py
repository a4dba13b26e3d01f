"""The work of an epoch that is known by its tensors alone, as that of its units and engines.

A stream follows from its tensor, and a layer from its tensors, the depth of its frames and how many
results they have; so the law of `spans` holds as it does for registers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from npuscope.geometry.tiling import FREE_ZERO_POINTS
from npuscope.program.model import Buffer
from npuscope.program.stated import StatedPipe, StatedStream, StatedUnits
from npuscope.sim.counters import Bound
from npuscope.sim.group_work import (
    SHORT_BYTES,
    ChainWork,
    EngineWork,
    FeatureWork,
    GroupWork,
    LoadWork,
    PipeWork,
    VectorWork,
)
from npuscope.sim.memory import Banks
from npuscope.structs import replace

_RAW_BYTES = 2  # that a copy of adjacent bytes moves as one element [code: 105 copies of 6 builds]
# A deeper 1x1 layer takes three channels in a word [code: 51 of 51 layers, none of 245 others].
_DEEP_ABOVE, _DEEP = 24, 3


def stated_work(row: StatedUnits, banks: Banks, buffers: dict[str, Buffer]) -> GroupWork | None:
    """None where a layer or the place of a tensor is not known."""
    names = [*(s.buffer for s in row.streams), *(pipe.weights for pipe in row.pipes or ())]
    # The application places some tensors itself.
    if not row.is_whole or not all(buffers[name].pool for name in names):
        return None
    pipes = {pipe.chain: pipe for pipe in row.pipes or ()}
    parts = []
    for number in sorted({stream.chain for stream in row.streams}):
        streams = [stream for stream in row.streams if stream.chain == number]
        pipe = pipes.get(number)
        if pipe is None:
            parts.append(ChainWork((), _engines(streams, banks, buffers), ()))
        else:
            parts.append(_layer(pipe, streams, banks, buffers))
    ids = count()
    parts = [
        replace(part, engines=tuple(replace(e, id=next(ids)) for e in part.engines))
        for part in parts
    ]
    return GroupWork(tuple(parts), tuple(engine for part in parts for engine in part.engines))


def _layer(
    pipe: StatedPipe, streams: Sequence[StatedStream], banks: Banks, buffers: dict[str, Buffer]
) -> ChainWork:
    weights, results = buffers[pipe.weights], pipe.results * pipe.kernels
    packed = _DEEP if pipe.window == (1, 1) and pipe.depth > _DEEP_ABOVE else 1
    paired = pipe.grouped and (pipe.depth == 2 or _takes_pairs(pipe, streams, banks, buffers))
    words = pipe.pixels * pipe.depth / (2 if paired else packed)
    engines = _layer_engines(pipe, streams, banks, buffers)
    apart = any(engine.apart for engine in engines if not (engine.dir or engine.constant))
    rows, columns = pipe.window
    wide = rows > 1 and columns > banks.machine.convacc.max_kernel_width
    late = not pipe.grouped and rows * columns > 1 and pipe.frames > 1
    # Coefficients that no unit can hold; those in RAM arrive in time.
    tables = sum(engine.constant and banks.by_name()[engine.bank].external for engine in engines)
    elements, size_bytes = (n // pipe.frames for n in (_elements(weights), weights.size_bytes))
    starts = pipe.frames if pipe.grouped else 0
    work = PipeWork(
        frames=pipe.frames,
        load=LoadWork(banks.of_buffer(weights.name).name, elements // packed, size_bytes),
        features=(FeatureWork(words, paired, apart, wide),) * pipe.units,
        flush_words=max(0, pipe.drained) * pipe.depth,
        flush_strided=pipe.drained < 0,
        out_elements=results,
        sums=float(results) if pipe.sums else 0.0,
        late_weights=pipe.kernels * pipe.depth * rows * columns if late else None,
        vectors=VectorWork(tables, pipe.frames * results, starts) if tables else None,
    )
    return ChainWork((work,), engines, ())


def _takes_pairs(
    pipe: StatedPipe, streams: Sequence[StatedStream], banks: Banks, buffers: dict[str, Buffer]
) -> bool:
    """Words of two channels: kernels of 3x3 with stride 2 in 8x8 mode, as `depthwise_tiling`."""
    strided = pipe.window == (3, 3) and 3 * pipe.results <= pipe.pixels
    if banks.machine.generation.depthwise == "inflated" or not strided or pipe.depth % 2:
        return False
    zeros = [buffers[s.buffer].quant for s in streams if s.layer]
    return all(quant is None or quant.zero_points[0] in FREE_ZERO_POINTS for quant in zeros)


def _layer_engines(
    pipe: StatedPipe, streams: Sequence[StatedStream], banks: Banks, buffers: dict[str, Buffer]
) -> tuple[EngineWork, ...]:
    """Features and sums pass once a frame."""
    features = pipe.frames * pipe.pixels * pipe.depth
    sums = pipe.frames * pipe.results * pipe.kernels
    engines = []
    for stream, engine in zip(streams, _engines(streams, banks, buffers), strict=True):
        width = _width(buffers[stream.buffer])
        if buffers[stream.buffer].is_param:
            engines.append(replace(engine, constant=True))
        elif stream.sums:
            again = replace(engine, elements=sums, bytes=sums * width)
            engines += [again, replace(again, dir=0)]
        elif stream.layer:
            engines += [replace(engine, elements=features, bytes=features * width)] * pipe.units
        else:
            engines.append(engine)
    return tuple(engines)


def _engines(
    chain: Sequence[StatedStream], banks: Banks, buffers: dict[str, Buffer]
) -> tuple[EngineWork, ...]:
    # A copy whose elements are single on one side passes single elements on the other too.
    raw = not any(_is_single(stream, buffers[stream.buffer]) for stream in chain)
    longest = max(stream.elements for stream in chain)
    return tuple(_engine(stream, raw, longest, banks, buffers[stream.buffer]) for stream in chain)


def _is_single(stream: StatedStream, buffer: Buffer) -> bool:
    return 0 < stream.run * _width(buffer) <= _RAW_BYTES


def _width(buffer: Buffer) -> int:
    return max(1, buffer.nbits // 8)


def _engine(
    stream: StatedStream, raw: bool, longest: int, banks: Banks, buffer: Buffer
) -> EngineWork:
    rate, bound = "elementwise_cycles", Bound.OUTPUT if stream.writes else Bound.FEATURES
    bank, elements, width = banks.of_buffer(buffer.name), stream.elements, _width(buffer)
    size_bytes, run_bytes, again, constant = elements * width, stream.run * width, 0, False
    if stream.again:
        # Read for every element of the tensor: a table of coefficients, or what was computed.
        elements, bound, constant = longest, Bound.ARITH_VECTOR, buffer.is_param and bank.external
        rate = "vector_cycles" if constant else "product_cycles"
        in_frames = banks.machine.generation.vector_in_frames
        again = 0 if constant else stream.again if in_frames else stream.elements
        size_bytes = elements * width
    elif stream.copies and raw:
        elements = -(-size_bytes // _RAW_BYTES)
    elif stream.copies and _is_single(stream, buffer):
        rate = "strided_write_cycles" if stream.writes else "strided_read_cycles"
    return EngineWork(
        id=0,
        dir=int(stream.writes),
        bank=bank.name,
        elements=elements,
        bytes=size_bytes,
        run_bytes=run_bytes,
        pitch=buffer.batch * width,
        apart=0 < run_bytes <= SHORT_BYTES,
        pooled=False,
        feeds_kernels=False,
        constant=constant,
        again=again,
        rate=rate,
        bound=bound,
    )


def _elements(buffer: Buffer) -> int:
    return buffer.size_bytes * 8 // max(1, buffer.nbits)
