"""Networks on the emulated board: compiled to C, linked with the unit drivers, run and read."""

from __future__ import annotations

import atexit
import re
import shutil
import struct
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from boards.emulated.programs import FIRMWARE, Bench, program
from npuscope.machine.model import Machine
from npuscope.program.calls import element_type
from npuscope.program.ec_blob.binary import blob_name, write_binary, write_header
from npuscope.program.ec_blob.lower import binary_of
from npuscope.program.model import Program
from npuscope.program.network_c.layout import dialect
from npuscope.program.network_c.writer import network_c_text
from npuscope.sim.memory import from_stored, to_stored

# What network.c calls beside the drivers: nothing of it is reached by networks without software.
_FOREIGN = re.compile(r"\b(?:ll_sw|LL_ATON_LIB|LL_ATON_Cache|npuscope)_\w+(?=\()")
_MEMORY = FIRMWARE / "runtime" / "memory.c"
_BLOCK = struct.Struct("<16I8I3I3I")


@dataclass(frozen=True, slots=True)
class BlockReport:
    counters: tuple[int, ...]
    monitors: tuple[int, ...]
    mcu_phases: tuple[int, ...]
    npu_phases: tuple[int, ...]


class Network:
    """A program on a bench. `infer` runs it, by one of the ways to wait and to count."""

    def __init__(self, compiled: Program, machine: Machine) -> None:
        self.program, self.machine = compiled, machine
        self.bench = Bench(_elf(compiled, machine), machine)
        for name, data in compiled.constants.items():
            self.bench.memory.write(self._address(name), np.ascontiguousarray(data).tobytes())

    def infer(self, values: dict[str, np.ndarray], how: bytes = b"i") -> dict[str, np.ndarray]:
        for name in self.program.inputs:
            buffer = self._buffers[name]
            stored = to_stored(buffer, values[name].astype(element_type(buffer)))
            self.bench.memory.write(self._address(name), stored.tobytes())
        assert self.bench.run(how) == b"."
        assert self.bench.report(2) == 0, "a driver refused something"
        return {name: self._output(name) for name in self.program.outputs}

    def _output(self, name: str) -> np.ndarray:
        buffer = self._buffers[name]
        data = self.bench.memory.read(self._address(name), buffer.size_bytes)
        return from_stored(buffer, np.frombuffer(data, element_type(buffer)))

    @cached_property
    def _buffers(self) -> dict:
        return self.program.buffer_map()

    def _address(self, name: str) -> int:
        buffer = self._buffers[name]
        return self.program.pool(buffer.pool).address + buffer.offset

    @property
    def blocks(self) -> list[BlockReport]:
        """What the program counted, block by block."""
        start, count = self.bench.firmware.symbols["blocks"], self.bench.report(1)
        raw = self.bench.memory.read(start, count * _BLOCK.size)
        rows = _BLOCK.iter_unpack(raw)
        return [BlockReport(r[:16], r[16:24], r[24:27], r[27:]) for r in rows]


def _elf(compiled: Program, machine: Machine) -> bytes:
    folder = Path(tempfile.mkdtemp(prefix="npuscope-net-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    text = network_c_text(compiled, machine, "network")
    (folder / "network.c").write_text(text, encoding="utf-8")
    numbers = sorted({e.blob for e in compiled.epochs if e.blob is not None})
    blobs = {
        blob_name("network", i): write_binary(binary_of(compiled, i, "network")) for i in numbers
    }
    (folder / "network_ecblobs.h").write_text(write_header(blobs), encoding="utf-8")
    absent = sorted(set(_FOREIGN.findall(text)))
    lines = [f"void {n}(void); __attribute__((weak)) void {n}(void) {{}}" for n in absent]
    (folder / "absent.c").write_text("\n".join([*lines, ""]), encoding="utf-8")
    drivers = sorted((FIRMWARE / "npu").glob("*.c"))
    sources = (*drivers, folder / "network.c", folder / "absent.c", _MEMORY)
    includes = (folder, FIRMWARE / "runtime")
    number = dialect(compiled.generation).number
    return program("infer", sources, includes, number)
