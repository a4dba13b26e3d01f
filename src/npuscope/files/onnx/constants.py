"""Constants: TensorProto to arrays with the type of the file and, after a DQ node, scales."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.bounded_file import opened
from npuscope.errors import FileError, ModelError
from npuscope.files.builder import unpack_int4, unpack_uint4
from npuscope.graph.limits import MAX_ELEMENTS, MAX_FILE_BYTES, MAX_LIST, MAX_RANK, check_count
from npuscope.graph.model import DType, Quant
from npuscope.structs import replace
from npuscope.text import safe_terminal

# --- Constants as arrays, with scales after a DequantizeLinear ---

INTEGER_TYPES = {
    "int4": DType.INT4,
    "int8": DType.INT8,
    "uint8": DType.UINT8,
    "int16": DType.INT16,
    "uint16": DType.UINT16,
    "int32": DType.INT32,
}
# Integers without a scale: indices, sizes, bool.
PLAIN_TYPES = {"int32": DType.INT32, "int64": DType.INT64, "bool": DType.BOOL}
# Reals of any width: the executor and the compiler know one float type.
REAL_TYPES = ("float32", "float16", "float64", "bfloat16")
_UINT4_SHIFT = 8  # uint4 q with zero point z and int4 q - 8 with z - 8 are the same real value


class Const(Struct, frozen=True):
    """`type` is the file's element type; 4-bit values are held in 8-bit arrays.

    With `quant` the real value is scale * (data - zero point). `name` is the initializer's.
    """

    data: np.ndarray
    type: str
    quant: Quant | None = None
    name: str = ""

    def whole(self) -> list[int]:
        """The values as a flat list of integers: axes, shapes, pads."""
        values = self.integers()
        if values.size > MAX_LIST:
            raise ModelError(
                f"found {values.size} axes, sizes or pads; the limit is {MAX_LIST}",
                hint="check which tensor the op takes them from",
            )
        return [int(value) for value in values]

    def integers(self) -> np.ndarray:
        """The values as a flat array of integers."""
        if self.data.dtype.kind not in "iu" or self.quant is not None:
            raise ModelError(f"expected integers, found {self.type}")
        return self.data.ravel().astype(np.int64, copy=False)

    def real(self) -> np.ndarray:
        """The float32 values."""
        with np.errstate(all="ignore"):  # damaged files may hold NaN and huge scales
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
        turned = self.data.transpose(permutation)
        # Weights that were not read take no memory: a copy would.
        data = np.ascontiguousarray(turned) if any(turned.strides) else turned
        return replace(self, data=data, quant=quant)

    def reshape(self, shape: tuple[int, ...]) -> Const:
        """Scales along an axis are kept only if nothing but axes of size 1 changes."""
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


class QuantType(Struct, frozen=True):
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
        raise ModelError("the scales run along a negative axis of an activation")
    return QuantType(INTEGER_TYPES[kind], Quant(scales, points, axis % rank if rank else axis))


def _check_scales(data: Const, quant: Quant) -> None:
    axis, shape = quant.axis, data.data.shape
    if axis is not None and (axis >= len(shape) or shape[axis] != len(quant.scales)):
        raise ModelError(f"{len(quant.scales)} scales do not fit a constant of shape {shape}")


def dequantized(data: Const, type: QuantType) -> Const:
    """A constant after a DequantizeLinear; nothing is computed yet."""
    _check_scales(data, type.quant)
    if data.type == "uint4":
        shifted = data.data.astype(np.int8) - np.int8(_UINT4_SHIFT)
        return Const(shifted, "int4", type.quant, data.name)
    if data.type not in INTEGER_TYPES:
        raise ModelError(f"a {data.type} constant cannot be dequantized")
    return replace(data, quant=type.quant)


def quantized(data: Const, type: QuantType) -> Const:
    """A float constant after a QuantizeLinear, rounded half to even and saturated."""
    _check_scales(data, type.quant)
    rank = data.data.ndim
    scales = along_axis(type.quant.scales, np.float32, type.quant.axis, rank)
    points = along_axis(type.quant.zero_points, np.int32, type.quant.axis, rank)
    low, high = type.dtype.limits
    with np.errstate(all="ignore"):  # a scale of 0 saturates, like in onnxruntime
        values = np.rint(data.real() / scales) + points
    clipped = np.clip(np.nan_to_num(values), low, high)
    return Const(clipped.astype(type.dtype.numpy), type.dtype.value, name=data.name)


# --- TensorProto -> Const, with the data in the file or in another file beside it ---

# ONNX TensorProto.DataType
TYPE_NAMES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
    21: "uint4",
    22: "int4",
}
TYPE_NUMBERS = {name: number for number, name in TYPE_NAMES.items()}
_ARRAY_TYPES = {"uint4": "uint8", "int4": "uint8"}  # packed, two per byte
_UNSUPPORTED = ("bfloat16",)
_EXTERNAL = 1
_FIELDS = {  # fields for typed values; the other types share int32_data
    "float32": ("float_data", "float32"),
    "float64": ("double_data", "float64"),
    "int64": ("int64_data", "int64"),
    "uint32": ("uint64_data", "uint64"),
    "uint64": ("uint64_data", "uint64"),
}


def text(value: str | bytes) -> str:
    """A protobuf string; the parser hands out bytes when they are not valid UTF-8."""
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")


_SHAPES_ONLY: ContextVar[bool] = ContextVar("_SHAPES_ONLY", default=False)


@contextmanager
def without_weights() -> Iterator[None]:
    """External data is not read within: each such tensor becomes zeros that take no memory.

    For timing, which does not depend on values. What is read so must not be executed.
    """
    token = _SHAPES_ONLY.set(True)
    try:
        yield
    finally:
        _SHAPES_ONLY.reset(token)


def reads_no_weights() -> bool:
    """Whether this is within `without_weights`."""
    return _SHAPES_ONLY.get()


class TensorReader:
    """Reads tensors of one model; `folder` is where external data may lie."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.external_bytes = 0

    def read(self, proto: Any) -> Const:
        name = text(proto.name)
        label = f"constant '{safe_terminal(name)}'"
        kind = TYPE_NAMES.get(proto.data_type, f"type {proto.data_type}")
        if kind == "string":  # labels that a classifier hands out: no arithmetic reads them
            check_count(len(proto.string_data), MAX_ELEMENTS, "strings")
            return Const(np.zeros(len(proto.string_data), np.uint8), kind, name=name)
        if kind in _UNSUPPORTED or kind.startswith("type"):
            raise ModelError(f"{kind} tensors are not supported", where=label)
        shape = tuple(proto.dims)
        check_count(len(shape), MAX_RANK, "axes of a constant")
        if min(shape, default=0) < 0 or prod(max(size, 1) for size in shape) > MAX_ELEMENTS:
            raise FileError(f"the constant has the shape {shape}", where=label)
        packed = kind in _ARRAY_TYPES
        if proto.data_location == _EXTERNAL and _SHAPES_ONLY.get():
            dtype = np.dtype(_ARRAY_TYPES.get(kind, kind))
            return Const(np.broadcast_to(np.zeros((), dtype), shape), kind, name=name)
        count = (prod(shape) + 1) // 2 if packed else prod(shape)
        flat = self._flat(proto, np.dtype(_ARRAY_TYPES.get(kind, kind)), count, label)
        if packed:
            flat = (unpack_int4 if kind == "int4" else unpack_uint4)(flat, prod(shape))
        return Const(flat.reshape(shape), kind, name=name)

    def _flat(self, proto: Any, dtype: np.dtype[Any], count: int, label: str) -> np.ndarray:
        """The stored elements, checked to be exactly `count`."""
        if proto.data_location == _EXTERNAL:
            raw = self._external(proto, label, count * dtype.itemsize)
        else:
            raw = proto.raw_data
        if raw or not count:
            if len(raw) != count * dtype.itemsize:
                size_bytes = count * dtype.itemsize
                raise FileError(f"expected {size_bytes} bytes, found {len(raw)}", where=label)
            return np.frombuffer(raw, dtype)
        # Values in the typed repeated fields.
        field, carrier = _FIELDS.get(dtype.name, ("int32_data", "int32"))
        values = getattr(proto, field)
        if len(values) != count:
            raise FileError(f"expected {count} elements, found {len(values)}", where=label)
        array = np.array(values, dtype=carrier)
        if dtype == np.float16:  # held as bit patterns
            return array.astype(np.uint16).view(np.float16)
        return array.astype(dtype)

    def outside(self, proto: Any) -> bytes:
        """What a file beside the model holds for a tensor, of any type."""
        label = f"constant '{safe_terminal(text(proto.name))}'"
        lengths = [text(entry.value) for entry in proto.external_data if entry.key == "length"]
        if lengths and lengths[0].isdecimal():
            return self._external(proto, label, int(lengths[0]))
        return self._external(proto, label, self.read(proto).data.nbytes)

    def _external(self, proto: Any, label: str, size_bytes: int) -> bytes:
        entries = {text(entry.key): text(entry.value) for entry in proto.external_data}
        # With links followed, the external file must be inside the model's folder.
        location = entries.get("location", "")
        try:
            folder = self.folder.resolve()
            path = (folder / location).resolve()
            fits = path.is_relative_to(folder) and path.is_file()
        except (OSError, ValueError, RuntimeError):
            fits = False
        if not fits:
            raise FileError(
                f"external data '{safe_terminal(location)}' is not a file in the model's folder",
                where=label,
                hint="keep the data file beside the model, or save the model as one file",
            )
        try:
            offset, length = int(entries.get("offset", "0")), int(entries.get("length", size_bytes))
            size = path.stat().st_size
        except (ValueError, OSError):
            raise FileError("its external data cannot be found", where=label) from None
        if offset < 0 or length != size_bytes or offset + length > size:
            raise FileError(
                f"its external data, {size_bytes} bytes at offset {offset}, is outside the file "
                f"of {size} bytes",
                where=label,
            )
        self.external_bytes += length
        check_count(self.external_bytes, MAX_FILE_BYTES, "bytes of external data")
        try:
            with opened(path) as file:
                file.seek(offset)
                return file.read(length)
        except FileError as error:
            raise FileError(f"external data: {error.message}", where=label) from None
