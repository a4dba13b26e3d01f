"""The bytes of a stats buffer around its records: header, table of contents, what a level holds."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from npuscope.errors import FileError
from npuscope.manycore.layout import Layout
from npuscope.manycore.records import SECTIONS, Needs, SectionId

MAGIC = b"OSBSTAT1"
MAJOR, MINOR = 1, 0
ENDIAN_PROBE = 0x01020304
ALIGNMENT = 64
FILE_ENDING = "aiccyclecounts.bin"
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


@dataclass(frozen=True, slots=True)
class Header:
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


def read_header(data: bytes) -> Header:
    """The header; whatever makes the rest unreadable is an error."""
    if not is_buffer(data):
        raise fault("does not begin with OSBSTAT1", 0, _vendor_hint())
    if len(data) < HEADER.size:
        raise fault(f"ends inside the header of {HEADER.size} bytes", len(data))
    _, major, minor, probe, uuid, *rest = HEADER.unpack_from(data)
    if probe != ENDIAN_PROBE:
        raise fault(f"has {probe:#010x} as its probe of byte order, not {ENDIAN_PROBE:#010x}", 12)
    if major != MAJOR:
        raise fault(
            f"is of version {major}.{minor}, known are {MAJOR}.x",
            8,
            "read it with a newer npuscope, or write it with this one",
        )
    header = Header(minor, uuid.hex(), *rest)
    for what, value, offset in (("inference", header.inference, 48), ("UTC", header.utc_ns, 56)):
        if value > _LARGEST:
            raise fault(f"has {value:,} as its {what}, at most {_LARGEST:,}", offset)
    return header


def is_buffer(data: bytes) -> bool:
    return bytes(data[: len(MAGIC)]) == MAGIC


def read_rows(data: bytes, header: Header) -> np.ndarray:
    """The table of contents."""
    room = (len(data) - HEADER.size) // ROW.itemsize
    if header.sections > _MOST_SECTIONS:
        raise fault(f"says {header.sections:,} sections, at most {_MOST_SECTIONS:,}", 44)
    if header.sections > room:
        raise fault(f"ends inside its table of {header.sections} sections", len(data))
    return np.frombuffer(data, ROW, header.sections, HEADER.size)


def collected(level: int, layout: Layout) -> tuple[SectionId, ...]:
    """The sections that a level and the flags of the program ask for."""
    return present(level, has_pmu=bool(layout.pmu.events), ddr_stats=layout.ddr_stats)


def present(level: int, *, has_pmu: bool, ddr_stats: bool) -> tuple[SectionId, ...]:
    """The same before there is a layout."""
    asked = {Needs.NOTHING: True, Needs.PMU: has_pmu, Needs.DDR: ddr_stats}
    return tuple(
        key
        for key, section in SECTIONS.items()
        if level >= section.min_level and asked[section.needs]
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


def _vendor_hint() -> str:
    return (
        "the layout of the vendor's raw stats buffers is not public; `npuscope manycore run` "
        "writes buffers that explain themselves"
    )
