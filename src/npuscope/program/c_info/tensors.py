"""A buffer's shape, layout, number format and quantization: c_info's view and ours.

c_info lists channels before pixels whatever the order in memory; here shapes are channel-last
and `batch` tells the order in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.graph.model import Quant
from npuscope.program.c_info.records import Affine, BufferInfo, FixedPoint
from npuscope.program.model import Buffer

_FLOAT = "STAI_FORMAT_FLOAT"
_RAW = "STAI_FORMAT_Q"  # fixed point, no scale
_FORMAT = "STAI_FORMAT_"
_PER_TENSOR = -1
_LARGEST_SCALE = float(np.finfo(np.float32).max)


def logical_shape(info: BufferInfo) -> tuple[int, ...]:
    """The shape in our order: channels last."""
    shape = tuple(info.shape) or (1,)
    axis = _channel_axis(shape, bool(info.channel_first and info.channel_last))
    return _moved(shape, axis)


def stored_batch(info: BufferInfo, channels: int) -> int:
    """Channels stored together."""
    if info.channel_last:
        return channels
    return 1 if info.channel_first else max(1, info.batch or 1)


def _channel_axis(shape: Sequence[int], plain: bool) -> int:
    """Where c_info has the channels. `plain`: the order in memory is the order of the shape.

    Of rank 3 there are vectors of coefficients (C, H, W) and sequences (N, C, W); what has one
    channel is plain.
    """
    rank = len(shape)
    if rank < 3 or (rank == 3 and plain):
        return rank - 1
    return 0 if rank == 3 and shape[0] > 1 else 1


def _moved(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :], shape[axis])


def listed_shape(buffer: Buffer) -> tuple[int, ...]:
    """The shape as c_info lists it: `logical_shape` gives ours again."""
    shape = tuple(int(size) for size in buffer.shape)
    rank = len(shape)
    if rank < 3 or (rank == 3 and buffer.batch == buffer.channels):
        return shape
    if rank == 3 and shape[0] > 1:
        return (shape[-1], *shape[:-1])
    return (shape[0], shape[-1], *shape[1:-1])


def layout_flags(buffer: Buffer) -> tuple[bool, bool]:
    """channel_first and channel_last; both where the shape is the order in memory."""
    last = buffer.batch == buffer.channels
    plain = last and len(buffer.shape) < 4
    return plain or buffer.batch == 1, last


def is_signed(info: BufferInfo) -> bool:
    kind = info.format.removeprefix(_FORMAT)
    if kind.startswith("U"):
        return False
    if info.format == _FLOAT or kind.startswith("S") or info.qmn is None:
        return True
    return info.qmn.sign != 0


def is_float(info: BufferInfo) -> bool:
    return info.format == _FLOAT


def format_name(buffer: Buffer) -> str:
    if buffer.is_float:
        return _FLOAT
    if buffer.quant is None:
        return _RAW
    return f"{_FORMAT}{'S' if buffer.signed else 'U'}{buffer.nbits}"


def fixed_point(buffer: Buffer) -> FixedPoint:
    if buffer.is_float:
        return FixedPoint(0, 0, 1)
    sign = int(buffer.signed)
    return FixedPoint(int(buffer.nbits) - sign, 0, sign)


def quant_of(info: BufferInfo) -> Quant | None:
    """Scales have nine digits in the file, enough to find the float32 again."""
    if info.intq is None:
        return None
    scales = tuple(_float32(scale) for scale in info.intq.scales)
    return Quant(scales, info.intq.offsets, _our_axis(info))


def _float32(scale: float) -> float:
    return float(np.float32(min(max(scale, -_LARGEST_SCALE), _LARGEST_SCALE)))


def _our_axis(info: BufferInfo) -> int | None:
    """The axis of per-channel scales in our order.

    Public files state axis 1 for weights whose scales run along axis 0 (the output channels), so
    the axis that has as many entries as there are scales is taken, the stated one last.
    """
    if info.intq is None or info.intq.axis == _PER_TENSOR:
        return None
    shape, count = tuple(info.shape) or (1,), len(info.intq.scales)
    stated = info.intq.axis
    order = (0, stated) if info.is_param else (stated, 0)
    fitting = [axis for axis in order if 0 <= axis < len(shape) and shape[axis] == count]
    channel = _channel_axis(shape, bool(info.channel_first and info.channel_last))
    return _after_move(fitting[0] if fitting else 0, channel, len(shape))


def _after_move(axis: int, channel: int, rank: int) -> int:
    if axis == channel:
        return rank - 1
    return axis - 1 if axis > channel else axis


def affine(buffer: Buffer) -> Affine | None:
    if buffer.quant is None:
        return None
    scales = tuple(float(f"{scale:.9g}") for scale in buffer.quant.scales)
    zeros = tuple(int(zero) for zero in buffer.quant.zero_points)
    return Affine(_listed_axis(buffer), scales, zeros)


def _listed_axis(buffer: Buffer) -> int:
    axis = buffer.quant.axis if buffer.quant else None
    if axis is None:
        return _PER_TENSOR
    # Of all places in the listed shape, the one that reading maps to our axis.
    rank, shape = len(buffer.shape), listed_shape(buffer)
    channel = _channel_axis(shape, all(layout_flags(buffer)))
    return next(place for place in range(rank) if _after_move(place, channel, rank) == axis)
