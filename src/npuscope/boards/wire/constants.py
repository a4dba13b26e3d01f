"""Numbers of the wire: commands, states, errors, flags and format words.

The vendor names two incompatible revisions "3.1"; W1, W2 and W3 tell them apart (framing.py).
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

from npuscope.errors import DeviceError

# Accepted by the clients of all three revisions; 0x0302 is refused by the older two.
SYNC_VERSION = 0x0301

STM32N6 = 0x486
# Series N6, FPU, both caches of the CPU; bit 0 is the NPU cache.
N6_CACHE_WORD = 0x05010C00
N6_NPU_CACHE = 1

NAME_BYTES = 64
LOG_BYTES = 127  # the firmware's buffer less the terminator
MEMORY_CHUNK_BYTES = 1024
OPTION_SHIFT = 8  # the counter choice lies in bits 31..8 of a request's `opt`


class Command(IntEnum):
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


class Fault(IntEnum):
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


class Runtime(IntEnum):
    """Bits 7..0 of `rtid`."""

    STM_AI = 1
    TFLM = 2
    TVM = 3
    ATONN = 4
    GLOW = 5
    STM_AI_RELOC = 6


# The NPU's runtime with the vendor's newer API, built with GCC.
RTID = Runtime.ATONN | 1 << 8 | 1 << 16
MACC_NOT_GIVEN = 4 << 24

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
        raise DeviceError(f"element type '{dtype}' cannot be said on the wire")
    return word


def format_dtype(word: int) -> str:
    """The numpy type of a format word."""
    name = _NAMES.get(word & ~_FORMAT_REMARKS)
    if name is None:
        raise DeviceError(f"the board names an unknown element format {word:#010x}")
    return name
