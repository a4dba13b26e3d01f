"""TensorProto -> Const, with the data in the file or beside it."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from npuscope.bounded_file import opened
from npuscope.errors import FileError, ModelError
from npuscope.graph.int4 import unpack_int4, unpack_uint4
from npuscope.graph.limits import MAX_ELEMENTS, MAX_FILE_BYTES, MAX_RANK, check_count
from npuscope.graph.onnx.constants import Const
from npuscope.text import safe_terminal

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
_ARRAY_TYPES = {"uint4": "uint8", "int4": "uint8"}  # packed, two a byte
_UNSUPPORTED = ("string", "bfloat16")
_EXTERNAL = 1
_FIELDS = {  # where small or old writers keep values; the rest share int32_data
    "float32": ("float_data", "float32"),
    "float64": ("double_data", "float64"),
    "int64": ("int64_data", "int64"),
    "uint32": ("uint64_data", "uint64"),
    "uint64": ("uint64_data", "uint64"),
}


def text(value: str | bytes) -> str:
    """A protobuf string; the parser hands out bytes when they are not valid UTF-8."""
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")


class TensorReader:
    """Reads tensors of one model; `folder` is where external data may lie."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.external_bytes = 0

    def read(self, proto: Any) -> Const:
        name = text(proto.name)
        label = f"constant '{safe_terminal(name)}'"
        kind = TYPE_NAMES.get(proto.data_type, f"type {proto.data_type}")
        if kind in _UNSUPPORTED or kind.startswith("type"):
            raise ModelError(f"{kind} tensors are not supported", where=label)
        shape = tuple(proto.dims)
        check_count(len(shape), MAX_RANK, "axes of a constant")
        if min(shape, default=0) < 0 or prod(max(size, 1) for size in shape) > MAX_ELEMENTS:
            raise FileError(f"the constant has the shape {shape}", where=label)
        packed = kind in _ARRAY_TYPES
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
                wanted = count * dtype.itemsize
                raise FileError(f"{wanted} bytes expected, {len(raw)} found", where=label)
            return np.frombuffer(raw, dtype)
        return _typed_field(proto, dtype, count, label)

    def _external(self, proto: Any, label: str, wanted: int) -> bytes:
        entries = {text(entry.key): text(entry.value) for entry in proto.external_data}
        path = self._inside(entries.get("location", ""), label)
        try:
            offset, length = int(entries.get("offset", "0")), int(entries.get("length", wanted))
            size = path.stat().st_size
        except (ValueError, OSError):
            raise FileError("its external data cannot be found", where=label) from None
        if offset < 0 or length != wanted or offset + length > size:
            raise FileError(
                f"its {wanted} bytes of external data do not lie at {offset} of {size}",
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

    def _inside(self, location: str, label: str) -> Path:
        """The external file; it must lie in the model's folder, links included."""
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
        return path


def _typed_field(proto: Any, dtype: np.dtype[Any], count: int, label: str) -> np.ndarray:
    """Values in the typed repeated fields."""
    field, carrier = _FIELDS.get(dtype.name, ("int32_data", "int32"))
    values = getattr(proto, field)
    if len(values) != count:
        raise FileError(f"{count} elements expected, {len(values)} found", where=label)
    array = np.array(values, dtype=carrier)
    if dtype == np.float16:  # held as bit patterns
        return array.astype(np.uint16).view(np.float16)
    return array.astype(dtype)
