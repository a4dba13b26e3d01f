"""An .onnx file that is too large to be read, as the same model with its weights left in the file.

Weights of the graph become external data of the file itself: where they begin, and how long they
are. Who times a network reads none of them."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from npuscope.bounded_file import opened
from npuscope.errors import FileError

# Field numbers of onnx.proto, and of its wire format.
_GRAPH, _INITIALIZER, _RAW_DATA, _EXTERNAL, _LOCATION = 7, 5, 9, 13, 14
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_KEPT_BYTES = 1 << 16  # shapes and other small values are part of the network
_MOST_BYTES = 256 << 20  # of what is left


def skimmed(path: Path) -> bytes:
    with opened(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        result = b"".join(_model(data, path.name))
    if len(result) > _MOST_BYTES:
        raise FileError(f"has {len(result):,} bytes beside its weights, which is too large")
    return result


def _model(data: mmap.mmap, name: str) -> Iterator[bytes]:
    for field, start, begin, end in _fields(data, 0, len(data)):
        if field != _GRAPH:
            yield data[start:end]
            continue
        graph = b"".join(_graph(data, begin, end, name))
        yield _tagged(_GRAPH, graph)


def _graph(data: mmap.mmap, begin: int, end: int, name: str) -> Iterator[bytes]:
    for field, start, inner, stop in _fields(data, begin, end):
        if field == _INITIALIZER and stop - inner > _KEPT_BYTES:
            yield _tagged(_INITIALIZER, b"".join(_tensor(data, inner, stop, name)))
        else:
            yield data[start:stop]


def _tensor(data: mmap.mmap, begin: int, end: int, name: str) -> Iterator[bytes]:
    for field, start, inner, stop in _fields(data, begin, end):
        if field != _RAW_DATA:
            yield data[start:stop]
            continue
        place = {"location": name, "offset": str(inner), "length": str(stop - inner)}
        for key, value in place.items():
            yield _tagged(_EXTERNAL, _tagged(1, key.encode()) + _tagged(2, value.encode()))
        yield _number(_LOCATION << 3 | _VARINT) + _number(1)


def _fields(data: mmap.mmap, place: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, start with its tag, start and end of the content."""
    while place < end:
        start = place
        tag, place = _varint(data, place, end)
        wire, begin = tag & 7, place
        if wire == _VARINT:
            _, place = _varint(data, place, end)
        elif wire == _BYTES:
            size, begin = _varint(data, place, end)
            place = begin + size
        elif wire in (_FIXED64, _FIXED32):
            place += 8 if wire == _FIXED64 else 4
        else:
            raise _damaged(start)
        if place > end:
            raise _damaged(start)
        yield tag >> 3, start, begin, place


def _varint(data: mmap.mmap, place: int, end: int) -> tuple[int, int]:
    value = 0
    for count in range(10):
        if place + count >= end:
            break
        byte = data[place + count]
        value |= (byte & 127) << 7 * count
        if byte < 128:
            return value, place + count + 1
    raise _damaged(place)


def _damaged(place: int) -> FileError:
    return FileError(
        f"not an ONNX file, or a damaged one: byte {place:,} belongs to no field",
        hint="copy or export the model again",
    )


def _tagged(field: int, content: bytes) -> bytes:
    return _number(field << 3 | _BYTES) + _number(len(content)) + content


def _number(value: int) -> bytes:
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes((*digits, value))
