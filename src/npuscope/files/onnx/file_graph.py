"""An .onnx file as a graph that can be changed and written again without loss: the protobuf as it
is, with look-ups and small changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from pathlib import Path
from typing import Any, Self

import numpy as np

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
from npuscope.files.onnx.first_state import FirstState, serialized
from npuscope.files.onnx.inference import inferred_graph
from npuscope.graph.limits import MAX_NAME_BYTES
from npuscope.lean_dataclass import dataclass
from npuscope.text import safe_terminal

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
Node = Any  # onnx.NodeProto: the package is imported late
_EXTERNAL = 1  # onnx.TensorProto.EXTERNAL


@dataclass(frozen=True, slots=True)
class OnnxQuant:
    """real = scale * (q - zero_point); arrays of one element, or of one per channel of `axis`."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int = 1

    @property
    def per_channel(self) -> bool:
        return self.scale.ndim > 0 and self.scale.size > 1


class OnnxFileGraph:
    """Nodes are found by what they make and read; their order is found again when written.

    Tensors are known by name. Everything that nobody changed is written as it was read: nodes and
    constants that no output needs, functions, remarks, fields newer than this version of onnx.
    What other files held comes inside, so that the file can be moved.
    """

    format = "onnx"

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
        self._shapes: dict[str, tuple[int, ...]] | None = None
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
        known = [e.version for e in self.proto.opset_import if e.domain in ("", "ai.onnx")]
        if not known:
            raise ModelError(
                "the file does not state the opset of its standard ops, so edits have no version "
                "to follow",
                hint="add it: model.opset_import.append(onnx.helper.make_opsetid('', 17))",
            )
        return int(known[0])

    # finding

    def op(self, origin: str) -> Node | None:
        """By the name that findings use, as long as it was not removed."""
        found = self._origins.get(origin)
        return found if found is not None and any(node is found for node in self.nodes) else None

    def origin(self, node: Node) -> str | None:
        """The name that findings use; None for nodes that an edit added."""
        return next((origin for origin, other in self._origins.items() if other is node), None)

    def producer(self, tensor: str) -> Node | None:
        return next((node for node in self.nodes if tensor in node.output), None)

    def readers(self, tensor: str) -> list[Node]:
        """With those that read it in a body."""
        return [node for node in self.nodes if tensor in self._reads(node)]

    def _reads(self, node: Node) -> tuple[str, ...]:
        return (*node.input, *self._captured.get(id(node), ()))

    def is_output(self, tensor: str) -> bool:
        return any(entry.name == tensor for entry in self.graph.output)

    def is_input(self, tensor: str) -> bool:
        return any(entry.name == tensor for entry in self.graph.input)

    def array(self, tensor: str) -> np.ndarray | None:
        """The values of an initializer or a Constant node."""
        for entry in self.graph.initializer:
            if entry.name == tensor:
                return self._reader.read(entry).data
        node = self.producer(tensor) if tensor else None
        if node is None or node.op_type != "Constant":
            return None
        value = next((item for item in node.attribute if item.name == "value"), None)
        return None if value is None else self._reader.read(value.t).data

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """As ONNX infers it, with open sizes as 1 (the batch); None where it cannot."""
        if self._shapes is None:
            self._shapes = self._inferred()
        return self._shapes.get(tensor)

    def quant(self, node: Node) -> OnnxQuant:
        """Scale and zero point of a QuantizeLinear or DequantizeLinear."""
        scale = self.array(node.input[1])
        if scale is None:
            raise ValueError(f"the scale of '{text(node.name)}' is computed")
        zero = self.array(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        zero = np.zeros_like(scale, np.uint8) if zero is None else zero
        return OnnxQuant(scale, zero, int(self.attribute(node, "axis", 1)))

    def attribute(self, node: Node, name: str, default: Any = None) -> Any:
        import onnx

        for item in node.attribute:
            if item.name == name:
                return onnx.helper.get_attribute_value(item)
        return default

    # editing

    def fresh(self, stem: str) -> str:
        """A tensor name that is not in use yet."""
        used = {name for node in self.nodes for name in (*node.input, *node.output)}
        used |= {entry.name for entry in (*self.graph.initializer, *self.graph.input)}
        used |= self._names_inside
        numbered = (f"{stem}_{n}" for n in range(1, len(used) + 2))
        return next(name for name in (stem, *numbered) if name not in used)

    def add_constant(self, stem: str, values: np.ndarray) -> str:
        import onnx

        name = self.fresh(stem)
        array = np.ascontiguousarray(values) if values.ndim else values
        self.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        self._shapes = None
        return name

    def add_node(
        self,
        kind: str,
        inputs: Iterable[str],
        output: str | Iterable[str],
        name: str = "",
        domain: str = "",
        **attributes: Any,
    ) -> Node:
        """A node; its place is found when the file is written."""
        import onnx

        outputs = [output] if isinstance(output, str) else [*output]
        node = onnx.helper.make_node(
            kind, [*inputs], outputs, name=self._fresh_node(name or outputs[0]), domain=domain
        )
        node.attribute.extend(onnx.helper.make_attribute(k, v) for k, v in attributes.items())
        self.nodes.append(node)
        self._shapes = None
        return node

    def set_attribute(self, node: Node, name: str, value: Any) -> None:
        import onnx

        kept = [item for item in node.attribute if item.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
        self._shapes = None

    def drop_attribute(self, node: Node, name: str) -> None:
        kept = [item for item in node.attribute if item.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
        self._shapes = None

    def set_input(self, node: Node, place: int, tensor: str | None) -> None:
        """An input; absent ones in front of it become empty names."""
        while len(node.input) <= place:
            node.input.append("")
        node.input[place] = tensor or ""
        self._shapes = None

    def remove(self, node: Node) -> None:
        self.nodes = [other for other in self.nodes if other is not node]
        self._shapes = None

    def rewire(self, old: str, new: str, readers: Iterable[Node] | None = None) -> None:
        """Readers of `old` read `new`: all but the maker of `new`, unless they are named.

        Where `old` is an output of the graph and all readers move, the maker of `new` writes it
        under the old name from now on.
        """
        maker = self.producer(new)
        others = [node for node in self.readers(old) if node is not maker]
        for node in others if readers is None else readers:
            _rename(node.input, old, new)
        if readers is None and self.is_output(old):
            self._take_name(new, old)
        self._shapes = None

    def _take_name(self, tensor: str, name: str) -> None:
        if self.producer(tensor) is None:
            raise ValueError(f"'{tensor}' is not computed by a node that could write '{name}'")
        before = self.fresh(f"{name}_before")
        for node in self.nodes:
            for names in (node.input, node.output):
                _rename(names, name, before)
                _rename(names, tensor, name)

    # writing

    def to_bytes(self) -> bytes:
        """A file that nobody changed is the original, byte by byte."""
        written = self.written()
        if self._first.is_like(written):
            return self._original or written
        return self._changed_bytes()

    def written(self) -> bytes:
        """By the writer, whether something was changed or not."""
        self._put_nodes()
        return serialized(self.proto)

    def current(self) -> Any:
        """The model as it stands, perhaps in the middle of an edit: without what nobody needs."""
        self.drop_dead()
        self.nodes = self._in_order()
        self._put_nodes()
        return self.proto

    def _put_nodes(self) -> None:
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)

    def _changed_bytes(self) -> bytes:
        """Shapes that the file states, and names that bodies read, must hold in the new file."""
        import onnx

        model = onnx.ModelProto()
        model.CopyFrom(self.current())
        self._first.settle(model, self.nodes, self._captured)
        return serialized(model)

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

    def _fresh_node(self, stem: str) -> str:
        used = {node.name for node in self.nodes}
        numbered = (f"{stem}_{n}" for n in range(1, len(used) + 2))
        return next(name for name in (stem, *numbered) if name not in used)

    def _inferred(self) -> dict[str, tuple[int, ...]]:
        import onnx

        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        del proto.graph.node[:]
        # Also what nobody reads: an edit may be half done.
        proto.graph.node.extend(self._in_order())
        for entry in proto.graph.input:
            for dim in entry.type.tensor_type.shape.dim:
                if not dim.HasField("dim_value"):
                    dim.dim_value = 1
        graph = inferred_graph(proto)
        entries = [*graph.input, *graph.value_info, *graph.output]
        known = {entry.name: _dims(entry) for entry in entries}
        known |= {entry.name: tuple(entry.dims) for entry in graph.initializer}
        return {name: dims for name, dims in known.items() if dims is not None}


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
    named = {_origin(node, n): node for n, node in enumerate(nodes)}
    return {origin: node for origin, node in named.items() if origin not in inside}


def _origin(node: Node, index: int) -> str:
    """As the reader names it."""
    name = text(node.name) or f"#{index}"
    return safe_terminal(f"{text(node.op_type)}:{name}"[:MAX_NAME_BYTES])


def _dims(entry: Any) -> tuple[int, ...] | None:
    tensor = entry.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in tensor.shape.dim]
    return tuple(dims) if 0 not in dims else None


def _rename(names: Any, old: str, new: str) -> None:
    for place, name in enumerate(names):
        if name == old:
            names[place] = new


def _clone(node: Node) -> Node:
    copy = type(node)()
    copy.CopyFrom(node)
    return copy
