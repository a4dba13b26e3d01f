"""Entries of an .onnx file for its inputs and outputs: types by number, sizes that may be open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

FLOAT = 1  # number of an ONNX element type
Entry = Any  # onnx.ValueInfoProto: the package is imported late


def dims(entry: Entry) -> tuple[int, ...] | None:
    """None where a size is open."""
    tensor = entry.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    sizes = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in tensor.shape.dim]
    return tuple(sizes) if 0 not in sizes else None


def open_axes(entry: Entry) -> list[int]:
    sizes = entry.type.tensor_type.shape.dim
    return [axis for axis, dim in enumerate(sizes) if not dim.HasField("dim_value")]


def batch(entry: Entry) -> Any | None:
    """The first size, where it is open."""
    return entry.type.tensor_type.shape.dim[0] if 0 in open_axes(entry) else None


def new_entry(name: str, kind: int, shape: Any) -> Entry:
    from onnx import helper

    return helper.make_tensor_value_info(name, kind, shape)


def copied(entry: Entry) -> Entry:
    copy = type(entry)()
    copy.CopyFrom(entry)
    return copy


def type_number(type: str | np.dtype[Any]) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(type)))


def type_name(number: int) -> str:
    """In NumPy's words; empty where there is none."""
    from onnx import helper

    try:
        return str(helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, TypeError, ValueError):
        return ""


def with_outputs(data: bytes, names: Iterable[str]) -> bytes:
    """The model with more tensors among its outputs, for runtimes: they know their types."""
    import onnx

    proto = onnx.ModelProto.FromString(data)
    graph_outputs = {entry.name for entry in proto.graph.output}
    new = [name for name in dict.fromkeys(names) if name not in graph_outputs]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in new)
    return bytes(proto.SerializeToString()) if new else data
