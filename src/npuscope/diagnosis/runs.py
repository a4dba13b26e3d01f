"""Runs of a program with a fault, computed only from where they depart from a right run."""

from __future__ import annotations

import hashlib
import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.fault import RIGHT, Blocked, BoardFault
from npuscope.diagnosis.sights import Array, Bytes
from npuscope.errors import NpuscopeError
from npuscope.program.calls import element_type
from npuscope.program.model import Buffer, Epoch, Program, images
from npuscope.program.units import Ref
from npuscope.sim.memory import Memory, RecordedMemory, Span, merged, stored_shape
from npuscope.sim.run import run_epoch, written
from npuscope.structs import replace

_RESULT_BYTES = 128 << 20  # of results that are kept: outputs and the buffers that were asked for
_TRACE_BYTES = 256 << 20  # of all epochs of one right run
_DEPARTED = 8  # epochs after which a run is no longer compared with the right one
_MOST_TRACES = 3  # right runs that others are compared with: a frame each


class FaultyRun(Struct, frozen=True):
    """What one run left: stored values of outputs and inputs, and the buffers asked for."""

    outputs: dict[str, Array]
    left: dict[str, Array]
    inner: dict[str, Bytes]
    kept_marker: tuple[bool, ...] = ()

    @property
    def size_bytes(self) -> int:
        parts = (self.outputs, self.left, self.inner)
        return sum(values.nbytes for part in parts for values in part.values())


class RunStart(Struct, frozen=True):
    """What a run starts from. `fill` is the pattern in its RAM; `last` the epoch after which nobody
    looks any more, None for all; `again`: what it leaves of the inputs is wanted."""

    program: Program
    inputs: Mapping[str, Array]
    fill: int = 0
    last: int | None = None
    again: bool = False


class EpochTrace(Struct, frozen=True):
    """The addresses that an epoch of a right run used, and what it left in those of RAM."""

    used: tuple[Span, ...]
    kept: tuple[tuple[Span, Bytes], ...]


class SpanSet:
    """Addresses at which a run differs from a right one, as spans in order that do not meet."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = merged(spans)

    def meets(self, spans: Iterable[Span]) -> bool:
        for start, end in spans:
            place = bisect_left(self._spans, end, key=lambda one: one[0]) - 1
            if place >= 0 and self._spans[place][1] > start:
                return True
        return False

    def put(self, span: Span, differs: bool) -> None:
        """All of a span differs, or none of it."""
        start, end = span
        low = bisect_right(self._spans, start, key=lambda one: one[1])
        high = bisect_left(self._spans, end, key=lambda one: one[0])
        inner = self._spans[low:high]
        parts = [(a, b) for a, b in ((s, min(e, start)) for s, e in inner) if a < b]
        parts += [span] if differs else []
        parts += [(a, b) for a, b in ((max(s, end), e) for s, e in inner) if a < b]
        self._spans = (*self._spans[:low], *parts, *self._spans[high:])


class FaultyRuns:
    """Runs of programs with faults; results are kept by what the run started from.

    `asked` are buffers inside the network whose values are kept, `watched` those that are looked
    at for a pattern.
    """

    def __init__(self, asked: Sequence[str], watched: Sequence[str]) -> None:
        self.asked = tuple(asked)
        self.watched = tuple(watched)
        self.most_bytes = _RESULT_BYTES
        self.executions = 0
        self.seconds = 0.0  # of the processor, for all of them
        self._size_bytes = 0
        self._results: OrderedDict[bytes, FaultyRun | None] = OrderedDict()
        self._traces: OrderedDict[bytes, tuple[EpochTrace, ...]] = OrderedDict()
        self._held: dict[int, object] = {}  # keeps ids from being used again
        self._constants: tuple[bytes, dict[str, np.ndarray]] | None = None  # those used last
        self._digests: dict[tuple[int, int, int], bytes] = {}

    def run(self, start: RunStart, fault: BoardFault = RIGHT) -> FaultyRun | None:
        """One inference; None where the simulation of a broken network cannot go on."""
        if any(name not in start.inputs for name in start.program.inputs):
            return None
        place = self._key(start, fault)
        if start.last is not None and place not in self._results:
            whole = self._key(replace(start, last=None), fault)
            place = whole if whole in self._results else place
        if place in self._results:
            self._results.move_to_end(place)
            return self._results[place]
        begin = time.process_time()
        try:
            result = self._execute(start, fault)
        except NpuscopeError:
            result = None
        self.executions += 1
        self.seconds += time.process_time() - begin
        self._results[place] = result
        self._size_bytes += result.size_bytes if result else 0
        while self._size_bytes > self.most_bytes and len(self._results) > 1:
            _, oldest = self._results.popitem(last=False)
            self._size_bytes -= oldest.size_bytes if oldest else 0
        return result

    def _key(self, start: RunStart, fault: BoardFault) -> bytes:
        """Equal where two runs give the same, whatever the fault is called."""
        key = hashlib.blake2b(digest_size=16)
        key.update(self._weights_digest(start.program, fault))
        key.update(self._trace_key(start))
        blocked = tuple((block.start, block.end) for block in fault.blocked)
        key.update(repr((self._id(fault.step), blocked, start.last, start.again)).encode())
        return key.digest()

    def _trace_key(self, start: RunStart) -> bytes:
        key = hashlib.blake2b(digest_size=16)
        key.update(repr((self._id(start.program), start.fill)).encode())
        for name in start.program.inputs:
            key.update(np.ascontiguousarray(start.inputs[name]).tobytes())
        return key.digest()

    def _id(self, subject: object) -> int:
        self._held[id(subject)] = subject
        return id(subject)

    # --- Weights ---

    def _weights_digest(self, program: Program, fault: BoardFault) -> bytes:
        if fault.image is None and fault.image_read is None:
            return b""
        key = self._id(program), self._id(fault.image), self._id(fault.image_read)
        if key not in self._digests:
            self._digests[key] = self._weights(program, fault)[0]
        return self._digests[key]

    def _weights(self, program: Program, fault: BoardFault) -> tuple[bytes, dict[str, np.ndarray]]:
        """The program's constants as the NPU reads them, with a digest of them."""
        if fault.image is None and fault.image_read is None:
            return b"", program.constants
        key = self._id(program), self._id(fault.image), self._id(fault.image_read)
        digest = self._digests.get(key)
        if digest is not None and self._constants is not None and self._constants[0] == digest:
            return self._constants
        content = hashlib.blake2b(digest_size=16)
        changed: dict[str, Bytes] = {}
        for pool, data in images(program).items():
            image = np.frombuffer(data, np.uint8)
            for change in (fault.image, fault.image_read):
                image = image if change is None else change(pool, image)
            changed[pool] = image
            content.update(image.tobytes())
        buffers = program.buffer_map()
        parts: dict[str, np.ndarray] = {}
        for name, array in program.constants.items():
            offset, size = buffers[name].offset, np.ascontiguousarray(array).nbytes
            parts[name] = changed[buffers[name].pool][offset : offset + size]
        self._constants = content.digest(), parts  # a copy of all weights: one is enough
        return self._constants

    # --- One run ---

    def _execute(self, start: RunStart, fault: BoardFault) -> FaultyRun:
        program = start.program
        constants = self._weights(program, fault)[1]
        is_right = constants is program.constants and not fault.step and not fault.blocked
        is_frame = fault.supply is None and fault.fetch is None
        place = self._trace_key(start)
        if is_right and is_frame and start.last is None:
            return self._traced(start, place)
        memory = _prepared(start, Memory(replace(program, constants=constants)))
        # Another input departs from the first epoch on: nothing is shared.
        trace = None if is_right else self._traces.get(place)
        inner: dict[str, Bytes] = {}
        for epoch in _executed(start, memory, fault, trace):
            inner |= self._asked_of(epoch, memory)
            if epoch.number == start.last:
                break
        return self._result(start, memory, inner)

    def _traced(self, start: RunStart, place: bytes) -> FaultyRun:
        """A right run, with what others may take from it."""
        program = start.program
        memory = RecordedMemory(program)
        _prepared(start, memory)
        constants = merged(_extent(memory, b) for b in program.buffers if b.is_param)
        inner: dict[str, Bytes] = {}
        traces: list[EpochTrace] = []
        size_bytes = 0
        for epoch in program.executed:
            memory.spans.clear()
            run_epoch(epoch, memory)
            memory.spans |= {_extent(memory, memory.buffer(name)) for name in written(epoch)}
            kept = merged(span for span in memory.spans if not _is_inside(span, constants))
            contents = tuple((span, _span(memory, span).copy()) for span in kept)
            traces.append(EpochTrace(merged(memory.spans), contents))
            size_bytes += sum(content.nbytes for _, content in contents)
            inner |= self._asked_of(epoch, memory)
        if size_bytes <= _TRACE_BYTES:
            self._traces[place] = tuple(traces)
            if len(self._traces) > _MOST_TRACES:
                self._traces.popitem(last=False)
        return self._result(start, memory, inner)

    def _asked_of(self, epoch: Epoch, memory: Memory) -> dict[str, Bytes]:
        names = (name for name in written(epoch) if name in self.asked)
        return {name: _span(memory, _extent(memory, memory.buffer(name))).copy() for name in names}

    def _result(self, start: RunStart, memory: Memory, inner: dict[str, Bytes]) -> FaultyRun:
        program, buffers = start.program, memory.buffers
        marked = tuple(
            name in buffers
            and bool((_span(memory, _extent(memory, buffers[name])) == start.fill).all())
            for name in self.watched
            if start.fill
        )
        outputs = {name: _stored(memory, buffers[name]) for name in program.outputs}
        names = program.inputs if start.again else ()
        left = {name: _stored(memory, buffers[name]) for name in names}
        return FaultyRun(outputs, left, inner, marked)


def _prepared(start: RunStart, memory: Memory) -> Memory:
    """With the pattern and the inputs in it."""
    for buffer in start.program.buffers if start.fill else ():
        if not buffer.is_param:
            _span(memory, _extent(memory, buffer))[:] = start.fill
    for name in start.program.inputs:
        raw = np.ascontiguousarray(start.inputs[name]).view(np.uint8)
        _span(memory, _extent(memory, memory.buffer(name)))[: raw.size] = raw
    return memory


def _executed(
    start: RunStart, memory: Memory, fault: BoardFault, trace: Sequence[EpochTrace] | None
) -> Iterator[Epoch]:
    """Epoch by epoch; one that uses nothing that differs from the right run is taken from it."""
    program, buffers = start.program, memory.buffers
    _block(memory, (buffers[name] for name in program.inputs), fault.blocked)
    differing = SpanSet(_changed_at_start(program, memory, fault) if trace is not None else ())
    departed = 0  # epochs in a row that gave nothing as the right run did
    for number, epoch in enumerate(program.executed):
        right_epoch = None if trace is None or departed > _DEPARTED else trace[number]
        runs = right_epoch is None or differing.meets(right_epoch.used)
        if runs:
            run_epoch(epoch, memory)
        elif right_epoch is not None:
            for span, content in right_epoch.kept:
                _span(memory, span)[:] = content
        _block(memory, (buffers[name] for name in written(epoch)), fault.blocked)
        if fault.step is not None:
            fault.step(epoch, memory)
        if right_epoch is not None and (runs or fault.blocked or fault.step):
            departed += 1
            for span, content in right_epoch.kept:
                differs = not np.array_equal(_span(memory, span), content)
                differing.put(span, differs)
                departed = departed if differs else 0
        yield epoch


def _changed_at_start(program: Program, memory: Memory, fault: BoardFault) -> Iterator[Span]:
    """Weights that are not those of the build, and inputs that may be blocked."""
    for name, data in program.constants.items():
        right = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        span = _extent(memory, memory.buffer(name))
        if not np.array_equal(_span(memory, span)[: right.size], right):
            yield span
    for name in program.inputs if fault.blocked else ():
        yield _extent(memory, memory.buffer(name))


def _is_inside(span: Span, spans: Sequence[Span]) -> bool:
    """Is it a part of one of these, which are in order?"""
    place = bisect_right(spans, span[0], key=lambda one: one[0]) - 1
    return place >= 0 and span[1] <= spans[place][1]


def _extent(memory: Memory, buffer: Buffer) -> Span:
    start = memory.address(Ref(buffer.name))
    return start, start + buffer.size_bytes


def _span(memory: Memory, span: Span) -> Bytes:
    return memory.span(span[0], span[1] - span[0])


def _stored(memory: Memory, buffer: Buffer) -> Array:
    """A copy of a buffer's values in the order of memory."""
    dtype = element_type(buffer)
    count = int(np.prod(stored_shape(buffer)))
    return _span(memory, _extent(memory, buffer))[: count * dtype.itemsize].copy().view(dtype)


def _block(memory: Memory, buffers: Iterable[Buffer], blocked: Sequence[Blocked]) -> None:
    """What the NPU could not write, or reads as zero."""
    for buffer in buffers if blocked else ():
        start, end = _extent(memory, buffer)
        for block in blocked:
            low, high = max(start, block.start), min(end, block.end)
            if low < high:
                memory.span(low, high - low)[:] = 0
