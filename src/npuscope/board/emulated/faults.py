"""What ends a program on the emulated board."""

from __future__ import annotations

from npuscope.errors import DeviceError


class FaultError(DeviceError):
    """The firmware did what no processor can do; the board stands still until it is reset."""

    def __init__(self, message: str, pc: int = 0, lr: int = 0, address: int | None = None) -> None:
        place = f"pc {pc:#010x}, lr {lr:#010x}"
        super().__init__(message, where=place if address is None else f"{place}, at {address:#x}")
        self.pc, self.lr, self.address = pc, lr, address
