"""What the vendor's front end cannot read in an .onnx file: older-ir, strip-empty-input,
plain-bounds, fold-bounds, fold-constants, own-weights, static-export."""

from __future__ import annotations

import numpy as np

from npuscope.edits.onnx.document import OnnxDocument
from npuscope.edits.records import NotFitting, Op
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest
from npuscope.files.onnx.evaluate import evaluated
from npuscope.files.onnx.fold import FOLDERS
from npuscope.graph.model import Graph
from npuscope.rulebook.onnx_file import CONSTANT_MOVES

_OLDER_IR = 9
_NEWEST_OPSET = 20  # of this IR version
_NEWEST_TYPE = 20  # FLOAT8E5M2FNUZ: the last element type of this IR version
_COMPUTED = "its bounds are computed"
_MOST_ELEMENTS = 1 << 16


@edit("older-ir", "onnx")
def lower_ir_version(document: OnnxDocument, request: EditRequest) -> None:
    """Newer versions added types and remarks; what has neither says the same in the older one."""
    if document.ir_version <= _OLDER_IR:
        raise NotFitting(f"the IR version is already {document.ir_version}")
    if document.newest_type > _NEWEST_TYPE:
        raise NotFitting(f"constants have a type that IR version {_OLDER_IR} does not know")
    if document.opset > _NEWEST_OPSET:
        raise NotFitting(f"opset {document.opset} needs a newer IR version")
    if document.has_functions:
        raise NotFitting("the file defines functions")
    document.ir_version = _OLDER_IR


@edit("strip-empty-input", "onnx")
def strip_empty_input(document: OnnxDocument, request: EditRequest) -> None:
    """An empty name in the middle, in front of the axes, becomes the zero that it stands for."""
    op = the_node(document, request, "Pad")
    inputs = document.inputs(op)
    if None not in inputs:
        raise NotFitting("no input is empty")
    while inputs[-1] is None:
        inputs.pop()
    if None in inputs:
        type = document.type(inputs[0])
        if not type:
            raise NotFitting("the type of what it pads is not known")
        stem = f"{document.outputs(op)[0]}_value"
        place = inputs.index(None)
        document.set_input(op, place, document.add_constant(stem, np.zeros((), type)))
    document.drop_inputs(op, len(inputs))


@edit("plain-bounds", "onnx")
def write_plain_bounds(document: OnnxDocument, request: EditRequest) -> None:
    """Starts and ends counted from the front, no further than the axis goes."""
    node = the_node(document, request, "Slice")
    shape = file_shape(document, request.network.graph, document.inputs(node)[0])
    if shape is None:
        raise NotFitting("the shape of what it cuts is not known")
    # Starts, ends, axes and steps; the last two may be absent
    names = document.inputs(node)
    inputs = {place: document.values(name) for place, name in enumerate(names) if place and name}
    constants = {place: value for place, value in inputs.items() if value is not None}
    if len(constants) < len(inputs) or not {1, 2} <= constants.keys():
        raise NotFitting(_COMPUTED)
    count = constants[1].size
    absent = {3: np.arange(count), 4: np.ones(count, np.int64)}
    starts, ends, axes, steps = [
        {**absent, **constants}[place].reshape(-1) for place in (1, 2, 3, 4)
    ]
    plain = [
        slice(int(start), int(end), int(step)).indices(shape[axis])
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True)
    ]
    if any(stop < 0 for _, stop, _ in plain):
        raise NotFitting("it runs backwards to the first element, which has no plain end index")
    for place, column in ((1, 0), (2, 1)):
        values = np.array([row[column] for row in plain], starts.dtype)
        stem = f"{document.outputs(node)[0]}_{'starts' if place == 1 else 'ends'}"
        document.set_input(node, place, document.add_constant(stem, values))


@edit("fold-bounds", "onnx")
def fold_bounds(document: OnnxDocument, request: EditRequest) -> None:
    node = the_node(document, request, "Clip")
    inputs = document.inputs(node)
    if document.type(inputs[0]) not in ("", "float32"):
        raise NotFitting("the Clip itself does not work on float numbers")
    bounds: dict[int, np.ndarray] = {}
    for place, name in enumerate(inputs):
        if not place or not name:
            continue
        value, maker = document.values(name), document.producer(name)
        if value is None and maker is not None and document.kind(maker) == "Dequantize":
            value = dequantized(document, maker)
        if value is None:
            raise NotFitting(_COMPUTED)
        bounds[place] = value.reshape(()).astype(np.float32)
    if not bounds:
        raise NotFitting("it has no bounds among its inputs")
    for place, bound in bounds.items():
        stem = f"{document.outputs(node)[0]}_{'min' if place == 1 else 'max'}"
        document.set_input(node, place, document.add_constant(stem, bound))


@edit("fold-constants", "onnx")
def fold_constants(document: OnnxDocument, request: EditRequest) -> None:
    """Readers that only move a constant are carried out on its integers, which stay integers; any
    other reader gets float values."""
    node = the_node(document, request, "Dequantize")
    real, result = dequantized(document, node), document.outputs(node)[0]
    if real is None:
        raise NotFitting("what it dequantizes is computed")
    readers = [r for r in document.readers(result) if document.kind(r) in CONSTANT_MOVES]
    if not readers:
        raise NotFitting("no op that only moves it reads the constant")
    table = ""
    for reader in readers:
        moved = _moved(document, node, reader)
        if moved is None:
            table = table or document.add_constant(f"{result}_folded", real)
            document.rewire(result, table, [reader])
        else:
            behind = document.outputs(reader)[0]
            constant = document.add_constant(f"{behind}_quantized", moved)
            document.remove(reader)
            document.add_op("Dequantize", [constant, *document.inputs(node)[1:]], behind)


def _moved(document: OnnxDocument, node: Op, reader: Op) -> np.ndarray | None:
    """The integers as the reader would arrange them."""
    source, result = document.inputs(node)[0], document.outputs(node)[0]
    steps, inputs = document.values(source), document.inputs(reader)
    rest = {name: document.values(name) for name in inputs if name and name != result}
    constants = {name: value for name, value in rest.items() if value is not None}
    if steps is None or len(constants) < len(rest) or document.node_quant(node).per_channel:
        return None
    if inputs[0] != result:
        return None
    return evaluated(reader, document.opset, {result: steps, **constants})


@edit("own-weights", "onnx")
def own_weights(document: OnnxDocument, request: EditRequest) -> None:
    """Each Gemm that shares weights with a MatMul gets a copy."""
    is_shared = False
    for name in request.ops:
        values = document.values(name)
        readers = [op for op in document.readers(name) if name in document.inputs(op)[1:2]]
        kinds = {document.kind(op) for op in readers}
        if values is None or not {"Gemm", "MatMul"} <= kinds:
            continue
        own = document.add_constant(f"{name}_gemm", values)
        document.rewire(name, own, [op for op in readers if document.kind(op) == "Gemm"])
        is_shared = True
    if not is_shared:
        raise NotFitting("no weights are shared by a Gemm and a MatMul")


@edit("static-export", "onnx")
def write_shapes(document: OnnxDocument, request: EditRequest) -> None:
    """Shapes become constants with all that is computed from them alone; allowzero goes.

    An open batch is closed: it would be a part of the constants.
    """
    kinds = {origin.partition(":")[0] for origin in request.ops}
    if "Shape" in kinds:
        _fold_shape(document, request)
        return
    node = the_node(document, request, "Reshape")
    sizes = document.values(document.inputs(node)[1])
    if sizes is None:
        raise NotFitting("its shape is computed")
    if (sizes == 0).any():
        raise NotFitting("a size of 0 in its shape is meant literally")
    document.set_attribute(node, "allowzero", 0)


def _fold_shape(document: OnnxDocument, request: EditRequest) -> None:
    node = the_node(document, request, "Shape")
    shape = file_shape(document, request.network.graph, document.inputs(node)[0])
    if shape is None:
        raise NotFitting("the shape is unknown before a run")
    if document.has_open_sizes_inside:
        raise NotFitting("a non-batch dimension of an input is dynamic")
    if document.outputs(node)[0] in document.network_outputs:
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


def _foldable(document: OnnxDocument, node: Op) -> np.ndarray | None:
    outputs = document.outputs(node)
    plain = document.kind(node) in FOLDERS and len(outputs) == 1
    if not plain or outputs[0] in document.network_outputs:
        return None
    value = value_of(document, node)
    return value if value is not None and value.size <= _MOST_ELEMENTS else None


def _replaced(document: OnnxDocument, node: Op, value: np.ndarray) -> str:
    """A constant in place of the node."""
    result = document.outputs(node)[0]
    name = document.add_constant(f"{result}_folded", value)
    document.rewire(result, name)
    document.remove(node)
    return name


def the_node(document: OnnxDocument, request: EditRequest, kind: str) -> Op:
    """The node of this kind among those of the finding."""
    nodes = [document.op(origin) for origin in request.ops]
    node = next((n for n in nodes if n is not None and document.kind(n) == kind), None)
    if node is None:
        raise NotFitting(f"the network has no {document.words(kind)[0]}")
    return node


def file_shape(document: OnnxDocument, graph: Graph, tensor: str) -> tuple[int, ...] | None:
    """As ONNX infers it, or as the Graph knows it: some kinds of ops stop the inference."""
    shape = document.shape(tensor)
    in_graph = document.in_graph(graph, tensor) if shape is None else None
    return (in_graph.source_shape or in_graph.shape) if in_graph is not None else shape


def dequantized(document: OnnxDocument, node: Op) -> np.ndarray | None:
    """What a DequantizeLinear of a constant makes; None where its input is computed."""
    steps = document.values(document.inputs(node)[0])
    if steps is None:
        return None
    quant = document.node_quant(node)
    shape = [1] * steps.ndim
    if quant.per_channel:
        shape[quant.axis] = -1
    zero, scale = quant.zero_point.reshape(shape), quant.scale.reshape(shape)
    offset = (steps.astype(np.int64) - zero.astype(np.int64)).astype(np.float32)
    return np.asarray(offset * scale.astype(np.float32)).reshape(steps.shape)


def value_of(document: OnnxDocument, node: Op) -> np.ndarray | None:
    """The result of a node on constants; None where an input is computed."""
    inputs = {name: document.values(name) for name in document.inputs(node) if name}
    constants = {name: value for name, value in inputs.items() if value is not None}
    return evaluated(node, document.opset, constants) if len(constants) == len(inputs) else None
