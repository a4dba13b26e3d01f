"""The validation firmware on the emulated board: built, given its networks, and started."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firmware.bare_build import FIRMWARE, TARGET, WARNINGS, built, zig
from npuscope import building
from npuscope.boards.device import Device, Inference, NodeCounters, random_values
from npuscope.boards.emulated.board import EmulatedBoard, EmulatedSetup
from npuscope.boards.emulated.memory import (
    EXEC_RAM_ADDRESS,
    FLASH_ADDRESS,
    MAILBOX_ADDRESS,
    NETWORK_RAM_ADDRESS,
)
from npuscope.boards.simulated import SimulatedBoard
from npuscope.graph.model import Graph
from npuscope.loadable.build import package
from npuscope.loadable.codes import PackageOptions
from npuscope.machine.model import Machine
from npuscope.program.model import EpochKind, Program
from npuscope.program.network_c.layout import dialect
from npuscope.report.build_files import write_network as write_build
from npuscope.structs import replace

PARTS = ("board/emulated", "validation", "runtime", "loader", "npu", "kernels")
CPU = "cortex_m33+fp_armv8d16sp"
DEFINES = (
    "LL_ATON_EB_DBG_INFO",
    "NPUSCOPE_WITH_NPU",
    "NPUSCOPE_CPU_PART=0xD21",
    "NPUSCOPE_SECURE=1",
)
XIP, COPY, CLEAR = 1, 2, 4
EXEC_BYTES, EXT_BYTES, FILE_BYTES = 0x28000, 0x600000, 0x1000000
LINE_BYTES = 64
EMPTY, SERVED, REFUSED = range(3)
_HEAD = struct.Struct("<8I")
_ENTRY = struct.Struct("<9I")
_RESULT = struct.Struct("<iI88s")
_PARAMS_OFFSET = 4 * 12  # in the image's header
_MAGIC, _VERSION, _ENTRIES, _FAULT_WORDS = 0x584F424D, 1, 4, 4


def firmware(dialect: int = 3) -> bytes:
    """The ELF file for runtimes of a dialect."""
    sources = [path for part in PARTS for path in sorted((FIRMWARE / part).glob("*.c"))]
    folders = [*PARTS, "include", "image"]
    headers = [path for part in folders for path in sorted((FIRMWARE / part).glob("*.h"))]
    script = FIRMWARE / "board/emulated/link.ld"
    flags = [*TARGET, *WARNINGS, f"-mcpu={CPU}", "-Os", "-ffp-contract=off", "-fshort-enums"]
    flags += ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    flags += [f"-D{name}" for name in (*DEFINES, f"NPUSCOPE_DIALECT={dialect}")]
    flags += [f"-I{FIRMWARE / folder}" for folder in folders]
    flags += ["-nostdlib", "-rtlib=compiler-rt", "-static", "-Wl,--entry=board_start"]
    key = [*flags, *sources, *headers, script]
    command = ("cc", *flags, "-T", script, *sources, "-o")
    return built(".elf", key, lambda target: zig(*command, target)).read_bytes()


@dataclass(frozen=True)
class Image:
    """A network as the loader takes it, and as the simulator knows it."""

    program: Program
    machine: Machine
    file: bytes
    params: bytes = b""

    @property
    def simulated(self) -> SimulatedBoard:
        """With the reads that bring blobs, which the emulated NPU does."""
        return SimulatedBoard(self.program, self.machine, blob_fetch=True)

    @property
    def shift(self) -> int:
        """Bytes before the file that put its parameters on a line of the cache.

        The compiler counts with that; elsewhere bursts and cache lines are others.
        """
        (offset,) = struct.unpack_from("<I", self.file, _PARAMS_OFFSET)
        return -offset % LINE_BYTES

    @property
    def dialect(self) -> int:
        return dialect(self.program.generation).number


def image_of(graph: Graph, folder: Path, *, split: bool = False, **options: object) -> Image:
    made = building.build(graph, {"relocatable": True, **options})  # type: ignore[typeddict-item]
    write_build(made, folder)
    packed = package(folder, PackageOptions(cpu="cortex-m33", split=split))
    binaries = (data for name, data in packed.files.items() if name.endswith(".bin"))
    return Image(made.program, made.machine, *binaries)


@dataclass(frozen=True)
class Entry:
    """Where an image goes; every entry has its own part of each memory unless told."""

    image: Image
    mode: int = COPY | CLEAR
    exec_ram: int = 0
    exec_bytes: int = EXEC_BYTES

    def placed(self, index: int) -> Entry:
        return dataclasses.replace(
            self, exec_ram=self.exec_ram or EXEC_RAM_ADDRESS + index * EXEC_BYTES
        )

    def words(self, index: int) -> tuple[int, ...]:
        at = FLASH_ADDRESS + index * FILE_BYTES + self.image.shift
        params = at + FILE_BYTES // 2 if self.image.params else 0
        file = (at, len(self.image.file), params, len(self.image.params), self.mode)
        ext_ram = NETWORK_RAM_ADDRESS + index * EXT_BYTES
        return (*file, self.exec_ram, self.exec_bytes, ext_ram, EXT_BYTES)


def boot(entries: Sequence[Entry], *, requires_trailer: bool = False) -> EmulatedBoard:
    """A board that has read its mailbox."""
    placed = [entry.placed(index) for index, entry in enumerate(entries)]
    rows = [entry.words(index) for index, entry in enumerate(placed)]
    files = {row[0]: entry.image.file for row, entry in zip(rows, placed, strict=True)}
    files |= {row[2]: e.image.params for row, e in zip(rows, placed, strict=True) if row[2]}
    files[MAILBOX_ADDRESS] = _mailbox(rows, requires_trailer)
    dialect = entries[0].image.dialect if entries else 3
    return EmulatedBoard.boot(EmulatedSetup(firmware(dialect)), files)


def _mailbox(rows: Sequence[tuple[int, ...]], requires_trailer: bool) -> bytes:
    head = _HEAD.pack(_MAGIC, _VERSION, 0, 0, 0, 0, requires_trailer, 0)
    entries = b"".join(_ENTRY.pack(*row) for row in rows).ljust(_ENTRIES * _ENTRY.size, b"\0")
    return head + entries + bytes(_ENTRIES * _RESULT.size + 4 * _FAULT_WORDS)


def results(board: EmulatedBoard) -> list[tuple[int, int, str]]:
    """The loader's code, the status and the reason of each entry."""
    start = MAILBOX_ADDRESS + _HEAD.size + _ENTRIES * _ENTRY.size
    raw = board.machine.read(start, _ENTRIES * _RESULT.size)
    rows = _RESULT.iter_unpack(raw)
    return [(code, status, text.split(b"\0")[0].decode()) for code, status, text in rows]


@contextmanager
def booted(*entries: Entry, requires_trailer: bool = False) -> Iterator[EmulatedBoard]:
    board = boot(entries, requires_trailer=requires_trailer)
    try:
        yield board
    finally:
        board.close()


def inputs_of(device: Device, network: str, seed: int = 1) -> tuple[np.ndarray, ...]:
    found = next(desc for desc in device.info().networks if desc.name == network)
    chance = np.random.default_rng(seed)
    return tuple(random_values(chance, np.dtype(d.dtype), d.shape) for d in found.inputs)


def check(found: Inference, wanted: Inference) -> None:
    """Data and what the NPU counts; the processor's own cycles are another matter."""
    for got, right in zip(found.outputs, wanted.outputs, strict=True):
        np.testing.assert_array_equal(got, right)
    for node, expected_node in zip(found.nodes, wanted.nodes, strict=True):
        # Moves are hybrid epochs in the interface, whoever does them.
        own = {"kind": node.kind, "flags": node.flags, "mcu_cycles": node.mcu_cycles}
        assert replace(node, npu_cycles=None) == replace(expected_node, npu_cycles=None, **own)
        check_core(node, expected_node)


def check_core(found: NodeCounters, wanted: NodeCounters) -> None:
    """The NPU's own time; without the NPU the core phase is the processor's as well."""
    assert (found.npu_cycles is None) == (wanted.npu_cycles is None)
    if found.npu_cycles and wanted.npu_cycles and wanted.kind is EpochKind.HW:
        assert found.npu_cycles[1] == wanted.npu_cycles[1]
