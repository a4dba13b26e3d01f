"""Packets of the three revisions, in both directions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from npuscope.boards.wire.framing import (
    SYNC_BYTE,
    Revision,
    detect,
    device_packets,
    host_packets,
    receive_from_device,
    receive_from_host,
    send_to_device,
)
from npuscope.errors import DeviceError

ALL = [Revision.W1, Revision.W2, Revision.W3]
SIZES = [0, 1, 30, 31, 32, 33, 64, 127, 128, 1000]


class Bytes:
    """A line that gives what it holds, then fails; `sent` is what was written to it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sent = b""

    def read(self, n: int) -> bytes:
        if n > len(self.data):
            raise DeviceError("nothing more")
        piece, self.data = self.data[:n], self.data[n:]
        return piece

    def write(self, data: bytes) -> None:
        self.sent += data


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("size", SIZES)
def test_host_to_device(revision: Revision, size: int) -> None:
    message = bytes(i % 251 for i in range(size))
    packets = host_packets(message, revision)
    line = Bytes(b"".join(packets))
    assert receive_from_host(line.read, line.write, revision, 1000) == message
    assert line.sent == SYNC_BYTE * (len(packets) - 1)
    assert line.data == b""


@pytest.mark.parametrize(
    ("revision", "payload_bytes"),
    [(Revision.W1, 32), (Revision.W2, 32), (Revision.W3, 32), (Revision.W3, 4094)],
)
@pytest.mark.parametrize("size", SIZES)
def test_device_to_host(revision: Revision, size: int, payload_bytes: int) -> None:
    message = bytes(i % 251 for i in range(size))
    line = Bytes(device_packets(message, revision, payload_bytes))
    assert receive_from_device(line.read, revision, 1000, payload_bytes) == message
    assert line.data == b""


def test_an_empty_last_packet_ends_a_message() -> None:
    """What the vendor's firmware does when the message fills its packets."""
    line = Bytes(b"\x20" + b"x" * 32 + b"\x80" + bytes(32))
    assert receive_from_device(line.read, Revision.W1, 100) == b"x" * 32


def test_known_packets() -> None:
    assert host_packets(b"abc", Revision.W1) == [b"\x04\x03abc" + bytes(28)]
    assert host_packets(b"abc", Revision.W2) == [b"\x00\x04\x03abc" + bytes(28)]
    assert device_packets(b"abc", Revision.W1) == b"\x83abc" + bytes(29)
    assert device_packets(b"abc", Revision.W3) == b"\x80\x03abc" + bytes(29)


def test_the_first_byte_tells_the_revision() -> None:
    assert detect(0) is Revision.W2
    assert [detect(byte) for byte in (1, 32)] == [Revision.W1, Revision.W1]
    assert [detect(byte) for byte in (33, 0x80, 0xFF)] == [None, None, None]


def test_a_host_waits_for_a_byte_before_each_further_packet() -> None:
    line = Bytes(SYNC_BYTE * 2)
    send_to_device(line.read, line.write, bytes(80), Revision.W2)
    assert len(line.sent) == 3 * 34
    assert line.data == b""


def test_what_a_line_delivers_by_itself_is_not_sent_again() -> None:
    whole, line = Bytes(SYNC_BYTE * 2), Bytes(SYNC_BYTE)
    send_to_device(whole.read, whole.write, bytes(range(80)), Revision.W2)

    def deliver(packets: Sequence[bytes]) -> int:
        line.write(b"".join(packets))
        return len(packets)

    send_to_device(line.read, line.write, bytes(range(80)), Revision.W2, deliver=deliver)
    assert line.sent == whole.sent
    assert line.data == b""  # the byte that asks for the last one was read


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x03\xff\xff\x7f" + bytes(29), "of 2097151 bytes"),
        (b"\x21" + bytes(32), "states 33 bytes"),
        (b"\x03\x01ab" + bytes(29), "2 bytes in the packets of a message of 1"),
        (b"\x02\x05a" + bytes(30) + bytes(33), "an empty packet"),
        (b"\x01\x80" + bytes(31), "ends inside a number"),
    ],
)
def test_packets_that_make_no_message(data: bytes, text: str) -> None:
    line = Bytes(data)
    with pytest.raises(DeviceError, match=text):
        receive_from_host(line.read, line.write, Revision.W1, 1000)


def test_a_device_that_never_ends_is_stopped() -> None:
    line = Bytes((b"\x20" + b"x" * 32) * 100)
    with pytest.raises(DeviceError, match="more than 1000 bytes"):
        receive_from_device(line.read, Revision.W1, 1000)
