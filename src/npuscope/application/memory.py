"""The memories of a board, what of them is free for networks, and what wants room in them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from npuscope.application.request import Application, Kind
from npuscope.loadable.boards import board_named
from npuscope.loadable.firmware_map import FirmwareRegion
from npuscope.machine.model import Machine, secure_alias

ALIGN = 1024  # windows of networks begin and end on it
_VECTORS = 0x400  # the header of a signed image stands before the application's first byte
# Where the linker says nothing, the first bank is the application's, as in the vendor's projects.
DEFAULT_REGION = FirmwareRegion("application", 0x34000400, 0x100000 - _VECTORS)


class FreeRange(Struct, frozen=True):
    """A free range; `region` is the linker's, where it is the application's alone."""

    kind: Kind
    address: int
    end: int
    region: str = ""

    @property
    def size_bytes(self) -> int:
        return self.end - self.address


class Block(Struct, frozen=True):
    """Bytes side by side, alive from one step of the frame to another, both included."""

    name: str
    size_bytes: int
    kind: Kind
    first: int
    last: int
    region: str = ""
    align: int = ALIGN
    address: int | None = None  # where the user fixed it

    def meets(self, other: Block) -> bool:
        return self.first <= other.last and other.first <= self.last

    def fits_in(self, room: FreeRange) -> bool:
        if self.region:
            return room.region == self.region
        on_chip = self.kind is Kind.SRAM and room.kind is not Kind.PSRAM
        return not room.region and (room.kind is self.kind or on_chip)


class Alternative(Struct, frozen=True):
    """One way to serve a demand, and what it costs in milliseconds of a frame."""

    name: str
    blocks: tuple[Block, ...]
    cost_ms: float = 0.0


class Demand(Struct, frozen=True):
    """What wants room, and the ways to give it."""

    name: str
    choices: tuple[Alternative, ...]


class Place(Struct, frozen=True):
    """A block and its address."""

    demand: str
    block: Block
    address: int

    @property
    def end(self) -> int:
        return self.address + self.block.size_bytes


class MemoryPlacement(Struct, frozen=True):
    """A choice for each demand. `bound_ms` is a cost that no placement is below; None where
    nothing is known of it. `missing` says what found no room, by how many bytes."""

    choices: dict[str, Alternative]
    places: tuple[Place, ...]
    cost_ms: float
    bound_ms: float | None
    solver: str
    missing: tuple[tuple[str, int], ...] = ()


def npu_start(machine: Machine) -> int:
    """The first byte of the NPU's banks."""
    return min(pool.address for pool in machine.pools if pool.path == "nic" and pool.writable)


def kind_at(address: int, machine: Machine) -> Kind | None:
    """What a RAM address is; None for flash and for what is no memory of this machine."""
    address = secure_alias(address)
    npu = [pool for pool in machine.pools if pool.path == "nic" and pool.writable]
    low, high = min(p.address for p in npu), max(p.address + p.size_bytes for p in npu)
    if low <= address < high:
        return Kind.NPU
    if address >> 28 == low >> 28 and address < low:
        return Kind.CPU
    psram = [pool for pool in machine.pools if pool.cacheable and pool.writable]
    return Kind.PSRAM if any(pool.address >> 28 == address >> 28 for pool in psram) else None


def regions_of(application: Application, machine: Machine) -> tuple[FirmwareRegion, ...]:
    """The linker's regions in RAM, under their secure names."""
    regions = application.own_regions or (DEFAULT_REGION,)
    folded = (FirmwareRegion(r.name, secure_alias(r.address), r.size_bytes) for r in regions)
    return tuple(region for region in folded if kind_at(region.address, machine) is not None)


def rooms_of(application: Application, machine: Machine) -> tuple[FreeRange, ...]:
    """RAM of the board: the application's regions, and what is left beside them."""
    board = board_named(application.board)
    regions = regions_of(application, machine)
    # Banks of the NPU side by side are one range; so is what lies in front of them.
    npu = [pool for pool in machine.pools if pool.path == "nic" and pool.writable]
    cpu = [pool for pool in machine.pools if pool.path == "noc" and pool.writable]
    low, high = min(p.address for p in npu), max(p.address + p.size_bytes for p in npu)
    whole = [
        FreeRange(Kind.CPU, min(pool.address for pool in cpu), low),
        FreeRange(Kind.NPU, low, high),
    ]
    psram = next(pool for pool in machine.pools if pool.cacheable and pool.writable)
    if board.psram_kib:
        end = psram.address + board.psram_kib * 1024
        whole.append(FreeRange(Kind.PSRAM, psram.address, end))
    reserved = [(region.address, region.end) for region in regions]
    # The header of the image stands before the first region: nobody else may have it.
    reserved += [(r.address - _VECTORS, r.address) for r in regions if r.address % ALIGN == 0]
    rooms = []
    for region in regions:
        kind = kind_at(region.address, machine)
        if kind is not None:
            rooms.append(FreeRange(kind, region.address, region.end, region.name))
    free = [room for memory in whole for room in _without(memory, reserved)]
    return (*rooms, *(room for room in free if room.size_bytes >= ALIGN))


def _without(room: FreeRange, reserved: list[tuple[int, int]]) -> Iterable[FreeRange]:
    """What is left of a range, in whole kilobytes."""
    start = room.address
    for low, high in sorted(reserved):
        if high <= start or low >= room.end:
            continue
        if low > start:
            yield FreeRange(room.kind, start, low // ALIGN * ALIGN)
        start = max(start, -(-high // ALIGN) * ALIGN)
    if start < room.end:
        yield FreeRange(room.kind, start, room.end)
