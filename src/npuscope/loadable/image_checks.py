"""Whether the words of a header can be true for a file of this size."""

from __future__ import annotations

import struct
from itertools import pairwise

from msgspec import Struct

from npuscope.errors import FileError
from npuscope.loadable.codes import WORD_BYTES, AddressBase, name_of, offset_of, segment_of
from npuscope.loadable.layout import API_MAJOR, ENTRY_POINTS, MAGIC, Flags, Header

_DAMAGED = "the file is damaged, or no packager wrote it: package the network again"
_CUT = "the file is cut off or its header is damaged: copy or package it again"
_IN_RAM = ("data_start", "data_end", "bss_start", "bss_end", "params_start", "context")
_IN_FLASH = ("data_data", "rel_start", "rel_end", *ENTRY_POINTS)
_GOT = ("got_start", "got_end")


def fault(at: int, message: str, hint: str = _DAMAGED) -> FileError:
    """What is wrong with the word or text at a byte of the file."""
    return FileError(message, where=f"byte {at}", hint=hint)


def check_header(header: Header, size_bytes: int) -> None:
    """Raise for the first word that cannot be."""
    if header.magic != MAGIC:
        raise fault(
            0,
            f"expected {MAGIC:#010x} (NBIN), found {header.magic:#010x}",
            "give a NAME_rel.bin as `npuscope package` writes it",
        )
    flags = Flags.unpack(header.flags)
    if flags.major != API_MAJOR:
        raise fault(
            Header.offset("flags"),
            f"has API version {flags.major}.{flags.minor}, expected {API_MAJOR}.x",
        )
    for name in _IN_RAM + (_GOT if header.got_start != header.got_end else ()):
        _check_segment(header, name, AddressBase.RAM)
    for name in _IN_FLASH:
        _check_segment(header, name, AddressBase.FLASH)
    # 0 = data_start <= data_end <= bss_start <= bss_end; the GOT lies before bss.
    if offset_of(header.data_start):
        raise fault(
            Header.offset("data_start"), f"data_start is {header.data_start:#x}, not 0x40000000"
        )
    _check_order(header, "data_start", "data_end", "bss_start", "bss_end")
    if header.got_start != header.got_end:
        _check_order(header, "got_start", "got_end", "bss_start")
        _check_whole(header, "got_start", "got_end")
    _check_whole(header, "data_data", "rel_start", "rel_end", "params_start", "context")
    _check_file(header, size_bytes)
    for name in ENTRY_POINTS:
        _check_entry(header, name)


def stored_bytes(header: Header) -> int:
    """Length of the data block in the file: all of RAM but bss."""
    return offset_of(header.bss_start)


def _check_segment(header: Header, name: str, segment: AddressBase) -> None:
    value = getattr(header, name)
    if segment_of(value) != segment:
        actual = name_of(AddressBase, segment_of(value))
        raise fault(
            Header.offset(name),
            f"{name} is {value:#010x}, in segment {actual}, expected {segment.name}",
        )


def _check_file(header: Header, size_bytes: int) -> None:
    """Header <= data <= REL <= parameters <= end of the file."""
    data, block = offset_of(header.data_data), stored_bytes(header)
    rel_start, rel_end = offset_of(header.rel_start), offset_of(header.rel_end)
    if data < Header.BYTES:
        raise fault(Header.offset("data_data"), f"data starts at byte {data}, inside the header")
    _check_inside("data_data", data, size_bytes)
    _check_inside("bss_start", data + block, size_bytes)
    _check_order(header, "rel_start", "rel_end")
    filled = max(
        offset_of(header.data_end),
        offset_of(header.got_end) if header.got_end != header.got_start else 0,
    )
    if rel_start < data + filled:
        raise fault(
            Header.offset("rel_start"),
            f"the relocations start at byte {rel_start}, inside the data that ends at "
            f"{data + filled}",
        )
    _check_inside("rel_end", rel_end, size_bytes)
    offset = header.params_offset
    if not offset:
        return
    at = Header.offset("params_offset")
    if offset < rel_end or offset % WORD_BYTES:
        raise fault(at, f"the parameters start at byte {offset}, the relocations end at {rel_end}")
    _check_inside("params_offset", offset, size_bytes)


def _check_inside(name: str, end: int, size_bytes: int) -> None:
    if end > size_bytes:
        raise fault(
            Header.offset(name), f"{name} reaches byte {end}, the file ends at {size_bytes}", _CUT
        )


def _check_order(header: Header, *names: str) -> None:
    for before, after in pairwise(names):
        if getattr(header, before) > getattr(header, after):
            raise fault(
                Header.offset(after),
                f"{after} {getattr(header, after):#010x} is before "
                f"{before} {getattr(header, before):#010x}",
            )


def _check_whole(header: Header, *names: str) -> None:
    for name in names:
        if getattr(header, name) % WORD_BYTES:
            raise fault(
                Header.offset(name), f"{name} is {getattr(header, name):#010x}, not a multiple of 4"
            )


def _check_entry(header: Header, name: str) -> None:
    """A function in Thumb code, behind the header."""
    offset = offset_of(getattr(header, name))
    if not offset & 1:
        raise fault(
            Header.offset(name), f"{name} is {getattr(header, name):#010x}, an even address"
        )
    if not Header.BYTES <= offset < offset_of(header.data_data):
        raise fault(
            Header.offset(name),
            f"{name} is at byte {offset}, the code from {Header.BYTES} to "
            f"{offset_of(header.data_data)}",
        )


# --- Words that a loader rebases: the GOT, and the places in the REL list ---


class Relocations(Struct, frozen=True):
    """`got` are words that hold addresses (0 is left alone); the others are places of such words.

    Places in RAM count from the data block, places in FLASH from the start of the file.
    """

    got: tuple[int, ...]
    ram: tuple[int, ...]
    flash: tuple[int, ...]

    @property
    def count(self) -> int:
        return sum(1 for word in self.got if word) + len(self.ram) + len(self.flash)


class Reach(Struct, frozen=True):
    """How far an address may lie in each segment; a segment that is not there has no entry."""

    limits: dict[int, int]

    def check(self, word: int, at: int, what: str) -> None:
        limit = self.limits.get(segment_of(word))
        if limit is None:
            actual = name_of(AddressBase, segment_of(word))
            raise fault(at, f"{what} holds {word:#010x}: no such address, segment {actual}")
        if offset_of(word) > limit:
            raise fault(
                at,
                f"{what} holds {word:#010x}, {name_of(AddressBase, segment_of(word))} ends at "
                f"offset {limit:#x}",
            )


def read_relocations(data: bytes, header: Header, reach: Reach) -> Relocations:
    if header.got_start == header.got_end:
        got = ()
    else:
        first = offset_of(header.data_data) + offset_of(header.got_start)
        count = (header.got_end - header.got_start) // WORD_BYTES
        words = struct.unpack_from(f"<{count}I", data, first)
        for index, word in enumerate(words):
            if word:
                reach.check(word, first + index * WORD_BYTES, f"GOT word {index}")
        got = words
    ram: list[int] = []
    flash: list[int] = []
    start, end = offset_of(header.rel_start), offset_of(header.rel_end)
    for index, (place,) in enumerate(struct.iter_unpack("<I", data[start:end])):
        at = start + index * WORD_BYTES
        # The byte in the file of a word that is to be rebased.
        offset = offset_of(place)
        if segment_of(place) == AddressBase.RAM:
            low, high, base = 0, stored_bytes(header), offset_of(header.data_data)
        elif segment_of(place) == AddressBase.FLASH:
            low, high, base = Header.BYTES, offset_of(header.data_data), 0
        else:
            raise fault(at, f"a relocation names {place:#010x}, neither in RAM nor in FLASH")
        if offset % WORD_BYTES or not low <= offset <= high - WORD_BYTES:
            raise fault(
                at, f"a relocation names {place:#010x}; words are at offsets {low:#x} to {high:#x}"
            )
        where = base + offset
        reach.check(
            int.from_bytes(data[where : where + WORD_BYTES], "little"),
            where,
            f"the word that relocation {index} names",
        )
        (ram if segment_of(place) == AddressBase.RAM else flash).append(offset_of(place))
    return Relocations(got, tuple(ram), tuple(flash))
