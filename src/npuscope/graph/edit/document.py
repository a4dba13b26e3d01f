"""What both kinds of documents have in common."""

from __future__ import annotations

from pathlib import Path

from npuscope.files.load import is_tflite, model_bytes
from npuscope.graph.edit.onnx_document import OnnxDocument, has_external_data
from npuscope.graph.edit.tflite_document import TfliteDocument

Document = OnnxDocument | TfliteDocument


class NotFitting(Exception):
    """An edit cannot be made here; the sentence says why."""


def open_document(path: str | Path, data: bytes | None = None) -> Document:
    """A document of a model file that load_model can read; `data` stands for its content."""
    data = model_bytes(Path(path)) if data is None else data
    if is_tflite(data):
        return TfliteDocument.parse(data)
    return OnnxDocument.parse(data, Path(path).parent)


def whole_bytes(path: Path) -> bytes:
    """A model's content; what an ONNX model keeps in files beside it comes inside."""
    data = model_bytes(path)
    if is_tflite(data) or not has_external_data(data):
        return data
    return OnnxDocument.parse(data, path.parent).to_bytes()
