"""Addresses of the emulated board: the same numbers as firmware/board/emulated/hardware.h."""

from __future__ import annotations

from dataclasses import dataclass

FIRMWARE_ADDRESS = 0x34000000
FIRMWARE_BYTES = 0x00060000
EXEC_RAM_ADDRESS = 0x34060000
EXEC_RAM_BYTES = 0x000A0000
POOLS_ADDRESS = 0x34100000
INTERNAL_RAM_END = 0x343C0000
EXTERNAL_RAM_ADDRESS = 0x90000000
EXTERNAL_RAM_BYTES = 0x02000000
NETWORK_RAM_ADDRESS = 0x90100000
NETWORK_RAM_BYTES = 0x01B00000
FLASH_ADDRESS = 0x70000000
FLASH_BYTES = 0x08000000

NPU_ADDRESS = 0x580E0000
NPU_BYTES = 0x20000  # 32 pages
CACHE_ADDRESS = 0x580DFC00
UART_ADDRESS = 0x52001000
UART_RECEIVED = 1 << 5
UART_ROOM = 1 << 7
DWT_ADDRESS = 0xE0001000
CYCLE_COUNTER_ADDRESS = 0xE0001004
SYSTEM_ADDRESS = 0xE000E000  # SysTick, NVIC, SCB

NPU_INTERRUPT = 53
UART_INTERRUPT = 159
MAILBOX_ADDRESS = 0x90000000

PAGE_BYTES = 0x1000


@dataclass(frozen=True, slots=True)
class Stretch:
    """A memory of the board; code runs from any of them."""

    name: str
    address: int
    size_bytes: int
    writable: bool = True

    @property
    def end(self) -> int:
        return self.address + self.size_bytes

    def holds(self, address: int, size_bytes: int) -> bool:
        return self.address <= address and address + size_bytes <= self.end


MEMORIES = (
    Stretch("internal RAM", FIRMWARE_ADDRESS, INTERNAL_RAM_END - FIRMWARE_ADDRESS),
    Stretch("flash", FLASH_ADDRESS, FLASH_BYTES, writable=False),
    Stretch("external RAM", EXTERNAL_RAM_ADDRESS, EXTERNAL_RAM_BYTES),
)
