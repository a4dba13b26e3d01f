"""Exception entry and return, which the emulator leaves to its user."""

from __future__ import annotations

import struct

from npuscope.boards.emulated.cpu import Cpu
from npuscope.boards.emulated.memory import BoardMemory
from npuscope.boards.emulated.system import SystemRegisters
from npuscope.errors import DeviceError

_FRAME = struct.Struct("<8I")
_STACKED = ("R0", "R1", "R2", "R3", "R12", "LR")
_THUMB = 1 << 24
_REALIGNED = 1 << 9
_RETURN_TO_THREAD, _RETURN_TO_HANDLER = 0xFFFFFFF9, 0xFFFFFFF1


class Entries:
    """Takes exceptions and returns from them. Floating-point registers are kept aside, not on
    the firmware's stack."""

    def __init__(self, cpu: Cpu, memory: BoardMemory, system: SystemRegisters) -> None:
        self._cpu = cpu
        self._memory = memory
        self._system = system
        self._floats: list[tuple[int, ...]] = []

    @property
    def masked(self) -> bool:
        return bool(self._cpu.get("PRIMASK") & 1 or self._cpu.get("FAULTMASK") & 1)

    def take(self) -> bool:
        """Enter the handler of what is pending, if it may be taken now."""
        exceptions = self._system.exceptions
        if exceptions.first() is None or self.masked:
            return False
        number = exceptions.next(self._cpu.get("BASEPRI"))
        if number is None:
            return False
        self._enter(number)
        return True

    def _enter(self, number: int) -> None:
        cpu, exceptions = self._cpu, self._system.exceptions
        status, pointer = cpu.get("XPSR"), cpu.get("SP")
        aligned = pointer & ~7
        frame = [cpu.get(name) for name in _STACKED]
        status_word = status | _REALIGNED if pointer != aligned else status & ~_REALIGNED
        self._store(aligned - _FRAME.size, _FRAME.pack(*frame, cpu.get("PC"), status_word))
        self._floats.append(cpu.get_float())
        cpu.put("SP", aligned - _FRAME.size)
        cpu.put("LR", _RETURN_TO_HANDLER if exceptions.active else _RETURN_TO_THREAD)
        exceptions.enter(number)
        cpu.put("XPSR", _THUMB | number)
        cpu.put("PC", self._handler(number))

    def _handler(self, number: int) -> int:
        vector = self._load(self._system.vectors + 4 * number, 4)
        address = int.from_bytes(vector, "little")
        if not address & 1:
            raise self._cpu.fault(f"exception {number} has no handler: {address:#x}")
        return address

    def leave(self) -> None:
        """A handler has returned: go on where it came in."""
        cpu = self._cpu
        if not self._floats:
            raise cpu.fault("a return from an exception that was not taken")
        pointer = cpu.get("SP")
        *frame, pc, status = _FRAME.unpack(self._load(pointer, _FRAME.size))
        cpu.put("XPSR", status & ~_REALIGNED)
        cpu.put("SP", pointer + _FRAME.size + (4 if status & _REALIGNED else 0))
        for name, value in zip(_STACKED, frame, strict=True):
            cpu.put(name, value)
        cpu.put_float(self._floats.pop())
        self._system.exceptions.leave()
        cpu.put("PC", pc | 1)

    def _store(self, address: int, data: bytes) -> None:
        try:
            self._memory.write(address, data)
        except DeviceError as error:
            raise self._cpu.fault(f"no room on the stack: {error.message}") from error

    def _load(self, address: int, size_bytes: int) -> bytes:
        try:
            return self._memory.read(address, size_bytes)
        except DeviceError as error:
            raise self._cpu.fault(f"the stack or vector table is lost: {error.message}") from error
