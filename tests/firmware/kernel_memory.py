"""A kernel call as bytes in memory, with pointers of 4 or 8 bytes: for the host and for boards."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from npuscope.program.kernel_calls.model import MAX_RANK, WHOLE, KernelCall, KernelOperand


@dataclass(slots=True)
class Arena:
    """Bytes that will lie at `base`; whatever is put in gets an address."""

    base: int
    pointer_bytes: int
    data: bytearray = field(default_factory=bytearray)

    def put(self, raw: bytes, align: int = 16) -> int:
        self.data += bytes(-len(self.data) % align)
        place = self.base + len(self.data)
        self.data += raw
        return place

    @property
    def pointer(self) -> str:
        return "I" if self.pointer_bytes == 4 else "Q"


@dataclass(frozen=True, slots=True)
class PackedCall:
    """Where the call and its outputs lie."""

    address: int
    outputs: tuple[tuple[int, tuple[int, ...], np.dtype], ...]


def pack_call(call: KernelCall, buffers: Mapping[str, np.ndarray], arena: Arena) -> PackedCall:
    """Put a call with all it points to into the arena."""
    inputs = [_tensor(arena, call, o, _values(o, buffers)) for o in call.inputs]
    places = [(arena.put(bytes(_size(o))), o.shape, _dtype(o)) for o in call.outputs]
    outputs = [
        _record(arena, call, o, place)
        for o, (place, _, _) in zip(call.outputs, places, strict=True)
    ]
    words = [
        arena.put(b"".join(inputs)),
        arena.put(b"".join(outputs)),
        arena.put(struct.pack(f"<{len(call.numbers)}i", *call.numbers)),
        arena.put(struct.pack(f"<{len(call.reals)}f", *(_float32(r) for r in call.reals))),
    ]
    counts = bytes([len(call.inputs), len(call.outputs)])
    head = struct.pack(f"<4{arena.pointer}", *words) + counts.ljust(arena.pointer_bytes, b"\0")
    return PackedCall(arena.put(head), tuple(places))


def _float32(value: float) -> float:
    return float(np.float32(value))


def _values(operand: KernelOperand, buffers: Mapping[str, np.ndarray]) -> np.ndarray:
    return operand.values if operand.values is not None else buffers[operand.buffer]


def _tensor(arena: Arena, call: KernelCall, operand: KernelOperand, values: np.ndarray) -> bytes:
    assert values.dtype == _dtype(operand) and values.shape == operand.shape
    return _record(arena, call, operand, arena.put(np.ascontiguousarray(values).tobytes()))


def _record(arena: Arena, call: KernelCall, operand: KernelOperand, place: int) -> bytes:
    """One npuscope_tensor."""
    quant, scales, zeros, axis = operand.quant, 0, 0, WHOLE
    if quant is not None:
        scales = arena.put(np.asarray(quant.scales, np.float32).tobytes())
        zeros = arena.put(np.asarray(quant.zero_points, np.int32).tobytes())
        axis = WHOLE if quant.axis is None else quant.axis
    shape = [*operand.shape, *[0] * (MAX_RANK - len(operand.shape))]
    small = (len(operand.shape), int(operand.type), axis, int(call.rounding))
    raw = struct.pack(f"<3{arena.pointer}{MAX_RANK}I4B", place, scales, zeros, *shape, *small)
    return raw + bytes(-len(raw) % arena.pointer_bytes)


def _dtype(operand: KernelOperand) -> np.dtype:
    return np.dtype(operand.type.name)


def _size(operand: KernelOperand) -> int:
    return int(np.prod(operand.shape, dtype=np.int64)) * _dtype(operand).itemsize
