"""The words of a runtime-loadable image, written down once for reader and writer.

    [header | text | rodata] [data with context and pool descriptors | GOT] pad 8 [REL] pad 8
    [parameters] [trailer]

Numbers are little-endian 32-bit words. An address inside an image has its segment in bits 31 to
28 and an offset below: into the file (FLASH), into the data block stored at `data_data` (RAM), or
into a relocated pool (PARAM_0, PARAM_1).
"""

from __future__ import annotations

import struct
import zlib
from typing import ClassVar, Self

from msgspec import Struct
from msgspec.structs import astuple

from npuscope.errors import FileError
from npuscope.loadable.codes import (
    WORD_BYTES,
    Cpu,
    FloatAbi,
    PoolAccess,
    PoolAction,
    PoolData,
    ToolchainCode,
    aligned,
    name_of,
    offset_of,
)

MAGIC = 0x4E49424E  # bytes "NBIN"
TRAILER_MAGIC = 0x5254504E  # bytes "NPTR"
TRAILER_VERSION = 1
API_MAJOR, API_MINOR = 8, 0
MOST_POOLS = 10  # as many a loader looks at, the closing entry not counted


class _Record(Struct, frozen=True):
    """Its fields are consecutive words."""

    BYTES: ClassVar[int]

    def pack(self) -> bytes:
        words = astuple(self)
        return struct.pack(f"<{len(words)}I", *words)

    @classmethod
    def unpack(cls, data: bytes, at: int = 0) -> Self:
        if at < 0 or at + cls.BYTES > len(data):
            raise FileError(
                f"{cls.BYTES} bytes of the {cls.__name__.lower()} start here, "
                f"the file ends at byte {len(data)}",
                where=f"byte {at}",
                hint="the file is cut off: copy or package it again",
            )
        return cls(*struct.unpack_from(f"<{cls.BYTES // WORD_BYTES}I", data, at))

    @classmethod
    def offset(cls, name: str) -> int:
        """Byte of a field, counted from the record's first."""
        return cls.__struct_fields__.index(name) * WORD_BYTES


class Header(_Record, frozen=True):
    """The 24 words at the start of the file.

    Starts and ends are segment addresses: data, bss, GOT, `params_start` (the pool descriptors)
    and `context` in RAM; `data_data`, REL and the ten functions in FLASH. `params_offset` is a
    plain offset in the file, 0 when the parameters are in a file of their own.
    """

    BYTES: ClassVar[int] = 96

    magic: int
    flags: int
    data_start: int
    data_end: int
    data_data: int
    bss_start: int
    bss_end: int
    got_start: int
    got_end: int
    rel_start: int
    rel_end: int
    params_start: int
    params_offset: int
    ec_network_init: int
    ec_inference_init: int
    input_setter: int
    input_getter: int
    output_setter: int
    output_getter: int
    get_epoch_items: int
    get_output_buffers_info: int
    get_input_buffers_info: int
    get_internal_buffers_info: int
    context: int

    @property
    def read_only_bytes(self) -> int:
        """Header, text and rodata."""
        return offset_of(self.data_data)

    @property
    def xip_bytes(self) -> int:
        """RAM for data, GOT and bss when the code stays where the file lies."""
        return aligned(offset_of(self.bss_end))

    @property
    def copy_bytes(self) -> int:
        """RAM when the code is copied too."""
        return aligned(self.xip_bytes + self.read_only_bytes)


ENTRY_POINTS = Header.__struct_fields__[13:23]


class Flags(Struct, frozen=True):
    """Word 1 of the header. `reserved` keeps bits 23 and 15 in place."""

    secure: bool = False
    debug_info: bool = False
    asynchronous: bool = False
    toolchain: int = ToolchainCode.CLANG
    float_abi: int = FloatAbi.HARD
    fpu: bool = True
    cpu: int = Cpu.CORTEX_M55
    major: int = API_MAJOR
    minor: int = API_MINOR
    reserved: int = 0

    _RESERVED: ClassVar[int] = 1 << 23 | 1 << 15

    def pack(self) -> int:
        return (
            (self.major & 0xF) << 28
            | (self.minor & 0xF) << 24
            | self.asynchronous << 22
            | self.debug_info << 21
            | self.secure << 20
            | (self.toolchain & 0xF) << 16
            | (self.float_abi & 3) << 13
            | self.fpu << 12
            | self.cpu & 0xFFF
            | self.reserved & self._RESERVED
        )

    @classmethod
    def unpack(cls, word: int) -> Flags:
        return cls(
            secure=bool(word >> 20 & 1),
            debug_info=bool(word >> 21 & 1),
            asynchronous=bool(word >> 22 & 1),
            toolchain=word >> 16 & 0xF,
            float_abi=word >> 13 & 3,
            fpu=bool(word >> 12 & 1),
            cpu=word & 0xFFF,
            major=word >> 28 & 0xF,
            minor=word >> 24 & 0xF,
            reserved=word & cls._RESERVED,
        )


class Context(_Record, frozen=True):
    """The 17 words of the runtime context. `state` to `callbacks` are the loader's to fill.

    `c_name` and `rt_version_desc` point to texts in FLASH or RAM. `struct_sizes` says which
    structures of the runtime the code was compiled with.
    """

    BYTES: ClassVar[int] = 68

    state: int = 0
    file_addr: int = 0
    ram_addr: int = 0
    rom_addr: int = 0
    callbacks: int = 0
    c_name: int = 0
    acts_sz: int = 0
    params_sz: int = 0
    ext_ram_sz: int = 0
    rt_version_desc: int = 0
    rt_version: int = 0
    rt_version_extra: int = 0
    params_bin_sz: int = 0
    params_bin_crc32: int = 0
    struct_sizes: int = 0
    ll_instance: int = 0
    interface: int = 0

    @property
    def version(self) -> tuple[int, int, int]:
        """The runtime's version; a loader asks for the same three numbers."""
        major, minor, micro, _ = self.rt_version.to_bytes(4, "big")
        return major, minor, micro

    @property
    def buffer_info_bytes(self) -> int:
        return self.struct_sizes & 0xFF

    @property
    def epoch_item_bytes(self) -> int:
        return self.struct_sizes >> 8 & 0xFF


def version_word(major: int, minor: int, micro: int) -> int:
    return major << 24 | minor << 16 | micro << 8


def struct_sizes_word(buffer_info_bytes: int, epoch_item_bytes: int) -> int:
    return epoch_item_bytes << 8 | buffer_info_bytes


class PoolFlags(Struct, frozen=True):
    """A descriptor's flags; `identifier` is 0 for read-only parameters, 1 for external RAM."""

    kind: int
    data: int
    access: int
    identifier: int = 0

    def pack(self) -> int:
        return self.kind << 24 | self.data << 16 | self.access << 8 | self.identifier

    @classmethod
    def unpack(cls, word: int) -> PoolFlags:
        return cls(word >> 24 & 0xFF, word >> 16 & 0xFF, word >> 8 & 0xFF, word & 0xFF)

    @property
    def cached(self) -> bool:
        return bool(self.access & PoolAccess.CACHED)

    @property
    def filled(self) -> bool:
        """Bytes for it are among the parameters."""
        return self.data in (PoolData.PARAM, PoolData.MIXED)

    @property
    def text(self) -> str:
        """Such as RELOC.PARAM.0.RCACHED, RESET.ACTIV.WRITE or UNUSED."""
        kind = name_of(PoolAction, self.kind)
        if self.kind in (PoolAction.UNUSED, PoolAction.UNSUPPORTED):
            return kind
        number = [str(self.identifier)] if self.kind == PoolAction.RELOC else []
        data, access = name_of(PoolData, self.data), name_of(PoolAccess, self.access)
        return ".".join([kind, data, *number, access])


class PoolDescriptor(_Record, frozen=True):
    """`foff` counts from the first parameter; `dst` is absolute, for COPY and RESET only."""

    BYTES: ClassVar[int] = 20

    name: int
    flags: int
    foff: int
    dst: int
    size: int


CLOSING_POOL = PoolDescriptor(0, 0, 0, 0, 0)


class Trailer(_Record, frozen=True):
    """Ours, behind the parameters, where vendor loaders never look: is the file whole?"""

    BYTES: ClassVar[int] = 16

    magic: int
    version: int
    length: int
    crc32: int

    @classmethod
    def of(cls, data: bytes) -> Trailer:
        """The trailer of a file that ends with `data`."""
        return cls(TRAILER_MAGIC, TRAILER_VERSION, len(data), zlib.crc32(data))
