"""Walks through memory: where a stream engine's bytes lie, and the strided copies that library
calls make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from msgspec import Struct

from npuscope.errors import FileError, TargetError
from npuscope.program.model import Buffer, Call, Pool, Program
from npuscope.program.units import Ref, Streng
from npuscope.text import c_identifier, safe_terminal

# --- Pools that have no address until an image is loaded ---

# In C a symbol stands for the first byte of such a pool.

POOL_PREFIX = "_mem_pool_"


def pool_symbol(pool: Pool, network: str) -> str:
    """The C name of a relative pool's first byte."""
    return f"{POOL_PREFIX}{c_identifier(pool.file_name or pool.name)}_{network}"


def relative_pools(program: Program) -> tuple[Pool, ...]:
    return tuple(pool for pool in program.pools if pool.relative)


# Bytes a cycle and clock ratio that the compilers reckon with for a buffer of the application.
_GIVEN = (2, 1.0)
# The processor's own range: no memory of a device lies there, so that nothing is mixed up.
_NOWHERE = 0xE000_0000
_GIVEN_ALIGN = 64


def given_pools(sizes: Iterable[tuple[str, int]]) -> tuple[Pool, ...]:
    """A pool for each buffer that the application gives: its place is known to that alone."""
    pools: list[Pool] = []
    address = _NOWHERE
    for name, size in sizes:
        pools.append(Pool(name, address, size, *_GIVEN, file_name=name, relative=True))
        address += -(-size // _GIVEN_ALIGN) * _GIVEN_ALIGN
    return tuple(pools)


# --- From physical addresses, as foreign files hold them, to buffers of a Program ---


class AddressMap:
    """Finds the buffer at an address; what no buffer covers belongs to the pool as a whole.

    Memory is used again and again: of several buffers at an address one alive in the epoch
    asked for is meant, of those the youngest, then the one that starts nearest below.
    """

    def __init__(self, pools: Iterable[Pool], buffers: Iterable[Buffer]) -> None:
        self._pools = sorted((p for p in pools if p.size_bytes), key=lambda p: p.address)
        addresses = {pool.name: pool.address for pool in self._pools}
        here = [b for b in buffers if b.pool in addresses]
        self._views = {b.name for b in here if b.view_of}
        placed = [b for b in here if not b.view_of]
        self._buffers = sorted(
            ((addresses[b.pool] + b.offset, b) for b in placed), key=lambda pair: pair[0]
        )
        self._names = {b.name: (start, b) for start, b in self._buffers}
        self._whole: dict[str, Buffer] = {}

    def add(self, buffer: Buffer) -> None:
        """A buffer that the file's tables do not hold."""
        start = next(p.address for p in self._pools if p.name == buffer.pool) + buffer.offset
        self._buffers.append((start, buffer))
        self._names[buffer.name] = (start, buffer)

    def ref(self, address: int, epoch: int | None = None, name: str = "") -> Ref:
        """The place of an address. `name` is the buffer that the file itself names there."""
        if name in self._names:
            start, buffer = self._names[name]
            if start <= address < start + max(1, buffer.size_bytes):
                return Ref(name, address - start)
        buffers = [
            (buffer.first, start, buffer)
            for start, buffer in self._buffers
            if start <= address < start + buffer.size_bytes
            and (epoch is None or buffer.is_param or buffer.first <= epoch <= buffer.last)
        ]
        if buffers:
            _, start, buffer = max(buffers, key=lambda entry: entry[:2])
            return Ref(buffer.name, address - start)
        pool = self.pool_at(address)
        self._whole.setdefault(pool.name, _whole(pool))
        return Ref(_whole_name(pool), address - pool.address)

    def pool_at(self, address: int, size_bytes: int = 1) -> Pool:
        """The pool that holds some bytes: a real one, else a virtual one over several."""
        end = address + max(1, size_bytes)
        for pool in sorted(self._pools, key=lambda pool: pool.virtual):
            if pool.address <= address and end <= pool.address + pool.size_bytes:
                return pool
        ranges = (
            f"{p.name} {p.address:#x} to {p.address + p.size_bytes - 1:#x}" for p in self._pools
        )
        raise FileError(
            f"bytes {address:#x} to {end - 1:#x} are not in any pool",
            hint=f"the pools are {safe_terminal(', '.join(ranges)) or 'all empty'}",
        )

    def knows(self, name: str) -> bool:
        """Is the name taken? A view has one too, though it is never the answer to an address."""
        return name in self._names or name in self._views

    def size_of(self, name: str) -> int:
        buffer = self._names.get(name)
        return buffer[1].size_bytes if buffer else self._whole[name[1:]].size_bytes

    def is_param(self, name: str) -> bool:
        """Does the file say that the buffer never changes? A RAM may hold weights too."""
        return name in self._names and self._names[name][1].is_param

    @property
    def whole_pools(self) -> tuple[Buffer, ...]:
        """Buffers for the pools that were referred to as a whole, to be added to the Program."""
        return tuple(self._whole.values())


def _whole_name(pool: Pool) -> str:
    return f"@{pool.name}"


def _whole(pool: Pool) -> Buffer:
    """A pool's bytes as one buffer, from the first epoch to the last; it owns none of them."""
    return Buffer(
        _whole_name(pool),
        pool.size_bytes,
        (pool.size_bytes,),
        8,
        pool.size_bytes,
        pool=pool.name,
        last=1 << 15,
        is_param=not pool.writable,
        view_of=_whole_name(pool),
    )


# --- The bytes of a stream engine: one walk through memory, used to check and to execute ---

Shape = tuple[int, int, int]


def refuse_packed(engine: Streng) -> None:
    """Registers that unpack elements of less than a byte are in no public build."""
    if engine.packed:
        raise TargetError(
            f"STRENG {engine.id} reads weights of 4 bits: how builds for a board unpack them is "
            "not public",
            hint="such a network is estimated and simulated; for a board, give its weights 8 bits",
        )


def frame_walk(engine: Streng) -> tuple[Shape, Shape]:
    """Elements (rows, columns, depth) of one frame and the byte steps between them."""
    element = engine.element_bytes
    if engine.raw:
        elements = engine.frame_bytes if engine.packed else engine.frame_elements
        return (1, 1, elements), (0, 0, element)
    line = engine.line_offset or engine.fwidth * engine.batch_offset
    shape = engine.fheight, engine.fwidth, engine.batch_depth
    return shape, (line, engine.batch_offset, element)


def frame_start(engine: Streng, frame: int) -> int:
    """Byte offset of a frame from the engine's base address."""
    step = frame_step(engine)
    loop = engine.frame_loop_cnt
    if not loop:
        return engine.offset_start + frame * step
    return engine.offset_start + frame % loop * step + frame // loop * engine.loop_offset


def frame_starts(engine: Streng) -> Iterator[int]:
    """`frame_start` of every frame in turn."""
    step, loop = frame_step(engine), engine.frame_loop_cnt
    for frame in range(engine.frames):
        turn, place = divmod(frame, loop) if loop else (0, frame)
        yield engine.offset_start + place * step + turn * engine.loop_offset


def reach(engine: Streng) -> tuple[int, int]:
    """Lowest byte and one past the highest byte touched, from the engine's base address."""
    shape, steps = frame_walk(engine)
    if not min(shape):
        return engine.offset_start, engine.offset_start
    ends = [(size - 1) * step for size, step in zip(shape, steps, strict=True)]
    back = sum([end for end in ends if end < 0])
    step, loop = frame_step(engine), engine.frame_loop_cnt
    starts = [0, (engine.frames - 1) * step]
    if loop:
        turns = (divmod(frame, loop) for frame in _extreme_frames(engine))
        starts = [place * step + turn * engine.loop_offset for turn, place in turns]
    first, ahead = engine.offset_start + back, sum(ends) - back
    return first + min(starts), engine.offset_start + max(starts) + ahead + engine.element_bytes


def frame_step(engine: Streng) -> int:
    """Bytes from one frame to the next inside a loop."""
    if not engine.continuous:
        return engine.frame_offset
    if engine.raw:
        return engine.frame_bytes
    shape, steps = frame_walk(engine)
    return shape[0] * steps[0]


def _extreme_frames(engine: Streng) -> set[int]:
    """Of a loop, those that hold the lowest and highest start: corners of the grid of its turns and
    places."""
    last, loop = engine.frames - 1, engine.frame_loop_cnt
    corners = {0, loop - 1, last - last % loop, last, last - last % loop - 1}
    if last >= loop:
        corners.add((last // loop - 1) * loop)
    return {frame for frame in corners if 0 <= frame <= last}


# --- Strided copies: what a library call that only moves data does, byte for byte ---
#
# A Call carries each as a tuple of numbers under the names copy0, copy1, ...

_NAME = "copy"
_HEAD = 5


class Copy(Struct, frozen=True):
    """Elements of `shape` from one buffer to another; starts and steps are in bytes."""

    source: int  # number of the call's input
    start_in: int
    start_out: int
    element_bytes: int
    shape: tuple[int, ...]
    steps_in: tuple[int, ...]
    steps_out: tuple[int, ...]
    target: int = 0  # number of the call's output

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def numbers(self) -> tuple[int, ...]:
        head = (self.source, self.start_in, self.start_out, self.element_bytes, len(self.shape))
        return (*head, *self.shape, *self.steps_in, *self.steps_out, self.target)


def as_arguments(copies: Iterable[Copy]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((f"{_NAME}{number}", copy.numbers()) for number, copy in enumerate(copies))


def copies_of(call: Call) -> tuple[Copy, ...]:
    """The copies of a call; none where the call is a kernel."""
    return tuple(_copy(call, value) for name, value in call.args if name.startswith(_NAME))


def _copy(call: Call, value: object) -> Copy:
    invalid = TargetError(f"software kernel '{call.kernel}' has an invalid copy argument")
    if not isinstance(value, tuple) or len(value) < _HEAD:
        raise invalid
    source, start_in, start_out, element, rank = value[:_HEAD]
    # Programs that were saved by earlier versions name no target: they have one output.
    if len(value) - _HEAD - 3 * rank not in (0, 1) or min(value) < 0:
        raise invalid
    shape, steps_in, steps_out = (
        value[_HEAD + rank * n : _HEAD + rank * (n + 1)] for n in range(3)
    )
    target = sum(value[_HEAD + 3 * rank :])
    if source >= len(call.inputs) or target >= len(call.outputs) or element not in (1, 2, 4, 8):
        raise invalid
    return Copy(source, start_in, start_out, element, shape, steps_in, steps_out, target)
