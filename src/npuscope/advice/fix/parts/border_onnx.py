"""What edits at the end of an ONNX network share: types of tensors, entries of outputs."""

from __future__ import annotations

from typing import Any

from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument
from npuscope.graph.model import Graph, Tensor
from npuscope.text import safe_terminal

FLOAT = 1  # number of an ONNX element type
# Ops that change how a value is written, not the value.
_SAME_VALUE = (QUANTIZE, DEQUANTIZE, "Identity")


def element_types(document: OnnxDocument) -> dict[str, int]:
    """Numbers of the types of all tensors that ONNX can infer.

    The document is written for it: nodes that were looked up before are stale.
    """
    import onnx

    proto = onnx.ModelProto.FromString(document.to_bytes())
    for entry in proto.graph.output:
        entry.type.tensor_type.ClearField("shape")
    graph = onnx.shape_inference.infer_shapes(proto).graph
    entries = (*graph.input, *graph.output, *graph.value_info)
    known = {e.name: int(e.type.tensor_type.elem_type) for e in entries}
    return known | {e.name: int(e.data_type) for e in graph.initializer}


def output_entries(document: OnnxDocument, graph: Graph, tensors: list[str]) -> list[Any]:
    """Entries of new outputs; where ONNX cannot infer them the Graph tells type and shape."""
    types = element_types(document)
    existing = {entry.name: entry for entry in document.graph.output}
    return [
        existing[name] if name in existing else _entry(document, graph, name, types.get(name))
        for name in tensors
    ]


def _entry(document: OnnxDocument, graph: Graph, tensor: str, kind: int | None) -> Any:
    from onnx import helper

    known = in_graph(document, graph, tensor)
    maker = document.producer(tensor)
    if not kind and maker is not None and maker.op_type == DEQUANTIZE:
        kind = FLOAT
    elif not kind and known is not None:
        kind = helper.np_dtype_to_tensor_dtype(known.dtype.numpy)
    if not kind:
        raise NotFitting(f"the type of '{safe_terminal(tensor)}' is not known")
    shape: tuple[int | str | None, ...] | None = document.shape(tensor)
    if shape is None and known is not None:
        shape = known.source_shape or known.shape
    batch = _open_batch(document)
    if shape and batch is not None and shape[0] == 1:
        shape = (batch or None, *shape[1:])
    return helper.make_tensor_value_info(tensor, kind, shape)


def _open_batch(document: OnnxDocument) -> str | None:
    """The name of a batch size that the file leaves open, which may be empty."""
    for entry in document.graph.input:
        dims = entry.type.tensor_type.shape.dim
        if dims and not dims[0].HasField("dim_value"):
            return str(dims[0].dim_param)
    return None


def set_outputs(document: OnnxDocument, entries: list[Any]) -> None:
    """Exactly these outputs; what only others needed goes when the file is written."""
    copies = []
    for entry in entries:
        copy = type(entry)()
        copy.CopyFrom(entry)
        copies.append(copy)
    del document.graph.output[:]
    document.graph.output.extend(copies)


def in_graph(document: OnnxDocument, graph: Graph, tensor: str) -> Tensor | None:
    """The tensor of the Graph that stands for one of the file: same op, same values."""
    maker = document.producer(tensor)
    while maker is not None and maker.op_type in _SAME_VALUE:
        maker = document.producer(maker.input[0])
    origin = document.origin(maker) if maker is not None else None
    made = [graph.output_tensor(op) for op in graph.ops if origin and op.origin[-1:] == (origin,)]
    return made[-1] if made else graph.tensors.get(tensor)


def in_file(document: OnnxDocument, graph: Graph, name: str) -> str | None:
    """The file's tensor that a tensor of the Graph stands for: integers where it has them."""
    tensor = graph.tensors.get(name)
    if tensor is None:
        return name if document.producer(name) is not None else None
    found = name if document.producer(name) is not None else _made(document, graph, name)
    if found is None or tensor.dtype.is_float:
        return found
    return _quantized(document, found, tensor) or found


def _made(document: OnnxDocument, graph: Graph, name: str) -> str | None:
    """By the op that makes it, where the Graph has a name of its own for it."""
    maker = graph.producers().get(name)
    node = document.op(maker.origin[-1]) if maker is not None and maker.origin else None
    if maker is None or node is None:
        return None
    place = maker.outputs.index(name)
    return str(node.output[place]) if place < len(node.output) else None


def _quantized(document: OnnxDocument, name: str, tensor: Tensor) -> str | None:
    """The integers behind a float tensor, if they are the ones of the Graph."""
    maker = document.producer(name)
    if maker is not None and maker.op_type == DEQUANTIZE:
        return str(maker.input[0])
    for node in document.readers(name):
        if node.op_type == QUANTIZE and tensor.quant is not None:
            scales = document.quant(node).scale.reshape(-1)
            if tuple(scales.astype(float).tolist()) == tensor.quant.scales:
                return str(node.output[0])
    return None


def way_out(document: OnnxDocument, tensor: str) -> list[Node]:
    """The conversions between a tensor and the network's output; NotFitting where it does not
    lead there alone."""
    nodes: list[Node] = []
    while not document.is_output(tensor):
        readers = document.readers(tensor)
        if len(readers) != 1 or readers[0].op_type not in _SAME_VALUE:
            raise NotFitting("its result is used inside the network")
        nodes.append(readers[0])
        tensor = readers[0].output[0]
    if document.readers(tensor):
        raise NotFitting("its result is used inside the network")
    return nodes
