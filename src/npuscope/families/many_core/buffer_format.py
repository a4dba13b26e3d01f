"""The bytes of a stats buffer around its records: header, table of contents, what a level holds."""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from npuscope.bounded_file import read_head
from npuscope.errors import FileError
from npuscope.families.many_core.layout import CoreOpInfo, Layout, Specialization
from npuscope.families.many_core.records import SECTIONS, Needs, SectionId
from npuscope.version import __version__

# --- A decoded stats buffer ---

Records = np.ndarray  # structured, with the dtype of its section


class Stats(Struct, frozen=True):
    """Records of one inference on one device. A section that is absent was not collected."""

    layout: Layout
    name: str  # of the file, without its ending
    level: int
    device: int
    specialization: int
    inference: int
    utc_ns: int  # of timer tick 0; 0 where unknown
    sections: Mapping[SectionId, Records] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what was dropped or odd
    lost: tuple[str, ...] = ()  # names of sections that are there and damaged

    def of(self, section: SectionId) -> Records:
        """The records; none where the section is absent."""
        records = self.sections.get(section)
        return records if records is not None else np.zeros(0, SECTIONS[section].dtype)

    def has(self, section: SectionId) -> bool:
        return section in self.sections

    @property
    def network(self) -> Specialization:
        return self.layout.specializations[self.specialization]


# What is written from a buffer of this layout says so: nothing but our simulator fills one.
SIMULATED = f"simulated by npuscope {__version__}"
MAGIC = b"OSBSTAT1"
MAJOR, MINOR = 1, 1
ENDIAN_PROBE = 0x01020304
ALIGNMENT = 64

# magic, major, minor, probe, program id, level, cores, threads, device, specialization, sections,
# inference, UTC of tick 0
HEADER = struct.Struct("<8sHHI16s4HIIQQ")
ROW = np.dtype(
    [
        ("id", "<u4"),
        ("record_bytes", "<u2"),
        ("min_level", "<u2"),
        ("offset", "<u8"),
        ("count", "<u8"),
        ("crc32", "<u4"),
        ("flags", "<u4"),
    ]
)
_LARGEST = 2**63 - 1  # numbers of traces and tables are signed
# Far more kinds of records than any version has.
_MOST_SECTIONS = 1024


class BufferHeader(Struct, frozen=True):
    minor: int
    program_uuid: str
    level: int
    cores: int
    threads: int
    device: int
    specialization: int
    sections: int
    inference: int
    utc_ns: int

    def pack(self) -> bytes:
        return HEADER.pack(
            MAGIC,
            MAJOR,
            self.minor,
            ENDIAN_PROBE,
            bytes.fromhex(self.program_uuid),
            self.level,
            self.cores,
            self.threads,
            self.device,
            self.specialization,
            self.sections,
            self.inference,
            self.utc_ns,
        )


def read_header(data: bytes) -> BufferHeader:
    """The header; whatever makes the rest unreadable is an error."""
    if not is_buffer(data):
        raise fault(
            "does not begin with OSBSTAT1",
            0,
            "the layout of the vendor's raw stats buffers is not public; "
            "`npuscope manycore run` writes buffers that explain themselves",
        )
    if len(data) < HEADER.size:
        raise fault(f"ends inside the header of {HEADER.size} bytes", len(data))
    _, major, minor, probe, uuid, *rest = HEADER.unpack_from(data)
    if probe != ENDIAN_PROBE:
        raise fault(f"has {probe:#010x} as its byte-order mark, expected {ENDIAN_PROBE:#010x}", 12)
    if major != MAJOR:
        raise fault(
            f"has version {major}.{minor}, expected {MAJOR}.x",
            8,
            "read it with a newer npuscope, or write it with this one",
        )
    header = BufferHeader(minor, uuid.hex(), *rest)
    for what, value, offset in (("inference", header.inference, 48), ("UTC", header.utc_ns, 56)):
        if value > _LARGEST:
            raise fault(f"has {value:,} as its {what}, at most {_LARGEST:,}", offset)
    return header


def is_buffer(data: bytes) -> bool:
    return bytes(data[: len(MAGIC)]) == MAGIC


def read_rows(data: bytes, header: BufferHeader) -> np.ndarray:
    """The table of contents."""
    room = (len(data) - HEADER.size) // ROW.itemsize
    if header.sections > _MOST_SECTIONS:
        raise fault(f"says {header.sections:,} sections, at most {_MOST_SECTIONS:,}", 44)
    if header.sections > room:
        raise fault(f"ends inside its table of {header.sections} sections", len(data))
    rows = np.frombuffer(data, ROW, header.sections, HEADER.size)
    crc = int(rows["flags"][0]) if len(rows) else 0
    # Writers before version 1.1 leave it 0.
    if crc and crc != head_crc(data[: HEADER.size], rows):
        raise fault(
            "its header or its table of sections is damaged (wrong CRC)",
            0,
            "nothing in it can be trusted: collect it again",
        )
    return rows


def head_crc(head: bytes, rows: np.ndarray) -> int:
    """Of the header and the table of contents, without the place where it is kept; never 0."""
    plain = rows.copy()
    plain["flags"] = 0
    return zlib.crc32(plain.tobytes(), zlib.crc32(head)) or 1


def collected(level: int, layout: Layout) -> tuple[SectionId, ...]:
    """The sections that a level and the flags of the program ask for."""
    return present(level, has_pmu=bool(layout.pmu.events), ddr_stats=layout.ddr_stats)


def present(level: int, *, has_pmu: bool, ddr_stats: bool) -> tuple[SectionId, ...]:
    """The same before there is a layout."""
    is_on = {Needs.NOTHING: True, Needs.PMU: has_pmu, Needs.DDR: ddr_stats}
    return tuple(
        key
        for key, section in SECTIONS.items()
        if level >= section.min_level and is_on[section.needs]
    )


# The compiler's options that a section needs beside its level.
OPTIONS = {
    Needs.NOTHING: "",
    Needs.PMU: "-aic-pmu-recipe or -aic-pmu-events",
    Needs.DDR: "-ddr-stats",
}


def options_for(section: SectionId) -> str:
    """What to compile with so that a section appears."""
    record = SECTIONS[section]
    words = [f"-stats-level={record.min_level}", OPTIONS[record.needs]]
    return " and ".join(word for word in words if word)


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def fault(what: str, at: int, hint: str = "") -> FileError:
    return FileError(what, where=f"byte {at}", hint=hint)


# --- Index of a program's ops, for looking up many records at once ---

# A table by (core, oc) may be this much larger than the number of ops; numbers that lie wider
# apart are searched for.
_SPARSE = 16


class OpLookup(Struct, frozen=True, eq=False):
    """Ops of one device by (core, oc); positions are those in `ops`."""

    layout: Layout
    ops: tuple[CoreOpInfo, ...]
    cores: np.ndarray
    numbers: np.ndarray  # their oc
    threads: np.ndarray  # number of a thread -> its position in the layout, -1 where none
    kinds: tuple[str, ...]
    kind_of: np.ndarray  # position -> index in kinds
    width: int  # numbers per core; 0 where they are searched for
    _table: np.ndarray  # position by core * width + oc, or sorted (core << 32 | oc)
    _order: np.ndarray

    @classmethod
    def of(cls, layout: Layout, specialization: int) -> OpLookup:
        table = layout.specializations[specialization].ops
        ops = tuple(chain.from_iterable(chain.from_iterable(table)))
        sizes = [sum(map(len, groups)) for groups in table]
        cores = np.repeat(np.arange(len(table)), sizes)
        numbers = np.fromiter((op.oc for op in ops), np.int64, len(ops))
        kinds = tuple(dict.fromkeys(op.kind for op in ops))
        place = {kind: i for i, kind in enumerate(kinds)}
        width = int(numbers.max()) + 1 if len(numbers) else 0
        if width and width * layout.cores <= _SPARSE * len(numbers) + 4096:
            lookup, order = np.full(layout.cores * width, -1, np.int64), np.zeros(0, np.int64)
            lookup[cores * width + numbers] = np.arange(len(numbers))
        else:
            width, keys = 0, cores << 32 | numbers
            order = np.argsort(keys, kind="stable")
            lookup = keys[order]
        threads = np.full(1 << 16, -1, np.int64)
        threads[[thread.id for thread in layout.threads]] = np.arange(len(layout.threads))
        return cls(
            layout=layout,
            ops=ops,
            cores=cores,
            numbers=numbers,
            threads=threads,
            kinds=kinds,
            kind_of=np.fromiter((place[op.kind] for op in ops), np.int64, len(ops)),
            width=width,
            _table=lookup,
            _order=order,
        )

    def find(self, core: np.ndarray, oc: np.ndarray) -> np.ndarray:
        """The position of each op, -1 where there is none."""
        if not len(self.ops):
            return np.full(len(core), -1)
        if not self.width:
            keys = core.astype(np.int64) << 32 | oc
            place = np.minimum(np.searchsorted(self._table, keys), len(self._table) - 1)
            return np.where(self._table[place] == keys, self._order[place], -1)
        if core.max(initial=0) < self.layout.cores and oc.max(initial=0) < self.width:
            return self.find_known(core, oc)
        outside = (core >= self.layout.cores) | (oc >= self.width)
        place = core.astype(np.int64) * self.width + oc
        place[outside] = 0
        return np.where(outside, -1, self._table[place])

    def find_known(self, core: np.ndarray, oc: np.ndarray) -> np.ndarray:
        """The same of ops that were found before: nothing is looked for outside of the table."""
        if not self.width or not len(self.ops):
            return self.find(core, oc)
        place = core.astype(np.intp)
        place *= self.width
        place += oc
        rows: np.ndarray = self._table.take(place)
        return rows

    def known_number(self, oc: np.ndarray) -> np.ndarray:
        """Whether some core has an op of that number."""
        return np.isin(oc.astype(np.int64), self.numbers)


# Buffers of one program are read one after the other; large programs have 10^5 ops.
_RECENT: deque[tuple[int, OpLookup]] = deque(maxlen=4)


def op_index(layout: Layout, specialization: int) -> OpLookup:
    """The index of a program's ops; made once for the buffers that follow one another."""
    for number, index in tuple(_RECENT):
        if number == specialization and index.layout is layout:
            return index
    lookup = OpLookup.of(layout, specialization)
    _RECENT.append((specialization, lookup))
    return lookup


# --- Runs on disk: what other verbs take as a source ---

OPSTATS_SCHEMA = "npuscope/opstats/1"
_NEAR = 4096  # bytes in which a result of opstats names its schema


def is_core_run(source: object) -> bool:
    """A result or a summary of opstats, a raw stats buffer, or a folder with some."""
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    if path.is_dir():
        return any(path.glob("aic-profiling-*-aiccyclecounts*.bin"))
    if not path.is_file():
        return False
    head = read_head(path, _NEAR)
    is_result = head.lstrip().startswith(b"{") and OPSTATS_SCHEMA.encode() in head
    return head.startswith(MAGIC) or is_result or is_summary(head)


def is_summary(head: bytes) -> bool:
    """The text of `opstats --summary`, ours or the vendor's."""
    return b"ucycles(%)" in head and b"opdetails" in head
