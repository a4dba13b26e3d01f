"""ExecuTorch programs (.pte) with delegates for Ethos-U: each holds a row of named blocks.

A block is a name of 16 bytes, its size, and data at a multiple of 16 bytes: `cmd_data` the command
stream, `weight_data` the constants, `scratch_size`, and tables of inputs and outputs with six
sizes, bytes per element, place and region each. What the program does around its delegates is not
read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npuscope.errors import FileError
from npuscope.families.ethos_u.container import OPERATOR, Offload, VelaFile, read_vela
from npuscope.families.ethos_u.marks import is_executorch
from npuscope.families.ethos_u.stream import read_stream
from npuscope.files.tflite.file import SourceOp, SourceTensor, TfliteModel

_FIRST, _LAST = b"vela_bin_stream\0", b"vela_end_stream\0"
_NAME, _HEAD = 16, 32  # bytes
_AXES, _ENTRY = 6, 9  # words
_TYPES = {1: "INT8", 2: "INT16", 4: "INT32"}
_ARENA = 1  # region


def read_program(data: bytes) -> VelaFile:
    """Of a .tflite file, or of an ExecuTorch program."""
    return read_executorch(data) if is_executorch(data) else read_vela(data)


def read_executorch(data: bytes) -> VelaFile:
    """As a file of Vela's: one operator for each delegate, which are not connected here."""
    tensors: list[SourceTensor] = []
    places: list[int] = []
    offloads: dict[int, Offload] = {}

    def add(name: str, kind: str, shape: tuple[int, ...], place: int = -1) -> int:
        tensors.append(SourceTensor(len(tensors), name, kind, shape, (), None, None, None, False))
        places.append(place)
        return len(tensors) - 1

    for number, blocks in enumerate(_delegates(data)):
        for name in ("cmd_data", "scratch_size", "inputs", "outputs"):
            if name not in blocks:
                raise FileError(f"a delegate has no block '{name}'", where=f"delegate {number}")
        scratch = int.from_bytes(blocks["scratch_size"][:4], "little")
        arena = add(f"scratch_{number}", "UINT8", (scratch,), 0)
        sides = [
            tuple(
                add(f"{side}_{number}_{index}", kind, shape, place)
                for index, (kind, shape, place) in enumerate(_entries(blocks[side], number))
            )
            for side in ("inputs", "outputs")
        ]
        op = SourceOp(number, OPERATOR, (arena, *sides[0]), sides[1], {})
        constants = np.frombuffer(blocks.get("weight_data", b""), np.uint8)
        stream = read_stream(blocks["cmd_data"])
        offloads[number] = Offload(op, stream, constants, arena, arena, sides[0], sides[1])
    if not offloads:
        raise FileError("the program has no delegate for Ethos-U")
    ops = tuple(offload.op for offload in offloads.values())
    inputs = tuple(index for offload in offloads.values() for index in offload.inputs)
    outputs = tuple(index for offload in offloads.values() for index in offload.outputs)
    return VelaFile(TfliteModel(tuple(tensors), ops, inputs, outputs), offloads, tuple(places), {})


def _delegates(data: bytes) -> Iterator[dict[str, bytes]]:
    start = data.find(_FIRST)
    while start >= 0:
        blocks: dict[str, bytes] = {}
        place = start + _HEAD
        while True:
            name = data[place : place + _NAME]
            size = int.from_bytes(data[place + _NAME : place + _NAME + 4], "little")
            first = place + _HEAD
            if len(name) < _NAME or first + size > len(data):
                raise FileError("a delegate is cut off", where=f"byte {place}")
            if name == _LAST:
                break
            blocks[name.rstrip(b"\0").decode(errors="backslashreplace")] = data[
                first : first + size
            ]
            place = first + size + -(first + size - start) % 16
        yield blocks
        start = data.find(_FIRST, place)


def _entries(block: bytes, number: int) -> Iterator[tuple[str, tuple[int, ...], int]]:
    words = np.frombuffer(block[: len(block) // 4 * 4], "<i4").tolist()
    count = words[0] if words else 0
    if not 0 <= count * _ENTRY < len(words):
        raise FileError("a table of inputs or outputs is cut off", where=f"delegate {number}")
    for first in range(1, 1 + count * _ENTRY, _ENTRY):
        *shape, size, place, region = words[first : first + _ENTRY]
        if size not in _TYPES or region != _ARENA or min(*shape, place + 1) < 1:
            raise FileError("an input or output is not supported", where=f"delegate {number}")
        yield _TYPES[size], tuple(shape), place
