"""The context and the pool descriptors of an image, with the texts they point to."""

from __future__ import annotations

from npuscope.loadable.codes import (
    PoolAccess,
    PoolData,
    PoolKind,
    Segment,
    aligned,
    name_of,
    offset_of,
    segment_of,
)
from npuscope.loadable.image_checks import fault, stored_bytes
from npuscope.loadable.image_model import ImagePool
from npuscope.loadable.layout import MOST_POOLS, Context, Header, PoolDescriptor, PoolFlags

_LONGEST_TEXT = 255
_ADDRESS_END = 1 << 32
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
    for index in range(MOST_POOLS + 1):
        at = first + index * PoolDescriptor.BYTES
        if at + PoolDescriptor.BYTES > end:
            raise fault(at, f"pool descriptor {index} goes past the data that ends at byte {end}")
        found = PoolDescriptor.unpack(data, at)
        if not found.name:
            return tuple(pools)
        pool = ImagePool(text_at(data, header, found.name, at), found)
        _check_pool(pool, at, pools)
        pools.append(pool)
    raise fault(first, f"more than {MOST_POOLS} pool descriptors, or none that closes the table")


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
    base, low, high = _text_range(header, address)
    start = base + offset_of(address)
    end = data.find(b"\0", start, min(high, start + _LONGEST_TEXT + 1))
    if not low <= start < high or end < 0:
        raise fault(at, f"the pointer {address:#010x} leads to no text in code or data")
    return data[start:end].decode("utf-8", "backslashreplace")


def _text_range(header: Header, address: int) -> tuple[int, int, int]:
    """Where a segment's offsets count from in the file, and the bytes they may lead to."""
    code_end = offset_of(header.data_data)
    if segment_of(address) == Segment.FLASH:
        return 0, Header.BYTES, code_end
    if segment_of(address) == Segment.RAM:
        return code_end, code_end, code_end + stored_bytes(header)
    return 0, 0, 0


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
    if not row.flags:
        return
    if not _known(flags):
        raise fault(flags_at, f"pool flags {row.flags:#010x} ({flags.text}) mean nothing")
    if flags.kind == PoolKind.RELOC:
        _check_relocated(pool, flags_at, before)
    elif row.dst + aligned(row.size) > _ADDRESS_END:
        raise fault(
            at + PoolDescriptor.offset("dst"),
            f"{row.size} bytes at {row.dst:#010x} do not fit into 32 address bits",
        )


def _known(flags: PoolFlags) -> bool:
    kinds = (PoolKind.RELOC, PoolKind.COPY, PoolKind.RESET)
    data = (PoolData.PARAM, PoolData.ACTIV, PoolData.MIXED)
    access = tuple(PoolAccess.__members__.values())
    return flags.kind in kinds and flags.data in data and flags.access in access


def _check_relocated(pool: ImagePool, at: int, before: list[ImagePool]) -> None:
    flags = pool.flags
    if flags.identifier not in _RELOC_IDS:
        raise fault(at, f"a relocated pool has number {flags.identifier}, loaders know 0 and 1")
    if flags.identifier == 0 and (flags.data != PoolData.PARAM or flags.access & PoolAccess.WRITE):
        raise fault(at, f"relocated pool 0 is {flags.text}; it may only hold parameters to read")
    twins = [p for p in before if p.flags.kind == PoolKind.RELOC]
    if any(twin.flags.identifier == flags.identifier for twin in twins):
        name = name_of(Segment, Segment.PARAM_0 + flags.identifier)
        raise fault(at, f"two pools are relocated as {name}")
