"""The vendor front end's own ONNX file: float layers, and their numbers in `<model>_Q.json`.

The front end leaves QuantizeLinear and DequantizeLinear where its source had them, keeps weights as
floats, and states in the JSON file how every tensor is quantized. Brought into the usual form, with
a pair of these nodes around every quantized value, it reads like any other network.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from npuscope.bounded_file import VENDOR_JSON, parse_json, read_bytes
from npuscope.errors import FileError
from npuscope.files.onnx.constants import Const
from npuscope.files.onnx.file import Node, OnnxModel
from npuscope.graph.model import FRONT_END, FRONT_END_NAME
from npuscope.structs import replace

_ENDING = "_Q.json"
_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
_TYPES: dict[str, Any] = {"S8": np.int8, "U8": np.uint8, "S32": np.int32}
_ACTIVATIONS = ("S8", "U8")


class Numbers(NamedTuple):
    """How the JSON file says that a tensor is quantized."""

    type: str
    scales: tuple[float, ...]
    offsets: tuple[int, ...]


def with_numbers(source: OnnxModel, path: Path) -> OnnxModel:
    """The model with the quantization that lies beside it; without such a file as it is."""
    beside = path.with_name(f"{path.stem}{_ENDING}")
    if not beside.is_file():
        if FRONT_END_NAME in path.stem and any(node.kind == _QUANTIZE for node in source.nodes):
            return replace(source, notes=(*source.notes, FRONT_END))
        return source
    try:
        document = parse_json(read_bytes(beside, VENDOR_JSON))
    except ValueError as error:
        raise FileError(f"not JSON: {error}", where=str(beside)) from None
    tensors = document.get("tensors") if isinstance(document, dict) else None
    if not isinstance(tensors, dict):
        raise FileError("has no table of tensors", where=str(beside))
    rows = ((name, _numbers(entry)) for name, entry in tensors.items())
    table = {name: numbers for name, numbers in rows if numbers is not None}
    constants = dict(source.constants)
    nodes = [*_weights(constants, table)]
    readers: dict[str, list[str]] = {}
    for reader in source.nodes:
        for name in reader.inputs:
            readers.setdefault(name, []).append(reader.kind)
    whole = {entry.name for entry in source.inputs if entry.type in ("int8", "uint8")}
    for node in source.nodes:
        if node.kind == _QUANTIZE or (node.kind != _DEQUANTIZE and node.input(0) in whole):
            whole.add(node.output)  # integers already: what follows only moves them
            nodes.append(node)
        else:
            nodes += _around(node, table, readers, constants)
    return replace(source, nodes=tuple(nodes), constants=constants)


def _numbers(entry: Any) -> Numbers | None:
    """Integers with scales; floats and what is not as expected have no numbers."""
    form = entry.get("format") if isinstance(entry, dict) else None
    if not isinstance(form, dict) or form.get("type") not in _TYPES:
        return None
    params = form.get("params")
    if not isinstance(params, list) or len(params) != 2:
        return None
    scales, offsets = ([v for v in part or [] if isinstance(v, (int, float))] for part in params)
    if not scales or len(scales) != len(offsets) or not all(map(math.isfinite, scales)):
        return None
    return Numbers(form["type"], tuple(map(float, scales)), tuple(map(int, offsets)))


def _weights(constants: dict[str, Const], table: dict[str, Numbers]) -> Iterator[Node]:
    """Float constants with numbers of their own as integers behind a DequantizeLinear."""
    for name, const in list(constants.items()):
        numbers = table.get(name)
        if numbers is None or const.data.dtype != np.float32:
            continue
        axis = _axis(const.data.shape, len(numbers.scales))
        if axis is None:
            continue
        shape = [1] * const.data.ndim
        if len(numbers.scales) > 1:
            shape[axis] = -1
        steps = np.array(numbers.scales, np.float32).reshape(shape or ())
        zeros = np.array(numbers.offsets).reshape(shape or ())
        kind = _TYPES[numbers.type]
        limits = np.iinfo(kind)
        values = np.clip(np.rint(const.data / steps) + zeros, limits.min, limits.max).astype(kind)
        del constants[name]
        stored = f"{name}.integers"
        constants[stored] = Const(values, np.dtype(kind).name)
        yield _pair_node(_DEQUANTIZE, stored, name, numbers, constants, axis)


def _axis(shape: tuple[int, ...], scales: int) -> int | None:
    """The first axis of that many channels: weights have their outputs there."""
    if scales == 1:
        return 0
    return next((axis for axis, size in enumerate(shape) if size == scales), None)


def _around(
    node: Node,
    table: dict[str, Numbers],
    readers: dict[str, list[str]],
    constants: dict[str, Const],
) -> Iterator[Node]:
    """The node, and the pair behind its result unless the file has one there."""
    numbers = table.get(node.output)
    quantized = set(readers.get(node.output, ())) == {_QUANTIZE}
    plain = numbers is None or numbers.type not in _ACTIVATIONS or len(numbers.scales) != 1
    if node.kind in (_QUANTIZE, _DEQUANTIZE) or len(node.outputs) != 1 or plain or quantized:
        yield node
        return
    assert numbers is not None  # not plain
    real, whole = f"{node.output}.real", f"{node.output}.integers"
    yield replace(node, outputs=(real,))
    yield _pair_node(_QUANTIZE, real, whole, numbers, constants)
    yield _pair_node(_DEQUANTIZE, whole, node.output, numbers, constants)


def _pair_node(
    kind: str,
    source: str,
    output: str,
    numbers: Numbers,
    constants: dict[str, Const],
    axis: int = 0,
) -> Node:
    single = len(numbers.scales) == 1
    scales = np.array(numbers.scales[0] if single else numbers.scales, np.float32)
    zeros = np.array(numbers.offsets[0] if single else numbers.offsets, _TYPES[numbers.type])
    names = f"{output}.{kind}.scale", f"{output}.{kind}.zero"
    constants[names[0]] = Const(scales, "float32")
    constants[names[1]] = Const(zeros, zeros.dtype.name)
    return Node(kind, f"{kind}:{output}", (source, *names), (output,), {"axis": axis})
