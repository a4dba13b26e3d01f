"""TFLite files that were compiled for the Edge TPU: what their container tells.

An operator `edgetpu-custom-op` holds a package (executable.fbs of libedgetpu, Apache-2.0) of one or
two executables: one loads parameters into the chip's memory, the other runs and streams those that
had no room. Instructions are not documented, and the field for estimated cycles is left empty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from npuscope.bounded_file import MODEL, read_bytes
from npuscope.errors import FileError
from npuscope.files.tflite.file import custom_operators, parse
from npuscope.files.tflite.flat_table import WILD_OFFSET, Table
from npuscope.identify.sample import FileFacts, Sample
from npuscope.text import safe_terminal

_OPERATOR, _MAGIC = b"edgetpu-custom-op", b"DWN1"
_KIND = "CUSTOM edgetpu-custom-op"
_NO_TIME = "nothing public tells the time of an Edge TPU: measure it on the device"
_MOST = 64  # packages of a file, executables of a package, characters of a name
# Slots of a package, of its executables and of one of them.
_RUNTIME, _EXECUTABLES, _COMPILER, _LIST = 4, 6, 12, 4
_SCRATCH, _CODE, _PARAMETERS, _CHIP, _TYPE, _BITS = 12, 14, 16, 24, 30, 4
_CACHING = 1  # type of an executable that loads parameters into the chip


class EdgeTpuPart(Struct, frozen=True):
    """One executable."""

    chip: str
    caches: bool
    parameter_bytes: int
    scratch_bytes: int
    instruction_bytes: int


class EdgeTpuPackage(Struct, frozen=True):
    compiler: str
    runtime: int  # the oldest version that takes it
    parts: tuple[EdgeTpuPart, ...]

    def parameters(self, *, cached: bool) -> int:
        return sum(part.parameter_bytes for part in self.parts if part.caches is cached)


def is_edge_tpu(sample: Sample) -> bool:
    if sample.head[4:8] != b"TFL3":
        return False
    data = read_bytes(sample.path, MODEL)
    try:
        return _OPERATOR in custom_operators(data)
    except WILD_OFFSET:
        return False


def inspect_edge_tpu(sample: Sample) -> FileFacts:
    data = read_bytes(sample.path, MODEL)
    packages = tuple(read_packages(data))
    if not packages:
        raise FileError("the operator for the Edge TPU holds no package")
    rest = [op.kind for op in parse(data).ops if op.kind != _KIND]
    parts = [part for package in packages for part in package.parts]
    summary: dict[str, Any] = {
        "chip": ", ".join(dict.fromkeys(part.chip for part in parts)),
        "oldest runtime": max(package.runtime for package in packages),
        "packages": len(packages),
        "parameter bytes on chip": sum(one.parameters(cached=True) for one in packages),
        "parameter bytes off chip": sum(one.parameters(cached=False) for one in packages),
        "scratch bytes": sum(part.scratch_bytes for part in parts),
        "instruction bytes": sum(part.instruction_bytes for part in parts),
        "operators on the CPU": len(rest),
        "time": _NO_TIME,
    }
    return FileFacts(packages[0].compiler, summary, {"cpu_operators": rest})


def read_packages(data: bytes) -> Iterator[EdgeTpuPackage]:
    """Of all operators of the file; a package begins four bytes before its mark."""
    place = data.find(_MAGIC)
    for _ in range(_MOST):
        if place < 4:
            return
        try:
            yield _package(data[place - 4 :])
        except WILD_OFFSET:
            raise FileError("the package for the Edge TPU is damaged") from None
        place = data.find(_MAGIC, place + 4)


def _package(data: bytes) -> EdgeTpuPackage:
    package = Table(data, int.from_bytes(data[:4], "little"))
    inner = _bytes(package, _EXECUTABLES)
    executables = Table(inner, int.from_bytes(inner[:4], "little"))
    count, start = executables.vector(_LIST)
    parts = []
    for place in range(start, start + 4 * min(count, _MOST), 4):
        first = place + int.from_bytes(inner[place : place + 4], "little")
        length = int.from_bytes(inner[first : first + 4], "little")
        parts.append(_part(inner[first + 4 : first + 4 + length]))
    return EdgeTpuPackage(_name(package, _COMPILER), package.number(_RUNTIME, "i"), tuple(parts))


def _part(data: bytes) -> EdgeTpuPart:
    table = Table(data, int.from_bytes(data[:4], "little"))
    code = table.vector(_CODE)
    chunks = (table.item(code, index) for index in range(min(code[0], len(data) // 4)))
    return EdgeTpuPart(
        _name(table, _CHIP),
        table.number(_TYPE, "h") == _CACHING,
        min(table.vector(_PARAMETERS)[0], len(data)),
        max(table.number(_SCRATCH, "i"), 0),
        sum(min(chunk.vector(_BITS)[0], len(data)) for chunk in chunks),
    )


def _bytes(table: Table, slot: int) -> bytes:
    length, start = table.vector(slot)
    return table.data[start : start + length]


def _name(table: Table, slot: int) -> str:
    return safe_terminal(_bytes(table, slot)[:_MOST].decode(errors="backslashreplace"))
