"""The client's side of a conversation: requests, answers, log lines, and finding back into step.

Every wait has an end. A wait starts anew with each packet and each log line, as in the vendor's
client, so that a long transfer over a slow line is no time-out; sizes and counts are limited, so
that a board that never stops talking is one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from npuscope.boards.link import BoardLink
from npuscope.boards.wire.framing import (
    LARGEST_PAYLOAD_BYTES,
    SMALL_PAYLOAD_BYTES,
    SYNC_BYTE,
    Revision,
    State,
    WireCommand,
    WireFault,
    receive_from_device,
    send_to_device,
)
from npuscope.boards.wire.messages import (
    Ack,
    Data,
    Payload,
    Req,
    Resp,
    Sync,
    decode,
    encode,
)
from npuscope.errors import DeviceError
from npuscope.text import safe_terminal

REVISION = Revision.W2
CONTROL_BYTES = 1 << 16  # no message without tensor data comes near
_MOST_LOGS = 1000  # before one answer; a node has some forty at most
_SYNC_TRIES = 4
_LOG = logging.getLogger(__name__)

P = TypeVar("P", bound=Payload)


class Timeouts(Struct, frozen=True):
    """How long to wait for what, in seconds: the vendor client's values where it has one."""

    sync_s: float = 0.5
    sys_info_s: float = 0.5
    network_info_s: float = 5.0
    run_s: float = 1.0
    data_s: float = 10.0
    operator_s: float = 50.0
    node_tensor_s: float = 0.1
    output_s: float = 50.0
    memory_s: float = 0.5
    packet_s: float = 5.0  # the rest of a packet, a further one, or the byte that asks for it
    quiet_s: float = 0.25  # after so much silence nothing more is under way
    stray_s: float = 0.002  # one or two bytes' time: is there a byte too many behind an answer?
    recovery_s: float = 10.0  # how long a board may go on with what we gave up

    def scaled(self, factor: float) -> Timeouts:
        return Timeouts(*(seconds * factor for seconds in astuple(self)))


class RefusedError(DeviceError):
    """The board understood and said no."""

    def __init__(self, fault: int, param: int, where: str, what: str) -> None:
        name = WireFault(fault).name if fault in set(WireFault) else "unknown"
        text = f"the board refused while waiting for {what}: error {fault} ({name}, {param})"
        super().__init__(text, where=where)
        self.fault = fault


class _Silence(DeviceError):
    """The answer did not come, or not whole; its text says which."""


class Exchange:
    """A link with the state of the conversation over it."""

    def __init__(self, link: BoardLink, timeouts: Timeouts, reqid: int) -> None:
        self.link = link
        self.timeouts = timeouts
        self._payload_bytes = SMALL_PAYLOAD_BYTES
        self._reqid = reqid
        self._lines: list[str] = []

    def use_payload(self, payload_bytes: int) -> None:
        """From the next packet on; the board named this size."""
        if not SMALL_PAYLOAD_BYTES <= payload_bytes <= LARGEST_PAYLOAD_BYTES:
            raise self.failed(f"the board asks for packets of {payload_bytes} bytes")
        self._payload_bytes = payload_bytes

    @property
    def reqid(self) -> int:
        return self._reqid

    def take_lines(self) -> list[str]:
        """The `s:` lines since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def request(
        self, command: WireCommand, *, param: int = 0, name: str = "", opt: int = 0
    ) -> None:
        self._reqid += 1
        self.send(Req(self._reqid, command, param, name, opt))

    def send(self, message: Req | Ack | Data) -> None:
        payload, data = self._payload_bytes, encode(message)
        send_to_device(self._asked, self.link.write, data, REVISION, payload, self._deliver)

    def _deliver(self, packets: Sequence[bytes]) -> int:
        return self.link.deliver(packets, SYNC_BYTE, self.timeouts.packet_s)

    def _asked(self, n: int) -> bytes:
        what = "the byte that asks for the next packet"
        data = self._read(n, self.timeouts.packet_s, what)
        if data != SYNC_BYTE:
            raise self.failed(f"expected {what}, got {data.hex()}")
        return data

    def answer(
        self,
        kind: type[P],
        timeout_s: float,
        what: str,
        *states: State,
        limit_bytes: int = CONTROL_BYTES,
    ) -> tuple[P, int]:
        """The next message that is not a log line, checked, and its state."""
        for _ in range(_MOST_LOGS):
            response = self._receive(timeout_s, what, limit_bytes)
            if response.reqid != self._reqid:
                raise self.failed(f"expected {what}, got an answer to another request")
            if response.log is None:
                return self._checked(response, kind, what, states), response.state
            log = response.log
            if log.text.startswith("s:"):
                self._lines.append(log.text)
            else:
                _LOG.info("%s: %s", self.link.name, safe_terminal(log.text))
            self.send(Ack())
        raise self.failed(f"expected {what}, got {_MOST_LOGS} log lines")

    def _checked(self, response: Resp, kind: type[P], what: str, states: tuple[State, ...]) -> P:
        payload = response.payload
        if isinstance(payload, Ack) and (response.state == State.ERROR or payload.error):
            raise RefusedError(payload.error, payload.param, self.link.name, what)
        if not isinstance(payload, kind):
            raise self.failed(f"expected {what}, got {type(payload).__name__}")
        if states and response.state not in states:
            raise self.failed(f"expected {what}, got it in state {response.state}")
        return payload

    def _receive(self, timeout_s: float, what: str, limit_bytes: int) -> Resp:
        waits = iter((timeout_s,))

        def read(n: int) -> bytes:
            return self._read(n, next(waits, self.timeouts.packet_s), what)

        try:
            data = receive_from_device(read, REVISION, limit_bytes, self._payload_bytes)
            return decode(Resp, data)
        except _Silence:
            raise
        except DeviceError as error:
            raise self.failed(f"{error.message}, while waiting for {what}") from error

    def _read(self, n: int, first_s: float, what: str) -> bytes:
        """Exactly n bytes: the first within a time, the rest as fast as a packet comes."""
        data = self.link.read(n, first_s)
        end = self.link.now() + self.timeouts.packet_s
        while data and len(data) < n:
            more = self.link.read(n - len(data), end - self.link.now())
            if not more or self.link.now() > end:
                raise _Silence(
                    f"received {len(data)} of {n} bytes while waiting for {what}", **self._place
                )
            data += more
        if not data:
            raise _Silence(f"no answer within {first_s:g} s, expected {what}", **self._place)
        return data

    def end(self) -> None:
        """Nothing may follow the last answer: a byte too many means that one was doubled."""
        if self.link.read(1, self.timeouts.stray_s):
            raise self.failed("unsolicited bytes received")

    def synchronise(self) -> Sync:
        """Into step with the board, whatever state it was left in.

        It may still be sending, or hold part of a packet until the line was silent for a while:
        hence the silence before each try.
        """
        for retries in reversed(range(_SYNC_TRIES)):
            end = self.link.now() + self.timeouts.recovery_s
            while self.link.read(4096, self.timeouts.quiet_s):
                if self.link.now() > end:
                    waited = f"waited {self.timeouts.recovery_s:g} s for silence"
                    raise self.failed(f"{waited}, but the board keeps sending")
            try:
                return self._sync()
            except DeviceError as error:
                if not retries:
                    raise self.failed(f"no answer to SYNC ({error.message})") from error
        raise self.failed("no answer to SYNC")

    def _sync(self) -> Sync:
        self.request(WireCommand.SYNC)
        # A board in the middle of a run may take SYNC for an acknowledgement and go on: its old
        # messages are passed over, its log lines acknowledged, until it is done.
        end = self.link.now() + self.timeouts.recovery_s
        while self.link.now() < end:
            response = self._receive(self.timeouts.sync_s, "SYNC", CONTROL_BYTES)
            if response.reqid == self._reqid:
                return self._checked(response, Sync, "SYNC", (State.IDLE,))
            if response.log is not None:
                self.send(Ack())
        raise self.failed("expected SYNC, got answers to older requests")

    def failed(self, text: str) -> DeviceError:
        return DeviceError(text, **self._place)

    @property
    def _place(self) -> dict[str, str]:
        return {"where": self.link.name, "hint": self.link.hint}
