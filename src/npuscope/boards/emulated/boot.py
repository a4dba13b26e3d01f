"""Load and run on the emulated board: images into flash, firmware on, networks served."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from npuscope.boards.client_exchange import Timeouts
from npuscope.boards.emulated.board import (
    TIMEOUTS,
    EmulatedBoard,
    EmulatedMachine,
    EmulatedSetup,
)
from npuscope.boards.emulated.firmware import validation_firmware
from npuscope.boards.emulated.memory import (
    EXEC_RAM_ADDRESS,
    EXEC_RAM_BYTES,
    FLASH_ADDRESS,
    FLASH_BYTES,
    MAILBOX_ADDRESS,
    NETWORK_RAM_ADDRESS,
    NETWORK_RAM_BYTES,
)
from npuscope.errors import DeviceError, FileError
from npuscope.loadable.codes import Cpu, cpu_name
from npuscope.loadable.image import read_image
from npuscope.loadable.image_model import Image, Seal
from npuscope.machine.model import Clocks, non_secure_alias

# The words in memory by which the host tells the board's firmware what to load.
#
# Mirrors firmware/board/emulated/mailbox.h.

MOST_ENTRIES = 4
_MAGIC = 0x584F424D
_VERSION = 1
_HEAD = struct.Struct("<8I")
_ENTRY = struct.Struct("<9I")
_RESULT = struct.Struct("<iI88s")
_FAULT = struct.Struct("<4I")
_RESULTS_AT = _HEAD.size + MOST_ENTRIES * _ENTRY.size
BYTES = _RESULTS_AT + MOST_ENTRIES * _RESULT.size + _FAULT.size
_STATE_AT = 7 * 4
_Word = TypeVar("_Word", bound=IntEnum)


class FirmwareState(IntEnum):
    WAITING = 0
    READY = 1
    FAULT = 2


class Status(IntEnum):
    EMPTY = 0
    SERVED = 1
    REFUSED = 2


class MailboxEntry(Struct, frozen=True):
    """A network to load, in the order of the words."""

    file: int
    file_bytes: int
    params: int
    params_bytes: int
    mode: int
    exec_ram: int
    exec_ram_bytes: int
    ext_ram: int
    ext_ram_bytes: int


class Result(Struct, frozen=True):
    """What the loader said of an entry; `code` as in firmware/loader/README.md."""

    code: int
    status: Status
    reason: str


class ClockRates(Struct, frozen=True):
    """In Hz, in the order of the words."""

    mcu: int
    noc: int
    npu: int
    nic: int


def pack(
    entries: tuple[MailboxEntry, ...], clocks: ClockRates, requires_trailer: bool = False
) -> bytes:
    if len(entries) > MOST_ENTRIES:
        raise DeviceError(f"the board takes at most {MOST_ENTRIES} networks, found {len(entries)}")
    head = _HEAD.pack(
        _MAGIC, _VERSION, *astuple(clocks), int(requires_trailer), FirmwareState.WAITING
    )
    rows = b"".join(_ENTRY.pack(*astuple(entry)) for entry in entries)
    return (head + rows).ljust(BYTES, b"\0")


def state_of(data: bytes) -> FirmwareState:
    return _known(FirmwareState, int.from_bytes(data[_STATE_AT : _STATE_AT + 4], "little"))


def results_of(data: bytes, count: int) -> tuple[Result, ...]:
    rows = (_RESULT.unpack_from(data, _RESULTS_AT + i * _RESULT.size) for i in range(count))
    return tuple(
        Result(code, _known(Status, status), reason.split(b"\0")[0].decode(errors="replace"))
        for code, status, reason in rows
    )


def fault_of(data: bytes) -> DeviceError:
    """What the firmware's own handler noted of an exception."""
    pc, lr, cfsr, hfsr = _FAULT.unpack_from(data, BYTES - _FAULT.size)
    return DeviceError(
        f"the firmware took an unexpected exception: CFSR {cfsr:#x}, HFSR {hfsr:#x}",
        where=f"emulated, pc {pc:#010x}, lr {lr:#010x}",
    )


def _known(kind: type[_Word], value: int) -> _Word:
    """Code of an image runs beside the firmware and may have written here."""
    try:
        return kind(value)
    except ValueError:
        raise DeviceError(
            f"the board's mailbox was overwritten: {value:#x} is not a state"
        ) from None


NETWORK_ADDRESS = 0x71000000
PARAMS_ADDRESS = 0x71800000
_ALIGN = 64  # blobs are relocated in RAM, in whole cache lines of the NPU
_OUTER_EXEC = NETWORK_RAM_ADDRESS + NETWORK_RAM_BYTES
_FLASH_STEP = 0x10000
_READY_S = 60.0  # by the board's clock


class Mode(IntFlag):
    """How an image is installed, with the loader's numbers."""

    XIP = 1
    COPY = 2
    CLEAR = 4


@dataclass(frozen=True, slots=True)
class Placed:
    """An image, where it is put, and how it is to run."""

    image: bytes = field(repr=False)
    params: bytes | None = field(default=None, repr=False)
    address: int = NETWORK_ADDRESS
    params_address: int = PARAMS_ADDRESS
    mode: Mode = Mode.COPY | Mode.CLEAR


class BootedBoard(Struct, frozen=True):
    """The board with its networks, and what its loader said of each image."""

    board: EmulatedBoard
    results: tuple[Result, ...]

    def require_all(self) -> None:
        for number, result in enumerate(self.results):
            if result.status is not Status.SERVED:
                self.board.close()
                raise DeviceError(
                    f"the board's loader refused image {number + 1}: {result.reason} "
                    f"(code {result.code})",
                    hint="`npuscope inspect IMAGE --firmware-map stm32n6570-dk` shows the needs",
                )


def side_by_side(images: Sequence[bytes]) -> tuple[Placed, ...]:
    """Whole images one after the other in flash."""
    address, placed = NETWORK_ADDRESS, []
    for image in images:
        placed.append(Placed(image, address=address))
        address += -(-len(image) // _FLASH_STEP) * _FLASH_STEP
    return tuple(placed)


def load(
    images: Sequence[Placed],
    generation: str,
    clocks: Clocks,
    *,
    dialect: int = 3,
    timeouts: Timeouts = TIMEOUTS,
) -> BootedBoard:
    """Start a board whose firmware finds the images in its flash."""
    entries, files = entries_of(images), files_of(images)
    # Whether the board runs secure code; one firmware serves images of one world.
    worlds = {read_image(placed.image, placed.params).flags.secure for placed in images}
    if len(worlds) > 1:
        raise DeviceError(
            "some images are for the secure world and some for the non-secure one",
            hint="package all of them with --no-secure, or none",
        )
    secure = worlds != {False}
    machine = EmulatedMachine(
        EmulatedSetup(
            validation_firmware(dialect, secure),
            generation=generation,
            overrides={
                "clocks.mcu_mhz": clocks.mcu_mhz,
                "clocks.npu_mhz": clocks.npu_mhz,
                "clocks.noc_mhz": clocks.noc_mhz,
                "clocks.nic_mhz": clocks.nic_mhz,
            },
            secure=secure,
        )
    )
    try:
        results = start(machine, entries, files, clocks)
    except BaseException:
        machine.close()
        raise
    return BootedBoard(EmulatedBoard(machine, timeouts), results)


def start(
    machine: EmulatedMachine,
    entries: tuple[MailboxEntry, ...],
    files: Mapping[int, bytes],
    clocks: Clocks,
) -> tuple[Result, ...]:
    """Reset a board that has these files in its flash, and wait for what its loader says.

    Entries are taken as they are: the board's own loader is the one that refuses.
    """
    for address, data in files.items():
        machine.flash(address, data)
    values = (clocks.mcu_mhz, clocks.noc_mhz, clocks.npu_mhz, clocks.nic_mhz)
    machine.flash(
        MAILBOX_ADDRESS, pack(entries, ClockRates(*(round(value * 1e6) for value in values)))
    )
    machine.start()
    # Until the firmware has looked at every image.
    machine.go_on(_READY_S, to_wait=True)
    data = machine.read(MAILBOX_ADDRESS, BYTES)
    state, fault = state_of(data), machine.fault()
    # What the firmware's own handler noted of a fault tells more.
    if state is FirmwareState.FAULT:
        raise fault_of(data)
    if fault is not None:
        raise fault
    if state is not FirmwareState.READY:
        raise DeviceError("the board's firmware did not start", hint=machine.link().hint)
    return results_of(data, len(entries))


def files_of(images: Sequence[Placed]) -> dict[int, bytes]:
    """Flash by address; images that lie over each other are refused."""
    files = [(placed.address, placed.image) for placed in images]
    files += [(p.params_address, p.params) for p in images if p.params is not None]
    files.sort(key=lambda file: file[0])
    for (address, data), (following, _) in itertools.pairwise(files):
        if address + len(data) > following:
            raise DeviceError(
                f"{len(data):,} bytes at {address:#x} overlap the file at {following:#x}",
                hint="give --address NET,PARAMS with more room between the two",
            )
    return dict(files)


def entries_of(images: Sequence[Placed]) -> tuple[MailboxEntry, ...]:
    """Each image gets RAM of its own: as much as it asks for, and what is left is shared out.

    Behind pools that images want at addresses of their own.
    """
    checked = [(placed, _checked(placed)) for placed in images]
    fixed = [pool.descriptor for _, image in checked for pool in image.fixed_pools]
    end = NETWORK_RAM_ADDRESS + NETWORK_RAM_BYTES
    taken = max((_aligned(pool.dst + pool.size) for pool in fixed), default=0)
    ext_ram = min(end, max(NETWORK_RAM_ADDRESS, taken))
    sizes = [_aligned(image.ext_ram_bytes) for _, image in checked]
    # Buffers that a network leaves to its user lie behind its own ones.
    spare = max(0, end - ext_ram - sum(sizes)) // max(1, len(sizes)) // _ALIGN * _ALIGN
    is_secure = all(image.flags.secure for _, image in checked)
    ram = EXEC_RAM_ADDRESS if is_secure else non_secure_alias(EXEC_RAM_ADDRESS)
    exec_ram = _exec_places(
        [
            _aligned(image.xip_bytes if Mode.XIP in placed.mode else image.copy_bytes)
            for placed, image in checked
        ],
        ram,
    )
    entries = []
    for (placed, _), code, size in zip(checked, exec_ram, sizes, strict=True):
        room = max(0, min(size + spare, end - ext_ram))
        apart = (placed.params_address, len(placed.params)) if placed.params else (0, 0)
        file = (placed.address, len(placed.image))
        entries.append(MailboxEntry(*file, *apart, int(placed.mode), *code, *(ext_ram, room)))
        ext_ram += room
    return tuple(entries)


def _exec_places(sizes: Sequence[int], start: int) -> list[tuple[int, int]]:
    """Internal RAM first, then the external one behind the networks; the loader refuses what fits
    in neither."""
    inside, outside, places = start, _OUTER_EXEC, []
    for size in sizes:
        if inside + size <= start + EXEC_RAM_BYTES:
            places.append((inside, size))
            inside += size
        else:
            room = max(0, min(size, MAILBOX_ADDRESS - outside))
            places.append((outside, room))
            outside += room
    return places


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _checked(placed: Placed) -> Image:
    """What can be told before anything is started."""
    image = read_image(placed.image, placed.params)
    if image.flags.cpu != Cpu.CORTEX_M33:
        built_for = cpu_name(image.flags.cpu)
        raise FileError(
            f"the image is built for {built_for}, the emulated board has a Cortex-M33",
            hint="package it with --cpu cortex-m33",
        )
    if Seal.WRONG in (image.trailer, image.params_trailer):
        raise FileError(
            "the checksum is wrong: the file is damaged", hint="copy or package it again"
        )
    if image.split and placed.params is None:
        raise FileError(
            "the parameters are in a separate file, which is missing",
            hint="put the NAME_rel_params.bin that was written with the image beside it",
        )
    _in_flash("the image", placed.address, len(placed.image))
    if placed.params is not None:
        _in_flash("the parameters", placed.params_address, len(placed.params))
    return image


def _in_flash(what: str, address: int, size: int) -> None:
    if not FLASH_ADDRESS <= address <= FLASH_ADDRESS + FLASH_BYTES - size:
        raise DeviceError(
            f"{what}: {size:,} bytes at {address:#x} are outside of the flash",
            hint=f"it reaches from {FLASH_ADDRESS:#x} to {FLASH_ADDRESS + FLASH_BYTES:#x}",
        )
