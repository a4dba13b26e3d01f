"""Images made by hand from the layout's records: small, whole, and easy to damage."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace

from npuscope.loadable.codes import AddressBase, ToolchainCode, address_in, aligned
from npuscope.loadable.layout import (
    CLOSING_POOL,
    MAGIC,
    Context,
    Flags,
    Header,
    PoolDescriptor,
    Trailer,
    struct_sizes_word,
    version_word,
)
from npuscope.program.ec_blob.binary import EcBinary, write_binary
from npuscope.program.ec_blob.instructions import Irq, Label

RELOC_PARAM, RELOC_ACTIV, RESET_ACTIV, COPY_MIXED = 0x01010500, 0x01020601, 0x03020200, 0x02030200
FLAGS = Flags(secure=True, debug_info=True, toolchain=ToolchainCode.GCC)
BLOB = write_binary(EcBinary((Label(3), Irq(0))))
_FUNCTION = Header.BYTES | 1  # `bx lr` behind the header; the Thumb bit is set
_DATA_BYTES = 48


@dataclass(frozen=True)
class Pool:
    name: str
    flags: int
    foff: int
    dst: int
    size: int


@dataclass(frozen=True)
class Sample:
    """What goes into an image; the defaults have one of everything."""

    pools: tuple[Pool, ...] = (
        Pool("xSPI2", RELOC_PARAM, 0, 0, 1001),
        Pool("AXISRAM5", RESET_ACTIV, 0, 0x342E0000, 352800),
        Pool("AXISRAM4", COPY_MIXED, 1008, 0x34270000, 64),
        Pool("xSPI1", RELOC_ACTIV, 0, 0, 4096),
    )
    name: str = "network"
    runtime: str = "atonn-v1.1.1-14"
    version: tuple[int, int, int] = (1, 1, 1)
    flags: Flags = FLAGS
    params: bytes = bytes(range(256)) * 4 + bytes(48)
    got: tuple[int, ...] = (0x20000061, 0x40000004, 0x80000010, 0x90000020, 0, 0, 0)
    flash_relocation: bool = False
    split: bool = False
    trailer: bool = True
    bss_bytes: int = 100
    code: bytes = b""


def build(sample: Sample) -> tuple[bytes, bytes]:
    """The image and, when split, the file of its parameters."""
    code, texts = _code(sample)
    data_data = Header.BYTES + len(code)
    data, context_at, pools_at, got_at = _data(sample, texts)
    rel = _places(sample, pools_at, context_at)
    rel_at = data_data + len(data)
    rel_bytes = b"".join(struct.pack("<I", place) for place in rel)
    head_end = rel_at + aligned(len(rel_bytes))
    header = Header(
        MAGIC,
        sample.flags.pack(),
        _ram(0),
        _ram(got_at),
        _flash(data_data),
        _ram(len(data)),
        _ram(len(data) + sample.bss_bytes),
        _ram(got_at),
        _ram(got_at + 4 * len(sample.got)),
        _flash(rel_at),
        _flash(rel_at + len(rel_bytes)),
        _ram(pools_at),
        0 if sample.split else head_end,
        *[_flash(_FUNCTION)] * 10,
        _ram(context_at),
    )
    image = header.pack() + code + data + rel_bytes.ljust(aligned(len(rel_bytes)), b"\0")
    if sample.split:
        return _sealed(image, sample), _sealed(sample.params, sample)
    return _sealed(image + sample.params, sample), b""


def image(**changes: object) -> bytes:
    return build(replace(Sample(), **changes))[0]  # type: ignore[arg-type]


def resealed(data: bytes) -> bytes:
    """The same file with a trailer that fits again."""
    body = data[: -Trailer.BYTES]
    return body + Trailer.of(body).pack()


def with_word(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + struct.pack("<I", value) + data[at + 4 :]


def _sealed(data: bytes, sample: Sample) -> bytes:
    return data + (Trailer.of(data).pack() if sample.trailer else b"")


def _code(sample: Sample) -> tuple[bytes, dict[str, int]]:
    """`bx lr`, an address to be rebased, a blob, texts; and where each text is."""
    code = b"\x70\x47\x00\xbf" + struct.pack("<I", _flash(Header.BYTES)) + BLOB + sample.code
    places: dict[str, int] = {}
    for text in (sample.name, sample.runtime, *(pool.name for pool in sample.pools)):
        places[text] = _flash(Header.BYTES + len(code))
        code += text.encode() + b"\0"
    return code.ljust(aligned(len(code)), b"\0"), places


def _data(sample: Sample, texts: dict[str, int]) -> tuple[bytes, int, int, int]:
    context = Context(
        c_name=texts[sample.name],
        acts_sz=352800,
        params_sz=len(sample.params),
        ext_ram_sz=4096,
        rt_version_desc=texts[sample.runtime],
        rt_version=version_word(*sample.version),
        rt_version_extra=14,
        params_bin_sz=len(sample.params),
        params_bin_crc32=zlib.crc32(sample.params),
        struct_sizes=struct_sizes_word(56, 48),
    )
    rows = [
        PoolDescriptor(texts[pool.name], pool.flags, pool.foff, pool.dst, pool.size)
        for pool in sample.pools
    ]
    words = bytes(_DATA_BYTES)
    table = b"".join(row.pack() for row in (*rows, CLOSING_POOL))
    got_at = len(words) + Context.BYTES + len(table)
    data = words + context.pack() + table + struct.pack(f"<{len(sample.got)}I", *sample.got)
    return data.ljust(aligned(len(data)), b"\0"), len(words), len(words) + Context.BYTES, got_at


def _places(sample: Sample, pools_at: int, context_at: int) -> list[int]:
    names = [pools_at + PoolDescriptor.BYTES * i for i in range(len(sample.pools))]
    texts = [context_at + Context.offset(name) for name in ("c_name", "rt_version_desc")]
    code = [_flash(Header.BYTES + 4)] if sample.flash_relocation else []
    return [_ram(at) for at in (*names, *texts)] + code


def _ram(offset: int) -> int:
    return address_in(AddressBase.RAM, offset)


def _flash(offset: int) -> int:
    return address_in(AddressBase.FLASH, offset)
