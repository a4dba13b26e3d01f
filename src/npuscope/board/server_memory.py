"""Reading, writing and summing up the board's memory for a host."""

from __future__ import annotations

from typing import Protocol

from npuscope.board.server_exchange import Exchange, Refused
from npuscope.board.wire.constants import MEMORY_CHUNK_BYTES, Fault, State
from npuscope.board.wire.messages import Ack, Data, Req
from npuscope.errors import NpuscopeError


class BoardMemory(Protocol):
    """Mapped memory by address; outside of it both raise one of our errors."""

    def read(self, address: int, size: int, /) -> bytes: ...

    def write(self, address: int, data: bytes, /) -> None: ...


def read(exchange: Exchange, request: Req, memory: BoardMemory | None) -> None:
    """All chunks but the last are acknowledged by the host."""
    found = _content(request, _served(memory))
    exchange.reply(State.PROCESSING, Ack(MEMORY_CHUNK_BYTES))
    for start in range(0, len(found), MEMORY_CHUNK_BYTES):
        data = found[start : start + MEMORY_CHUNK_BYTES]
        last = start + len(data) == len(found)
        chunk = Data(size_bytes=len(data), address=request.param + start, data=data)
        exchange.reply(State.DONE if last else State.PROCESSING, chunk)
        if not last:
            exchange.receive(Ack)


def write(exchange: Exchange, request: Req, memory: BoardMemory | None) -> None:
    """Each chunk is answered with its checksum."""
    target = _served(memory)
    # The whole range is looked at before the host is asked for data.
    left = len(_content(request, target))
    address = request.param
    exchange.reply(State.WAITING, Ack(MEMORY_CHUNK_BYTES))
    while left:
        data = exchange.receive(Data).data
        if not 0 < len(data) <= min(MEMORY_CHUNK_BYTES, left):
            raise Refused(f"a chunk of {len(data)} bytes", Fault.INVALID_SIZE, len(data))
        _store(target, address, data)
        address += len(data)
        left -= len(data)
        exchange.reply(State.WAITING if left else State.DONE, Ack(bsd_checksum(data)))


def checksum(exchange: Exchange, request: Req, memory: BoardMemory | None) -> None:
    exchange.reply(State.DONE, Ack(bsd_checksum(_content(request, _served(memory)))))


def bsd_checksum(data: bytes) -> int:
    """The 16-bit checksum of BSD: rotate right by one, add the byte."""
    total = 0
    for byte in data:
        total = ((total >> 1 | (total & 1) << 15) + byte) & 0xFFFF
    return total


def _served(memory: BoardMemory | None) -> BoardMemory:
    if memory is None:
        raise Refused("this board's memory is not served", Fault.INVALID_CMD)
    return memory


def _content(request: Req, memory: BoardMemory) -> bytes:
    if request.opt == 0:
        raise Refused("0 bytes of memory", Fault.INVALID_SIZE)
    try:
        return memory.read(request.param, request.opt)
    except NpuscopeError as error:
        raise Refused(error.message, Fault.INVALID_PARAM) from None


def _store(memory: BoardMemory, address: int, data: bytes) -> None:
    try:
        memory.write(address, data)
    except NpuscopeError as error:
        raise Refused(error.message, Fault.INVALID_PARAM) from None
