"""The processor core: unicorn's Cortex-M33, run in slices of counted instructions.

The emulator knows the core's registers and instructions only; exceptions, the system registers
and every device are ours. A device is called while an instruction is under way, so nothing stops
at once: a device asks for an early end of the slice instead."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from npuscope.boards.emulated.memory import BoardMemory, FetchCost
from npuscope.errors import DeviceError, NpuscopeError, TargetError

# What ends a program on the emulated board.


class FaultError(DeviceError):
    """The firmware did what no processor can do; the board stands still until it is reset."""

    def __init__(self, message: str, pc: int = 0, lr: int = 0, address: int | None = None) -> None:
        place = f"pc {pc:#010x}, lr {lr:#010x}"
        super().__init__(message, where=place if address is None else f"{place}, at {address:#x}")
        self.pc, self.lr, self.address = pc, lr, address


INSTALL_HINT = "pip install 'npuscope[board]'"
_NOWHERE = 0xFFFFFFFE
_WFE = 0xBF20
_THUMB = 1
_THUMB_STATE = 1 << 24  # of the status register, with no conditions beside it
_SCAN_WORDS = 1024
# Room for translated code; left alone, the emulator takes a GiB of address space.
_CODE_BYTES = 64 << 20
# movs r0, #1; nop; wfi: executed to find the emulator's own counter.
_PROBE, _PROBE_INSTRUCTIONS, _PROBE_LIMIT = bytes.fromhex("012000bf30bf"), 3, 0x5A17C3
_SVC, _EXCEPTION_EXIT = 2, 8


class Stop(Enum):
    """Why a slice ended."""

    COUNT = "all instructions done"
    SLEEP = "WFI"
    EVENT = "WFE"
    CALL = "SVC"
    RETURN = "an exception handler returned"


class RegisterDevice(Protocol):
    """Registers by byte offset, in words."""

    def read(self, offset: int) -> int: ...

    def write(self, offset: int, value: int) -> None: ...


class EmulatedCpu:
    """One core on the board's memories. `instructions` counts since power-up."""

    def __init__(self, memory: BoardMemory) -> None:
        try:
            import unicorn
            from unicorn import arm_const
        except ImportError as error:
            raise TargetError(
                "the emulated board needs unicorn, which is not installed", hint=INSTALL_HINT
            ) from error
        uc: Any = unicorn
        self._uc, self._names = uc, arm_const
        emulator = _emulator(uc, arm_const)
        for part in memory.memories:
            access = uc.UC_PROT_ALL if part.writable else uc.UC_PROT_READ | uc.UC_PROT_EXEC
            pointer = memory.image(part).ctypes.data
            emulator.mem_map_ptr(part.address, part.size_bytes, access, pointer)
        self._emulator = emulator
        self._counter, self._limit = _find_counter(self._uc, self._names, self._emulator)
        self._registers: dict[str, int] = {}
        self._done = 0
        self._running = False
        self._interrupt: int | None = None
        self._error: NpuscopeError | None = None
        self._lost: int | None = None  # the last access that nothing answered
        self._reads: tuple[Callable[..., None], int, int] | None = None  # a hook not yet set
        self._emulator.hook_add(self._uc.UC_HOOK_INTR, self._on_interrupt)
        self._emulator.hook_add(self._uc.UC_HOOK_MEM_INVALID, self._on_lost)

    def attach(self, address: int, size_bytes: int, device: RegisterDevice) -> None:
        """Whole pages of registers. A byte or half word is a part of its word."""

        read_word = device.read

        def read(_: Any, offset: int, size: int, __: Any) -> int:
            try:
                if (
                    size == 4
                ):  # whole words are aligned: the common case, made hundreds of thousands
                    return read_word(offset)
                return read_word(offset & ~3) >> 8 * (offset & 3) & (1 << 8 * size) - 1
            except NpuscopeError as error:
                return self._failed(error)

        def write(_: Any, offset: int, size: int, value: int, __: Any) -> None:
            try:
                word, shift = offset & ~3, 8 * (offset & 3)
                if size < 4:
                    mask = (1 << 8 * size) - 1
                    value = device.read(word) & ~(mask << shift) | (value & mask) << shift
                device.write(word, value & 0xFFFFFFFF)
            except NpuscopeError as error:
                self._failed(error)

        self._emulator.mmio_map(address, size_bytes, read, None, write, None)

    def watch(self, address: int, size_bytes: int, cost: FetchCost) -> None:
        """Tell of every block of code that runs in a memory, and, once `watch_reads` was called, of
        every read of data there."""

        def on_block(_: Any, start: int, size: int, __: Any) -> None:
            cost.code(start, size)

        # Before it tells of a read, the emulator notes the state of the instruction under way.
        # Conditions of an IT block would stay behind, and the next block of code would obey them;
        # within a block there are none.
        plain = ctypes.byref(ctypes.c_uint32(_THUMB_STATE))
        status, forget = self._names.UC_ARM_REG_EPSR, self._emulator._do_reg_write

        def on_read(_: Any, __: int, start: int, size: int, *___: Any) -> None:
            forget(status, plain)
            cost.data(start, size)

        last = address + size_bytes - 1
        self._emulator.hook_add(self._uc.UC_HOOK_BLOCK, on_block, begin=address, end=last)
        self._reads = (on_read, address, last)

    def watch_reads(self) -> None:
        """Between slices only: code that was translated before knows of no hook. Every read costs
        a call of Python then, so nobody should ask for it before time is measured."""
        if self._reads is not None:
            callback, first, last = self._reads
            self._emulator.hook_add(self._uc.UC_HOOK_MEM_READ, callback, begin=first, end=last)
            self.forget_code()
            self._reads = None

    def _failed(self, error: NpuscopeError) -> int:
        """What goes wrong in a device ends the slice; an exception could not pass the emulator."""
        self._error = self._error or error
        self.stop_soon()
        return 0

    # Registers of the core.

    def get(self, name: str) -> int:
        return int(self._emulator.reg_read(self._number(name)))

    def put(self, name: str, value: int) -> None:
        self._emulator.reg_write(self._number(name), value & 0xFFFFFFFF)

    def get_float(self) -> tuple[int, ...]:
        """What a call may change of the floating-point unit."""
        return tuple(int(self._emulator.reg_read(self._number(name))) for name in _FLOAT)

    def put_float(self, values: tuple[int, ...]) -> None:
        for name, value in zip(_FLOAT, values, strict=True):
            self._emulator.reg_write(self._number(name), value)

    def _number(self, name: str) -> int:
        if name not in self._registers:
            self._registers[name] = getattr(self._names, f"UC_ARM_REG_{name}")
        return self._registers[name]

    # Running.

    @property
    def instructions(self) -> int:
        return self._done + (self._executed() if self._running else 0)

    def _executed(self) -> int:
        return min(self._counter.value, self._limit.value)

    def stop_soon(self) -> None:
        """End the slice behind the instruction that is under way."""
        if self._running:
            self._limit.value = min(self._limit.value, self._counter.value)

    def forget_code(self) -> None:
        """Between slices only."""
        self._emulator.ctl_flush_tb()

    def run(self, instructions: int) -> Stop:
        """At most so many instructions."""
        start = self.get("PC")
        self._interrupt = self._lost = None
        self._running, failed = True, 0
        try:
            self._emulator.emu_start(start | _THUMB, _NOWHERE, count=max(1, instructions))
        except self._uc.UcError as error:
            failed = int(error.errno)
        executed, counted_out = self._executed(), self._counter.value > self._limit.value
        self._running = False
        self._done += executed
        if self._error is not None:
            failure, self._error = self._error, None
            raise failure
        if failed:
            if failed == self._uc.UC_ERR_INSN_INVALID and self._is_wfe(start):
                return Stop.EVENT
            raise self._fault(failed)
        if self._interrupt == _SVC:
            return Stop.CALL
        if self._interrupt == _EXCEPTION_EXIT:
            return Stop.RETURN
        if self._interrupt is not None:
            raise self.fault("the firmware stopped at a breakpoint or an exception")
        return Stop.COUNT if counted_out else Stop.SLEEP

    def _is_wfe(self, start: int) -> bool:
        """The emulator takes WFE for an invalid instruction, but has passed it by."""
        pc = self.get("PC")
        before = int.from_bytes(self._emulator.mem_read(pc - 2, 2), "little")
        return pc != start and before == _WFE

    def _fault(self, failed: int) -> FaultError:
        uc = self._uc
        reasons = {
            uc.UC_ERR_READ_UNMAPPED: "read from unmapped memory",
            uc.UC_ERR_WRITE_UNMAPPED: "write to unmapped memory",
            uc.UC_ERR_FETCH_UNMAPPED: "jump to unmapped memory",
            uc.UC_ERR_WRITE_PROT: "write to read-only memory",
            uc.UC_ERR_INSN_INVALID: "invalid instruction for this core",
            uc.UC_ERR_READ_UNALIGNED: "unaligned read",
            uc.UC_ERR_WRITE_UNALIGNED: "unaligned write",
        }
        return self.fault(reasons.get(failed, f"the emulator stopped, error {failed}"))

    def fault(self, message: str) -> FaultError:
        return FaultError(message, self.get("PC"), self.get("LR"), self._lost)

    def _on_interrupt(self, _: Any, number: int, __: Any) -> None:
        self._interrupt = number
        self._emulator.emu_stop()

    def _on_lost(self, _: Any, kind: int, address: int, *__: Any) -> bool:
        self._lost = address
        return False


_FLOAT = (*(f"D{i}" for i in range(8)), "FPSCR")


def _emulator(uc: Any, names: Any) -> Any:
    emulator = uc.Uc(uc.UC_ARCH_ARM, uc.UC_MODE_THUMB | uc.UC_MODE_MCLASS)
    emulator.ctl_set_cpu_model(names.UC_CPU_ARM_CORTEX_M33)
    emulator.ctl_set_tcg_buffer_size(_CODE_BYTES)
    return emulator


def _find_counter(uc: Any, names: Any, emulator: Any) -> tuple[ctypes.c_size_t, ctypes.c_size_t]:
    """The emulator's count of instructions, and its limit behind it.

    It counts for its own limit but has no call to ask for it. Both numbers are looked for in the
    emulator's own record after a run of known length.
    """
    probe = _emulator(uc, names)
    probe.mem_map(0, 0x1000)
    probe.mem_write(0, _PROBE)
    probe.emu_start(_THUMB, _NOWHERE, count=_PROBE_LIMIT)
    words = (ctypes.c_size_t * _SCAN_WORDS).from_address(_record(probe))
    pattern = [_PROBE_INSTRUCTIONS, _PROBE_LIMIT]
    places = [i for i in range(_SCAN_WORDS - 1) if words[i : i + 2] == pattern]
    if len(places) != 1:
        raise TargetError(
            "this version of unicorn does not expose its instruction count",
            hint="pip install unicorn==2.1.4",
        )
    place = _record(emulator) + places[0] * ctypes.sizeof(ctypes.c_size_t)
    after = place + ctypes.sizeof(ctypes.c_size_t)
    return ctypes.c_size_t.from_address(place), ctypes.c_size_t.from_address(after)


def _record(emulator: Any) -> int:
    return int(ctypes.cast(emulator._uch, ctypes.c_void_p).value or 0)
