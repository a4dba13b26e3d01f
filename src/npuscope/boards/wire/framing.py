"""Messages cut into packets and put together again, for both directions and all revisions.

Packets have one length on the wire, zero padded. Towards the device a message has its length in
front (a varint) and the device sends one byte before each further packet; from the device there
is neither, and a flag marks the last packet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, IntEnum, IntFlag

from npuscope.errors import DeviceError
from npuscope.protobuf import BrokenMessage, read_varint, varint

# Numbers of the wire: commands, states, errors, flags and format words.
#
# The vendor names two incompatible revisions "3.1"; W1, W2 and W3 tell them apart (framing.py).

# Accepted by the clients of all three revisions; 0x0302 is refused by the older two.
SYNC_VERSION = 0x0301

STM32N6 = 0x486
# Series N6, FPU, both caches of the CPU; bit 0 is the NPU cache.
N6_CACHE_WORD = 0x05010C00
N6_NPU_CACHE = 1
CORE_BITS = {"fpu": 1 << 16, "core_icache": 1 << 10, "core_dcache": 1 << 11}

NAME_BYTES = 64
LOG_BYTES = 127  # the firmware's buffer less the terminator
MEMORY_CHUNK_BYTES = 1024
OPTION_SHIFT = 8  # the counter choice lies in bits 31..8 of a request's `opt`


class WireCommand(IntEnum):
    SYNC = 0
    SYS_INFO = 1
    DISCONNECT = 2
    NETWORK_INFO = 10
    NETWORK_RUN = 11
    NETWORK_REPORT = 12
    MEMORY_READ = 20
    MEMORY_WRITE = 21
    MEMORY_CHECKSUM = 22
    SET_FILTER = 30
    TEST = 100
    TEST_UNSUPPORTED = 200


class State(IntEnum):
    IDLE = 0
    WAITING = 1
    PROCESSING = 2
    DONE = 3
    ERROR = 4


class WireFault(IntEnum):
    """The error word of an acknowledgement."""

    NONE = 0
    INVALID_SIZE = 1
    INVALID_FORMAT = 2
    INVALID_STATE = 3
    INVALID_PARAM = 4
    INVALID_SHAPE = 5
    INVALID_CMD = 6
    UNINITIALIZED = 7
    MEM_OVERFLOW = 8
    GENERIC = 10


class Capability(IntFlag):
    OBSERVER = 1
    RELOC = 2
    READ_WRITE = 8
    RANDOM = 16
    FILTERING = 32
    USBC = 64
    SELF_TEST = 128


class RunParam(IntFlag):
    IO_ONLY = 1
    PER_LAYER = 2
    PER_LAYER_WITH_DATA = 4
    PERF = 8
    DEBUG = 0x100
    CONST_VALUE = 0x200
    DIRECT_WRITE = 0x400
    DIRECT_READ = 0x800


class TensorFlag(IntFlag):
    INPUT = 1
    OUTPUT = 2
    INTERNAL = 4
    MEMPOOL = 8
    LAST = 256
    NO_DATA = 512
    IN_MEMPOOL = 1024


def memory_of(flags: int) -> str:
    """Where a tensor lies, in the word that the vendor's reports print."""
    if flags & TensorFlag.IN_MEMPOOL:
        return "mempool" if flags & TensorFlag.MEMPOOL else "activations"
    return "user" if flags & (TensorFlag.INPUT | TensorFlag.OUTPUT) else ""


class OperatorFlag(IntFlag):
    """Bits 31..24 of an operator's type; none of them stands for the whole network."""

    INTERNAL = 1
    LAST = 2
    WITHOUT_TENSOR = 4


OPERATOR_FLAG_SHIFT = 24


class BlockType(IntEnum):
    """Bits 3..0 of an operator's type: what ran the epoch block."""

    HW = 0
    EXTRA = 1
    SW = 2
    HYBRID = 3
    EC = 4


class RuntimeId(IntEnum):
    """Bits 7..0 of `rtid`."""

    STM_AI = 1
    TFLM = 2
    TVM = 3
    ATONN = 4
    GLOW = 5
    STM_AI_RELOC = 6


# The NPU's runtime with the vendor's newer API, built with GCC.
RTID = RuntimeId.ATONN | 1 << 8 | 1 << 16
MACC_NOT_GIVEN = 4 << 24
COMPILERS = {1: "GCC", 2: "IAR", 3: "MDK5", 4: "MDK6", 5: "HTC", 6: "GHS"}  # bits 23..16

SHAPE_AS_IS = 5
SHAPE_SHIFT = 24
COUNTERS_64 = 0
COUNTERS_32 = 0x00010000

# numpy's name <-> format word: bit 23 signed, 20..17 type, 13..7 bits, 6..0 fraction + 64.
FORMATS = {
    "float32": 0x00821040,
    "uint8": 0x00040440,
    "int8": 0x00840440,
    "uint16": 0x00040840,
    "int16": 0x00840840,
    "uint32": 0x00041040,
    "int32": 0x00841040,
    "bool": 0x00060440,
}
_NAMES = {word: name for name, word in FORMATS.items()}
# Constant, static and IO are remarks on where a tensor lies, not on its elements.
_FORMAT_REMARKS = 1 << 30 | 1 << 29 | 1 << 27


def format_word(dtype: str) -> int:
    """The format word of a numpy type."""
    word = FORMATS.get(dtype)
    if word is None:
        raise DeviceError(f"element type '{dtype}' has no code in the protocol")
    return word


def format_dtype(word: int) -> str:
    """The numpy type of a format word."""
    name = _NAMES.get(word & ~_FORMAT_REMARKS)
    if name is None:
        raise DeviceError(f"the board names an unknown element format {word:#010x}")
    return name


SYNC_BYTE = b"\xaa"
SMALL_PAYLOAD_BYTES = 32
# The header has 15 bits for the size; the vendor's largest packets have 4096 bytes in all.
LARGEST_PAYLOAD_BYTES = 4094

# Exactly that many bytes, or a DeviceError when they do not come in time.
ReadExact = Callable[[int], bytes]
Write = Callable[[bytes], None]
# Packets from the first on, each once it was asked for; how many of them the line took.
Deliver = Callable[[Sequence[bytes]], int]


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
    deliver: Deliver = lambda packets: 0,
) -> None:
    """The host's side of sending: any byte from the device asks for the next packet."""
    packets = host_packets(message, revision, payload_bytes)
    first = deliver(packets[:-1])
    for i, data in enumerate(packets[first:], first):
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


@contextmanager
def device_at_fault() -> Iterator[None]:
    """What came over a line and cannot be read is the fault of who sent it, not of a file."""
    try:
        yield
    except BrokenMessage as error:
        raise DeviceError(error.message, where=error.where) from None


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
    with device_at_fault():
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
