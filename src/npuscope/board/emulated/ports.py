"""Devices as the core reaches them: each access happens at a time and may change what pends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npuscope.board.emulated.memory_map import CACHE_ADDRESS, PAGE_BYTES
from npuscope.board.emulated.system import SystemRegisters

if TYPE_CHECKING:
    from npuscope.board.emulated.computer import Computer

INTERRUPTS_END = 2 * PAGE_BYTES  # clock gates, interrupt controller


@dataclass(frozen=True, slots=True)
class SystemPort:
    """What is read or written here may raise or end interrupts."""

    computer: Computer
    system: SystemRegisters

    def read(self, offset: int) -> int:
        value = self.system.read(offset)
        self.computer.attend()
        return value

    def write(self, offset: int, value: int) -> None:
        self.system.write(offset, value)
        self.computer.attend()


@dataclass(frozen=True, slots=True)
class UartPort:
    """Bytes that leave the interrupt line as it was need no look at the rest."""

    computer: Computer

    def read(self, offset: int) -> int:
        before = self.computer.uart.interrupts
        value = self.computer.uart.read(offset)
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


@dataclass(frozen=True, slots=True)
class NpuPort:
    """A slice that was cut before something was started is too long afterwards. The NPU may ask
    for time while it is polled."""

    computer: Computer

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


@dataclass(frozen=True, slots=True)
class CachePort:
    computer: Computer

    def read(self, offset: int) -> int:
        self.computer.npu.catch_up()
        at = offset - CACHE_ADDRESS % PAGE_BYTES
        return self.computer.npu.cache.read(at // 4) if at >= 0 else 0

    def write(self, offset: int, value: int) -> None:
        self.computer.npu.catch_up()
        at = offset - CACHE_ADDRESS % PAGE_BYTES
        if at >= 0:
            self.computer.npu.cache.write(at // 4, value)
