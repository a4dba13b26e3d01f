"""The unit drivers and some network.c on this machine: registers and memory are Python's."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from npuscope.machine.model import Machine
from npuscope.program.ec_blob.instructions import Instruction, Poll, Write
from npuscope.program.ec_blob.lower import lower
from npuscope.program.ec_blob.register_file import RegisterFile
from npuscope.program.ec_blob.registers import (
    CLEAR_BIT,
    CTRL,
    REGISTERS_PER_PAGE,
    RUNNING_BIT,
    UNIT_BY_NAME,
    clock_gate,
    page_name,
    reset_value,
)
from npuscope.program.model import Epoch, Group, Program
from npuscope.program.network_c.layout import LIMIT_BYTES, dialect
from npuscope.program.network_c.writer import network_c_text
from npuscope.program.units import Streng
from npuscope.structs import replace
from processes import LIMIT_S

FIRMWARE = Path(__file__).parents[2] / "firmware"
DRIVERS = tuple(sorted((FIRMWARE / "npu").glob("*.c")))
INCLUDES = tuple(f"-I{FIRMWARE / name}" for name in ("include", "npu", "kernels"))
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror")
_FEW_POLLS = "-DNPU_POLL_LIMIT=3u"
_PAGE_BYTES = 4 * REGISTERS_PER_PAGE
_FIRST_GATED = UNIT_BY_NAME["STRENG"].page
_GATES = UNIT_BY_NAME["CLKCTRL"].by_name["BGATES"].index
# What network.c calls beside the drivers: never run here, but a library names no absent symbols.
_FOREIGN = re.compile(r"\b(?:ll_sw|LL_ATON_LIB|LL_ATON_Cache|npuscope)_\w+(?=\()")
_MACRO = "LL_ATON_LIB_UNUSED"
# Functions of an epoch take one or two pointers that the drivers do not look at.
_RUN = """\
const NPUSCOPE_ITEM *LL_ATON_EpochBlockItems_{name}(void);
int host_run_{name}(int at, int end);
int host_run_{name}(int at, int end)
{{
  const NPUSCOPE_ITEM *item = &LL_ATON_EpochBlockItems_{name}()[at];
  npuscope_epoch_function function = end ? item->end_epoch_block : item->start_epoch_block;
  if (item->flags & EpochBlock_Flags_last_eb)
    return -1;
  if (!(item->flags & EpochBlock_Flags_pure_hw))
    return 0;
#if NPUSCOPE_DIALECT != 3
  function(item);
#else
  function(item, NULL);
#endif
  return 1;
}}
"""
_HOOKS = """\
#include <stdint.h>
void (*host_write)(uint32_t, uint32_t);
uint32_t (*host_read)(uint32_t);
uint8_t (*host_load)(uintptr_t);
void npu_test_write(uint32_t offset, uint32_t value) { host_write(offset, value); }
uint32_t npu_test_read(uint32_t offset) { return host_read(offset); }
uint8_t npu_test_load(uintptr_t address) { return host_load(address); }
"""
_WRITER = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32)
_READER = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)
_LOADER = ctypes.CFUNCTYPE(ctypes.c_uint8, ctypes.c_size_t)
Words = dict[tuple[int, int], int]


def zig_cc(*arguments: str, folder: Path) -> str:
    """The C compiler's messages, empty when all is well."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed: no C compiler")
    command = [sys.executable, "-m", "ziglang", "cc", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
    ).stderr


@dataclass(frozen=True)
class Net:
    """A network under its C name."""

    name: str
    program: Program
    machine: Machine

    @property
    def runtime(self) -> int:
        return dialect(self.program.generation).number

    def items(self) -> Iterator[tuple[int, Epoch, Group]]:
        """Groups, with the numbers of their items in network.c."""
        number = 0
        for epoch in self.program.executed:
            for group in epoch.groups or ():
                yield number, epoch, group
                number += 1
            number += epoch.call is not None


def build(folder: Path, nets: Iterable[Net]) -> ctypes.CDLL:
    """All networks and the drivers as one library."""
    sources, foreign = [*DRIVERS], set()
    for net in nets:
        text = network_c_text(net.program, net.machine, net.name)
        foreign |= set(_FOREIGN.findall(text)) - {_MACRO}
        parts = (f"#define NPUSCOPE_DIALECT {net.runtime}", text, _RUN.format(name=net.name))
        sources.append(_written(folder, net.name, "\n".join(parts)))
    absent = (f"void {name}(void) {{}}" for name in sorted(foreign))
    sources.append(_written(folder, "absent", "\n".join([_HOOKS, *absent, ""])))
    # One call: the compiler works on its sources in parallel.
    flags = ("-shared", "-fPIC", *WARNINGS, *INCLUDES, "-DNPU_TEST_REGISTERS", _FEW_POLLS)
    messages = zig_cc(*flags, *map(str, sources), "-o", "nets.so", folder=folder)
    assert messages == "", messages
    return ctypes.CDLL(str(folder / "nets.so"))


def _written(folder: Path, stem: str, text: str) -> Path:
    path = folder / f"{stem}.c"
    path.write_text(text, encoding="utf-8")
    return path


@dataclass
class Npu:
    """The NPU that the drivers see: bits that fall, fall at once, and no engine runs long."""

    library: ctypes.CDLL
    memory: dict[int, bytes] = field(default_factory=dict)  # by address
    file: RegisterFile = field(default_factory=RegisterFile)
    log: list[tuple[int, int]] = field(default_factory=list)  # offset, value
    faults: list[str] = field(default_factory=list)  # what a real one would not take
    stuck: bool = False  # a bit that should fall stays

    def __post_init__(self) -> None:
        self._hooks = (_WRITER(self._write), _READER(self._read), _LOADER(self._load))
        for name, hook in zip(("host_write", "host_read", "host_load"), self._hooks, strict=True):
            ctypes.c_void_p.in_dll(self.library, name).value = ctypes.cast(
                hook, ctypes.c_void_p
            ).value

    def _write(self, offset: int, value: int) -> None:
        page, index = offset // _PAGE_BYTES, offset % _PAGE_BYTES // 4
        self.log.append((offset, value))
        if page >= _FIRST_GATED and not self._register(0, _GATES) >> clock_gate(page) & 1:
            self.faults.append(f"{page_name(page)} is written without a clock")
        self.file.run(Write(page, index, value))

    def _register(self, page: int, index: int) -> int:
        return self.file.registers.get(page, {}).get(index, reset_value(page, index))

    def _read(self, offset: int) -> int:
        page, index = offset // _PAGE_BYTES, offset % _PAGE_BYTES // 4
        falls = 1 << CLEAR_BIT if index == CTRL and not self.stuck else 0
        return self._register(page, index) & ~falls

    def _load(self, address: int) -> int:
        for first, data in self.memory.items():
            if first <= address < first + len(data):
                return data[address - first]
        self.faults.append(f"no memory at {address:#x}")
        return 0

    def error(self) -> int:
        """The first error that the drivers met since the last call."""
        return int(self.library.npu_take_error())

    def run(self, net: Net, item: int, end: bool = False) -> bool:
        """Call the start or the end function of an item; false for one without registers."""
        found = int(self.library[f"host_run_{net.name}"](item, int(end)))
        assert found >= 0, f"{net.name} has no item {item}"
        return found == 1


def constants_of(program: Program) -> dict[int, bytes]:
    """The program's constants at their addresses."""
    pools, buffers = program.pool_map(), program.buffer_map()
    found = {}
    for name, data in program.constants.items():
        buffer = buffers.get(name)
        if buffer is not None and buffer.pool in pools:
            address = pools[buffer.pool].address + buffer.offset
            found[address] = np.ascontiguousarray(data).tobytes()
    return found


def with_limits(program: Program, group: Group) -> Group:
    """network.c names the end of prefetching for every engine, also where a record does not."""
    buffers = program.buffer_map()

    def limited(engine: Streng) -> Streng:
        end = buffers[engine.addr_base.buffer].size_bytes + LIMIT_BYTES
        return replace(engine, offset_limit=engine.offset_limit or end - engine.addr_base.offset)

    units = tuple(limited(u) if isinstance(u, Streng) else u for u in group.units)
    return replace(group, units=units)


def blob_of(program: Program, epoch: Epoch, group: Group) -> tuple[Instruction, ...]:
    """The blob that our lowering makes of one group alone."""
    alone = replace(epoch, groups=(with_limits(program, group),), blob=0)
    return lower(replace(program, epochs=(alone,)), 0)


def states(blob: Iterable[Instruction]) -> tuple[RegisterFile, RegisterFile]:
    """Registers when all units are on, and when the blob has ended."""
    instructions = list(blob)
    waits = [i for i, instruction in enumerate(instructions) if _waits(instruction)]
    running, ended = RegisterFile(), RegisterFile()
    for instruction in instructions[: waits[0]]:
        running.run(instruction)
    for instruction in instructions:
        ended.run(instruction)
    return running, ended


def _waits(instruction: Instruction) -> bool:
    return isinstance(instruction, Poll) and instruction.lsb == RUNNING_BIT


def words(file: RegisterFile) -> Words:
    """Registers that do not hold their reset values."""
    return {
        (page, index): value
        for page, registers in file.registers.items()
        for index, value in registers.items()
        if value != reset_value(page, index)
    }
