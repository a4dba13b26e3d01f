"""The file that Vela writes: a .tflite file whose layers are inside of custom operators.

Inputs of such an operator: the command stream, read-only data, the arena, the fast part of the
arena, then feature maps. The metadata OfflineMemoryAllocation give the place of every tensor."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError
from npuscope.families.ethos_u.stream import CommandStream, read_stream
from npuscope.files.tflite.file import (
    SourceOp,
    SourceTensor,
    TfliteModel,
    parse,
)
from npuscope.files.tflite.flat_table import WILD_OFFSET, Table
from npuscope.files.tflite.tensors import TYPES
from npuscope.text import safe_terminal

Array = np.ndarray[Any, np.dtype[Any]]
OPERATOR = "CUSTOM ethos-u"
_METADATA_SLOT, _BUFFERS_SLOT = 16, 12  # of the model
_NAME_SLOT, _BUFFER_SLOT, _DATA_SLOT = 4, 6, 4
_PLACES = "OfflineMemoryAllocation"
_PLACES_HEAD = 3  # words: version, subgraph, count
_STREAM, _CONSTANTS, _ARENA, _FAST, _FIRST_MAP = range(5)
_MOST_ARENA = 1 << 30


class Offload(Struct, frozen=True):
    """Layers that the NPU runs by one command stream. Tensors are named by their index."""

    op: SourceOp
    stream: CommandStream
    constants: Array
    arena: int
    fast: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class RuntimeStep(Struct, frozen=True):
    """What a runtime does on the CPU around the operators of the file: a kernel, or the copy of an
    input or output that is stored in another order there."""

    before: int  # the index of the operator that follows, or their count
    name: str
    cost: str  # of which kind of software kernel
    elements: int
    shape: tuple[int, ...] = ()  # of an image that is channels first
    reorders: bool = False


class VelaFile(Struct, frozen=True):
    model: TfliteModel
    offloads: dict[int, Offload]  # by the index of the operator
    places: tuple[int, ...]  # of tensors in the arena; -1: not there
    metadata: dict[str, bytes]
    steps: tuple[RuntimeStep, ...] = ()

    @property
    def version(self) -> str:
        """Of Vela, where the file says so."""
        text = self.metadata.get("vela_version", b"").rstrip(b"\0")
        return text.decode(errors="backslashreplace")

    def tensor(self, index: int) -> SourceTensor:
        return self.model.tensors[index]


def is_vela(model: TfliteModel) -> bool:
    return any(op.kind == OPERATOR for op in model.ops)


def read_vela(data: bytes, *, compiled: bool = False) -> VelaFile:
    """A file that was just compiled may have all its operators on the CPU."""
    model = parse(data)
    if not compiled and not is_vela(model):
        raise FileError(
            "the file has no operator 'ethos-u'", hint="Vela writes one: NAME_vela.tflite"
        )
    metadata = _metadata(data)
    offloads = {op.index: _offload(model, op) for op in model.ops if op.kind == OPERATOR}
    words = np.frombuffer(
        metadata.get(_PLACES, b"")[: len(metadata.get(_PLACES, b"")) // 4 * 4], "<i4"
    )
    places = tuple(words[_PLACES_HEAD:].tolist()[: len(model.tensors)])
    places += (-1,) * (len(model.tensors) - len(places))
    return VelaFile(model, offloads, places, metadata)


def _offload(model: TfliteModel, op: SourceOp) -> Offload:
    if len(op.inputs) < _FIRST_MAP or min(op.inputs) < 0:
        raise FileError(f"{len(op.inputs)} inputs are too few for 'ethos-u'", where=op.origin)
    stream, constants = (model.tensors[op.inputs[place]].data for place in (_STREAM, _CONSTANTS))
    if stream is None:
        raise FileError("the command stream is missing", where=op.origin)
    return Offload(
        op,
        read_stream(stream.tobytes()),
        np.zeros(0, np.uint8) if constants is None else constants,
        op.inputs[_ARENA],
        op.inputs[_FAST],
        op.inputs[_FIRST_MAP:],
        op.outputs,
    )


def _metadata(data: bytes) -> dict[str, bytes]:
    """Names with what they hold."""
    entries: dict[str, bytes] = {}
    try:
        model = Table(data, int.from_bytes(data[:4], "little"))
        vector, buffers = model.vector(_METADATA_SLOT), model.vector(_BUFFERS_SLOT)
        for index in range(min(vector[0], 256)):
            entry = model.item(vector, index)
            length, start = entry.vector(_NAME_SLOT)
            name = data[start : start + min(length, 256)].decode(errors="backslashreplace")
            number = entry.number(_BUFFER_SLOT, "I")
            if number < buffers[0]:
                count, first = model.item(buffers, number).vector(_DATA_SLOT)
                entries[name] = data[first : first + count]
    except WILD_OFFSET:
        raise FileError("the file is damaged: its metadata point outside of it") from None
    return entries


# --- Sizes ---


def tensor_bytes(tensor: SourceTensor) -> int:
    if tensor.type not in TYPES:
        raise FileError(
            f"tensor '{safe_terminal(tensor.name)}' has the type {tensor.type}, "
            "which is not supported"
        )
    if min(tensor.shape, default=0) < 0:
        raise FileError(f"tensor '{safe_terminal(tensor.name)}' has a size below zero")
    return prod(tensor.shape) * TYPES[tensor.type].numpy.itemsize


def arena_bytes(file: VelaFile) -> int:
    """Of all tensors that have a place in the arena."""
    ends = [
        place + tensor_bytes(tensor)
        for tensor, place in zip(file.model.tensors, file.places, strict=True)
        if place >= 0
    ]
    size = max(ends, default=0)
    if size > _MOST_ARENA:
        raise FileError(f"an arena of {size} bytes is too large", where=_PLACES)
    return size
