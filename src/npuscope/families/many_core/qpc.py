"""The QPC container: named segments behind a table, as the open runtime of the vendor has it.

On disk every address is an offset plus `base`: 0 from a writer that streams, some buffer's address
from one that built the container in memory. Reading takes both and trusts neither.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from npuscope.bounded_file import CORE_PROGRAM, read_bytes
from npuscope.errors import FileError
from npuscope.text import safe_terminal

# Layout, magic and version are those of the open runtime, so that its reader takes our files.
MAGIC = 0x00A1CD7C
MAJOR, MINOR = 0, 1
FASTPATH, SLOWPATH = 0, 1
# magic, major, minor, compression, size, base, segments, address of the table
HEADER = struct.Struct("<IBBHQQQQ")
SEGMENT = struct.Struct("<4Q")  # size, offset, address of the name, address of the bytes
NETWORK_DESC = "networkdesc.bin"
CONSTANTS, CONSTANTS_DESC = "constants.bin", "constantsdesc.bin"
# Names may lie over one another in a hostile file: this bounds what they take together.
_MOST_SEGMENTS, _LONGEST_NAME = 4096, 4096


class Segment(Struct, frozen=True):
    """`offset` parts static from dynamic constants; it is 0 elsewhere."""

    name: str
    data: memoryview
    offset: int = 0
    start: int = 0  # in the file

    @property
    def size_bytes(self) -> int:
        return len(self.data)


class Qpc(Struct, frozen=True):
    """A container as read: the version, the base that its addresses had, the segments in order."""

    major: int
    minor: int
    base: int
    segments: tuple[Segment, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(segment.name for segment in self.segments)

    def get(self, name: str) -> bytes | None:
        """A segment's bytes; None where there is none of that name."""
        segment = next((one for one in self.segments if one.name == name), None)
        return None if segment is None else bytes(segment.data)

    def need(self, name: str) -> bytes:
        data = self.get(name)
        if data is None:
            names = safe_terminal(", ".join(self.names)) or "no segments"
            raise FileError(f"the container has no segment {name}", hint=f"it has {names}")
        return data


def read_qpc(data: bytes) -> Qpc:
    """Read a container; segments are views of `data`."""
    if len(data) < HEADER.size:
        raise _fault(f"ends inside the header of {HEADER.size} bytes", len(data))
    magic, major, minor, compression, size, base, count, table = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise _fault(f"starts with {magic:#010x}, a program container with {MAGIC:#010x}", 0)
    if major != MAJOR:
        raise _fault(f"has version {major}.{minor}, expected {MAJOR}.x", 4)
    # The other form is a dump of the runtime's memory, without the bytes it points to.
    if compression != SLOWPATH:
        raise _fault("holds addresses of a running process instead of its segments (FASTPATH)", 6)
    if size > len(data):
        raise _fault(f"says {size:,} bytes and has {len(data):,}: it was cut off", 8)
    reader = _Reader(memoryview(data), base)
    segments = reader.segments(table, count)
    rest = len(data) - size
    notes = (f"{rest:,} bytes follow the container",) if rest else ()
    return Qpc(major, minor, base, segments, notes)


class _Reader(Struct, frozen=True):
    data: memoryview
    base: int

    def segments(self, table: int, count: int) -> tuple[Segment, ...]:
        start = self.place(table, 32)
        # Checked before anything is read: the count is 64 bits of a foreign file.
        room = (len(self.data) - start) // SEGMENT.size
        if count > min(room, _MOST_SEGMENTS):
            raise _fault(f"says {count:,} segments, more than the file may have", 24)
        by_name: dict[str, Segment] = {}
        for index in range(count):
            segment = self.segment(start + index * SEGMENT.size)
            if segment.name in by_name:
                raise _fault(f"two segments are named {safe_terminal(segment.name)}", start)
            by_name[segment.name] = segment
        return tuple(by_name.values())

    def segment(self, at: int) -> Segment:
        size, offset, name, address = SEGMENT.unpack_from(self.data, at)
        start = self.place(address, at + 24)
        if size > len(self.data) - start:
            raise _fault(f"a segment of {size:,} bytes goes past the end of the file", at)
        if offset > size:
            raise _fault(f"a segment of {size:,} bytes is split at byte {offset:,}", at + 8)
        text = self.name(self.place(name, at + 16))
        return Segment(text, self.data[start : start + size], offset, start)

    def name(self, at: int) -> str:
        raw = bytes(self.data[at : at + _LONGEST_NAME])
        end = raw.find(0)
        if end < 1:
            raise _fault("a segment's name is empty or does not end", at)
        return raw[:end].decode("utf-8", "backslashreplace")

    def place(self, address: int, at: int) -> int:
        """The position that an address means; `at` is where the address stands."""
        start = address - self.base
        if not 0 <= start <= len(self.data):
            raise _fault(f"address {address:#x} (base {self.base:#x}) lies outside the file", at)
        return start


def write_qpc(segments: Mapping[str, bytes]) -> bytes:
    """A container in the streaming form: base 0, nothing padded, all constants static."""
    names = [name.encode("utf-8") + b"\0" for name in segments]
    bodies = list(segments.values())
    at = HEADER.size + SEGMENT.size * len(names)
    name_starts = _starts(names, at)
    body_starts = _starts(bodies, at + sum(map(len, names)))
    # Constants before the second number are static.
    rows = [
        SEGMENT.pack(len(body), len(body) if name == CONSTANTS else 0, name_start, body_start)
        for name, body, name_start, body_start in zip(
            segments, bodies, name_starts, body_starts, strict=True
        )
    ]
    size = at + sum(map(len, names)) + sum(map(len, bodies))
    header = HEADER.pack(MAGIC, MAJOR, MINOR, SLOWPATH, size, 0, len(names), HEADER.size)
    return b"".join([header, *rows, *names, *bodies])


def _starts(parts: list[bytes], first: int) -> list[int]:
    starts = []
    for part in parts:
        starts.append(first)
        first += len(part)
    return starts


def read_qpc_file(path: str | Path) -> Qpc:
    """Read a container from a file; errors name it."""
    data = read_bytes(path, CORE_PROGRAM)
    try:
        return read_qpc(data)
    except FileError as error:
        raise placed(error, path) from None


def placed(error: FileError, path: str | Path) -> FileError:
    """The same error with the file's name before its place."""
    name = safe_terminal(str(path))
    where = f"{name}, {error.where}" if error.where else name
    return FileError(error.message, where=where, hint=error.hint)


def _fault(what: str, at: int) -> FileError:
    return FileError(what, where=f"byte {at}", hint="give a programqpc.bin of the compiler")
