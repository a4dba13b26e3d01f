"""The messages, each with its layout as a table that reading and writing share.

Names are ours; the numbers are the wire's.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

from msgspec import Struct

from npuscope.boards.wire.framing import device_at_fault
from npuscope.protobuf import Field, FieldKind, Message, fields
from npuscope.protobuf import decode as decode_message
from npuscope.protobuf import encode as encode

M = TypeVar("M", bound=Message)


def decode(cls: type[M], data: bytes) -> M:
    """A message from its bytes, which came over a line."""
    with device_at_fault():
        return decode_message(cls, data)


def has_field(data: bytes, number: int) -> bool:
    with device_at_fault():
        return any(own == number for own, _, _ in fields(data))


class Req(Struct, frozen=True):
    """What a host asks; every answer carries its `reqid`."""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "reqid", FieldKind.UINT32),
        Field(2, "cmd", FieldKind.UINT32),
        Field(3, "param", FieldKind.UINT32),
        Field(4, "name", FieldKind.STRING),
        Field(5, "opt", FieldKind.UINT32),
    )
    reqid: int = 0
    cmd: int = 0
    param: int = 0
    name: str = ""
    opt: int = 0


class Sync(Struct, frozen=True):
    """`version` is major << 8 | minor."""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "version", FieldKind.UINT32),
        Field(4, "capability", FieldKind.UINT32),
        Field(5, "rtid", FieldKind.UINT32),
    )
    version: int = 0
    capability: int = 0
    rtid: int = 0


class SysInfo(Struct, frozen=True):
    """The device. Field 5 changed its meaning between the revisions: see `extra`."""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "device_id", FieldKind.UINT32),
        Field(2, "mcu_hz", FieldKind.UINT32),
        Field(3, "bus_hz", FieldKind.UINT32),
        Field(4, "cache", FieldKind.UINT32),
        Field(5, "field5", FieldKind.UINT32, repeated=True),
        Field(6, "field6", FieldKind.UINT32, repeated=True),
    )
    device_id: int = 0
    mcu_hz: int = 0
    bus_hz: int = 0
    cache: int = 0
    field5: tuple[int, ...] = ()
    field6: tuple[int, ...] = ()

    @classmethod
    def for_all(
        cls, device_id: int, mcu_hz: int, bus_hz: int, cache: int, extra: tuple[int, ...]
    ) -> SysInfo:
        """One answer that every revision understands.

        W1 reads field 5 as `extra`; W2 and W3 keep its last item as the packet size, and 0 there
        means that packets stay small.
        """
        if not extra or extra[-1] != 0:
            extra = (*extra, 0)
        return cls(device_id, mcu_hz, bus_hz, cache, extra, extra)

    @property
    def com_param(self) -> int:
        """Payload bytes of large packets, 0 for none; only W2 and W3 have it."""
        return self.field5[-1] if self.field5 and self.field6 else 0

    @property
    def extra(self) -> tuple[int, ...]:
        """On the N6: 0, NPU Hz, NIC Hz, 0."""
        return self.field6 or self.field5


class Ack(Struct, frozen=True):
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "param", FieldKind.UINT32),
        Field(2, "error", FieldKind.UINT32),
    )
    param: int = 0
    error: int = 0


class Log(Struct, frozen=True):
    """A line of the device; the host acknowledges each one."""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "level", FieldKind.UINT32),
        Field(2, "text", FieldKind.STRING),
    )
    level: int = 0
    text: str = ""


class TensorDesc(Struct, frozen=True):
    """`size` counts elements; `n_dims` has the shape's format in bits 31..24."""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "name", FieldKind.STRING),
        Field(2, "format", FieldKind.UINT32),
        Field(3, "size", FieldKind.UINT32),
        Field(4, "n_dims", FieldKind.UINT32),
        Field(5, "dims", FieldKind.UINT32, repeated=True),
        Field(6, "scale", FieldKind.FLOAT),
        Field(7, "zero_point", FieldKind.INT32),
        Field(8, "address", FieldKind.UINT32),
        Field(9, "flags", FieldKind.UINT32),
    )
    name: str = ""
    format: int = 0
    size: int = 0
    n_dims: int = 0
    dims: tuple[int, ...] = ()
    scale: float = 0.0
    zero_point: int = 0
    address: int = 0
    flags: int = 0


class Data(Struct, frozen=True):
    """Elements, little endian."""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "type", FieldKind.UINT32),
        Field(2, "size_bytes", FieldKind.UINT32),
        Field(3, "address", FieldKind.UINT32),
        Field(4, "data", FieldKind.BYTES),
    )
    type: int = 0
    size_bytes: int = 0
    address: int = 0
    data: bytes = b""


class Tensor(Struct, frozen=True):
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "desc", FieldKind.MESSAGE, type=TensorDesc),
        Field(2, "data", FieldKind.MESSAGE, type=Data),
    )
    desc: TensorDesc = TensorDesc()
    data: Data = Data()


class Operator(Struct, frozen=True):
    """One epoch block, or with no flag in `type` the whole inference."""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "name", FieldKind.STRING),
        Field(2, "type", FieldKind.UINT32),
        Field(3, "id", FieldKind.UINT32),
        Field(4, "duration_ms", FieldKind.FLOAT),
        Field(5, "counter_type", FieldKind.UINT32),
        Field(6, "counters", FieldKind.UINT32, repeated=True),
        Field(7, "stack_used", FieldKind.INT32),
        Field(8, "heap_used", FieldKind.INT32),
    )
    name: str = ""
    type: int = 0
    id: int = 0
    duration_ms: float = 0.0
    counter_type: int = 0
    counters: tuple[int, ...] = ()
    stack_used: int = -1
    heap_used: int = -1


class ModelInfo(Struct, frozen=True):
    """A network; versions are major << 24 | minor << 16 | patch << 8."""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "name", FieldKind.STRING),
        Field(2, "rtid", FieldKind.UINT32),
        Field(3, "signature", FieldKind.STRING),
        Field(4, "compiled", FieldKind.STRING),
        Field(5, "runtime_version", FieldKind.UINT32),
        Field(6, "tool_version", FieldKind.UINT32),
        Field(7, "macc", FieldKind.UINT64),
        Field(8, "n_nodes", FieldKind.UINT32),
        Field(10, "n_inputs", FieldKind.UINT32),
        Field(11, "inputs", FieldKind.MESSAGE, True, TensorDesc),
        Field(12, "n_outputs", FieldKind.UINT32),
        Field(13, "outputs", FieldKind.MESSAGE, True, TensorDesc),
        Field(14, "n_activations", FieldKind.UINT32),
        Field(15, "activations", FieldKind.MESSAGE, True, TensorDesc),
        Field(16, "n_params", FieldKind.UINT32),
        Field(17, "params", FieldKind.MESSAGE, True, TensorDesc),
        Field(20, "runtime_desc", FieldKind.STRING),
        Field(21, "install_ms", FieldKind.FLOAT),
        Field(22, "init_ms", FieldKind.FLOAT),
    )
    name: str = ""
    rtid: int = 0
    signature: str = ""
    compiled: str = ""
    runtime_version: int = 0
    tool_version: int = 0
    macc: int = 0
    n_nodes: int = 0
    n_inputs: int = 0
    inputs: tuple[TensorDesc, ...] = ()
    n_outputs: int = 0
    outputs: tuple[TensorDesc, ...] = ()
    n_activations: int = 0
    activations: tuple[TensorDesc, ...] = ()
    n_params: int = 0
    params: tuple[TensorDesc, ...] = ()
    runtime_desc: str = ""
    install_ms: float = 0.0
    init_ms: float = 0.0


Payload = Sync | SysInfo | Ack | Log | Data | Operator | Tensor | ModelInfo


class Resp(Struct, frozen=True):
    """What a device answers: exactly one of the payloads is there."""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(1, "reqid", FieldKind.UINT32),
        Field(2, "state", FieldKind.UINT32),
        Field(10, "sync", FieldKind.MESSAGE, type=Sync),
        Field(11, "sysinfo", FieldKind.MESSAGE, type=SysInfo),
        Field(12, "ack", FieldKind.MESSAGE, type=Ack),
        Field(13, "log", FieldKind.MESSAGE, type=Log),
        Field(15, "data", FieldKind.MESSAGE, type=Data),
        Field(16, "operator", FieldKind.MESSAGE, type=Operator),
        Field(17, "tensor", FieldKind.MESSAGE, type=Tensor),
        Field(22, "model", FieldKind.MESSAGE, type=ModelInfo),
    )
    reqid: int = 0
    state: int = 0
    sync: Sync | None = None
    sysinfo: SysInfo | None = None
    ack: Ack | None = None
    log: Log | None = None
    data: Data | None = None
    operator: Operator | None = None
    tensor: Tensor | None = None
    model: ModelInfo | None = None

    @classmethod
    def of(cls, reqid: int, state: int, payload: Payload) -> Resp:
        name = next(row.name for row in cls.FIELDS if row.type is type(payload))
        # The table names one attribute for each payload type.
        return cls(reqid, state, **{name: payload})  # type: ignore[arg-type]

    @property
    def payload(self) -> Payload | None:
        payloads = (getattr(self, row.name) for row in self.FIELDS if row.type is not None)
        return next((item for item in payloads if item is not None), None)
