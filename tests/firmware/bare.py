"""The bare firmware, run in unicorn (Cortex-M33) or QEMU (Cortex-M55)."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from firmware.bare_build import FIRMWARE as FIRMWARE
from firmware.bare_build import M33 as M33
from firmware.bare_build import M55 as M55
from firmware.bare_build import BareError as BareError
from firmware.bare_build import build_firmware as build_firmware
from firmware.bare_build import segments_and_symbols

CODE_LIMIT = 200_000_000  # instructions of one command


class Do(IntEnum):
    """Commands of the mailbox."""

    INFO = 1
    INSTALL = 2
    RUN = 3
    MEMORIES = 4
    KERNEL = 5
    SET_INPUT = 6
    SET_OUTPUT = 7
    GET_INPUT = 8
    GET_OUTPUT = 9
    BUFFER = 10
    POOL = 11
    LOG = 12


class Code(IntEnum):
    """Statuses: the loader's, then the firmware's own."""

    NONE = 0
    INVALID_BIN = -1
    MEMORY = -2
    NOT_SUPPORTED = -3
    ARG = -4
    INVALID_HDL = -5
    INSTALL = -6
    PARAM_ADDR = -7
    PARAM_DESC = -8
    REFUSED = -20
    UNKNOWN = -21
    FAULT = -22
    HOST = -23


XIP, COPY, CLEAR = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Install:
    """Arguments of INSTALL, in the order of the mailbox."""

    file: int
    file_limit: int
    exec_ram: int
    exec_ram_bytes: int
    ext_ram: int = 0
    ext_ram_bytes: int = 0
    params: int = 0
    params_limit: int = 0
    mode: int = COPY
    requires_trailer: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """The mailbox after a command."""

    status: Code
    results: tuple[int, ...]
    reason: str
    log: str


_MAILBOX = struct.Struct("<II12Ii16I96sI1024s")
_ASKED = struct.Struct("<I12I")
_WAITING = 0x57414954


def _reply(raw: bytes) -> Reply:
    values = _MAILBOX.unpack(raw)
    reason, log_bytes, log = values[31:]
    return Reply(
        Code(values[14]),
        values[15:31],
        reason.split(b"\0")[0].decode(),
        log[:log_bytes].decode(),
    )


def _words(arguments: Sequence[int]) -> tuple[int, ...]:
    return tuple(value & 0xFFFFFFFF for value in arguments) + (0,) * (12 - len(arguments))


@dataclass(frozen=True, slots=True)
class Region:
    address: int
    size: int
    writable: bool = True


FIRMWARE_END = 0x34080000
REGIONS = (
    Region(0x34000000, 0x400000),
    Region(0x70000000, 0x400000, writable=False),
    Region(0x90000000, 0x400000),
    Region(0xE000E000, 0x1000),
)


class BareM33:
    """An emulated Cortex-M33 that waits for commands.

    With `watch` every access behind the firmware's own RAM is kept: `writes`, `reads` as
    (address, size), and `executed` addresses of blocks. The flash region cannot be written.
    """

    def __init__(self, elf: Path, regions: Sequence[Region] = REGIONS, watch: bool = False):
        self._uc = pytest.importorskip("unicorn", reason="unicorn is not installed")
        self._arm = pytest.importorskip("unicorn.arm_const")
        self._emulator = self._new_emulator(regions)
        self.writes: list[tuple[int, int]] = []
        self.reads: list[tuple[int, int]] = []
        self.executed: list[int] = []
        loads, self.symbols = segments_and_symbols(elf)
        for address, data in loads:
            self.load(address, data)
        if watch:
            self._watch()
        self._boot()

    def _new_emulator(self, regions: Sequence[Region]) -> Any:
        uc = self._uc
        emulator = uc.Uc(uc.UC_ARCH_ARM, uc.UC_MODE_THUMB | uc.UC_MODE_MCLASS)
        emulator.ctl_set_cpu_model(self._arm.UC_CPU_ARM_CORTEX_M33)
        for region in regions:
            access = uc.UC_PROT_ALL if region.writable else uc.UC_PROT_READ | uc.UC_PROT_EXEC
            emulator.mem_map(region.address, region.size, access)
        return emulator

    def _watch(self) -> None:
        uc, span = self._uc, {"begin": FIRMWARE_END, "end": 0xDFFFFFFF}

        def wrote(_: Any, __: int, address: int, size: int, *___: Any) -> None:
            self.writes.append((address, size))

        def read(_: Any, __: int, address: int, size: int, *___: Any) -> None:
            self.reads.append((address, size))

        def ran(_: Any, address: int, *__: Any) -> None:
            self.executed.append(address)

        self._emulator.hook_add(uc.UC_HOOK_MEM_WRITE, wrote, **span)
        self._emulator.hook_add(uc.UC_HOOK_MEM_READ, read, **span)
        self._emulator.hook_add(uc.UC_HOOK_BLOCK, ran, **span)

    def _boot(self) -> None:
        self._box = self.symbols["npuscope_box"]
        self._emulator.reg_write(self._arm.UC_ARM_REG_SP, self.symbols["npuscope_stack_top"])
        self._emulator.reg_write(self._arm.UC_ARM_REG_PC, self.symbols["npuscope_reset"] | 1)
        self._go_on(CODE_LIMIT)

    def _pc(self) -> int:
        return int(self._emulator.reg_read(self._arm.UC_ARM_REG_PC))

    def _go_on(self, limit: int) -> None:
        """To the next sleep; anything else that ends the emulation is an error."""
        try:
            self._emulator.emu_start(self._pc() | 1, 0xFFFFFFFE, count=limit)
        except self._uc.UcError as error:
            raise BareError(f"fault at {self._pc():#x}: {error}") from None
        state = int.from_bytes(self.read(self._box, 4), "little")
        if state != _WAITING:
            raise BareError(f"no answer after at most {limit} instructions, at {self._pc():#x}")

    def load(self, address: int, data: bytes) -> None:
        self._emulator.mem_write(address, bytes(data))

    def read(self, address: int, size: int) -> bytes:
        return bytes(self._emulator.mem_read(address, size))

    def command(self, do: Do, *arguments: int, limit: int = CODE_LIMIT) -> Reply:
        self.load(self._box + 4, _ASKED.pack(do, *_words(arguments)))
        self._go_on(limit)
        return _reply(self.read(self._box, _MAILBOX.size))

    def install(self, arguments: Install) -> Reply:
        return self.command(Do.INSTALL, *astuple(arguments))


class BareM55:
    """A script for the Cortex-M55 of QEMU's mps3-an547: all of it runs at once, in `run`."""

    def __init__(self, elf: Path):
        self._elf = elf
        self._records: list[bytes] = []
        self._files: dict[str, bytes] = {}
        self._saves: list[str] = []

    def load(self, address: int, data: bytes) -> None:
        name = f"load{len(self._files)}.bin"
        self._files[name] = bytes(data)
        self._records.append(struct.pack("<III52s", 1, address, len(data), name.encode()))

    def save(self, address: int, size: int) -> None:
        """The bytes come back from `run`, in the order of the calls."""
        name = f"save{len(self._saves)}.bin"
        self._saves.append(name)
        self._records.append(struct.pack("<III52s", 3, address, size, name.encode()))

    def command(self, do: Do, *arguments: int) -> None:
        self._records.append(struct.pack("<II12I8x", 2, do, *_words(arguments)))

    def install(self, arguments: Install) -> None:
        self.command(Do.INSTALL, *astuple(arguments))

    def run(self, timeout_s: float = 60.0) -> tuple[list[Reply], list[bytes]]:
        """Replies of the commands and the saved regions."""
        with tempfile.TemporaryDirectory(prefix="npuscope-m55-") as name:
            folder = Path(name)
            for file, data in self._files.items():
                (folder / file).write_bytes(data)
            (folder / "script.bin").write_bytes(b"".join(self._records) + bytes(64))
            self._start(folder, timeout_s)
            replies = self._replies(folder / "results.bin")
            return replies, [(folder / save).read_bytes() for save in self._saves]

    def _start(self, folder: Path, timeout_s: float) -> None:
        program = shutil.which("qemu-system-arm")
        if program is None:
            pytest.skip("qemu-system-arm is not installed: nothing here runs Cortex-M55 code")
        command = [program, "-M", "mps3-an547", "-display", "none", "-monitor", "none"]
        command += ["-serial", "null", "-semihosting-config", "enable=on,target=native"]
        command += ["-kernel", str(self._elf)]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise BareError(f"no end of the script after {timeout_s} s") from None
        if done.returncode not in (0, 2, 3):
            raise BareError(f"qemu ended with {done.returncode}: {done.stderr.strip()}")

    def _replies(self, file: Path) -> list[Reply]:
        raw = file.read_bytes() if file.exists() else b""
        found = [_reply(raw[at : at + _MAILBOX.size]) for at in range(0, len(raw), _MAILBOX.size)]
        if found and found[-1].status == Code.FAULT:
            place = ", ".join(f"{value:#x}" for value in found[-1].results[:4])
            raise BareError(f"fault: pc, lr, CFSR, HFSR = {place}")
        if found and found[-1].status == Code.HOST:
            raise BareError(f"the script failed at {found[-1].reason}")
        return found
