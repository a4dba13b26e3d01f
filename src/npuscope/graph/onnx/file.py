"""Reading the protobuf: nodes, initializers, external data. Nothing is interpreted here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npuscope.errors import FileError, ModelError
from npuscope.graph.limits import MAX_NAME_BYTES, MAX_OPS, MAX_RANK, MAX_TENSORS, check_count
from npuscope.graph.onnx.nodes import Attribute, Input, Node, Source, check_single_assignment
from npuscope.graph.onnx.tensors import TYPE_NAMES, TensorReader, text
from npuscope.graph.refusals import nearest_form
from npuscope.text import safe_terminal

OLDEST_OPSET, NEWEST_OPSET = 9, 21
_OWN_DOMAINS = ("", "ai.onnx")
# onnxruntime's versions of the standard ops, written when the opset lacks a type
_SAME_ELSEWHERE = {"com.microsoft.QuantizeLinear", "com.microsoft.DequantizeLinear"}


def parse(data: bytes, path: Path) -> Source:
    """The model as records; raises FileError or ModelError only."""
    proto = _decode(data)
    graph = proto.graph
    check_count(len(graph.node), MAX_OPS, "nodes")
    check_count(len(graph.initializer), MAX_TENSORS, "initializers")
    if graph.sparse_initializer:
        raise ModelError("sparse initializers are not supported")
    reader = TensorReader(path.parent)
    constants = {text(entry.name): reader.read(entry) for entry in graph.initializer}
    source = Source(
        opset=_opset(proto),
        nodes=tuple(_node(node, index, reader) for index, node in enumerate(graph.node)),
        constants=constants,
        inputs=tuple(_input(info) for info in graph.input if text(info.name) not in constants),
        outputs=tuple(text(info.name) for info in graph.output),
    )
    check_single_assignment(source)
    return source


def _decode(data: bytes) -> Any:
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError):
        raise FileError(
            "not an ONNX file, or a damaged one: the protobuf cannot be decoded",
            hint="copy or export the model again",
        ) from None
    if not proto.HasField("graph") or not proto.graph.node:
        raise FileError(
            "not an ONNX model: the file holds no graph with nodes",
            hint="expected a .tflite or .onnx model",
        )
    return proto


def _opset(proto: Any) -> int:
    versions = [entry.version for entry in proto.opset_import if entry.domain in _OWN_DOMAINS]
    if not versions:
        raise ModelError("the file names no opset of the ONNX domain")
    if not OLDEST_OPSET <= versions[0] <= NEWEST_OPSET:
        raise ModelError(
            f"opset {versions[0]} is not supported, expected {OLDEST_OPSET} to {NEWEST_OPSET}",
            hint="convert it: onnx.version_converter.convert_version(model, 17)",
        )
    return int(versions[0])


def _node(proto: Any, index: int, reader: TensorReader) -> Node:
    plain, domain = text(proto.op_type), text(proto.domain)
    kind = plain if domain in _OWN_DOMAINS else f"{domain}.{plain}"
    if kind in _SAME_ELSEWHERE:
        kind = plain
    origin = safe_terminal(f"{plain}:{text(proto.name) or f'#{index}'}"[:MAX_NAME_BYTES])
    if not proto.output:
        raise ModelError("the node has no output", where=origin)
    attributes = {text(item.name): _attribute(item, origin, reader) for item in proto.attribute}
    outputs = tuple(text(name) for name in proto.output)
    while len(outputs) > 1 and not outputs[-1]:
        outputs = outputs[:-1]
    inputs = tuple(text(name) for name in proto.input)
    return Node(kind, origin, inputs, outputs, attributes)


def _attribute(proto: Any, origin: str, reader: TensorReader) -> Attribute:
    kinds = type(proto)
    if proto.type == kinds.INT:
        return int(proto.i)
    if proto.type == kinds.FLOAT:
        return float(proto.f)
    if proto.type == kinds.STRING:
        return bytes(proto.s).decode(errors="backslashreplace")
    if proto.type == kinds.INTS:
        return tuple(proto.ints)
    if proto.type == kinds.FLOATS:
        return tuple(proto.floats)
    if proto.type == kinds.TENSOR:
        return reader.read(proto.t)
    if proto.type in (kinds.GRAPH, kinds.GRAPHS):
        raise ModelError(
            f"control flow is not supported ('{safe_terminal(text(proto.name))}' is a graph)",
            where=origin,
            hint=nearest_form("Loop"),
        )
    return None  # a kind no converter asks for


def _input(info: Any) -> Input:
    name = text(info.name)
    label = f"input '{safe_terminal(name)}'"
    if not info.type.HasField("tensor_type"):
        raise ModelError("only tensors can be graph inputs", where=label)
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        raise ModelError("the input has no shape", where=label, hint="export it with one")
    check_count(len(tensor.shape.dim), MAX_RANK, "axes of an input")
    type_name = TYPE_NAMES.get(tensor.elem_type, f"type {tensor.elem_type}")
    return Input(name, type_name, tuple(_dim(dim) for dim in tensor.shape.dim))


def _dim(dim: Any) -> int | str | None:
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return int(dim.dim_value)
    return text(dim.dim_param) or None
