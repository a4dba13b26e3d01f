"""A runtime-loadable image read back: what is in it, what it asks for, and whether it is whole."""

from __future__ import annotations

import re
import struct
from enum import Enum

from msgspec import Struct

from npuscope.errors import FileError
from npuscope.loadable.codes import (
    WORD_BYTES,
    FloatAbi,
    PoolAction,
    cpu_name,
    name_of,
    offset_of,
    toolchain_name,
)
from npuscope.loadable.image_checks import Relocations
from npuscope.loadable.layout import (
    CLOSING_POOL,
    ENTRY_POINTS,
    Context,
    Flags,
    Header,
    PoolDescriptor,
    PoolFlags,
)
from npuscope.program.ec_blob.binary import CONTAINERS, read_binary
from npuscope.program.ec_blob.instructions import HEADER_WORDS, MAGIC, Label

# --- Epoch-controller blobs inside the bytes of an image ---

_MAGICS = re.compile(b"|".join(re.escape(struct.pack("<I", m)) for m in (MAGIC, *CONTAINERS)))
# A loader linked into the image holds the magic numbers too, so a few false matches are normal;
# more than that is a hostile file.
_MOST_FALSE = 64
_MOST_BYTES = 4 << 20  # the largest blob seen has 0.2 MB


class FoundBlob(Struct, frozen=True):
    """`offset` counts from the start of its file; `container` is None for a plain blob."""

    offset: int
    size_bytes: int
    epochs: tuple[int, ...]
    container: int | None
    relocations: tuple[str, ...]


def find_blobs(data: bytes, start: int = 0) -> tuple[FoundBlob, ...]:
    """All blobs from byte `start` on. The magic number alone does not make one."""
    blobs: list[FoundBlob] = []
    false = 0
    hit = _MAGICS.search(data, start)
    while hit and false < _MOST_FALSE:
        at = hit.start()
        blob = _blob_at(data, at) if at % WORD_BYTES == 0 else None
        if blob:
            blobs.append(blob)
        else:
            false += 1
        hit = _MAGICS.search(data, at + (blob.size_bytes if blob else 1))
    return tuple(blobs)


def _blob_at(data: bytes, at: int) -> FoundBlob | None:
    size = _size(data, at)
    if not size or size > _MOST_BYTES or at + size > len(data):
        return None
    try:
        binary = read_binary(data[at : at + size])
    except FileError:
        return None
    # Code that does nothing is the number alone.
    if not binary.instructions:
        return None
    labels = tuple(i.number for i in binary.instructions if isinstance(i, Label))
    names = tuple(row.identifier for row in binary.relocations)
    return FoundBlob(at, size, labels, binary.container, names)


def _size(data: bytes, at: int) -> int:
    """Bytes up to the end of the code; 0 where no code is announced."""
    if _word(data, at) == MAGIC:
        return (HEADER_WORDS + _word(data, at + WORD_BYTES)) * WORD_BYTES
    # The blob's offset is the last word of a container's header, whose length depends on its kind.
    words = 3 if _word(data, at) == min(CONTAINERS) else 4
    blob = _word(data, at + words * WORD_BYTES)
    if _word(data, at + blob) != MAGIC:
        return 0
    return blob + _size(data, at + blob)


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + WORD_BYTES], "little")


class Seal(Enum):
    """What a checksum says; a file may come without one."""

    OK = "ok"
    ABSENT = "absent"
    WRONG = "wrong"


class ImageSection(Struct, frozen=True):
    """`offset` is the first byte in the file, None for what only RAM holds."""

    name: str
    offset: int | None
    size_bytes: int
    crc32: int | None = None


class ImagePool(Struct, frozen=True):
    """A pool that the network uses, by name."""

    name: str
    descriptor: PoolDescriptor

    @property
    def flags(self) -> PoolFlags:
        return PoolFlags.unpack(self.descriptor.flags)

    @property
    def fixed(self) -> bool:
        """Its address was chosen when the network was compiled."""
        return self.flags.kind in (PoolAction.COPY, PoolAction.RESET)


CLOSING = ImagePool("<undefined>", CLOSING_POOL)


class Image(Struct, frozen=True):
    """`pools` leaves the closing entry out. `split`: the parameters are in a file of their own.

    `params_bytes` is what a loader finds from the first parameter on; None when that file was
    not given.
    """

    name: str
    runtime: str
    size_bytes: int
    header: Header
    flags: Flags
    context: Context
    sections: tuple[ImageSection, ...]
    pools: tuple[ImagePool, ...]
    relocations: Relocations
    blobs: tuple[FoundBlob, ...]
    split: bool
    params_bytes: int | None
    params_crc: Seal
    trailer: Seal
    params_trailer: Seal
    notes: tuple[str, ...] = ()

    @property
    def xip_bytes(self) -> int:
        return self.header.xip_bytes

    @property
    def copy_bytes(self) -> int:
        return self.header.copy_bytes

    @property
    def xip_possible(self) -> bool:
        """Code in flash cannot be rebased, so nothing in it may need that."""
        return not self.relocations.flash

    @property
    def ext_ram_bytes(self) -> int:
        """External RAM that a loader places: the relocated pool that is written."""
        return max((p.descriptor.size for p in self.relocated(1)), default=0)

    @property
    def entry_points(self) -> dict[str, int]:
        """Function -> its first byte in the file, without the Thumb bit."""
        return {name: offset_of(getattr(self.header, name)) & ~1 for name in ENTRY_POINTS}

    @property
    def fixed_pools(self) -> tuple[ImagePool, ...]:
        """Absolute addresses that the image takes without asking."""
        return tuple(pool for pool in self.pools if pool.fixed)

    @property
    def whole(self) -> bool:
        """No checksum is wrong."""
        return Seal.WRONG not in (self.trailer, self.params_trailer, self.params_crc)

    def relocated(self, identifier: int) -> tuple[ImagePool, ...]:
        return tuple(
            pool
            for pool in self.pools
            if pool.flags.kind == PoolAction.RELOC and pool.flags.identifier == identifier
        )

    def section(self, name: str) -> ImageSection:
        return next(section for section in self.sections if section.name == name)


def flags_text(flags: Flags) -> str:
    """The flags in words, the processor first."""
    unit = f"FPU, {name_of(FloatAbi, flags.float_abi).lower()} float ABI" if flags.fpu else "no FPU"
    words = [
        cpu_name(flags.cpu),
        unit,
        "secure" if flags.secure else "non-secure",
        "with debug info" if flags.debug_info else "no debug info",
        "asynchronous" if flags.asynchronous else "polling",
        f"{toolchain_name(flags.toolchain)}",
        f"API {flags.major}.{flags.minor}",
    ]
    return ", ".join(words)


def version_text(image: Image) -> str:
    """Of the runtime that the code was compiled against."""
    return ".".join(map(str, image.context.version))
