"""An ONNX file as lists of what is stored: enough for lints, which read no weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.bounded_file import MODEL, read_bytes
from npuscope.errors import FileError

_UINT4, _INT4 = 21, 22  # numbers of ONNX element types
_SMALL = 64  # elements: bounds and indices are read, weights are not


class OnnxNode(Struct, frozen=True):
    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    numbers: Mapping[str, int]  # whole-number attributes


class OnnxInput(Struct, frozen=True):
    name: str
    rank: int
    is_int64: bool


class OnnxFile(Struct, frozen=True):
    """`constants` are names of all initializers, `small` the values of short ones.

    `four_bits`: some constants have 4-bit elements, which need a new opset.
    """

    ir_version: int
    opset: int
    nodes: tuple[OnnxNode, ...]
    inputs: tuple[OnnxInput, ...]
    constants: frozenset[str]
    small: Mapping[str, np.ndarray]
    four_bits: bool

    def producers(self) -> dict[str, OnnxNode]:
        return {name: node for node in self.nodes for name in node.outputs}


def read_onnx_file(path: str | Path, data: bytes | None = None) -> OnnxFile | None:
    """The file's records; None when it is not an ONNX file (the reader then reports what it is).

    `data` replaces the content of the file.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(read_bytes(path, MODEL) if data is None else data)
    except (DecodeError, RuntimeError, ValueError, FileError):
        return None
    if not proto.HasField("graph") or not proto.graph.node:
        return None
    opsets = [entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")]
    initializers = proto.graph.initializer
    constants = frozenset(entry.name for entry in initializers)
    return OnnxFile(
        ir_version=proto.ir_version,
        opset=max(opsets, default=0),
        nodes=tuple(_node(node, index) for index, node in enumerate(proto.graph.node)),
        inputs=tuple(_input(info) for info in proto.graph.input if info.name not in constants),
        constants=constants,
        small={entry.name: _values(entry) for entry in initializers if _is_small(entry)},
        four_bits=any(entry.data_type in (_INT4, _UINT4) for entry in initializers),
    )


def _node(node: Any, index: int) -> OnnxNode:
    numbers = {item.name: int(item.i) for item in node.attribute if item.type == item.INT}
    name = f"{node.op_type}:{node.name or f'#{index}'}"
    return OnnxNode(node.op_type, name, tuple(node.input), tuple(node.output), numbers)


def _input(info: Any) -> OnnxInput:
    from onnx import TensorProto

    tensor = info.type.tensor_type
    return OnnxInput(info.name, len(tensor.shape.dim), tensor.elem_type == TensorProto.INT64)


def _is_small(entry: Any) -> bool:
    """Few elements, and in this file: nothing is read from elsewhere."""
    count = 1
    for size in entry.dims:
        count *= size
    return 0 <= count <= _SMALL and not entry.external_data


def _values(entry: Any) -> np.ndarray:
    from onnx import numpy_helper

    try:
        return np.asarray(numpy_helper.to_array(entry))
    except (TypeError, ValueError):  # damaged, or of a type that numpy does not have
        return np.zeros(0)
