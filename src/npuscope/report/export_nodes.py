"""Nodes of a model file as other viewers name them, with the origin that our ops carry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from npuscope.errors import FileError
from npuscope.graph.limits import MAX_NAME_BYTES
from npuscope.graph.model import Graph
from npuscope.text import safe_terminal

_TFLITE_MAGIC = b"TFL3"


@dataclass(frozen=True, slots=True)
class SourceNode:
    """`key` is the node's id in Model Explorer, `index` its place in the file."""

    index: int
    key: str
    origin: str


def is_tflite(data: bytes) -> bool:
    return data[4:8] == _TFLITE_MAGIC


def tflite_nodes(graph: Graph) -> tuple[SourceNode, ...]:
    """Operators that became ops; the viewer calls them by their place in the file."""
    origins = dict.fromkeys(origin for op in graph.ops for origin in op.origin)
    places = [(origin, origin.rpartition("#")[2]) for origin in origins]
    return tuple(
        SourceNode(int(place), place, origin) for origin, place in places if place.isdecimal()
    )


def onnx_proto(data: bytes) -> Any:
    """The file's message; it has been read as a model before."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError):
        raise FileError("not an ONNX file, or a damaged one") from None
    return proto


def onnx_nodes(proto: Any) -> tuple[SourceNode, ...]:
    """All nodes; the viewer's name for one without a name has its place."""
    return tuple(_onnx_node(index, node) for index, node in enumerate(_nodes(proto)))


def _nodes(proto: Any) -> Iterable[Any]:
    nodes: Iterable[Any] = proto.graph.node
    return nodes


def _onnx_node(index: int, node: Any) -> SourceNode:
    name, kind = _text(node.name), _text(node.op_type)
    # The same text as the reader makes of it.
    origin = safe_terminal(f"{kind}:{name or f'#{index}'}"[:MAX_NAME_BYTES])
    return SourceNode(index, name or f"<node_{index}>", origin)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")
