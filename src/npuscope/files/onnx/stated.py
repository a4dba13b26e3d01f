"""Nodes that nothing here computes, with the shapes that the file states or onnx infers.

A shape comes from the user (`--shape`), from the file, from onnx's own inference over the file, or
from its inference over the one node, of whose inputs the walk knows all shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from npuscope.errors import ModelError
from npuscope.files.onnx.constants import (
    INTEGER_TYPES,
    PLAIN_TYPES,
    TYPE_NAMES,
    TYPE_NUMBERS,
    Const,
    text,
)
from npuscope.files.onnx.file import Node
from npuscope.files.onnx.inference import infer
from npuscope.files.onnx.layout import LayoutValue, plain
from npuscope.files.onnx.walk import OnnxWalk, Stated
from npuscope.files.other_files import refuse_other_npus
from npuscope.graph.limits import MAX_RANK
from npuscope.graph.model import DType, Tensor
from npuscope.ops.row import Shape
from npuscope.ops.table import ONNX
from npuscope.ops.unknown import UNKNOWN, UnknownAttrs
from npuscope.text import safe_terminal

_MOST_BYTES = 256 << 20  # of a model that is handed to onnx's own shape inference
_MOST_VALUES = 1024  # of a constant whose values the inference may need: axes, sizes
# Ops of other domains whose first result has the shape of their first input: quantizers of training
# frameworks, and what onnxruntime fuses.
SAME_SHAPE = (
    *("Quant", "BipolarQuant", "Trunc", "SkipLayerNormalization", "SimplifiedLayerNormalization"),
    *("SkipSimplifiedLayerNormalization", "BiasGelu", "FastGelu", "QuickGelu", "RotaryEmbedding"),
)
_OWN_WALK = ("QuantizeLinear", "DequantizeLinear", "Shape", "Size", "CastLike")


def stated_of(walk: OnnxWalk) -> dict[str, Stated]:
    """What the file says of the results of nodes that no converter knows."""
    computed_kinds = ONNX.keys() | set(_OWN_WALK)
    nodes = [node for node in walk.source.nodes if node.kind not in computed_kinds]
    refuse_other_npus((node.kind, node.origin) for node in nodes)
    names = {name for node in nodes for name in node.outputs if name}
    return _Stated(walk.source.proto, walk.shapes, walk.pins.symbols).of(names)


class _Stated:
    """Shapes of a file, with `shapes` of its inputs and the sizes of symbols."""

    def __init__(self, proto: Any, shapes: Mapping[str, Shape], symbols: Mapping[str, int]) -> None:
        self.proto = proto
        self.shapes = shapes
        self.symbols = symbols

    def of(self, names: set[str]) -> dict[str, Stated]:
        forms = self._read(self.proto.graph, names) if names else {}
        if names - forms.keys() and self.proto.ByteSize() <= _MOST_BYTES:
            forms = {**self._read(self._inferred(), names), **forms}
        return forms

    def _read(self, graph: Any, names: set[str]) -> dict[str, Stated]:
        infos = (info for infos in (graph.value_info, graph.output) for info in infos)
        forms: dict[str, Stated] = {}
        for info in infos:
            name = text(info.name)
            shape = _shape(info.type.tensor_type, self.symbols) if name in names else None
            if shape is not None and min(shape, default=1) > 0:
                forms[name] = (TYPE_NAMES.get(info.type.tensor_type.elem_type, ""), shape)
        return forms

    def _inferred(self) -> Any:
        """The graph with inferred shapes; what onnx cannot follow stays as it is."""
        import onnx

        copy = onnx.ModelProto()
        copy.CopyFrom(self.proto)
        for info in copy.graph.input:
            sizes = self.shapes.get(text(info.name), ())
            for dim, size in zip(info.type.tensor_type.shape.dim, sizes, strict=False):
                dim.dim_value = size
        return infer(copy)


def _shape(tensor: Any, symbols: Mapping[str, int]) -> Shape | None:
    """The stated shape, 0 where a size is open; none where not even the rank is known."""
    if not tensor.HasField("shape") or len(tensor.shape.dim) > MAX_RANK:
        return None
    return tuple(
        int(dim.dim_value) or symbols.get(text(dim.dim_param), 0) for dim in tensor.shape.dim
    )


# --- One node ---


def unknown(walk: OnnxWalk, node: Node, refusal: ModelError | None = None) -> None:
    """A node that nothing here computes: one op for every output that somebody reads."""
    if refusal is not None:
        walk.graph.notes.append(f"{node.origin}: {refusal.message}: work of unknown cost")
    inputs = tuple(_plain(walk, name, node.origin) for name in node.inputs if name)
    sources = tuple(name for name in inputs if name) or walk.graph.inputs[:1]
    outputs = [name for name in node.outputs if name in walk.read]
    try:
        _find(walk, node, outputs, sources)
    except ModelError as error:
        raise refusal or error from None
    for part, name in enumerate(outputs):
        type_name, shape = walk.stated[name]
        if name in walk.values:
            continue  # made before the converter gave up
        dtype = {**INTEGER_TYPES, **PLAIN_TYPES}.get(type_name, DType.FLOAT32)
        tensor = walk.builder.add(Tensor(name, shape, dtype))
        # Numbers of matrices among its operands, and in its bodies.
        operands = (walk.constants[name] for name in node.inputs if name in walk.constants)
        proto = walk.node_protos().get(node.output)
        bodies = (item.g for item in proto.attribute if item.HasField("g")) if proto else ()
        rows = (const.data.size for const in operands if const.data.ndim > 1)
        weights = sum(rows) + sum(map(body_weights, bodies))
        form = refusal.message if refusal is not None else ""
        attrs = UnknownAttrs(node.kind, shape, part, form, weights)
        walk.builder.emit(UNKNOWN, sources, attrs, tensor, (node.origin,))
        walk.define(name, LayoutValue(tensor.name, plain(len(shape))))


def body_weights(body: Any) -> int:
    """Numbers that a body of control flow, and those inside it, hold."""
    total = sum(int(prod(entry.dims)) for entry in body.initializer)
    for item in (item for node in body.node for item in node.attribute):
        total += prod(item.t.dims) if item.HasField("t") else 0
        total += body_weights(item.g) if item.HasField("g") else 0
    return total


def _plain(walk: OnnxWalk, name: str, origin: str) -> str:
    """The tensor in the file's own order of axes; constants stay outside of the graph."""
    if name in walk.constants:
        return ""
    value = walk.real(name)
    rank = len(walk.arranger.source_shape(value))
    return walk.arranger.arrange(value, plain(rank), origin).tensor


def _find(walk: OnnxWalk, node: Node, outputs: list[str], sources: tuple[str, ...]) -> None:
    """Add the shapes of a node's results to `walk.stated`."""
    if any(name not in walk.stated for name in outputs):
        for name, form in _inferred_here(walk, node, outputs).items():
            walk.stated.setdefault(name, form)
    for name in outputs:
        pinned = walk.pins.shapes.get(name)
        if pinned is not None:
            walk.stated[name] = (walk.stated.get(name, ("float32", ()))[0], pinned)
        if name in walk.stated:
            continue
        if node.kind.rpartition(".")[2] in SAME_SHAPE and sources:
            walk.stated[name] = ("float32", walk.graph.tensors[sources[0]].shape)
            continue
        # The shapes of ONNX's own ops can be inferred if the node is right.
        import onnx

        control = node.kind in ("If", "Loop", "Scan")
        if (not control and onnx.defs.has(node.kind, walk.source.opset, "")) or not sources:
            raise ModelError(f"the file does not state the shape of '{safe_terminal(name)}'")
        shape = walk.graph.tensors[sources[0]].shape
        walk.stated[name] = ("float32", shape)
        walk.guessed = True
        label = safe_terminal(name)
        walk.graph.notes.append(
            f"{node.kind} is an unknown op, and the file does not state the shape of '{label}': "
            f"the shape of its first input, {shape}, is assumed; --shape {label}=... sets another"
        )


def _inferred_here(walk: OnnxWalk, node: Node, outputs: Iterable[str]) -> dict[str, Stated]:
    """What onnx infers from the node alone, with the shapes and constants that the walk knows.

    A size that depends on data, as that of NonZero, is taken as 1, and noted.
    """
    import onnx

    proto = walk.node_protos().get(node.output)
    if proto is None:
        return {}
    constants = {name: walk.constants[name] for name in node.inputs if name in walk.constants}
    small = {name: const for name, const in constants.items() if const.data.size <= _MOST_VALUES}
    infos = [_info(name, *known_form(walk, name)) for name in dict.fromkeys(node.inputs) if name]
    values = [_tensor(*row) for row in small.items()]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([proto], "node", infos, [], values),
        opset_imports=walk.source.proto.opset_import,
        functions=walk.source.proto.functions,
    )
    forms: dict[str, Stated] = {}
    for info in infer(model).value_info:
        name = text(info.name)
        shape = _shape(info.type.tensor_type, walk.pins.symbols)
        if name not in outputs or shape is None:
            continue
        if 0 in shape:
            walk.guessed = True
            walk.graph.notes.append(
                f"the size of '{safe_terminal(name)}' depends on data ({node.kind}): 1 is "
                f"assumed; --shape {safe_terminal(name)}=... sets another"
            )
        sizes = tuple(size or 1 for size in shape)
        forms[name] = (TYPE_NAMES.get(info.type.tensor_type.elem_type, ""), sizes)
    return forms


def known_form(walk: OnnxWalk, name: str) -> Stated:
    """Element type and shape that the file means, of a constant or of what was walked over."""
    if name in walk.constants:
        const = walk.constants[name]
        return ("float32" if const.quant else const.type, const.data.shape)
    dtype = DType.FLOAT32
    if name in walk.values and name not in walk.integers:
        dtype = walk.graph.tensors[walk.values[name].tensor].dtype
    return dtype.value, walk.shapes[name]


def _info(name: str, type_name: str, shape: Shape) -> Any:
    import onnx

    number = TYPE_NUMBERS.get(type_name, TYPE_NUMBERS["float32"])
    return onnx.helper.make_tensor_value_info(name, number, shape)


def _tensor(name: str, const: Const) -> Any:
    import onnx

    return onnx.numpy_helper.from_array(const.real() if const.quant else const.data, name)
