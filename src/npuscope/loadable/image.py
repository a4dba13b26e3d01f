"""Reading runtime-loadable images: every count and offset is checked before it is used."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from npuscope.bounded_file import LOADABLE, read_bytes
from npuscope.errors import FileError
from npuscope.loadable.codes import (
    OFFSET_MASK,
    AddressBase,
    PoolAccess,
    PoolAction,
    PoolData,
    aligned,
    name_of,
    offset_of,
    segment_of,
)
from npuscope.loadable.image_checks import (
    Reach,
    check_header,
    fault,
    read_relocations,
    stored_bytes,
)
from npuscope.loadable.image_model import Image, ImagePool, ImageSection, Seal, find_blobs
from npuscope.loadable.layout import (
    MOST_POOLS,
    TRAILER_MAGIC,
    TRAILER_VERSION,
    Context,
    Flags,
    Header,
    PoolDescriptor,
    Trailer,
)
from npuscope.text import safe_terminal

# --- The context and the pool descriptors, with the texts they point to ---

# Names and versions are short; a missing end of text must not make the rest of the file a name.
_LONGEST_TEXT = 255
_ADDRESS_END = 1 << 32
# Read-only parameters and external RAM: a loader has one base address for each.
_RELOC_IDS = (0, 1)


def read_context(data: bytes, header: Header) -> Context:
    context = Context.unpack(data, _in_data(header, "context", Context.BYTES))
    if not context.c_name or not context.rt_version:
        place = context_place(header, "c_name" if not context.c_name else "rt_version")
        raise fault(place, "the runtime context names no network or no version of the runtime")
    return context


def context_place(header: Header, name: str) -> int:
    """Byte in the file of a word of the context."""
    base = offset_of(header.data_data) + offset_of(header.context)
    return base + Context.offset(name)


def read_pools(data: bytes, header: Header) -> tuple[ImagePool, ...]:
    """Descriptors up to the one without a name, each checked by itself."""
    pools: list[ImagePool] = []
    first = _in_data(header, "params_start", PoolDescriptor.BYTES)
    end = offset_of(header.data_data) + stored_bytes(header)
    # One more than may be there: the closing entry.
    for index in range(MOST_POOLS + 1):
        at = first + index * PoolDescriptor.BYTES
        if at + PoolDescriptor.BYTES > end:
            raise fault(at, f"pool descriptor {index} goes past the data that ends at byte {end}")
        descriptor = PoolDescriptor.unpack(data, at)
        if not descriptor.name:
            return tuple(pools)
        pool = ImagePool(text_at(data, header, descriptor.name, at), descriptor)
        _check_pool(pool, at, pools)
        pools.append(pool)
    raise fault(first, f"more than {MOST_POOLS} pool descriptors, or no end of the table")


def check_stored(pools: tuple[ImagePool, ...], params_bytes: int, header: Header) -> None:
    """The bytes that fill a pool must be among the parameters."""
    first = offset_of(header.data_data) + offset_of(header.params_start)
    for index, pool in enumerate(pools):
        row = pool.descriptor
        if pool.flags.filled and row.foff + row.size > params_bytes:
            raise fault(
                first + index * PoolDescriptor.BYTES + PoolDescriptor.offset("foff"),
                f"pool {index} is filled up to byte {row.foff + row.size} of the parameters, "
                f"which have {params_bytes}",
            )


def text_at(data: bytes, header: Header, address: int, at: int) -> str:
    """The text that the pointer at byte `at` leads to, in FLASH or in the data block."""
    if not address:
        return ""
    # Where a segment's offsets count from in the file, and the bytes they may lead to.
    code_end = offset_of(header.data_data)
    if segment_of(address) == AddressBase.FLASH:
        base, low, high = 0, Header.BYTES, code_end
    elif segment_of(address) == AddressBase.RAM:
        base, low, high = code_end, code_end, code_end + stored_bytes(header)
    else:
        base, low, high = 0, 0, 0
    start = base + offset_of(address)
    end = data.find(b"\0", start, min(high, start + _LONGEST_TEXT + 1))
    if not low <= start < high or end < 0:
        raise fault(at, f"the pointer {address:#010x} does not point to a text in code or data")
    return data[start:end].decode("utf-8", "backslashreplace")


def _in_data(header: Header, name: str, size: int) -> int:
    """The byte of something in the data block, if it fits."""
    offset = offset_of(getattr(header, name))
    if offset + size > stored_bytes(header):
        raise fault(
            Header.offset(name),
            f"{name} is at offset {offset:#x} of the data, which ends at {stored_bytes(header):#x}",
        )
    return offset_of(header.data_data) + offset


def _check_pool(pool: ImagePool, at: int, before: list[ImagePool]) -> None:
    flags, row = pool.flags, pool.descriptor
    flags_at = at + PoolDescriptor.offset("flags")
    # Type 0 marks an unused entry.
    if not row.flags:
        return
    kinds = (PoolAction.RELOC, PoolAction.COPY, PoolAction.RESET)
    data = (PoolData.PARAM, PoolData.ACTIV, PoolData.MIXED)
    access = tuple(PoolAccess.__members__.values())
    if not (flags.kind in kinds and flags.data in data and flags.access in access):
        raise fault(flags_at, f"pool flags {row.flags:#010x} ({flags.text}) are not valid")
    if flags.kind == PoolAction.RELOC:
        flags = pool.flags
        if flags.identifier not in _RELOC_IDS:
            raise fault(
                flags_at, f"a relocated pool has number {flags.identifier}, expected 0 or 1"
            )
        if flags.identifier == 0 and (
            flags.data != PoolData.PARAM or flags.access & PoolAccess.WRITE
        ):
            raise fault(
                flags_at, f"relocated pool 0 is {flags.text}; it may only hold parameters to read"
            )
        twins = [p for p in before if p.flags.kind == PoolAction.RELOC]
        if any(twin.flags.identifier == flags.identifier for twin in twins):
            name = name_of(AddressBase, AddressBase.PARAM_0 + flags.identifier)
            raise fault(flags_at, f"two pools are relocated as {name}")
    elif row.dst + aligned(row.size) > _ADDRESS_END:
        raise fault(
            at + PoolDescriptor.offset("dst"),
            f"{row.size} bytes at {row.dst:#010x} do not fit into 32 address bits",
        )


__all__ = ["Image", "ImagePool", "ImageSection", "Seal", "read_image", "read_image_file"]

_TRAILER_START = struct.pack("<I", TRAILER_MAGIC)


def read_image_file(path: str | Path) -> Image:
    """Read an image; the parameters of a split one are looked for beside it."""
    path = Path(path)
    beside = path.with_name(f"{path.stem}_params{path.suffix}")
    data = read_bytes(path, LOADABLE)
    try:
        split = len(data) >= Header.BYTES and not Header.unpack(data).params_offset
        return read_image(
            data, read_bytes(beside, LOADABLE) if split and beside.is_file() else None
        )
    except FileError as error:
        where = f"{safe_terminal(str(path))}, {error.where}" if error.where else str(path)
        raise FileError(error.message, where=where, hint=error.hint) from None


def read_image(data: bytes, params: bytes | None = None) -> Image:
    """Read an image. `params` are the bytes of the second file, if there are two."""
    header = Header.unpack(data)
    check_header(header, len(data))
    context = read_context(data, header)
    name, runtime = (
        text_at(data, header, getattr(context, word), context_place(header, word))
        for word in ("c_name", "rt_version_desc")
    )
    pools = read_pools(data, header)
    split = not header.params_offset and context.params_bin_sz > 0
    end = _end(header, context, len(data))
    trailer = _seal(data, end)
    parameters, params_trailer = _parameters(data, params, header, context, trailer)
    if parameters is not None:
        check_stored(pools, len(parameters), header)
    notes = _check_rest(data, end, header, trailer)
    relocations = read_relocations(data, header, _reach(header, pools, parameters))
    # In code, data and parameters; those of a second file are counted from its start.
    blobs = find_blobs(data, Header.BYTES)
    return Image(
        name=name,
        runtime=runtime,
        size_bytes=len(data),
        header=header,
        flags=Flags.unpack(header.flags),
        context=context,
        sections=_sections(data, header, parameters),
        pools=pools,
        relocations=relocations,
        blobs=(*blobs, *find_blobs(parameters))
        if parameters and not header.params_offset
        else blobs,
        split=split,
        params_bytes=None if parameters is None else len(parameters),
        params_crc=_params_seal(parameters, context),
        trailer=trailer,
        params_trailer=params_trailer,
        notes=notes,
    )


def _end(header: Header, context: Context, size_bytes: int) -> int:
    """Where a trailer starts: behind the parameters, or behind the relocations when split."""
    if not header.params_offset:
        return min(aligned(offset_of(header.rel_end)), size_bytes)
    end = header.params_offset + context.params_bin_sz
    if end > size_bytes:
        raise fault(
            context_place(header, "params_bin_sz"),
            f"{context.params_bin_sz} bytes of parameters start at {header.params_offset}, "
            f"the file ends at {size_bytes}",
            "the file is cut off: copy or package it again",
        )
    return end


def _seal(data: bytes, end: int) -> Seal:
    """Our trailer at `end`. Bytes that start like a trailer but are not valid count as damaged."""
    rest = data[end : end + Trailer.BYTES]
    if not rest or not _TRAILER_START.startswith(rest[: len(_TRAILER_START)]):
        return Seal.ABSENT
    if len(rest) < Trailer.BYTES:
        return Seal.WRONG
    trailer = Trailer.unpack(rest)
    good = trailer.version == TRAILER_VERSION and trailer == Trailer.of(data[:end])
    return Seal.OK if good else Seal.WRONG


def _parameters(
    data: bytes, params: bytes | None, header: Header, context: Context, trailer: Seal
) -> tuple[bytes | None, Seal]:
    """What lies from the first parameter on, and the seal of the file of its own."""
    if header.params_offset:
        sealed_end = header.params_offset + context.params_bin_sz
        # Without a trailer (vendor files) blobs may lie before the parameters: all bytes count.
        end = len(data) if trailer is Seal.ABSENT else sealed_end
        return data[header.params_offset : end], Seal.ABSENT
    if params is None:
        return (None if context.params_bin_sz else b""), Seal.ABSENT
    size = context.params_bin_sz
    if len(params) < size:
        raise FileError(
            f"the file of the parameters has {len(params)} bytes, the image needs {size}",
            where=f"byte {context_place(header, 'params_bin_sz')}",
            hint="give the NAME_rel_params.bin that was written with this image",
        )
    seal = _seal(params, size)
    return params if seal is Seal.ABSENT else params[:size], seal


def _check_rest(data: bytes, end: int, header: Header, trailer: Seal) -> tuple[str, ...]:
    """Bytes that nothing in the file accounts for."""
    rest = len(data) - end - (0 if trailer is Seal.ABSENT else Trailer.BYTES)
    if rest <= 0:
        return ()
    if trailer is Seal.ABSENT and not header.params_offset:
        raise fault(
            Header.offset("params_offset"),
            f"the header says that parameters are in a separate file, but {rest} bytes "
            f"follow the relocations at byte {end}",
        )
    return (f"{rest} bytes follow the {'parameters' if trailer is Seal.ABSENT else 'trailer'}",)


def _reach(header: Header, pools: tuple[ImagePool, ...], params: bytes | None) -> Reach:
    limits = {
        int(AddressBase.RAM): offset_of(header.bss_end),
        int(AddressBase.FLASH): offset_of(header.data_data),
    }
    if params is None:  # blobs may lie before the parameters, in the file that was not given
        limits[AddressBase.PARAM_0] = OFFSET_MASK
    elif params:
        limits[AddressBase.PARAM_0] = len(params)
    for pool in pools:
        if pool.flags.kind == PoolAction.RELOC and pool.flags.identifier == 1:
            limits[AddressBase.PARAM_1] = aligned(pool.descriptor.size)
    return Reach(limits)


def _sections(data: bytes, header: Header, params: bytes | None) -> tuple[ImageSection, ...]:
    code_end, stored = offset_of(header.data_data), stored_bytes(header)
    rel, rel_end = offset_of(header.rel_start), offset_of(header.rel_end)
    got = header.got_end - header.got_start
    first = code_end + offset_of(header.got_start)
    data_end = min(offset_of(header.data_end), stored)
    return (
        _section(data, "text+rodata", Header.BYTES, code_end - Header.BYTES),
        _section(data, "data", code_end, data_end),
        _section(data, "GOT", first if got else code_end + data_end, got),
        ImageSection("bss", None, header.bss_end - header.bss_start),
        _section(data, "REL", rel, rel_end - rel),
        _params_section(header, params),
    )


def _section(data: bytes, name: str, offset: int, size: int) -> ImageSection:
    return ImageSection(name, offset, size, zlib.crc32(data[offset : offset + size]))


def _params_section(header: Header, params: bytes | None) -> ImageSection:
    if params is None:
        return ImageSection("params", None, 0)
    return ImageSection("params", header.params_offset or None, len(params), zlib.crc32(params))


def _params_seal(params: bytes | None, context: Context) -> Seal:
    """The checksum in the context. Blobs that lie before the parameters are not in it."""
    size = context.params_bin_sz
    if params is None or not size:
        return Seal.ABSENT
    # So the parameters are either the first or the last bytes of what the file holds.
    sums = (zlib.crc32(params[:size]), zlib.crc32(params[len(params) - size :]))
    return Seal.OK if context.params_bin_crc32 in sums else Seal.WRONG
