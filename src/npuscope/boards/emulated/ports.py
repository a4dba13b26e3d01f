"""Devices as the core reaches them: each access happens at a time and may change what pends."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from npuscope.boards.emulated.memory import CACHE_ADDRESS, PAGE_BYTES, UART_RECEIVED, UART_ROOM
from npuscope.boards.emulated.npu import Npu
from npuscope.boards.emulated.system import SystemRegisters

# The board's serial port: registers on one side, bytes from and to the host on the other.

_CR1, _ISR, _RDR, _TDR = 0x00, 0x1C, 0x24, 0x28
# Behind the registers of an STM32: how many bytes wait, and the next four of them in one access,
# for a call of Python takes a hundred times as long as the firmware does with a byte.
_WAITING, _WORD = 0x40, 0x44
_SENT = 1 << 6
_RECEIVE_INTERRUPT = 1 << 5
_ROOM_BYTES = 1 << 16
# The same state read so often in a row means that the firmware waits for the host.
_PATIENCE = 64


class Uart:
    """Bytes pass at once: the line has no speed."""

    def __init__(self) -> None:
        self._received = bytearray()
        self.to_send = bytearray()
        self._words: dict[int, int] = {}
        self._polls = 0
        self._tells = False  # of bytes that came, by an interrupt

    @property
    def interrupts(self) -> bool:
        """The line to the processor."""
        return self._tells and bool(self._received)

    @property
    def is_waited_for(self) -> bool:
        return self._polls >= _PATIENCE

    @property
    def is_full(self) -> bool:
        """The host has to take what was sent before there is room for more."""
        return len(self.to_send) >= _ROOM_BYTES

    def take(self) -> bytes:
        """What was sent, for the host."""
        data = bytes(self.to_send)
        self.to_send.clear()
        return data

    def receive(self, data: bytes) -> None:
        self._received += data
        self._polls = 0

    def rest(self) -> None:
        """The host was asked: the firmware may look again."""
        self._polls = 0

    def status(self) -> int:
        self._polls += 1
        bits = _SENT if len(self.to_send) >= _ROOM_BYTES else _SENT | UART_ROOM
        return bits | UART_RECEIVED if self._received else bits

    def read(self, offset: int) -> int:
        if offset == _RDR:
            self._polls = 0
            return self._received.pop(0) if self._received else 0
        if offset == _WORD:
            self._polls = 0
            data = self._received[:4]
            del self._received[:4]
            return int.from_bytes(data, "little")
        if offset == _WAITING:
            return len(self._received)
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        if offset == _TDR:
            self._polls = 0
            self.to_send.append(value & 0xFF)
        else:
            self._words[offset] = value
            self._tells = bool(self._words.get(_CR1, 0) & _RECEIVE_INTERRUPT)


INTERRUPTS_END = 2 * PAGE_BYTES  # clock gates, interrupt controller


class NpuCycles(Protocol):
    @property
    def npu_cycles(self) -> int: ...


class PortHost(Protocol):
    """What devices ask of the computer that they are a part of."""

    uart: Uart
    npu: Npu

    @property
    def clock(self) -> NpuCycles: ...
    def attend(self) -> None: ...
    def end_slice(self) -> None: ...
    def skip_to_npu(self, npu_cycle: int) -> None: ...


class SystemPort(Struct, frozen=True):
    """What is read or written here may raise or end interrupts."""

    computer: PortHost
    system: SystemRegisters

    def read(self, offset: int) -> int:
        value = self.system.read(offset)
        self.computer.attend()
        return value

    def write(self, offset: int, value: int) -> None:
        self.system.write(offset, value)
        self.computer.attend()


class UartPort(Struct, frozen=True):
    """Bytes that leave the interrupt line as it was need no look at the rest."""

    computer: PortHost

    def read(self, offset: int) -> int:
        uart = self.computer.uart
        if offset == _ISR:  # half of all accesses, and they change no line
            status = uart.status()
            if uart.is_waited_for:
                self.computer.attend()
            return status
        before = uart.interrupts
        value = uart.read(offset)
        self._look(before)
        return value

    def write(self, offset: int, value: int) -> None:
        before = self.computer.uart.interrupts
        self.computer.uart.write(offset, value)
        self._look(before)

    def _look(self, before: bool) -> None:
        uart = self.computer.uart
        if before != uart.interrupts or uart.is_waited_for:
            self.computer.attend()


class NpuPort(Struct, frozen=True):
    """A slice that was cut before something was started is too long afterwards. The NPU may ask
    for time while it is polled."""

    computer: PortHost

    def read(self, offset: int) -> int:
        npu = self.computer.npu
        event = npu.next_cycle
        value = npu.read(offset)
        if npu.wants_time > self.computer.clock.npu_cycles:
            self.computer.skip_to_npu(npu.wants_time)
            value = npu.read(offset)
        self._look(event)
        return value

    def write(self, offset: int, value: int) -> None:
        event = self.computer.npu.next_cycle
        self.computer.npu.write(offset, value)
        if offset < INTERRUPTS_END:
            self.computer.attend()
        self._look(event)

    def _look(self, event: int | None) -> None:
        if self.computer.npu.next_cycle != event:
            self.computer.end_slice()


class CachePort(Struct, frozen=True):
    computer: PortHost

    def read(self, offset: int) -> int:
        self.computer.npu.catch_up()
        at = offset - CACHE_ADDRESS % PAGE_BYTES
        return self.computer.npu.cache.read(at // 4) if at >= 0 else 0

    def write(self, offset: int, value: int) -> None:
        self.computer.npu.catch_up()
        at = offset - CACHE_ADDRESS % PAGE_BYTES
        if at >= 0:
            self.computer.npu.cache.write(at // 4, value)
