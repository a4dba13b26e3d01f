"""remove-reshapes: those that change nothing, pairs that undo each other, and the first of two."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.parts import chain_onnx, chain_tflite
from npuscope.advice.fix.parts.views_tflite import add_reshape
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument

_ONNX = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
_TFLITE = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")


@onnx_edit("remove-reshapes")
def in_onnx(document: OnnxDocument, request: Request) -> None:
    moves = chain_onnx.moves_of(document, request, _ONNX)
    first, last = moves[0], moves[-1]
    source, result = first.input[0], last.output[0]
    chain = [] if first is last else chain_onnx.between(document, first, last)
    before, after = document.shape(source), document.shape(result)
    if before is None or after is None:
        raise NotFitting("the shapes are not known")
    if before == after:
        chain_onnx.bypass(document, first, last, chain)
        return
    _check_mergeable(first is last, bool(chain), before, after)
    if _open_sizes(document):
        raise NotFitting("the network's input has open sizes: the result's shape is not fixed")
    shape = document.add_constant(f"{result}_shape", np.array(after, np.int64))
    made = document.fresh(f"{result}_merged")
    document.add_node("Reshape", (source, shape), made)
    document.rewire(result, made)


def _open_sizes(document: OnnxDocument) -> bool:
    entries = [entry.type.tensor_type.shape.dim for entry in document.graph.input]
    return any(not dim.HasField("dim_value") for dims in entries for dim in dims)


@tflite_edit("remove-reshapes")
def in_tflite(document: TfliteDocument, request: Request) -> None:
    moves = chain_tflite.moves_of(document, request, _TFLITE)
    first, last = moves[0], moves[-1]
    source, result = chain_tflite.data_of(first), last.outputs[0]
    chain = [] if first is last else chain_tflite.between(document, first, last)
    if source.shape == result.shape:
        chain_tflite.bypass(document, first, last, chain)
        return
    _check_mergeable(first is last, bool(chain), source.shape, result.shape)
    document.remove(last)
    chain_tflite.drop_unread(document, first)
    add_reshape(document, source, result)


def _check_mergeable(
    alone: bool, between: bool, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    if alone:
        raise NotFitting(f"the Reshape makes {after} of {before}")
    if between:
        raise NotFitting(f"the two make {after} of {before}, and ops stand between them")
