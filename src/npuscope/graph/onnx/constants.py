"""Constants: arrays with the element type of the file and, behind a DequantizeLinear, scales."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.limits import MAX_LIST
from npuscope.graph.model import DType, Quant

INTEGER_TYPES = {
    "int4": DType.INT4,
    "int8": DType.INT8,
    "uint8": DType.UINT8,
    "int16": DType.INT16,
    "uint16": DType.UINT16,
    "int32": DType.INT32,
}
# Whole numbers that stand for themselves: indices, sizes, truth.
PLAIN_TYPES = {"int32": DType.INT32, "int64": DType.INT64, "bool": DType.BOOL}
_UINT4_SHIFT = 8  # uint4 q with zero point z and int4 q - 8 with z - 8 are the same real value


@dataclass(frozen=True, slots=True)
class Const:
    """`type` is the file's element type; 4-bit values travel in 8-bit arrays.

    With `quant` the real value is scale * (data - zero point). `name` is the initializer's.
    """

    data: np.ndarray
    type: str
    quant: Quant | None = None
    name: str = ""

    def whole(self) -> list[int]:
        """The values as a flat list of whole numbers: axes, shapes, pads."""
        values = self.integers()
        if values.size > MAX_LIST:
            raise ModelError(
                f"{values.size} axes, sizes or pads are given, more than the {MAX_LIST} we accept",
                hint="check which tensor the op takes them from",
            )
        return [int(value) for value in values]

    def integers(self) -> np.ndarray:
        """The values as a flat array of whole numbers."""
        if self.data.dtype.kind not in "iu" or self.quant is not None:
            raise ModelError(f"whole numbers expected, found {self.type}")
        return self.data.ravel().astype(np.int64, copy=False)

    def real(self) -> np.ndarray:
        """The float32 values."""
        with np.errstate(all="ignore"):  # damaged files hold NaN and huge scales
            if self.quant is None:
                return self.data.astype(np.float32, copy=False)
            axis, rank = self.quant.axis, self.data.ndim
            scales = along_axis(self.quant.scales, np.float32, axis, rank)
            points = along_axis(self.quant.zero_points, np.int32, axis, rank)
            steps = (self.data.astype(np.int32) - points).astype(np.float32)
            return np.asarray(steps * scales)

    def as_real(self) -> Const:
        return Const(self.real(), "float32", name=self.name)

    def transpose(self, permutation: tuple[int, ...]) -> Const:
        quant = self.quant
        if quant is not None and quant.axis is not None:
            quant = replace(quant, axis=permutation.index(quant.axis))
        return replace(
            self, data=np.ascontiguousarray(self.data.transpose(permutation)), quant=quant
        )

    def reshape(self, shape: tuple[int, ...]) -> Const:
        """Scales along an axis survive only when no axis but size-1 ones changes."""
        quant = self.quant
        if quant is not None and quant.axis is not None:
            axis = _same_axis(self.data.shape, shape, quant.axis)
            if axis is None:
                return self.as_real().reshape(shape)
            quant = replace(quant, axis=axis)
        return replace(self, data=self.data.reshape(shape), quant=quant)


def _same_axis(before: tuple[int, ...], after: tuple[int, ...], axis: int) -> int | None:
    lead = int(np.prod(before[:axis], dtype=np.int64))
    count = 1
    for place, size in enumerate(after):
        if count == lead and size == before[axis]:
            return place
        count *= size
    return None


def along_axis(
    values: tuple[float, ...] | tuple[int, ...], dtype: object, axis: int | None, rank: int
) -> np.ndarray:
    """Per-channel numbers shaped so that they broadcast along `axis`."""
    array = np.asarray(values, dtype=dtype)  # type: ignore[call-overload]
    if axis is None:
        return np.asarray(array.reshape(()))
    return np.asarray(array.reshape([-1 if place == axis else 1 for place in range(rank)]))


@dataclass(frozen=True, slots=True)
class QuantType:
    """An integer type with its scales: what a QuantizeLinear makes."""

    dtype: DType
    quant: Quant


def quant_type(
    scale: Const, zero_point: Const | None, default_type: str, axis: int, rank: int | None
) -> QuantType:
    """The type that a scale and a zero point describe; `rank` resolves a negative axis."""
    scales = tuple(scale.real().ravel().tolist())
    points = tuple(zero_point.data.ravel().tolist()) if zero_point else (0,) * len(scales)
    kind = zero_point.type if zero_point else default_type
    if scale.data.ndim > 1 or len(points) != len(scales) or not scales:
        raise ModelError(f"{len(scales)} scales {scale.data.shape} and {len(points)} zero points")
    if kind == "uint4":
        kind, points = "int4", tuple(point - _UINT4_SHIFT for point in points)
    if kind not in INTEGER_TYPES:
        raise ModelError(f"quantization to {kind} is not supported")
    if len(scales) == 1:
        return QuantType(INTEGER_TYPES[kind], Quant(scales, points))
    if axis < 0 and rank is None:
        raise ModelError("scales along a negative axis of an activation")
    return QuantType(INTEGER_TYPES[kind], Quant(scales, points, axis % rank if rank else axis))


def _check_scales(data: Const, quant: Quant) -> None:
    axis, shape = quant.axis, data.data.shape
    if axis is not None and (axis >= len(shape) or shape[axis] != len(quant.scales)):
        raise ModelError(f"{len(quant.scales)} scales for a {shape} constant")


def dequantized(data: Const, type: QuantType) -> Const:
    """A constant behind a DequantizeLinear; nothing is computed yet."""
    _check_scales(data, type.quant)
    if data.type == "uint4":
        shifted = data.data.astype(np.int8) - np.int8(_UINT4_SHIFT)
        return Const(shifted, "int4", type.quant, data.name)
    if data.type not in INTEGER_TYPES:
        raise ModelError(f"a {data.type} constant cannot be dequantized")
    return replace(data, quant=type.quant)


def quantized(data: Const, type: QuantType) -> Const:
    """A float constant behind a QuantizeLinear, rounded half to even and saturated."""
    _check_scales(data, type.quant)
    rank = data.data.ndim
    scales = along_axis(type.quant.scales, np.float32, type.quant.axis, rank)
    points = along_axis(type.quant.zero_points, np.int32, type.quant.axis, rank)
    low, high = type.dtype.limits
    with np.errstate(all="ignore"):  # a scale of 0 saturates, like in onnxruntime
        values = np.rint(data.real() / scales) + points
    clipped = np.clip(np.nan_to_num(values), low, high)
    return Const(clipped.astype(type.dtype.numpy), type.dtype.value, name=data.name)
