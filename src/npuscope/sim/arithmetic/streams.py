"""What travels between units: words and frames, queues behind the switch, engines to memory,
rounding."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from npuscope.errors import TargetError
from npuscope.program.addresses import frame_starts, frame_walk
from npuscope.program.units import Link, Streng, Unit
from npuscope.sim.memory import Memory

# --- Links: frames of words, and how a consumer reads them ---
#
# A unit is a generator. It asks for input with `Take` and gives each frame of output as an array.
# Words stand for the raw value in 32 bits, in any integer type that holds them, or as the 3 bytes
# that an engine read; sign and width are the consumer's business. Functions of many frames take
# and give arrays whose first axis counts frames; the order of such an array in memory is that of
# the map it came from.

Words = NDArray[Any]
Wide = NDArray[np.signedinteger[Any]]  # intermediates of a unit, in the type of `room`

# A whole frame as the producer made it, for units without a geometry of their own.
ANY_FRAME = 0


class Take(Struct, frozen=True):
    """A unit's request: a number of words from one of its ports."""

    port: int
    words: int


Stream = Generator[Take | Words, Words, None]

NIBBLE = 4  # bits of an element of which two share a byte
# A word of 24 bits as it lies in memory: nothing is known of its sign.
TRIPLE = np.dtype("V3")
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
_NARROW: dict[tuple[int, bool], np.dtype[np.integer[Any]]] = {
    (1, False): np.dtype(np.int8),
    (2, False): np.dtype(np.int16),
    (1, True): np.dtype(np.uint8),
    (2, True): np.dtype(np.uint16),
}


def extend(words: Words, nbytes: int, unsigned: bool = False) -> np.ndarray:
    """The low `nbytes` of each word, sign- or zero-extended."""
    if words.dtype == TRIPLE:
        words = _join(words)
    if nbytes >= 4:
        return words
    if nbytes == 3:
        return _three_bytes(words, unsigned)
    kind = _NARROW[nbytes, unsigned]
    return words if np.can_cast(words.dtype, kind) else words.astype(kind)


def _three_bytes(words: Words, unsigned: bool) -> np.ndarray:
    wide = words.astype(np.int32, copy=False)
    return wide & 0xFFFFFF if unsigned else (wide << 8) >> 8


def unpack(words: Words, nbytes: int) -> NDArray[np.uint8]:
    """The low `nbytes` of each word as bytes in their place, lowest first; words (..., n)."""
    if words.dtype == TRIPLE and nbytes == 3:
        return np.ascontiguousarray(words).view(np.uint8)
    if words.dtype == TRIPLE:
        words = _join(words)
    raw = np.ascontiguousarray(words, "<i4").view(np.uint8)
    low = raw.reshape(*words.shape, 4)[..., :nbytes]
    return np.ascontiguousarray(low).reshape(*words.shape[:-1], -1)


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


def room(*peaks: int) -> np.dtype[np.signedinteger[Any]]:
    """The type for intermediates of these magnitudes; 64 bits hold every one of a unit."""
    return _INT32 if max(peaks) < 1 << 31 else _INT64


def shift_peak(peak: int, shift: int) -> int:
    """Largest magnitude while a value is shifted with rounding."""
    return peak + (1 << shift) if shift > 0 else peak << -shift


def word_peak(nbytes: int, unsigned: bool = False) -> int:
    """Largest magnitude of a word of `nbytes`."""
    return 1 << 8 * nbytes if unsigned else 1 << (8 * nbytes - 1)


def round_shift(value: Wide, shift: int) -> Wide:
    """value / 2^shift, ties away from zero: the rule silicon shows for round_mode 1."""
    if shift <= 0:
        return value << -shift if shift else value
    # A negative value is moved by one, so that its tie falls below the floor of the shift.
    result = value >> (8 * value.itemsize - 1)
    result += value
    result += 1 << (shift - 1)
    result >>= shift
    return result


def floor_shift(value: Wide, shift: int) -> Wide:
    """Arithmetic shift right: what a unit does with rounding off."""
    if not shift:
        return value
    return value >> shift if shift > 0 else value << -shift


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
        wide = value if nbytes < 4 else value.astype(np.int64)
        return np.clip(wide, low, high).astype(word_type(nbytes, unsigned))
    if nbytes == 3:
        return _three_bytes(value.astype(np.int32), unsigned=False)
    return value.astype(word_type(nbytes))


def word_type(nbytes: int, unsigned: bool = False) -> np.dtype[np.integer[Any]]:
    """The smallest type that holds all words of `nbytes`."""
    return _NARROW.get((nbytes, unsigned), _INT32)


# Elements that are computed at a time: their intermediates stay in cache.
_BLOCK = 1 << 17


def in_blocks(
    function: Callable[..., Words], kind: np.dtype[Any], first: np.ndarray, *others: np.ndarray
) -> Words:
    """An element-wise function, piece by piece; `others` broadcast against the first array."""
    if first.size <= _BLOCK:
        return function(first, *others)
    result = np.empty_like(first, kind)
    # Along the axis that is outermost in memory, so that every piece is one.
    axis = max(range(first.ndim), key=lambda n: first.strides[n] if first.shape[n] > 1 else -1)
    step = max(1, _BLOCK * first.shape[axis] // first.size)
    for start in range(0, first.shape[axis], step):
        piece = (slice(None),) * axis + (slice(start, start + step),)
        rest = [
            other[piece] if other.ndim == first.ndim and other.shape[axis] > 1 else other
            for other in others
        ]
        result[piece] = function(first[piece], *rest)
    return result


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
        pieces, count = [first], len(first)
        while count < words:
            pieces.append(self.frames.popleft())
            count += len(pieces[-1])
        joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        if count > words:
            self.frames.appendleft(joined[words:])
        self.words -= words
        return joined[:words]


# --- Stream engine: frames between memory and a link ---


def read(engine: Streng, memory: Memory) -> Stream:
    """Memory to link. A frame is read when it is asked for, never ahead: partial sums that
    another engine stores meanwhile must be seen."""
    check(engine)
    base, load = memory.address(engine.addr_base), _loader(engine, memory)
    for start in frame_starts(engine):
        yield load(base + start)


def write(engine: Streng, memory: Memory) -> Stream:
    """Link to memory. Gives each frame it has stored, so that the driver sees progress."""
    check(engine)
    base, store = memory.address(engine.addr_base), storer(engine, memory)
    wish = Take(0, engine.frame_elements)
    for start in frame_starts(engine):
        words = yield wish
        store(base + start, words)
        yield words


def check(engine: Streng) -> None:
    refuse_fields(engine, "noinc", "cipher_en")
    widths = engine.nbits_in, engine.nbits_out
    if engine.raw and not engine.dir and widths in ((NIBBLE, 8), (3 * NIBBLE, 24)):
        return
    if engine.nbits_memory not in (8, 16, 24):
        raise TargetError(f"stream engine {engine.id} has elements of {engine.nbits_memory} bits")
    link, stored = widths if engine.dir else widths[::-1]
    # Only a plain copy, and a narrow element at the low end of a wide word, have been seen.
    if link != stored and not (link > stored and engine.align_right):
        raise TargetError(
            f"not executed: stream engine {engine.id} between {stored} bits in memory and "
            f"{link} bits on the link, align_right {engine.align_right}"
        )


def memory_type(engine: Streng) -> np.dtype[Any]:
    """Type of an element on its way from memory to the link; 24 bits stay bytes."""
    if engine.nbits_memory == 24:
        return TRIPLE
    if engine.packed:
        return np.dtype(np.uint8)
    return np.dtype(f"<{'i' if is_signed(engine) else 'u'}{engine.element_bytes}")


def is_signed(engine: Streng) -> bool:
    """Without align_right the upper lanes are filled with zeros, whatever the sign."""
    return bool(engine.dir or (engine.align_right and not engine.nbits_unsigned))


def _loader(engine: Streng, memory: Memory) -> Callable[[int], Words]:
    """Gives the words of the frame at an address."""
    shape, steps = frame_walk(engine)
    window = memory.windows(shape, steps, memory_type(engine))
    return lambda address: loaded(engine, window(address)).reshape(-1)


def loaded(engine: Streng, view: np.ndarray) -> Words:
    """A copy of memory as words, in its order."""
    if engine.packed:
        return _unpacked(engine, np.ascontiguousarray(view))
    words = view.copy(order="K")
    signed = engine.nbits_memory == 24 and is_signed(engine)
    return _three_bytes(_join(words), unsigned=False) if signed else words


def _unpacked(engine: Streng, stored: np.ndarray) -> Words:
    """Signed elements of 4 bits, the lower half of a byte first; three of them are one word."""
    halves = np.stack([stored << NIBBLE, stored & 0xF0], axis=-1).view(np.int8) >> NIBBLE
    values = halves.reshape(*stored.shape[:-1], -1)
    used: Words = values[..., : engine.frame_elements * engine.nbits_memory // NIBBLE]
    if engine.nbits_memory == NIBBLE:
        return used
    return np.ascontiguousarray(used).view(TRIPLE)


def _join(triples: np.ndarray) -> NDArray[np.int32]:
    """The words of TRIPLEs, upper bytes zero."""
    quads = np.zeros((*triples.shape, 4), np.uint8)
    quads[..., :3] = np.ascontiguousarray(triples).view(np.uint8).reshape(*triples.shape, 3)
    joined: NDArray[np.int32] = quads.view("<i4")[..., 0]
    return joined


def as_stored(engine: Streng, words: Words) -> np.ndarray:
    """Words in the type that memory holds."""
    kind = memory_type(engine)
    if kind != TRIPLE:
        return _join(words) if words.dtype == TRIPLE else words
    if words.dtype == TRIPLE:
        return words
    low = unpack(words[..., None], 3)
    return low.view(TRIPLE)[..., 0]


def storer(engine: Streng, memory: Memory) -> Callable[[int, Words], None]:
    """Stores the words of a frame at an address."""
    shape, steps = frame_walk(engine)
    window = memory.windows(shape, steps, memory_type(engine))

    def store(address: int, words: Words) -> None:
        window(address)[...] = as_stored(engine, words.reshape(shape))

    return store
