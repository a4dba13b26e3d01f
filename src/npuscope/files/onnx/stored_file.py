"""An .onnx file as it is stored, and how it is written without loss: the protobuf as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from pathlib import Path
from typing import Any, Self

from msgspec import Struct

from npuscope.errors import ModelError
from npuscope.files.onnx.bodies import (
    all_bodies,
    bodies,
    captured,
    constants,
    names_inside,
    nodes_in_order,
)
from npuscope.files.onnx.constants import TensorReader, text
from npuscope.files.onnx.entries import copied, dims, open_axes
from npuscope.files.onnx.file import decode
from npuscope.files.onnx.first_state import FirstState, serialized
from npuscope.files.onnx.inference import inferred_graph
from npuscope.graph.limits import MAX_NAME_BYTES
from npuscope.text import safe_terminal

Node = Any  # onnx.NodeProto: the package is imported late
_EXTERNAL = 1  # onnx.TensorProto.EXTERNAL


class Inferred(Struct, frozen=True):
    """What ONNX finds out about tensors; `types` are numbers of element types."""

    shapes: dict[str, tuple[int, ...]]
    types: dict[str, int]


class StoredOnnx:
    """Nodes are found by what they make and read; their order is found again when written.

    Tensors are known by name. Everything that nobody changed is written as it was read: nodes and
    constants that no output needs, functions, remarks, fields newer than this version of onnx.
    What other files held comes inside, so that the file can be moved.
    """

    def __init__(self, proto: Any, original: bytes = b"") -> None:
        self.proto, self._original = proto, original
        self.graph = proto.graph
        # Our own objects: those of the protobuf are made again whenever it is written.
        self.nodes: list[Node] = [_clone(node) for node in proto.graph.node]
        self._first_nodes = tuple(self.nodes)  # held, for what is known of them goes by their id
        self._captured = {id(node): captured(node) for node in self.nodes if bodies(node)}
        self._names_inside = names_inside(self.nodes)
        self._is_sorted = all(map(is_, self.nodes, nodes_in_order(self.nodes)))
        self._origins = _origins(self.nodes)
        self._inferred: Inferred | None = None
        self._reader = TensorReader(Path())
        self._first = FirstState(proto, original)
        live, needed = self._live()
        # What no output needed when the file was read stays, though no output needs it now.
        self._idle_nodes = [node for node in self.nodes if id(node) not in live]
        self._idle_names = {entry.name for entry in self.graph.initializer} - needed

    @classmethod
    def parse(cls, data: bytes, folder: Path) -> Self:
        """`data` must be a file that the reader accepts."""
        import onnx

        proto = onnx.ModelProto.FromString(data)
        outside = [entry for entry in constants(proto) if entry.data_location == _EXTERNAL]
        reader = TensorReader(folder)
        for entry in outside:
            entry.raw_data = reader.outside(entry)
            entry.ClearField("external_data")
            entry.ClearField("data_location")
        return cls(proto, b"" if outside else data)

    def copy(self) -> Self:
        return type(self).parse(self.to_bytes(), Path())

    @property
    def opset(self) -> int:
        versions = [e.version for e in self.proto.opset_import if e.domain in ("", "ai.onnx")]
        if not versions:
            raise ModelError(
                "the file does not state the opset of its standard ops, so edits have no version "
                "to follow",
                hint="add it: model.opset_import.append(onnx.helper.make_opsetid('', 17))",
            )
        return int(versions[0])

    @opset.setter
    def opset(self, version: int) -> None:
        for entry in self.proto.opset_import:
            if entry.domain in ("", "ai.onnx"):
                entry.version = version

    @property
    def ir_version(self) -> int:
        return int(self.proto.ir_version)

    @ir_version.setter
    def ir_version(self, version: int) -> None:
        self.proto.ir_version = version

    @property
    def newest_type(self) -> int:
        """The highest number of an element type among the constants."""
        return max((int(entry.data_type) for entry in self.graph.initializer), default=0)

    @property
    def constant_names(self) -> set[str]:
        return {entry.name for entry in self.graph.initializer}

    @property
    def has_functions(self) -> bool:
        return bool(self.proto.functions)

    @property
    def has_bodies(self) -> bool:
        return any(item.HasField("g") for node in self.nodes for item in node.attribute)

    @property
    def has_open_sizes(self) -> bool:
        return any(open_axes(entry) for entry in self.graph.input)

    @property
    def has_open_sizes_inside(self) -> bool:
        """Others than that of the batch."""
        return any(axis for entry in self.graph.input for axis in open_axes(entry))

    def remark(self, op: Node, properties: Mapping[str, str], said: str) -> None:
        """For viewers: properties of a node, and a sentence behind its description."""
        for key, value in properties.items():
            entry = op.metadata_props.add()
            entry.key, entry.value = key, value
        op.doc_string = f"{op.doc_string}\n{said}" if op.doc_string else said

    def _reads(self, node: Node) -> tuple[str, ...]:
        return (*node.input, *self._captured.get(id(node), ()))

    # writing

    def to_bytes(self) -> bytes:
        """A file that nobody changed is the original, byte by byte."""
        data = self.written()
        if self._first.is_like(data):
            return self._original or data
        # Shapes that the file states, and names that bodies read, must hold in the new file.
        import onnx

        model = onnx.ModelProto()
        model.CopyFrom(self.current())
        self._first.settle(model, self.nodes, self._captured)
        return serialized(model)

    def written(self) -> bytes:
        """By the writer, whether something was changed or not."""
        self._put_nodes()
        return serialized(self.proto)

    def message(self) -> Any:
        """A copy of the protobuf, for tools of others that take it."""
        self._put_nodes()
        return copied(self.proto)

    def current(self) -> Any:
        """The model as it stands, perhaps in the middle of an edit: without what nobody needs."""
        self.drop_dead()
        self.nodes = self._in_order()
        self._put_nodes()
        return self.proto

    def _put_nodes(self) -> None:
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)

    def _in_order(self) -> list[Node]:
        """Nodes of a file that is not in order stay where they are, for runtimes sort them; new
        ones stand in front of their readers."""
        old = () if self._is_sorted else {id(node) for node in self._first_nodes}
        return nodes_in_order(self.nodes, old)

    def drop_dead(self) -> None:
        """Nodes and constants that an edit left behind."""
        live, needed = self._live(self._idle_nodes)
        self.nodes = [node for node in self.nodes if id(node) in live]
        for entry in [e for e in self.graph.initializer if e.name not in needed]:
            if entry.name not in self._idle_names:
                self.graph.initializer.remove(entry)
                for old in [e for e in self.graph.input if e.name == entry.name]:
                    self.graph.input.remove(old)  # a default that nobody overrides any more

    def _live(self, idle: Sequence[Node] = ()) -> tuple[set[int], set[str]]:
        """Nodes that outputs, training and quantization remarks need, and the names that they
        read; `idle` ones count as needed."""
        makers = {name: node for node in self.nodes for name in node.output if name}
        needed = {entry.name for entry in self.graph.output} | self._first.named
        waiting, live = [*needed], {id(node) for node in idle}
        for node in idle:
            waiting.extend(self._reads(node))
        needed.update(waiting)
        while waiting:
            maker = makers.get(waiting.pop())
            if maker is not None and id(maker) not in live:
                live.add(id(maker))
                needed.update(self._reads(maker))
                waiting.extend(self._reads(maker))
        return live, needed

    def inferred(self) -> Inferred:
        """Shapes with open sizes as 1. Also of what nobody reads: an edit may be half done."""
        if self._inferred is None:
            import onnx

            proto = onnx.ModelProto()
            proto.CopyFrom(self.proto)
            del proto.graph.node[:]
            proto.graph.node.extend(self._in_order())
            for entry in proto.graph.input:
                for axis in open_axes(entry):
                    entry.type.tensor_type.shape.dim[axis].dim_value = 1
            graph = inferred_graph(proto)
            entries = [*graph.input, *graph.value_info, *graph.output]
            shapes = {entry.name: dims(entry) for entry in entries}
            shapes |= {entry.name: tuple(entry.dims) for entry in graph.initializer}
            types = {entry.name: int(entry.type.tensor_type.elem_type) for entry in entries}
            types |= {entry.name: int(entry.data_type) for entry in graph.initializer}
            self._inferred = Inferred(
                {name: sizes for name, sizes in shapes.items() if sizes is not None}, types
            )
        return self._inferred


def node_kinds(data: bytes) -> set[str]:
    """Of the nodes of the main graph."""
    return {kind for kind, _ in node_names(data)}


def node_names(data: bytes) -> list[tuple[str, str]]:
    """Kind and own name of every node of the main graph."""
    return [(text(node.op_type), text(node.name)) for node in decode(data).graph.node]


def has_external_data(data: bytes) -> bool:
    """False for a file that is not ONNX: the reader then reports what it is."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        proto = onnx.ModelProto.FromString(data)
    except (DecodeError, RuntimeError, ValueError):
        return False
    return any(entry.data_location == _EXTERNAL for entry in constants(proto))


def _origins(nodes: Sequence[Node]) -> dict[str, Node]:
    """By the names that findings use. A node without a name of its own is left out where a body
    has one of the same kind and place, which findings name alike."""
    inside = {_origin(n, k) for graph in all_bodies(nodes) for k, n in enumerate(graph.node)}
    by_origin = {_origin(node, n): node for n, node in enumerate(nodes)}
    return {origin: node for origin, node in by_origin.items() if origin not in inside}


def _origin(node: Node, index: int) -> str:
    """As the reader names it."""
    name = text(node.name) or f"#{index}"
    return safe_terminal(f"{text(node.op_type)}:{name}"[:MAX_NAME_BYTES])


def _clone(node: Node) -> Node:
    copy = type(node)()
    copy.CopyFrom(node)
    return copy
