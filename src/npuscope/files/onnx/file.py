"""An ONNX file as plain records: nodes, initializers, external data; nothing interpreted."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from npuscope.errors import FileError, ModelError
from npuscope.files.onnx.constants import TYPE_NAMES, Const, TensorReader, text
from npuscope.graph.limits import MAX_NAME_BYTES, MAX_OPS, MAX_RANK, MAX_TENSORS, check_count
from npuscope.structs import Apart, replace
from npuscope.text import safe_terminal

# --- Records: what the reader needs from an ONNX file ---

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Const | None


class Node(Struct, frozen=True):
    """One node. `kind` has a domain prefix unless the domain is ONNX's own.

    `origin` names the node of the file; nodes that expand.py makes share it. `merged` names the
    nodes that were folded into it.
    """

    kind: str
    origin: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute] = field(default_factory=dict)
    merged: tuple[str, ...] = ()

    @property
    def origins(self) -> tuple[str, ...]:
        return (self.origin, *self.merged)

    @property
    def output(self) -> str:
        return self.outputs[0]

    def input(self, index: int) -> str:
        """Name of an input, the empty string when it is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def integer(self, name: str, default: int) -> int:
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise ModelError(f"attribute '{name}' must be an integer", where=self.origin)
        return value

    def number(self, name: str, default: float) -> float:
        value = self.attributes.get(name, default)
        if not isinstance(value, (int, float)):
            raise ModelError(f"attribute '{name}' must be a number", where=self.origin)
        return float(value)

    def text(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise ModelError(f"attribute '{name}' must be a string", where=self.origin)
        return value

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, None when it is not given."""
        value = self.attributes.get(name)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(item, int) for item in value):
            raise ModelError(f"attribute '{name}' must be a list of integers", where=self.origin)
        return tuple(int(item) for item in value)


class Input(Struct, frozen=True):
    """A graph input; `dims` has a symbol or None where the size is dynamic."""

    name: str
    type: str
    dims: tuple[int | str | None, ...]


class OnnxModel(Apart, frozen=True):
    """`constants` maps every initializer to its values."""

    apart = ("proto",)

    opset: int
    nodes: tuple[Node, ...]
    constants: dict[str, Const]
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    folder: Path = Path()  # where the file lies, and its external data
    notes: tuple[str, ...] = ()  # what a user should know of how it was read
    proto: Any = None  # the file itself


def check_single_assignment(source: OnnxModel) -> None:
    """Every tensor is the output of one node; the graph outputs are different tensors."""
    writers = Counter(name for node in source.nodes for name in node.outputs if name)
    writers.update(source.constants.keys())
    writers.update(entry.name for entry in source.inputs)
    name, times = writers.most_common(1)[0]
    if times > 1:
        raise ModelError(f"tensor '{safe_terminal(name)}' is the output of {times} nodes")
    if len(set(source.outputs)) != len(source.outputs) or not source.outputs:
        raise ModelError("the graph outputs must be one or more different tensors")


# --- Reading the protobuf; nothing is interpreted here ---

OLDEST_OPSET, NEWEST_OPSET = 7, 28
_UPDATED_OPSET = 13
# Ops that ONNX itself defines by others, and that no converter knows: read as their definition.
FUNCTIONS = frozenset(
    (*("Attention", "MeanVarianceNormalization", "ReduceLogSum", "ReduceLogSumExp"),)
)
_OWN_DOMAINS = ("", "ai.onnx")
# onnxruntime writes its own versions of standard ops when the opset lacks a type
_SAME_ELSEWHERE = {"com.microsoft.QuantizeLinear", "com.microsoft.DequantizeLinear"}


def parse(data: bytes, path: Path) -> OnnxModel:
    """The model as records; raises FileError or ModelError only."""
    proto = _inlined(_updated(decode(data)))
    graph = proto.graph
    check_count(len(graph.node), MAX_OPS, "nodes")
    check_count(len(graph.initializer), MAX_TENSORS, "initializers")
    if graph.sparse_initializer:
        raise ModelError("sparse initializers are not supported")
    reader = TensorReader(path.parent)
    constants = {text(entry.name): reader.read(entry) for entry in graph.initializer}
    source = OnnxModel(
        opset=_opset(proto),
        nodes=sorted_nodes(tuple(_renamed(to_nodes(graph.node, reader)))),
        constants=constants,
        inputs=tuple(_input(info) for info in graph.input if text(info.name) not in constants),
        outputs=tuple(text(info.name) for info in graph.output),
        folder=path.parent,
        proto=proto,
    )
    check_single_assignment(source)
    return source


def decode(data: bytes) -> Any:
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


def _updated(proto: Any) -> Any:
    """A model of the first opsets, whose broadcasting was another, in a newer one."""
    versions = [entry.version for entry in proto.opset_import if entry.domain in _OWN_DOMAINS]
    if not versions or versions[0] >= OLDEST_OPSET:
        return proto
    from onnx import version_converter

    refused: tuple[type[Exception], ...] = (version_converter.ConvertError, *_onnx_refusals())
    try:
        return version_converter.convert_version(proto, _UPDATED_OPSET)
    except refused:
        return proto  # refused for its opset


def _inlined(proto: Any) -> Any:
    """Calls of functions, the file's own or ONNX's, replaced by what they stand for."""
    from onnx import defs, inliner

    proto = inline_own_functions(proto)
    try:
        kinds = {node.op_type for node in proto.graph.node if node.domain in _OWN_DOMAINS}
        names = [("", kind) for kind in sorted(kinds.intersection(FUNCTIONS))]
        if names:
            # Attributes that the nodes leave out: definitions name them.
            opset = _opset(proto)
            for node in proto.graph.node:
                if node.domain not in _OWN_DOMAINS or node.op_type not in FUNCTIONS:
                    continue
                stated = {item.name for item in node.attribute}
                for name, form in defs.get_schema(node.op_type, opset).attributes.items():
                    if name not in stated and form.default_value.name:
                        node.attribute.append(form.default_value)
            proto = inliner.inline_selected_functions(proto, names, inline_schema_functions=True)
    except _onnx_refusals():
        pass  # the calls stay as ops that nothing here computes
    return proto


def inline_own_functions(proto: Any) -> Any:
    """Calls of the file's own functions replaced by what they stand for."""
    from onnx import inliner

    if not proto.functions:
        return proto
    try:
        return inliner.inline_local_functions(proto)
    except _onnx_refusals() as error:
        # A function of the name of a standard op would be taken for that op.
        raise ModelError(
            f"the file's own functions cannot be expanded: {str(error).partition(chr(10))[0]}",
            hint="let the exporter inline functions",
        ) from None


def _onnx_refusals() -> tuple[type[Exception], ...]:
    """What onnx raises for a model that contradicts itself."""
    from onnx import checker, shape_inference

    own = (checker.ValidationError, shape_inference.InferenceError)
    return (*own, RuntimeError, ValueError, TypeError)


def _renamed(nodes: Iterable[Node]) -> Iterator[Node]:
    """A name that several Constant nodes use means the last of them, as onnxruntime reads it."""
    writers: Counter[str] = Counter()
    last_names: dict[str, str] = {}
    for node in nodes:
        if any(name in last_names for name in node.inputs):
            node = replace(node, inputs=tuple(last_names.get(name, name) for name in node.inputs))
        if node.kind == "Constant" and writers[node.output]:
            last_names[node.output] = f"{node.output}/{writers[node.output]}"
            node = replace(node, outputs=(last_names[node.output],))
        writers.update(node.outputs)
        yield node


def sorted_nodes(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Every node behind those that make its inputs; a file in that order stays as it is."""
    writers = {name: place for place, node in enumerate(nodes) for name in node.outputs if name}
    if all(
        writers.get(name, -1) < place for place, node in enumerate(nodes) for name in node.inputs
    ):
        return nodes
    waiting = [{writers[name] for name in node.inputs if name in writers} for node in nodes]
    readers: dict[int, list[int]] = {}
    for place, needs in enumerate(waiting):
        for need in needs:
            readers.setdefault(need, []).append(place)
    ready = [place for place, needs in enumerate(waiting) if not needs]
    order: list[int] = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for reader in readers.get(place, []):
            waiting[reader].discard(place)
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    return tuple(nodes[place] for place in order) if len(order) == len(nodes) else nodes


def _opset(proto: Any) -> int:
    versions = [entry.version for entry in proto.opset_import if entry.domain in _OWN_DOMAINS]
    if not versions:
        return NEWEST_OPSET  # ops of other domains only
    if not OLDEST_OPSET <= versions[0] <= NEWEST_OPSET:
        raise ModelError(
            f"opset {versions[0]} is not supported, expected {OLDEST_OPSET} to {NEWEST_OPSET}",
            hint="convert it: onnx.version_converter.convert_version(model, 17)",
        )
    return int(versions[0])


def to_nodes(protos: Iterable[Any], reader: TensorReader) -> Iterator[Node]:
    return (_node(proto, index, reader) for index, proto in enumerate(protos))


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
    inputs = (*(text(name) for name in proto.input), *_captured(proto))
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
    if proto.type == kinds.STRINGS:
        return tuple(bytes(item).decode(errors="backslashreplace") for item in proto.strings)
    if proto.type == kinds.TENSOR:
        return reader.read(proto.t)
    return None  # a kind no converter asks for


def _captured(node: Any) -> tuple[str, ...]:
    """Tensors of the network that bodies of control flow read without naming them as inputs."""
    bodies = [item.g for item in node.attribute if item.HasField("g")]
    bodies += [body for item in node.attribute for body in item.graphs]
    read: dict[str, None] = {}
    for body in bodies:
        own = {text(info.name) for info in (*body.input, *body.initializer)}
        for inner in body.node:
            names = (*(text(name) for name in inner.input), *_captured(inner))
            read.update(dict.fromkeys(name for name in names if name and name not in own))
            own.update(text(name) for name in inner.output)
        read.update(dict.fromkeys(text(i.name) for i in body.output if text(i.name) not in own))
    operands = {text(name) for name in node.input}
    return tuple(name for name in read if name not in operands)


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
    sizes: list[int | str | None] = []
    for dim in tensor.shape.dim:
        is_number = dim.HasField("dim_value") and dim.dim_value > 0
        sizes.append(int(dim.dim_value) if is_number else text(dim.dim_param) or None)
    return Input(name, type_name, tuple(sizes))
