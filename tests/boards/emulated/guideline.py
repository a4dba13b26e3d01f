"""The example application of firmware/examples: built, run on a bench, its table read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from boards.emulated.loads import Net33
from boards.emulated.programs import FIRMWARE, HERE, Bench
from compiler.nets import sample
from firmware.bare_build import M33, TARGET, WARNINGS, built, zig
from npuscope.program.calls import element_type
from npuscope.sim.memory import from_stored, to_stored

IMAGE_ADDRESS, INPUTS_ADDRESS = 0x71000000, 0x72000000
PARTS = ("examples", "loader", "runtime", "npu", "kernels")
FOLDERS = (*PARTS, "validation", "board/emulated", "include", "include/freestanding", "image")
DEFINES = ("LL_ATON_EB_DBG_INFO", "NPUSCOPE_WITH_NPU", "NPUSCOPE_SECURE=1")
ROW = struct.Struct("<5I3I3I1I10I16I8I")
MOST_ROWS = 128


@dataclass(frozen=True, slots=True)
class Row:
    """One block, in the order of the words."""

    number: int
    last_number: int
    flags: int
    inputs: int
    outputs: int
    mcu: tuple[int, ...]
    npu: tuple[int, ...]
    length: int
    engines: tuple[int, ...]
    bursts: tuple[int, ...]
    cache: tuple[int, ...]

    @classmethod
    def of(cls, words: tuple[int, ...]) -> Row:
        phases = (words[5:8], words[8:11], words[11])
        return cls(*words[:5], *phases, words[12:22], words[22:38], words[38:46])


# Pieces of a page do not use all that they name.
PAGE_WARNINGS = ("-Wno-unused-variable", "-Wno-unused-but-set-variable", "-Wno-unused-parameter")


def application(dialect: int, pieces: Path | None = None) -> bytes:
    """The ELF file: the example, the runtime and the library, without the validation server.

    With `pieces`, a folder, the callbacks are made of those."""
    sources = [path for part in PARTS for path in sorted((FIRMWARE / part).glob("*.c"))]
    if pieces:
        sources.remove(FIRMWARE / "examples/callbacks.c")
        sources.append(HERE / "guideline_callbacks.c")
    sources += sorted((FIRMWARE / "validation").glob("library*.c"))
    sources.append(FIRMWARE / "board/emulated/start.c")
    script = FIRMWARE / "board/emulated/link.ld"
    defines = (*DEFINES, f"NPUSCOPE_CPU_PART={M33.part:#x}", f"NPUSCOPE_DIALECT={dialect}")
    flags = [*TARGET, *WARNINGS, f"-mcpu={M33.cpu}", "-Os", "-ffp-contract=off"]
    flags += ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    flags += [f"-D{name}" for name in defines]
    flags += [f"-I{FIRMWARE / folder}" for folder in FOLDERS]
    if pieces:
        flags += [*PAGE_WARNINGS, f"-I{pieces}"]
    flags += ["-nostdlib", "-rtlib=compiler-rt", "-static", "-g", "-Wl,--entry=board_start"]
    headers = [path for folder in FOLDERS for path in sorted((FIRMWARE / folder).glob("*.h"))]
    headers += sorted(pieces.glob("*.inc")) if pieces else []
    command = ("cc", *flags, "-T", script, *sources, "-o")
    key = [*flags, *sources, *headers, script]
    return built(".elf", key, lambda target: zig(*command, target)).read_bytes()


class Example:
    """The application with an image in flash; it runs by itself, and sleeps when it is done."""

    def __init__(self, net: Net33, file: bytes | None = None, pieces: Path | None = None) -> None:
        self._net = net
        self._bench = Bench(application(net.dialect, pieces), net.machine)
        self._bench.memory.write(IMAGE_ADDRESS, file or net.file)

    def run(self, seed: int = 0) -> dict[str, np.ndarray]:
        """The outputs of an inference."""
        self._bench.memory.write(INPUTS_ADDRESS, b"".join(self._inputs(seed)))
        self._bench.run()
        return {name: self._output(name) for name in self._net.program.outputs}

    @property
    def code(self) -> int:
        return int(np.int32(np.uint32(self._word("application_code"))))

    @property
    def reason(self) -> str:
        text = self._bench.memory.read(self._word("application_reason"), 80)
        return text.split(b"\0")[0].decode()

    @property
    def rows(self) -> list[Row]:
        start, count = self._bench.firmware.symbols["callbacks_rows"], self._word("callbacks_count")
        raw = self._bench.memory.read(start, min(count, MOST_ROWS) * ROW.size)
        return [Row.of(words) for words in ROW.iter_unpack(raw)]

    def _inputs(self, seed: int) -> Iterator[bytes]:
        values, buffers = sample(self._net.graph, seed), self._net.program.buffer_map()
        for name in self._net.program.inputs:
            buffer = buffers[name]
            yield to_stored(buffer, values[name].astype(element_type(buffer))).tobytes()

    def _output(self, name: str) -> np.ndarray:
        buffer = self._net.program.buffer_map()[name]
        address = self._net.program.pool(buffer.pool).address + buffer.offset
        data = self._bench.memory.read(address, buffer.size_bytes)
        return from_stored(buffer, np.frombuffer(data, element_type(buffer)))

    def _word(self, symbol: str) -> int:
        data = self._bench.memory.read(self._bench.firmware.symbols[symbol], 4)
        return int.from_bytes(data, "little")
