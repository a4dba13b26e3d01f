"""networkdesc.bin: the public descriptor of a network in a program container (protobuf, version 9).

The messages and field numbers are those of the open runtime's schema. Fields that it knows and
that no report needs (shapes by name, CRC entries, layouts of tiles) are skipped when reading."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from npuscope.errors import FileError
from npuscope.protobuf import BrokenMessage, Field, FieldKind, decode, encode

# The open runtime accepts this version only.
MAJOR = 9
MINOR = 0
STATS_OUTPUT = "aiccyclecounts"
UTIMER_TICKS_PER_MS = 19_200
INBOUND, OUTBOUND = 0, 1
COPY_DMA_BUFFER = 6  # kind of a transform
DATA_TYPES = {
    "float32": 0,
    "float16": 1,
    "int8": 2,
    "uint8": 3,
    "int16": 4,
    "int32": 6,
    "int64": 7,
}
RAW_BYTES = 8  # data type of 8-bit values without a scale
_LARGEST = 512 << 20
_U32, _U64, _I32 = FieldKind.UINT32, FieldKind.UINT64, FieldKind.INT32
_TEXT, _PART = FieldKind.STRING, FieldKind.MESSAGE


class OpNameKind(Struct, frozen=True):
    """An op as tables show it."""

    name: str = ""
    kind: str = ""
    type: str = ""
    memory: str = ""
    shape: str = ""
    operand: str = ""
    output_size: int = 0
    attributes: str = ""
    operands: tuple[str, ...] = ()

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "name", _TEXT),
        Field(2, "kind", _TEXT),
        Field(3, "type", _TEXT),
        Field(4, "memory", _TEXT),
        Field(5, "shape", _TEXT),
        Field(6, "operand", _TEXT),
        Field(7, "output_size", _U64),
        Field(8, "attributes", _TEXT),
        Field(9, "operands", _TEXT, repeated=True),
    )


class GroupOps(Struct, frozen=True):
    op_name_kinds: tuple[OpNameKind, ...] = ()

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "op_name_kinds", _PART, repeated=True, type=OpNameKind),
    )


class CoreOps(Struct, frozen=True):
    tg_op_name_kinds: tuple[GroupOps, ...] = ()

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "tg_op_name_kinds", _PART, repeated=True, type=GroupOps),
    )


class StatsDesc(Struct, frozen=True):
    """What is collected, and the table of ops: core, then thread group, then op."""

    buff_num: int = 0
    print_stats: int = 0
    stats_level: int = 0
    stats_no_host_sync: int = 0
    print_op_stats: int = 0
    op_stats_level: int = 0
    batch_size: int = 0
    count_ddr_bw: int = 0
    utimer_freq_ms: int = 0
    pmu_events: tuple[int, ...] = ()
    ops_per_core: tuple[int, ...] = ()
    core_op_name_kinds: tuple[CoreOps, ...] = ()
    pmu_stats_level: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "buff_num", _U32),
        Field(2, "print_stats", _U32),
        Field(3, "stats_level", _I32),
        Field(4, "stats_no_host_sync", _U32),
        Field(5, "print_op_stats", _U32),
        Field(6, "op_stats_level", _I32),
        Field(7, "batch_size", _I32),
        Field(8, "count_ddr_bw", _U32),
        Field(9, "utimer_freq_ms", _I32),
        Field(10, "pmu_events", _I32, repeated=True),
        Field(11, "ops_per_core", _I32, repeated=True),
        Field(12, "core_op_name_kinds", _PART, repeated=True, type=CoreOps),
        Field(13, "pmu_stats_level", _I32),
    )


class DmaBuffer(Struct, frozen=True):
    size: int = 0
    dir: int = INBOUND

    FIELDS: ClassVar[tuple[Field, ...]] = (Field(1, "size", _U32), Field(2, "dir", _U32))


class IoDescriptor(Struct, frozen=True):
    type: int = 0
    qscale: float = 0.0
    qoffset: int = 0
    dims: tuple[int, ...] = ()
    layout: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "type", _U32),
        Field(2, "qscale", FieldKind.FLOAT),
        Field(3, "qoffset", _I32),
        Field(4, "dims", _I32, repeated=True),
        Field(5, "layout", _U32),
    )


class CopyDmaBuffer(Struct, frozen=True):
    dir: int = INBOUND
    offset: int = 0
    buffer_num: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "dir", _U32),
        Field(2, "offset", _U32),
        Field(3, "buffer_num", _U32),
    )


class Transform(Struct, frozen=True):
    """A step between the user's tensor and the device's buffer."""

    kind: int = 0
    type: int = 0
    scale: float = 0.0
    offset: int = 0
    dims: tuple[int, ...] = ()
    layout: int = 0
    shuffle: tuple[int, ...] = ()
    copy_dma_buffer: CopyDmaBuffer | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "kind", _U32),
        Field(2, "type", _U32),
        Field(3, "scale", FieldKind.FLOAT),
        Field(4, "offset", _I32),
        Field(5, "dims", _I32, repeated=True),
        Field(6, "layout", _U32),
        Field(7, "shuffle", _I32, repeated=True),
        Field(9, "copy_dma_buffer", _PART, type=CopyDmaBuffer),
    )


class IoBinding(Struct, frozen=True):
    name: str = ""
    io_initial: IoDescriptor | None = None
    io_transformed: IoDescriptor | None = None
    transformseq: tuple[Transform, ...] = ()
    is_partial_allowed: int = 0
    align: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "name", _TEXT),
        Field(2, "io_initial", _PART, type=IoDescriptor),
        Field(3, "io_transformed", _PART, type=IoDescriptor),
        Field(4, "transformseq", _PART, repeated=True, type=Transform),
        Field(5, "is_partial_allowed", _U32),
        Field(6, "align", _U32),
    )


class NetworkDesc(Struct, frozen=True):
    """`stats` is None where the network collects none."""

    major_version: int = 0
    minor_version: int = 0
    network_name: str = ""
    inputs: tuple[IoBinding, ...] = ()
    outputs: tuple[IoBinding, ...] = ()
    dma_buffers: tuple[DmaBuffer, ...] = ()
    num_cores: int = 0
    num_threads: int = 0
    num_hvx_threads: int = 0
    thread_groups: tuple[int, ...] = ()
    thread_group_issue_count: int = 0
    stats: StatsDesc | None = None
    thread_group_names: tuple[str, ...] = ()
    batch_size: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "major_version", _U32),
        Field(2, "minor_version", _U32),
        Field(3, "network_name", _TEXT),
        Field(4, "inputs", _PART, repeated=True, type=IoBinding),
        Field(5, "outputs", _PART, repeated=True, type=IoBinding),
        Field(6, "dma_buffers", _PART, repeated=True, type=DmaBuffer),
        Field(7, "num_cores", _U32),
        Field(8, "num_threads", _U32),
        Field(9, "num_hvx_threads", _U32),
        Field(10, "thread_groups", _U32, repeated=True),
        Field(11, "thread_group_issue_count", _U32),
        Field(12, "stats", _PART, type=StatsDesc),
        Field(13, "thread_group_names", _TEXT, repeated=True),
        Field(14, "batch_size", _I32),
    )


def encode_networkdesc(desc: NetworkDesc) -> bytes:
    """As generated code of the schema would write it."""
    return encode(desc, proto3=True)


def decode_networkdesc(data: bytes) -> NetworkDesc:
    """Read a descriptor of version 9; unknown fields are skipped."""
    if len(data) > _LARGEST:
        raise _fault(f"has {len(data):,} bytes, at most {_LARGEST:,} are read")
    try:
        desc = decode(NetworkDesc, data)
    except BrokenMessage as error:
        raise _fault(error.message, error.where) from None
    if desc.major_version != MAJOR:
        raise _fault(f"has version {desc.major_version}, expected {MAJOR}")
    return desc


def _fault(what: str, place: str = "") -> FileError:
    return FileError(what, where=f"networkdesc.bin, {place}" if place else "networkdesc.bin")
