"""What travels between units: words and frames, queues behind the switch, engines to memory,
rounding."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from npuscope.errors import TargetError
from npuscope.lean_dataclass import dataclass
from npuscope.program.addresses import frame_starts, frame_walk
from npuscope.program.units import Decun, Link, Streng, Unit
from npuscope.sim.memory import Memory

# --- Links: frames of words, and how a consumer reads them ---
#
# A unit is a generator. It asks for input with `Take` and gives each frame of output as an array.
# Words are the raw value in 32 bits; sign and width are the consumer's business.

Words = NDArray[np.int32]
Wide = NDArray[np.int64]  # intermediates of a unit; 64 bits hold every one of them

# A whole frame as the producer made it, for units without a geometry of their own.
ANY_FRAME = 0


@dataclass(frozen=True, slots=True)
class Take:
    """A unit's request: a number of words from one of its ports."""

    port: int
    words: int


Stream = Generator[Take | Words, Words, None]

_NARROW = {(1, False): np.int8, (2, False): np.int16, (1, True): np.uint8, (2, True): np.uint16}


def extend(words: Words, nbytes: int, unsigned: bool = False) -> np.ndarray:
    """The low `nbytes` of each word, sign- or zero-extended."""
    if nbytes >= 4:
        return words
    if nbytes == 3:
        return words & 0xFFFFFF if unsigned else (words << 8) >> 8
    return words.astype(_NARROW[nbytes, unsigned])


def unpack(words: Words, nbytes: int) -> NDArray[np.uint8]:
    """The low `nbytes` of each word as a row of bytes, lowest first."""
    return words.astype("<i4").view(np.uint8).reshape(-1, 4)[:, :nbytes]


def word_bytes(source: Unit) -> int:
    """Bytes that a unit puts into one word of its output link."""
    if isinstance(source, Streng):
        return source.element_bytes
    return 1 if isinstance(source, Decun) else source.outbytes_o


def refuse_fields(unit: Unit, *names: str) -> None:
    """Refuse a field that is set and whose effect on values is unknown."""
    for name in names:
        if getattr(unit, name):
            raise TargetError(
                f"not executed: the semantics of {unit.unit} {name} {getattr(unit, name)} "
                "are not known",
                where=f"{unit.unit} {unit.id}",
            )


def refuse_operation(unit: Unit, operation: str) -> TargetError:
    return TargetError(
        f"not executed: the semantics of {unit.unit} {operation} are not known",
        where=f"{unit.unit} {unit.id}",
    )


# --- Rounding and narrowing of results ---
#
# Every unit module binds `round_shift` to a name of its own, so a test can swap the rule of one
# unit and see whether the silicon digests still hold.


def round_shift(value: Wide, shift: int) -> Wide:
    """value / 2^shift, ties away from zero: the rule silicon shows for round_mode 1."""
    if shift <= 0:
        return value << -shift
    # A negative value is moved by one, so that its tie falls below the floor of the shift.
    return (value + (1 << (shift - 1)) + (value >> 63)) >> shift


def floor_shift(value: Wide, shift: int) -> Wide:
    """Arithmetic shift right: what a unit does with rounding off."""
    return value >> shift if shift >= 0 else value << -shift


def half_even_shift(value: Wide, shift: int) -> Wide:
    """Ties to even. No unit uses it; mutation tests do."""
    if shift <= 0:
        return value << -shift
    return (value + (1 << (shift - 1)) - 1 + ((value >> shift) & 1)) >> shift


def limits(nbytes: int) -> tuple[int, int]:
    """Smallest and largest signed value of a word of `nbytes`."""
    half = 1 << (8 * nbytes - 1)
    return -half, half - 1


def narrow(value: Wide, nbytes: int, saturate: int, unsigned: bool = False) -> Words:
    """Clip to a signed (or unsigned) word, or keep the low bits when saturation is off."""
    if saturate:
        low, high = (0, (1 << 8 * nbytes) - 1) if unsigned else limits(nbytes)
        return np.clip(value, low, high).astype(np.int32)
    unused = 64 - 8 * nbytes
    return ((value << unused) >> unused).astype(np.int32)


# --- Stream switch: a queue at each destination port, behind the two contexts of its link ---


class Contexts:
    """Two contexts alternate, each for its number of frames; 0 means no limit."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.frame = 0

    def let_pass(self) -> bool:
        """Count one frame of the source; a disabled context drops it."""
        link, frame = self.link, self.frame
        self.frame += 1
        if not link.frames0:
            return link.enable0
        if not link.frames1:
            return link.enable0 if frame < link.frames0 else link.enable1
        place = frame % (link.frames0 + link.frames1)
        return link.enable0 if place < link.frames0 else link.enable1


class Inbox:
    """Words that wait at a destination port. Frames keep their borders until they are cut."""

    def __init__(self, link: Link) -> None:
        self.contexts = Contexts(link)
        self.frames: deque[Words] = deque()
        self.words = 0

    def put(self, frame: Words) -> None:
        if self.contexts.let_pass():
            self.frames.append(frame)
            self.words += len(frame)

    def holds(self, words: int) -> bool:
        return bool(self.frames) if words == ANY_FRAME else self.words >= words

    def take(self, words: int) -> Words:
        """Remove that many words; the caller has checked `holds`."""
        first = self.frames.popleft()
        if words == ANY_FRAME or len(first) == words:
            self.words -= len(first)
            return first
        return self._cut(first, words)

    def _cut(self, first: Words, words: int) -> Words:
        pieces, found = [first], len(first)
        while found < words:
            pieces.append(self.frames.popleft())
            found += len(pieces[-1])
        joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        if found > words:
            self.frames.appendleft(joined[words:])
        self.words -= words
        return joined[:words]


# --- Stream engine: frames between memory and a link ---

_BYTE = np.dtype(np.uint8)


def read(engine: Streng, memory: Memory) -> Stream:
    """Memory to link. A frame is read when it is asked for, never ahead: partial sums that
    another engine stores meanwhile must be seen."""
    _check(engine)
    base, load = memory.address(engine.addr_base), _loader(engine, memory)
    for start in frame_starts(engine):
        yield load(base + start)


def write(engine: Streng, memory: Memory) -> Stream:
    """Link to memory. Gives each frame it has stored, so that the driver sees progress."""
    _check(engine)
    base, store = memory.address(engine.addr_base), _storer(engine, memory)
    wish = Take(0, engine.frame_elements)
    for start in frame_starts(engine):
        words = yield wish
        store(base + start, words)
        yield words


def _check(engine: Streng) -> None:
    refuse_fields(engine, "noinc", "cipher_en")
    widths = engine.nbits_in, engine.nbits_out
    if engine.nbits_memory not in (8, 16, 24):
        raise TargetError(f"stream engine {engine.id} has elements of {engine.nbits_memory} bits")
    link, stored = widths if engine.dir else widths[::-1]
    # Only a plain copy, and a narrow element at the low end of a wide word, have been seen.
    if link != stored and not (link > stored and engine.align_right):
        raise TargetError(
            f"not executed: stream engine {engine.id} between {stored} bits in memory and "
            f"{link} bits on the link, align_right {engine.align_right}"
        )


def _loader(engine: Streng, memory: Memory) -> Callable[[int], Words]:
    """Gives the words of the frame at an address."""
    shape, steps = frame_walk(engine)
    # Without align_right the upper lanes are filled with zeros, whatever the sign.
    signed = engine.align_right and not engine.nbits_unsigned
    if engine.nbits_memory == 24:
        return partial(_load_triples, memory, shape, steps, bool(signed))
    dtype = np.dtype(f"<{'i' if signed else 'u'}{engine.element_bytes}")
    window = memory.windows(shape, steps, dtype)
    return lambda address: window(address).astype(np.int32, order="C").reshape(-1)


def _load_triples(
    memory: Memory,
    shape: tuple[int, ...],
    steps: tuple[int, ...],
    signed: bool,
    address: int,
) -> Words:
    triples = memory.window(address, (*shape, 3), (*steps, 1), _BYTE)
    quads = np.zeros((*shape, 4), np.uint8)
    quads[..., :3] = triples
    words = quads.reshape(-1).view("<i4")
    return (words << 8) >> 8 if signed else words


def _storer(engine: Streng, memory: Memory) -> Callable[[int, Words], None]:
    """Stores the words of a frame at an address."""
    shape, steps = frame_walk(engine)
    if engine.nbits_memory == 24:
        return partial(_store_triples, memory, shape, steps)
    dtype = np.dtype(f"<i{engine.element_bytes}")
    window = memory.windows(shape, steps, dtype)

    def store(address: int, words: Words) -> None:
        window(address)[...] = words.reshape(shape).astype(dtype)

    return store


def _store_triples(
    memory: Memory, shape: tuple[int, ...], steps: tuple[int, ...], address: int, words: Words
) -> None:
    triples = memory.window(address, (*shape, 3), (*steps, 1), _BYTE)
    triples[...] = words.astype("<i4").view(np.uint8).reshape(*shape, 4)[..., :3]
