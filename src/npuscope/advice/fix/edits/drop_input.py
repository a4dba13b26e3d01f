"""drop-input: an input that nobody reads leaves the file."""

from __future__ import annotations

from npuscope.advice.fix.edits import onnx_edit, tflite_edit
from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import OnnxDocument
from npuscope.graph.edit.tflite_document import TfliteDocument

_READ = "the input is read"
_ONLY = "it is the only input"
_NONE = "there is no such input"


@onnx_edit("drop-input")
def drop_onnx(document: OnnxDocument, request: Request) -> None:
    document.to_bytes()  # readers that nobody needs are no readers
    entries = [e for e in document.graph.input if e.name in request.ops]
    if not entries:
        raise NotFitting(_NONE)
    if any(document.readers(e.name) or document.is_output(e.name) for e in entries):
        raise NotFitting(_READ)
    if len(entries) == len(document.graph.input):
        raise NotFitting(_ONLY)
    for entry in entries:
        document.graph.input.remove(entry)


@tflite_edit("drop-input")
def drop_tflite(document: TfliteDocument, request: Request) -> None:
    entries = [tensor for tensor in document.inputs if tensor.name in request.ops]
    if not entries:
        raise NotFitting(_NONE)
    if any(document.readers(tensor) or document.is_output(tensor) for tensor in entries):
        raise NotFitting(_READ)
    if len(entries) == len(document.inputs):
        raise NotFitting(_ONLY)
    document.inputs = [tensor for tensor in document.inputs if tensor not in entries]
