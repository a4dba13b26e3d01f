"""Messages between the emulated board's process and its owner: a line of JSON, then raw bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from npuscope.errors import DeviceError

Fields = dict[str, Any]
_SIZE = "bytes"
_MOST_LINE = 1 << 20
_MOST_PAYLOAD = 1 << 28


def encode(fields: Fields, payload: bytes = b"") -> bytes:
    line = json.dumps({**fields, _SIZE: len(payload)}, separators=(",", ":"))
    return line.encode() + b"\n" + payload


class Decoder:
    """Collects bytes and gives whole messages."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._head: Fields | None = None

    def feed(self, data: bytes) -> Iterator[tuple[Fields, bytes]]:
        self._data += data
        while (found := self._next()) is not None:
            yield found

    def _next(self) -> tuple[Fields, bytes] | None:
        if self._head is None and not self._read_head():
            return None
        head = self._head or {}
        size = head[_SIZE]
        if len(self._data) < size:
            return None
        payload = bytes(self._data[:size])
        del self._data[:size]
        self._head = None
        return head, payload

    def _read_head(self) -> bool:
        line, found, rest = self._data.partition(b"\n")
        if not found:
            if len(line) > _MOST_LINE:
                raise DeviceError("a control message has no end")
            return False
        self._data = rest
        self._head = _parsed(bytes(line))
        return True


def _parsed(line: bytes) -> Fields:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise DeviceError(f"a control message is no JSON: {error}") from error
    size = fields.get(_SIZE) if isinstance(fields, dict) else None
    if not isinstance(size, int) or not 0 <= size <= _MOST_PAYLOAD:
        raise DeviceError("a control message does not tell its size")
    return dict(fields)
