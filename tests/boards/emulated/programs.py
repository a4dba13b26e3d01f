"""Small programs for the emulated board, built by zig."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from npuscope.boards.emulated.computer import Computer
from npuscope.boards.emulated.firmware_file import Firmware, read_firmware
from npuscope.boards.emulated.memory import BoardMemory
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine
from processes import LIMIT_S

HERE = Path(__file__).parent
FIRMWARE = HERE.parents[2] / "firmware"
_TARGET = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m33+fp_armv8d16sp")
_FLAGS = ("-ffreestanding", "-fno-sanitize=all", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Os")
_LINK = ("-nostdlib", "-rtlib=compiler-rt", "-static", "-g", "-Wl,--entry=bare_reset")
_PARTS = ("include", "npu", "kernels", "board/emulated")
_MOST_STEPS = 200_000
_FAR = 1 << 50  # a cycle that no program gets to


@cache
def program(
    name: str, sources: tuple[Path, ...] = (), includes: tuple[Path, ...] = (), dialect: int = 3
) -> bytes:
    """The ELF file of NAME.c with further sources."""
    for module in ("ziglang", "unicorn", "elftools"):
        pytest.importorskip(module, reason=f"{module} is not installed: no emulated board")
    folders = [HERE, *(FIRMWARE / part for part in _PARTS), *includes]
    flags = [*_TARGET, *_FLAGS, "-DLL_ATON_EB_DBG_INFO", f"-DNPUSCOPE_DIALECT={dialect}"]
    flags += [*(f"-I{folder}" for folder in folders), *_LINK, "-T", str(HERE / "bare.ld")]
    files = [str(path) for path in (HERE / "start.c", HERE / f"{name}.c", *sources)]
    with tempfile.TemporaryDirectory(prefix="npuscope-emulated-") as folder:
        target = Path(folder) / "program.elf"
        _zig([*flags, *files, "-o", str(target)])
        return target.read_bytes()


def _zig(arguments: Sequence[str]) -> None:
    command = [sys.executable, "-m", "ziglang", "cc", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert not done.returncode, done.stderr


class Bench:
    """A computer without a process around it: bytes in, bytes out, until it sleeps for good."""

    def __init__(self, elf: bytes, machine: Machine | None = None, budget: int = 50_000_000):
        self.firmware: Firmware = read_firmware(elf)
        self.memory = BoardMemory()
        for address, data in self.firmware.segments:
            self.memory.write(address, data)
        self.computer = Computer(self.memory, machine or load_machine(), budget=budget)

    def run(self, data: bytes = b"") -> bytes:
        """Until the program sleeps with nothing to wake it, or waits for bytes."""
        self.computer.uart.receive(data)
        for _ in range(_MOST_STEPS):
            waits = self.computer.run(_FAR)
            if waits and "waiting for its timer" not in self.computer.doing:
                return self.computer.uart.take()
            if waits:
                self.computer.rest(_FAR)
        raise AssertionError("the program does not come to rest")

    def report(self, index: int) -> int:
        at = self.firmware.symbols["report"] + 4 * index
        return int.from_bytes(self.memory.read(at, 4), "little")
