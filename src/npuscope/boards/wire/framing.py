"""Messages cut into packets and put together again, for both directions and all revisions.

Packets have one length on the wire, zero padded. Towards the device a message has its length in
front (a varint) and the device sends one byte before each further packet; from the device there
is neither, and a flag marks the last packet.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from npuscope.boards.wire.protobuf import read_varint, varint
from npuscope.errors import DeviceError

SYNC_BYTE = b"\xaa"
SMALL_PAYLOAD_BYTES = 32
# The header has 15 bits for the size; the vendor's largest packets have 4096 bytes in all.
LARGEST_PAYLOAD_BYTES = 4094

# Exactly that many bytes, or a DeviceError when they do not come in time.
ReadExact = Callable[[int], bytes]
Write = Callable[[bytes], None]


class Revision(Enum):
    """W2 and W3 have the same packets and cannot, and need not, be told apart by them."""

    W1 = "W1"
    W2 = "W2"
    W3 = "W3"

    @property
    def header_bytes(self) -> int:
        return 1 if self is Revision.W1 else 2

    @property
    def end_flag(self) -> int:
        return 0x80 if self is Revision.W1 else 0x8000


def detect(first_byte: int) -> Revision | None:
    """The revision of a host by the first byte of its first, small packet.

    In W1 that is the payload's size, 1 to 32; in W2 and W3 the size's high byte, 0. None: noise.
    """
    if first_byte == 0:
        return Revision.W2
    return Revision.W1 if first_byte <= SMALL_PAYLOAD_BYTES else None


def packet(
    piece: bytes, revision: Revision, payload_bytes: int = SMALL_PAYLOAD_BYTES, *, end: bool = False
) -> bytes:
    """One packet with up to `payload_bytes` useful bytes."""
    header = len(piece) | (revision.end_flag if end else 0)
    return header.to_bytes(revision.header_bytes, "big") + piece.ljust(payload_bytes, b"\0")


def host_packets(
    message: bytes, revision: Revision, payload_bytes: int = SMALL_PAYLOAD_BYTES
) -> list[bytes]:
    """A host's message; before each packet but the first it waits for one byte."""
    pieces = _pieces(varint(len(message)) + message, payload_bytes)
    return [packet(piece, revision, payload_bytes) for piece in pieces]


def device_packets(
    message: bytes, revision: Revision, payload_bytes: int = SMALL_PAYLOAD_BYTES
) -> bytes:
    """A device's message, all packets in a row."""
    *front, last = _pieces(message, payload_bytes)
    packets = [packet(piece, revision, payload_bytes) for piece in front]
    return b"".join((*packets, packet(last, revision, payload_bytes, end=True)))


def send_to_device(
    read: ReadExact,
    write: Write,
    message: bytes,
    revision: Revision,
    payload_bytes: int = SMALL_PAYLOAD_BYTES,
) -> None:
    """The host's side of sending: any byte from the device asks for the next packet."""
    for i, data in enumerate(host_packets(message, revision, payload_bytes)):
        if i > 0:
            read(1)
        write(data)


def receive_from_device(
    read: ReadExact,
    revision: Revision,
    limit_bytes: int,
    payload_bytes: int = SMALL_PAYLOAD_BYTES,
) -> bytes:
    """The host's side of receiving: packets up to the one with the end flag."""
    message = bytearray()
    while True:
        piece, end = _read_packet(read, revision, payload_bytes, b"")
        # Only in the last packet does the size count.
        message += piece[0] if end else piece[1]
        if len(message) > limit_bytes:
            raise DeviceError(f"a message of more than {limit_bytes} bytes from the board")
        if end:
            return bytes(message)


def receive_from_host(
    read: ReadExact,
    write: Write,
    revision: Revision,
    limit_bytes: int,
    *,
    begun: bytes = b"",
) -> bytes:
    """The device's side of receiving; `begun` are bytes of the first packet already read."""
    (message, _), _ = _read_packet(read, revision, SMALL_PAYLOAD_BYTES, begun)
    size, at = read_varint(message, 0)
    if size > limit_bytes:
        raise DeviceError(f"a message of {size} bytes, expected {limit_bytes} at most")
    body = bytearray(message[at:])
    while len(body) < size:
        write(SYNC_BYTE)
        (piece, _), _ = _read_packet(read, revision, SMALL_PAYLOAD_BYTES, b"")
        if not piece:
            raise DeviceError("an empty packet inside a message")
        body += piece
    if len(body) > size:
        raise DeviceError(f"{len(body)} bytes in the packets of a message of {size}")
    return bytes(body)


def _read_packet(
    read: ReadExact, revision: Revision, payload_bytes: int, begun: bytes
) -> tuple[tuple[bytes, bytes], bool]:
    """The useful bytes and the whole payload of a packet, and whether it is the last."""
    data = begun + read(revision.header_bytes + payload_bytes - len(begun))
    header = int.from_bytes(data[: revision.header_bytes], "big")
    size = header & (revision.end_flag - 1)
    if size > payload_bytes:
        raise DeviceError(f"a packet that states {size} bytes, expected {payload_bytes} at most")
    payload = data[revision.header_bytes :]
    return (payload[:size], payload), header >= revision.end_flag


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)] or [b""]
