"""The board's end of a conversation: requests and data in, answers out.

What the host sends has no envelope, so the board reads it by context. A host that gives up and
starts again is still understood: only a request has a fifth field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from npuscope.boards.wire.constants import LOG_BYTES, Fault, State
from npuscope.boards.wire.framing import (
    SMALL_PAYLOAD_BYTES,
    Revision,
    detect,
    device_packets,
    receive_from_host,
)
from npuscope.boards.wire.messages import Ack, Data, Log, Payload, Req, Resp, decode, encode
from npuscope.boards.wire.protobuf import fields
from npuscope.errors import DeviceError

_OPT_FIELD = 5  # required in a request, in no other message of the host
_DRAIN_BYTES = 4096
_LOG_LEVEL = 1

Sent = TypeVar("Sent", Ack, Data)


class Stream(Protocol):
    """Bytes to and from one client."""

    def read(self, n: int, timeout_s: float) -> bytes:
        """1 to n bytes; none when the time is over; Gone when the client left."""

    def write(self, data: bytes) -> None: ...


class Gone(DeviceError):
    """The client left."""


class Idle(DeviceError):
    """The client said nothing for long."""


class Refused(DeviceError):
    """A request that is answered with an error."""

    def __init__(self, message: str, fault: Fault, param: int | None = None) -> None:
        super().__init__(message)
        self.fault = fault
        self.param = int(fault) if param is None else param


class Interrupted(DeviceError):
    """A new request came where data of the old one was expected."""

    def __init__(self, request: Req) -> None:
        super().__init__(f"request {request.reqid} came inside another one")
        self.request = request


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. Between the packets of a message a slow host may think, inside one it may not."""

    idle: float = 600.0
    silence: float = 0.2
    packet_gap: float = 5.0
    message_gap: float = 10.0


class Exchange:
    """One client's conversation; the revision is seen anew at each message it sends."""

    def __init__(self, stream: Stream, limit_bytes: int, timing: Timing) -> None:
        self.revision = Revision.W2
        self._stream = stream
        self._limit_bytes = limit_bytes
        self._timing = timing
        self._reqid = 0

    @property
    def takes_statistics(self) -> bool:
        """A W1 client prints `s:` lines instead of keeping them."""
        return self.revision is not Revision.W1

    def request(self) -> Req:
        """The next request; its number goes into every answer from here on."""
        return self.begin(decode(Req, self._message(self._timing.idle)))

    def begin(self, request: Req) -> Req:
        self._reqid = request.reqid
        return request

    def receive(self, kind: type[Sent]) -> Sent:
        """The message that must follow now."""
        data = self._message(self._timing.message_gap)
        if any(number == _OPT_FIELD for number, _, _ in fields(data)):
            raise Interrupted(decode(Req, data))
        return decode(kind, data)

    def reply(self, state: State, payload: Payload) -> None:
        message = encode(Resp.of(self._reqid, state, payload))
        self._stream.write(device_packets(message, self.revision))

    def refuse(self, fault: Fault, param: int | None = None) -> None:
        self.reply(State.ERROR, Ack(int(fault) if param is None else param, fault))

    def log(self, text: str) -> None:
        """A line for the host, which acknowledges it."""
        self.reply(State.WAITING, Log(_LOG_LEVEL, text[:LOG_BYTES]))
        self.receive(Ack)

    def drop_input(self) -> None:
        """Forget what is still coming, until the line is silent: a new packet starts after it."""
        while self._stream.read(_DRAIN_BYTES, self._timing.silence):
            pass

    def _message(self, wait_s: float) -> bytes:
        first = self._stream.read(1, wait_s)
        if not first:
            raise Idle("nothing came from the client")
        revision = detect(first[0])
        if revision is None:
            raise DeviceError(f"no packet begins with {first[0]:#04x}")
        rest = revision.header_bytes + SMALL_PAYLOAD_BYTES - 1
        begun = first + self._exactly(rest, self._timing.silence)
        self.revision = revision
        return receive_from_host(
            self._packet, self._stream.write, revision, self._limit_bytes, begun=begun
        )

    def _packet(self, n: int) -> bytes:
        return self._exactly(n, self._timing.packet_gap)

    def _exactly(self, n: int, first_wait_s: float) -> bytes:
        """n bytes: the first may take its time, the others follow without a pause."""
        data = bytearray()
        while len(data) < n:
            wait_s = self._timing.silence if data else first_wait_s
            piece = self._stream.read(n - len(data), wait_s)
            if not piece:
                raise DeviceError(f"a packet broke off, {n - len(data)} bytes are missing")
            data += piece
        return bytes(data)
