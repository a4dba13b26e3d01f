"""batch-one: a batch size that the file leaves open is written as 1."""

from __future__ import annotations

from typing import Any

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument

_CLOSED = "no batch size is open in the file"


@onnx_edit("batch-one")
def close_onnx(document: OnnxDocument, request: Request) -> None:
    if not close_batch(document):
        raise NotFitting(_fixed(request) or _CLOSED)


def close_batch(document: OnnxDocument) -> bool:
    """Outputs with an open first size too; they follow the inputs. False: nothing was open."""
    inputs = [dim for entry in document.graph.input if (dim := _open_batch(entry)) is not None]
    outputs = [dim for entry in document.graph.output if (dim := _open_batch(entry)) is not None]
    for dim in (*inputs, *outputs) if inputs else ():
        dim.dim_value = 1
    return bool(inputs)


def _open_batch(entry: Any) -> Any | None:
    dims = entry.type.tensor_type.shape.dim
    return dims[0] if dims and not dims[0].HasField("dim_value") else None


@tflite_edit("batch-one")
def close_tflite(document: TfliteDocument, request: Request) -> None:
    """Sizes are 1 already; only the signatures say that they may change."""
    tensors = [tensor for tensor in document.tensors if _is_open(tensor.source)]
    if not tensors:
        raise NotFitting(_fixed(request) or _CLOSED)
    for tensor in tensors:
        signature = tensor.source.fields["ShapeSignature"].copy()
        signature[0] = 1
        tensor.source.fields["ShapeSignature"] = signature


def _is_open(record: Any) -> bool:
    """Open in the signature, and 1 where the sizes stand."""
    signature, shape = record.get("ShapeSignature"), record.get("Shape")
    if signature is None or not len(signature):
        return False
    return bool(signature[0] == -1 and shape[0] == 1)


def _fixed(request: Request) -> str | None:
    """A batch that the whole file is written for."""
    graph = request.network.graph
    sizes = {shape[0] for name in graph.inputs if (shape := graph.tensor(name).shape)}
    other = sorted(sizes - {1})
    return f"the file is written for batch {other[0]}: export it again with 1" if other else None
