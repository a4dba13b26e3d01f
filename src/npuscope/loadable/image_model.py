"""A runtime-loadable image read back: what is in it, what it asks for, and whether it is whole."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from npuscope.loadable.codes import PoolKind, offset_of
from npuscope.loadable.image_blobs import FoundBlob
from npuscope.loadable.layout import (
    CLOSING_POOL,
    ENTRY_POINTS,
    Context,
    Flags,
    Header,
    PoolDescriptor,
    PoolFlags,
)
from npuscope.loadable.relocations import Relocations


class Seal(Enum):
    """What a checksum says; a file may come without one."""

    OK = "ok"
    ABSENT = "absent"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Section:
    """`offset` is the first byte in the file, None for what only RAM holds."""

    name: str
    offset: int | None
    size_bytes: int
    crc32: int | None = None


@dataclass(frozen=True, slots=True)
class ImagePool:
    """A pool that the network uses, by name."""

    name: str
    descriptor: PoolDescriptor

    @property
    def flags(self) -> PoolFlags:
        return PoolFlags.unpack(self.descriptor.flags)

    @property
    def fixed(self) -> bool:
        """Its address was chosen when the network was compiled."""
        return self.flags.kind in (PoolKind.COPY, PoolKind.RESET)


CLOSING = ImagePool("<undefined>", CLOSING_POOL)


@dataclass(frozen=True, slots=True)
class Image:
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
    sections: tuple[Section, ...]
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
            if pool.flags.kind == PoolKind.RELOC and pool.flags.identifier == identifier
        )

    def section(self, name: str) -> Section:
        return next(section for section in self.sections if section.name == name)
