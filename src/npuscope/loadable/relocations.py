"""Words of an image that a loader rebases: the GOT, and the places that the REL list names."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from npuscope.loadable.codes import WORD_BYTES, Segment, name_of, offset_of, segment_of
from npuscope.loadable.image_checks import fault, stored_bytes
from npuscope.loadable.layout import Header


@dataclass(frozen=True, slots=True)
class Relocations:
    """`got` are words that hold addresses (0 is left alone); the others are places of such words.

    Places in RAM count from the data block, places in FLASH from the start of the file.
    """

    got: tuple[int, ...]
    ram: tuple[int, ...]
    flash: tuple[int, ...]

    @property
    def count(self) -> int:
        return sum(1 for word in self.got if word) + len(self.ram) + len(self.flash)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far an address may lie in each segment; a segment that is not there has no entry."""

    limits: dict[int, int]

    def check(self, word: int, at: int, what: str) -> None:
        limit = self.limits.get(segment_of(word))
        if limit is None:
            found = name_of(Segment, segment_of(word))
            raise fault(at, f"{what} holds {word:#010x}: no such place, segment {found}")
        if offset_of(word) > limit:
            raise fault(
                at,
                f"{what} holds {word:#010x}, {name_of(Segment, segment_of(word))} ends at "
                f"offset {limit:#x}",
            )


def read_relocations(data: bytes, header: Header, reach: Reach) -> Relocations:
    got = _got(data, header, reach)
    ram: list[int] = []
    flash: list[int] = []
    start, end = offset_of(header.rel_start), offset_of(header.rel_end)
    for index, (place,) in enumerate(struct.iter_unpack("<I", data[start:end])):
        at = start + index * WORD_BYTES
        where = _checked_place(place, header, at)
        reach.check(_word(data, where), where, f"the word that relocation {index} names")
        (ram if segment_of(place) == Segment.RAM else flash).append(offset_of(place))
    return Relocations(got, tuple(ram), tuple(flash))


def _got(data: bytes, header: Header, reach: Reach) -> tuple[int, ...]:
    if header.got_start == header.got_end:
        return ()
    first = offset_of(header.data_data) + offset_of(header.got_start)
    count = (header.got_end - header.got_start) // WORD_BYTES
    words = struct.unpack_from(f"<{count}I", data, first)
    for index, word in enumerate(words):
        if word:
            reach.check(word, first + index * WORD_BYTES, f"GOT word {index}")
    return words


def _checked_place(place: int, header: Header, at: int) -> int:
    """The byte in the file of a word that is to be rebased."""
    offset = offset_of(place)
    if segment_of(place) == Segment.RAM:
        low, high, base = 0, stored_bytes(header), offset_of(header.data_data)
    elif segment_of(place) == Segment.FLASH:
        low, high, base = Header.BYTES, offset_of(header.data_data), 0
    else:
        raise fault(at, f"a relocation names {place:#010x}, neither in RAM nor in FLASH")
    if offset % WORD_BYTES or not low <= offset <= high - WORD_BYTES:
        raise fault(
            at, f"a relocation names {place:#010x}; words lie at offsets {low:#x} to {high:#x}"
        )
    return base + offset


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + WORD_BYTES], "little")
