"""What the vendor's front end cannot read in an .onnx file: older-ir, strip-empty-input,
plain-bounds, fold-bounds, fold-constants, own-weights, static-export."""

from __future__ import annotations

import numpy as np

from npuscope.edits.onnx.border import FLOAT
from npuscope.edits.onnx.document import OnnxDocument
from npuscope.edits.records import NotFitting
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest
from npuscope.files.onnx.file_graph import DEQUANTIZE, Node
from npuscope.graph.model import Graph

_OLDER_IR = 9
_NEWEST_OPSET = 20  # of this IR version
_NEWEST_TYPE = 20  # FLOAT8E5M2FNUZ: the last element type of this IR version
_COMPUTED = "its bounds are computed"
_MOVES = ("Unsqueeze", "Squeeze", "Reshape", "Gather")
# What exporters do with the sizes that a Shape gives.
_ARITHMETIC = (
    *("Add", "Sub", "Mul", "Div", "Mod", "Neg", "Abs", "Floor", "Ceil", "Cast", "Min", "Max"),
    *("Gather", "Concat", "Slice", "Unsqueeze", "Squeeze", "Reshape", "Identity", "Transpose"),
    *("ConstantOfShape", "Expand", "Range", "Equal", "Less", "Greater", "And", "Or", "Not"),
    *("Where", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin", "Tile"),
)
_MOST_ELEMENTS = 1 << 16


@edit("older-ir", "onnx")
def lower_ir_version(document: OnnxDocument, request: EditRequest) -> None:
    """Newer versions added types and remarks; what has neither says the same in the older one."""
    if document.proto.ir_version <= _OLDER_IR:
        raise NotFitting(f"the IR version is already {document.proto.ir_version}")
    if any(entry.data_type > _NEWEST_TYPE for entry in document.graph.initializer):
        raise NotFitting(f"constants have a type that IR version {_OLDER_IR} does not know")
    if document.opset > _NEWEST_OPSET:
        raise NotFitting(f"opset {document.opset} needs a newer IR version")
    if document.proto.functions:
        raise NotFitting("the file defines functions")
    document.proto.ir_version = _OLDER_IR


@edit("strip-empty-input", "onnx")
def strip_empty_input(document: OnnxDocument, request: EditRequest) -> None:
    """An empty name in the middle, in front of the axes, becomes the zero that it stands for."""
    kinds = document.element_types()
    node = the_node(document, request, "Pad")
    if "" not in node.input:
        raise NotFitting("no input is empty")
    names = [str(name) for name in node.input]
    while not names[-1]:
        names.pop()
    if "" in names:
        zero = _zero(kinds, names)
        names[names.index("")] = document.add_constant(f"{node.output[0]}_value", zero)
    del node.input[:]
    node.input.extend(names)


def _zero(kinds: dict[str, int], names: list[str]) -> np.ndarray:
    from onnx import helper

    kind = kinds.get(names[0])
    if not kind:
        raise NotFitting("the type of what it pads is not known")
    return np.zeros((), helper.tensor_dtype_to_np_dtype(kind))


@edit("plain-bounds", "onnx")
def write_plain_bounds(document: OnnxDocument, request: EditRequest) -> None:
    """Starts and ends counted from the front, no further than the axis goes."""
    data = str(the_node(document, request, "Slice").input[0])
    shape = file_shape(document, request.network.graph, data)
    node = the_node(document, request, "Slice")
    if shape is None:
        raise NotFitting("the shape of what it cuts is not known")
    starts, ends, axes, steps = _bounds(document, [str(name) for name in node.input])
    plain = [
        slice(int(start), int(end), int(step)).indices(shape[axis])
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True)
    ]
    if any(stop < 0 for _, stop, _ in plain):
        raise NotFitting("it runs backwards to the first element, which has no plain end index")
    for place, column in ((1, 0), (2, 1)):
        values = np.array([row[column] for row in plain], starts.dtype)
        stem = f"{node.output[0]}_{'starts' if place == 1 else 'ends'}"
        document.set_input(node, place, document.add_constant(stem, values))


def _bounds(document: OnnxDocument, names: list[str]) -> list[np.ndarray]:
    """Starts, ends, axes and steps; the last two may be absent."""
    given = {place: document.array(name) for place, name in enumerate(names) if place and name}
    known = {place: value for place, value in given.items() if value is not None}
    if len(known) < len(given) or not {1, 2} <= known.keys():
        raise NotFitting(_COMPUTED)
    count = known[1].size
    absent = {3: np.arange(count), 4: np.ones(count, np.int64)}
    return [{**absent, **known}[place].reshape(-1) for place in (1, 2, 3, 4)]


@edit("fold-bounds", "onnx")
def fold_bounds(document: OnnxDocument, request: EditRequest) -> None:
    kinds = document.element_types()
    node = the_node(document, request, "Clip")
    if kinds.get(node.input[0], FLOAT) != FLOAT:
        raise NotFitting("the Clip itself does not work on float numbers")
    found = {p: _bound(document, name) for p, name in enumerate(node.input) if p and name}
    if not found:
        raise NotFitting("it has no bounds among its inputs")
    for place, value in found.items():
        stem = f"{node.output[0]}_{'min' if place == 1 else 'max'}"
        document.set_input(node, place, document.add_constant(stem, value))


def _bound(document: OnnxDocument, name: str) -> np.ndarray:
    value = document.array(name)
    maker = document.producer(name)
    if value is None and maker is not None and maker.op_type == DEQUANTIZE:
        value = dequantized(document, maker)
    if value is None:
        raise NotFitting(_COMPUTED)
    return value.reshape(()).astype(np.float32)


@edit("fold-constants", "onnx")
def fold_constants(document: OnnxDocument, request: EditRequest) -> None:
    """Readers that only move a constant are carried out on its integers, which stay integers; any
    other reader gets float values."""
    node = the_node(document, request, DEQUANTIZE)
    real = dequantized(document, node)
    if real is None:
        raise NotFitting("what it dequantizes is computed")
    readers = [r for r in document.readers(node.output[0]) if r.op_type in _MOVES]
    if not readers:
        raise NotFitting("no op that only moves it reads the constant")
    table = ""
    for reader in readers:
        moved = _moved(document, node, reader)
        if moved is None:
            table = table or document.add_constant(f"{node.output[0]}_folded", real)
            document.rewire(node.output[0], table, [reader])
        else:
            _dequantize_behind(document, node, reader, moved)


def _moved(document: OnnxDocument, node: Node, reader: Node) -> np.ndarray | None:
    """The integers as the reader would arrange them."""
    steps = document.array(node.input[0])
    rest = {str(n): document.array(n) for n in reader.input if n and n != node.output[0]}
    given = {name: value for name, value in rest.items() if value is not None}
    if steps is None or len(given) < len(rest) or document.quant(node).per_channel:
        return None
    if reader.input[0] != node.output[0]:
        return None
    return evaluated(document, reader, {str(node.output[0]): steps, **given})


def _dequantize_behind(document: OnnxDocument, node: Node, reader: Node, moved: np.ndarray) -> None:
    constant = document.add_constant(f"{reader.output[0]}_quantized", moved)
    document.remove(reader)
    document.add_node(DEQUANTIZE, [constant, *node.input[1:]], reader.output[0])


@edit("own-weights", "onnx")
def own_weights(document: OnnxDocument, request: EditRequest) -> None:
    """Each Gemm that shares weights with a MatMul gets a copy."""
    done = False
    for name in request.ops:
        values = document.array(name)
        readers = [n for n in document.readers(name) if name in n.input[1:2]]
        kinds = {node.op_type for node in readers}
        if values is None or not {"Gemm", "MatMul"} <= kinds:
            continue
        own = document.add_constant(f"{name}_gemm", values)
        document.rewire(name, own, [node for node in readers if node.op_type == "Gemm"])
        done = True
    if not done:
        raise NotFitting("no weights are shared by a Gemm and a MatMul")


@edit("static-export", "onnx")
def write_shapes(document: OnnxDocument, request: EditRequest) -> None:
    """Shapes become constants with all that is computed from them alone; allowzero goes.

    An open batch is closed: it would be a part of the constants.
    """
    kinds = {origin.partition(":")[0] for origin in request.ops}
    if "Shape" in kinds:
        _fold_shape(document, request)
    else:
        _without_allowzero(document, the_node(document, request, "Reshape"))


def _without_allowzero(document: OnnxDocument, node: Node) -> None:
    sizes = document.array(node.input[1])
    if sizes is None:
        raise NotFitting("its shape is computed")
    if (sizes == 0).any():
        raise NotFitting("a size of 0 in its shape is meant literally")
    document.set_attribute(node, "allowzero", 0)


def _fold_shape(document: OnnxDocument, request: EditRequest) -> None:
    tensor = str(the_node(document, request, "Shape").input[0])
    shape = file_shape(document, request.network.graph, tensor)
    node = the_node(document, request, "Shape")
    if shape is None:
        raise NotFitting("the shape is not known before a run")
    if _has_open_sizes(document):
        raise NotFitting("a non-batch dimension of an input is dynamic")
    if document.is_output(node.output[0]):
        raise NotFitting("the shape is an output of the network")
    document.close_batch()
    start = int(document.attribute(node, "start", 0))
    end = int(document.attribute(node, "end", len(shape)))
    waiting = [_replaced(document, node, np.array(shape[start:end], np.int64))]
    while waiting:
        for reader in document.readers(waiting.pop()):
            value = _foldable(document, reader)
            if value is not None:
                waiting.append(_replaced(document, reader, value))


def _foldable(document: OnnxDocument, node: Node) -> np.ndarray | None:
    plain = node.op_type in _ARITHMETIC and len(node.output) == 1
    if not plain or document.is_output(node.output[0]):
        return None
    value = value_of(document, node)
    return value if value is not None and value.size <= _MOST_ELEMENTS else None


def _replaced(document: OnnxDocument, node: Node, value: np.ndarray) -> str:
    """A constant in place of the node."""
    name = document.add_constant(f"{node.output[0]}_folded", value)
    document.rewire(node.output[0], name)
    document.remove(node)
    return name


def _has_open_sizes(document: OnnxDocument) -> bool:
    shapes = (entry.type.tensor_type.shape for entry in document.graph.input)
    return any(not dim.HasField("dim_value") for shape in shapes for dim in shape.dim[1:])


def the_node(document: OnnxDocument, request: EditRequest, kind: str) -> Node:
    """The node of this kind among those of the finding."""
    nodes = [document.op(origin) for origin in request.ops]
    found = next((n for n in nodes if n is not None and n.op_type == kind), None)
    if found is None:
        raise NotFitting(f"there is no {kind}")
    return found


def file_shape(document: OnnxDocument, graph: Graph, tensor: str) -> tuple[int, ...] | None:
    """As ONNX infers it, or as the Graph knows it: some kinds of ops stop the inference."""
    shape = document.shape(tensor)
    known = document.in_graph(graph, tensor) if shape is None else None
    return (known.source_shape or known.shape) if known is not None else shape


def dequantized(document: OnnxDocument, node: Node) -> np.ndarray | None:
    """What a DequantizeLinear of a constant makes; None where its input is computed."""
    steps = document.array(node.input[0])
    if steps is None:
        return None
    quant = document.quant(node)
    shape = [1] * steps.ndim
    if quant.per_channel:
        shape[quant.axis] = -1
    zero, scale = quant.zero_point.reshape(shape), quant.scale.reshape(shape)
    offset = (steps.astype(np.int64) - zero.astype(np.int64)).astype(np.float32)
    return np.asarray(offset * scale.astype(np.float32)).reshape(steps.shape)


def value_of(document: OnnxDocument, node: Node) -> np.ndarray | None:
    """The result of a node on constants; None where an input is computed."""
    given = {str(name): document.array(name) for name in node.input if name}
    if any(value is None for value in given.values()):
        return None
    return evaluated(document, node, {k: v for k, v in given.items() if v is not None})


def evaluated(document: OnnxDocument, node: Node, given: dict[str, np.ndarray]) -> np.ndarray:
    """One node of one output, run by ONNX's own reference."""
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    output = helper.make_tensor_value_info(node.output[0], TensorProto.UNDEFINED, None)
    constants = [numpy_helper.from_array(value, name) for name, value in given.items()]
    graph = helper.make_graph([node], "constant", [], [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", document.opset)])
    return np.asarray(next(iter(ReferenceEvaluator(model).run(None, {}))))
