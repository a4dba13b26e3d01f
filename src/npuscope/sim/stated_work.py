"""The work of an epoch that is known by its tensors alone, as that of its stream engines.

For a chain without convolutions the longest stream sets the time, and a stream follows from its
tensor; so the law of `spans` holds as it does for registers."""

from __future__ import annotations

from collections.abc import Sequence

from npuscope.program.model import Buffer, StatedStream
from npuscope.sim.counters import Bound
from npuscope.sim.group_work import SHORT_BYTES, ChainWork, EngineWork, GroupWork
from npuscope.sim.memory import Banks

_RAW_BYTES = 2  # that a copy of adjacent bytes moves as one element [code: 105 copies of 6 builds]


def stated_work(
    streams: Sequence[StatedStream], banks: Banks, buffers: dict[str, Buffer]
) -> GroupWork:
    numbers = sorted({stream.chain for stream in streams})
    chains = [[s for s in streams if s.chain == number] for number in numbers]
    parts = tuple(ChainWork((), _engines(chain, banks, buffers), ()) for chain in chains)
    return GroupWork(parts, tuple(engine for part in parts for engine in part.engines))


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
