"""ExecuTorch programs (.pte) with delegates for Ethos-U: each holds a row of named blocks.

A block is a name of 16 bytes, its size, and data at a multiple of 16 bytes: `cmd_data` the command
stream, `weight_data` the constants, `scratch_size`, and tables of inputs and outputs with six
sizes, bytes per element, place and region each. The program's own flatbuffer (schema/program.fbs of
ExecuTorch) says which kernels run around the delegates, and how their images are stored."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from npuscope.errors import FileError
from npuscope.families.ethos_u.container import (
    OPERATOR,
    Offload,
    RuntimeStep,
    VelaFile,
    read_vela,
)
from npuscope.families.ethos_u.marks import is_executorch
from npuscope.families.ethos_u.stream import read_stream
from npuscope.files.tflite.file import (
    SourceOp,
    SourceTensor,
    TfliteModel,
)
from npuscope.files.tflite.flat_table import WILD_OFFSET, Table
from npuscope.graph.limits import MAX_ELEMENTS

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
    model = TfliteModel(tuple(tensors), ops, inputs, outputs)
    try:
        steps = tuple(_steps(data, [_shapes(model, op) for op in ops]))
    except WILD_OFFSET:
        raise FileError("the file is damaged: its plan points outside of it") from None
    return VelaFile(model, offloads, tuple(places), {}, steps)


def _shapes(model: TfliteModel, op: SourceOp) -> list[tuple[int, ...]]:
    """Of the inputs and outputs of a delegate, as Vela has them."""
    return [model.tensors[index].shape for index in (*op.inputs[1:], *op.outputs)]


# --- The plan of the program ---

_PLANS, _VALUES, _CHAINS, _OPERATORS = 6, 8, 14, 16  # slots of the program and of a plan
_INSTRUCTIONS, _KIND, _VALUE = 8, 4, 6  # of a chain; of an instruction and a value
_INDEX, _ARGUMENTS, _SIZES, _ORDER = 4, 6, 8, 10  # of a call; of a tensor
_TENSOR, _KERNEL_CALL, _DELEGATE_CALL = 5, 1, 2
_MOST = 1 << 16  # values, instructions and arguments


class _Plan:
    """The first plan: what runs in which order on which values."""

    def __init__(self, data: bytes) -> None:
        root = Table(data, int.from_bytes(data[:4], "little"))
        self.data, self.plan = data, root.item(root.vector(_PLANS), 0)

    def calls(self) -> Iterator[tuple[int, Table]]:
        chains = self.plan.vector(_CHAINS)
        for number in range(min(chains[0], _MOST)):
            chain = self.plan.item(chains, number)
            instructions = chain.vector(_INSTRUCTIONS)
            for place in range(min(instructions[0], _MOST)):
                instruction = chain.item(instructions, place)
                call = instruction.table(_VALUE)
                if call is not None:
                    yield instruction.number(_KIND, "B"), call

    def tensors(self, call: Table) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Sizes and order of axes of each argument that is a tensor."""
        values, tensors = self.plan.vector(_VALUES), []
        count, start = call.vector(_ARGUMENTS)
        for index in call.numbers((min(count, _MOST), start), "i"):
            if not 0 <= index < values[0]:
                raise IndexError
            value = self.plan.item(values, index)
            tensor = value.table(_VALUE)
            if value.number(_KIND, "B") == _TENSOR and tensor is not None:
                sizes, order = tensor.vector(_SIZES), tensor.vector(_ORDER)
                if max(sizes[0], order[0]) > _MOST_AXES:
                    raise IndexError
                tensors.append((tensor.numbers(sizes, "i"), tensor.numbers(order, "B")))
        return tensors

    def name(self, call: Table) -> str:
        operators = self.plan.vector(_OPERATORS)
        number = call.number(_INDEX, "i")
        if not 0 <= number < operators[0]:
            raise IndexError
        length, start = self.plan.item(operators, number).vector(_KIND)
        return self.data[start : start + min(length, 256)].decode(errors="backslashreplace")


def _steps(data: bytes, delegates: list[list[tuple[int, ...]]]) -> Iterator[RuntimeStep]:
    """Nothing where the file is no whole program."""
    if not int.from_bytes(data[:4], "little"):
        return
    plan, number = _Plan(data), 0
    for kind, call in plan.calls():
        if kind == _KERNEL_CALL:
            name = plan.name(call)
            counts = [prod(max(size, 0) for size in shape) for shape, _ in plan.tensors(call)]
            cost = next((cost for word, cost in _COSTS.items() if word in name), "default")
            yield RuntimeStep(number, name, cost, min(max(counts, default=0), MAX_ELEMENTS))
        elif kind == _DELEGATE_CALL and number < len(delegates):
            images = zip(plan.tensors(call), delegates[number], strict=False)
            for place, ((sizes, order), inside) in enumerate(images):
                if len(sizes) == _IMAGE_AXES and order == tuple(range(_IMAGE_AXES)):
                    yield from _image(number, place, sizes, inside)
            number += 1


def _image(
    number: int, place: int, sizes: tuple[int, ...], inside: tuple[int, ...]
) -> Iterator[RuntimeStep]:
    """Channels first outside. The runtime reorders what the delegate takes channels last; else the
    stream does it."""
    batch, channels, height, width = sizes
    if min(sizes) > 0 and min(channels, height * width) > 1:
        reorders = inside[-_IMAGE_AXES:] == (batch, height, width, channels)
        name = f"copy of argument {place}"
        yield RuntimeStep(number, name, "Transpose", prod(sizes), sizes, reorders)


_COSTS = {"dequantize": "Dequantize", "quantize": "Quantize", "permute": "Transpose"}
_IMAGE_AXES, _MOST_AXES = 4, 16


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
