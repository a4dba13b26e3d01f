"""constants.bin and constantsdesc.bin: arrays one after the other, and how many bytes they take."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from npuscope.errors import FileError
from npuscope.manycore.container_json import Node

ALIGNMENT = 64
# static and dynamic bytes, error correction of each, padding
_DESC = struct.Struct("<QQBB6x")
_DTYPE = re.compile(r"[|][biu]1|<[iu][248]|<f[248]")
_MOST_DIMENSIONS = 32


@dataclass(frozen=True, slots=True)
class ConstantsDesc:
    static_bytes: int
    dynamic_bytes: int
    static_ecc: bool
    dynamic_ecc: bool


def constants_desc(static_bytes: int) -> bytes:
    """The description of constants of which none change at run time."""
    return _DESC.pack(static_bytes, 0, 0, 0)


def read_constants_desc(data: bytes) -> ConstantsDesc:
    if len(data) < _DESC.size:
        raise FileError(f"has {len(data)} bytes, expected {_DESC.size}", where="constantsdesc.bin")
    static, dynamic, static_ecc, dynamic_ecc = _DESC.unpack_from(data)
    return ConstantsDesc(static, dynamic, bool(static_ecc), bool(dynamic_ecc))


def placed_at(constants: Mapping[str, np.ndarray]) -> list[int]:
    """Where each constant starts."""
    starts, at = [], 0
    for array in constants.values():
        starts.append(at)
        at += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    return starts


def pack_constants(constants: Mapping[str, np.ndarray]) -> bytes:
    parts = []
    for array in constants.values():
        data = _little(array).tobytes()
        parts += [data, bytes(-len(data) % ALIGNMENT)]
    return b"".join(parts)


def _little(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def constants_index(constants: Mapping[str, np.ndarray]) -> list[list[object]]:
    """Name, type, shape and place of each: what the program has to say about them."""
    starts = placed_at(constants)
    return [
        [name, array.dtype.newbyteorder("<").str, list(array.shape), start]
        for (name, array), start in zip(constants.items(), starts, strict=True)
    ]


def unpack_constants(index: Node, data: bytes) -> dict[str, np.ndarray]:
    """The arrays, as views of `data`."""
    return dict(_constant(row, data) for row in index.items())


def _constant(row: Node, data: bytes) -> tuple[str, np.ndarray]:
    fields = list(row.items())
    if len(fields) != 4:
        raise row.fault("is no [name, type, shape, place]")
    name, kind, shape, start = fields
    dtype, dims = _dtype(kind), _dims(shape)
    count = math.prod(dims)
    if count * dtype.itemsize > len(data) - start.number(len(data)):
        raise row.fault("leaves constants.bin")
    flat = np.frombuffer(data, dtype, count, start.number()) if count else np.zeros(0, dtype)
    try:
        return name.text(), flat.reshape(dims)
    except ValueError:  # dimensions that NumPy cannot multiply, one of them 0
        raise shape.fault("is no shape of an array") from None


def _dims(node: Node) -> tuple[int, ...]:
    return tuple(entry.number() for entry in node.items(_MOST_DIMENSIONS))


def _dtype(node: Node) -> np.dtype:
    if not _DTYPE.fullmatch(node.text()):
        raise node.fault(f"is {node.shown()}, expected a type of numbers such as <f4")
    return np.dtype(node.text())
