"""Which tensors of a network a buffer of another compiler's program may carry: those of its name,
or else of its size and its scale."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
from msgspec import Struct

from npuscope.graph.model import DType, Graph, Quant, Tensor
from npuscope.profiling.agreement import Array, Values
from npuscope.program.calls import element_type
from npuscope.program.model import Buffer
from npuscope.sim.memory import Memory, from_stored

# Scales are printed with so many digits that those of one tensor differ by less.
_SAME_SCALE = 1e-5
_MOST_AXES = 4


class BufferPair(Struct, frozen=True):
    """A buffer, the tensor it carries, in which order of its axes (those longer than 1; None: as
    stored), and what is added to it."""

    tensor: str
    axes: tuple[int, ...] | None
    shift: int

    def values(self, buffer: Buffer, expected: Array) -> Array:
        """The tensor as the buffer's values."""
        steps = np.clip(expected.astype(np.int32) + self.shift, *byte_limits(buffer))
        if self.axes is None:
            return from_stored(buffer, steps.reshape(-1).astype(element_type(buffer)))
        turned = steps.squeeze().transpose(self.axes) if self.axes else steps
        return turned.astype(element_type(buffer)).reshape(buffer.shape)


class Candidates:
    """Tensors of the network that a buffer may carry."""

    def __init__(self, graph: Graph, expected: Values) -> None:
        self.sizes: dict[int, list[Tensor]] = {}
        self.names: dict[str, Tensor] = {}
        for name, value in expected.items():
            if value.dtype in (np.int8, np.uint8, np.int16):
                tensor = self.names[name] = graph.tensor(name)
                self.sizes.setdefault(value.size, []).append(tensor)

    def of(self, memory: Memory, buffer: Buffer) -> Iterator[BufferPair]:
        if buffer.is_float or buffer.is_param or buffer.nbits not in (8, 16):
            return
        stated = stated_buffer(memory, buffer)
        size = int(np.prod(buffer.shape))
        by_name = self.names.get(stated.tensor or stated.name.removesuffix(".sub"))
        if by_name and by_name.elements == size and _bits(by_name) == buffer.nbits:
            shifts = {by_name: sign_shift(by_name, buffer)}
        else:
            of_size = self.sizes.get(size, [])
            shifts = {t: shift for t in of_size if (shift := scale_shift(t, stated)) is not None}
        for tensor, shift in shifts.items():
            for axes in _orders(tensor.shape, buffer):
                yield BufferPair(tensor.name, axes, shift)


def stated_buffer(memory: Memory, buffer: Buffer) -> Buffer:
    """Where a scale is stated: a kernel's arguments are views without one of their own."""
    root = memory.buffers.get(buffer.view_of, buffer)
    return root if root.size_bytes == buffer.size_bytes else buffer


def _bits(tensor: Tensor) -> int:
    return tensor.dtype.numpy.itemsize * 8


def scale_shift(tensor: Tensor, buffer: Buffer) -> int | None:
    """What a buffer of the tensor's scale adds to its values; None where it has another scale.
    Sources without c_info.json state none: there the values have to tell."""
    if tensor.quant is None:
        return None
    if buffer.quant is None:
        return sign_shift(tensor, buffer) if _bits(tensor) == buffer.nbits else None
    if not same_scale(buffer.quant, tensor.quant):
        return None
    shift = buffer.quant.zero_point - tensor.quant.zero_point
    low, high = (limit + shift for limit in tensor.dtype.limits)
    least, most = byte_limits(buffer)
    fits = _bits(tensor) == buffer.nbits and least <= low and high <= most
    return shift if fits else None


def same_scale(one: Quant, other: Quant) -> bool:
    per_tensor = one.axis is None and other.axis is None
    return per_tensor and abs(one.scale - other.scale) <= _SAME_SCALE * other.scale


def _orders(shape: tuple[int, ...], buffer: Buffer) -> Iterator[tuple[int, ...] | None]:
    """As it is, as it is stored, and with its axes turned into those of the buffer."""
    yield ()
    if 0 < buffer.batch < buffer.channels:
        yield None
    sizes = [size for size in shape if size > 1]
    target = [size for size in buffer.shape if size > 1]
    if len(sizes) <= _MOST_AXES:
        for axes in permutations(range(len(sizes))):
            if axes != tuple(range(len(sizes))) and [sizes[a] for a in axes] == target:
                yield axes


def byte_limits(buffer: Buffer) -> tuple[int, int]:
    half = 1 << (buffer.nbits - 1)
    return (-half, half - 1) if buffer.signed else (0, 2 * half - 1)


def sign_shift(tensor: Tensor, buffer: Buffer) -> int:
    """int8 and uint8 of one scale differ by 128."""
    signed = tensor.dtype is not DType.UINT8
    return 0 if signed == buffer.signed else 128 if signed else -128
