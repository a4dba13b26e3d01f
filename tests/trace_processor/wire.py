"""The few messages of the trace processor's RPC that tests need, as protobuf by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

APPEND, FINALIZE, QUERY = 1, 2, 3
_MESSAGE = 1  # of TraceProcessorRpcStream
_SEQUENCE, _REQUEST = 1, 2
_APPEND_DATA, _QUERY_ARGS = 101, 103
_FATAL, _APPENDED, _QUERY_RESULT, _FINALIZED = 5, 201, 203, 212
_COLUMNS, _ERROR, _BATCH = 1, 2, 3
_CELLS, _VARINTS, _DOUBLES, _BLOBS, _STRINGS, _LAST = 1, 2, 3, 4, 5, 6
_NULL, _VARINT, _DOUBLE, _STRING, _BLOB = 1, 2, 3, 4, 5


def request(number: int, method: int, body: bytes = b"") -> bytes:
    field = {APPEND: _APPEND_DATA, QUERY: _QUERY_ARGS}.get(method)
    message = _number(_SEQUENCE, number) + _number(_REQUEST, method)
    return _bytes(_MESSAGE, message + (_bytes(field, body) if field else b""))


def query(sql: str) -> bytes:
    return _bytes(1, sql.encode())


class Answer:
    """Replies to one request, taken until the last has come."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.cells: list[Any] = []
        self.error = ""
        self.complete = False

    def take(self, reply: bytes) -> None:
        for _, message in fields(reply):
            for field, value in fields(message):
                if field == _QUERY_RESULT:
                    self._result(value)
                elif field in (_APPENDED, _FINALIZED):
                    self.complete = True
                    self._errors(value, _ERROR if field == _APPENDED else 1)
                elif field == _FATAL:
                    self.complete, self.error = True, value.decode()

    def rows(self) -> list[tuple[Any, ...]]:
        step = len(self.columns) or 1
        return [tuple(self.cells[i : i + step]) for i in range(0, len(self.cells), step)]

    def _errors(self, message: bytes, number: int) -> None:
        for field, value in fields(message):
            if field == number and isinstance(value, bytes):
                self.error = value.decode()

    def _result(self, message: bytes) -> None:
        for field, value in fields(message):
            if field == _COLUMNS:
                self.columns.append(value.decode())
            elif field == _ERROR:
                self.error = value.decode()
            elif field == _BATCH:
                self._batch(value)

    def _batch(self, message: bytes) -> None:
        parts = dict(fields(message))
        sources = {
            _NULL: iter(lambda: None, 0),
            _VARINT: (_signed(value) for value in _varints(parts.get(_VARINTS, b""))),
            _DOUBLE: (x for (x,) in struct.iter_unpack("<d", parts.get(_DOUBLES, b""))),
            _STRING: (text.decode() for text in parts.get(_STRINGS, b"").split(b"\0")),
            _BLOB: (value for number, value in fields(message) if number == _BLOBS),
        }
        self.cells += [next(sources[kind]) for kind in _varints(parts.get(_CELLS, b""))]
        self.complete |= bool(parts.get(_LAST))


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and values of a message's fields."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        size, at = (8, at) if kind == 1 else (4, at) if kind == 5 else _varint(message, at)
        yield number, message[at : at + size]
        at += size


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] >= 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _number(field: int, value: int) -> bytes:
    return _encoded(field << 3) + _encoded(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _encoded(field << 3 | 2) + _encoded(len(value)) + value


def _encoded(value: int) -> bytes:
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])
