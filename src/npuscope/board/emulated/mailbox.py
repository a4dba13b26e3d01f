"""The words in memory by which the host tells the board's firmware what to load.

Mirrors firmware/board/emulated/mailbox.h.
"""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import TypeVar

from npuscope.errors import DeviceError

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


class State(IntEnum):
    WAITING = 0
    READY = 1
    FAULT = 2


class Status(IntEnum):
    EMPTY = 0
    SERVED = 1
    REFUSED = 2


@dataclass(frozen=True, slots=True)
class Entry:
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


@dataclass(frozen=True, slots=True)
class Result:
    """What the loader said of an entry; `code` as in firmware/loader/README.md."""

    code: int
    status: Status
    reason: str


@dataclass(frozen=True, slots=True)
class ClockRates:
    """In Hz, in the order of the words."""

    mcu: int
    noc: int
    npu: int
    nic: int


def pack(entries: tuple[Entry, ...], clocks: ClockRates, requires_trailer: bool = False) -> bytes:
    if len(entries) > MOST_ENTRIES:
        raise DeviceError(f"the board takes {MOST_ENTRIES} networks, not {len(entries)}")
    head = _HEAD.pack(_MAGIC, _VERSION, *astuple(clocks), int(requires_trailer), State.WAITING)
    rows = b"".join(_ENTRY.pack(*astuple(entry)) for entry in entries)
    return (head + rows).ljust(BYTES, b"\0")


def state_of(data: bytes) -> State:
    return _known(State, int.from_bytes(data[_STATE_AT : _STATE_AT + 4], "little"))


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
        f"the firmware took an exception that it has no use for: CFSR {cfsr:#x}, HFSR {hfsr:#x}",
        where=f"emulated, pc {pc:#010x}, lr {lr:#010x}",
    )


def _known(kind: type[_Word], value: int) -> _Word:
    """Code of an image runs beside the firmware and may have written here."""
    try:
        return kind(value)
    except ValueError:
        raise DeviceError(f"the board's mailbox was overwritten: {value:#x} is no state") from None
