"""The edits by the id of the fix that they carry out, and the files that they edit."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from npuscope.edits.document import Document
from npuscope.edits.onnx.document import OnnxDocument
from npuscope.edits.request import EditRequest
from npuscope.edits.tflite.document import TfliteDocument
from npuscope.files.load import is_tflite, model_bytes
from npuscope.files.onnx.stored_file import has_external_data

Edit = Callable[[Any, EditRequest], None]

FORMATS = {"onnx": "ONNX", "tflite": "TFLite"}
# Files of this folder that name their edits with the decorator below.
_THEMES = (
    *("onnx_file", "border", "channels", "kernels", "integer_ops", "layout"),
    *("images", "elementwise", "onnx.signs", "tflite.signs", "four_bits"),
)
_EDITS: dict[str, dict[str, Edit]] = {}  # by fix and format


def edit(fix: str, *formats: str) -> Callable[[Edit], Edit]:
    """The edit changes the document in place, or raises NotFitting before it changed anything.

    `formats` are those that can express it; none stands for all. Where they have nothing in common
    an edit is written once for each.
    """

    def named(function: Edit) -> Edit:
        _EDITS.setdefault(fix, {}).update(dict.fromkeys(formats or FORMATS, function))
        return function

    return named


def edits() -> dict[str, dict[str, Edit]]:
    """All edits by their formats."""
    for name in _THEMES:
        import_module(f"npuscope.edits.{name}")
    return _EDITS


def formats(fix: str) -> tuple[str, ...]:
    """Kinds of files that the edit is written for; none: a fix that only people can make."""
    return tuple(title for name, title in FORMATS.items() if has_edit(fix, name))


def has_edit(fix: str, format: str) -> bool:
    return format in edits().get(fix, {})


def apply_edit(document: Document, fix: str, request: EditRequest) -> None:
    """Carry out one fix; NotFitting says why it cannot be done here."""
    document.drop_dead()  # what an edit before left behind reads nothing
    edits()[fix][document.format](document, request)


def open_document(path: str | Path, data: bytes | None = None) -> Document:
    """A document of a model file that load_model can read; `data` stands for its content."""
    data = model_bytes(Path(path)) if data is None else data
    if is_tflite(data):
        return TfliteDocument.parse(data)
    document = OnnxDocument.parse(data, Path(path).parent)
    _ = document.opset  # a file without one is refused before anything is tried
    return document


def whole_bytes(path: Path) -> bytes:
    """A model's content; what an ONNX model keeps in files beside it comes inside."""
    data = model_bytes(path)
    if is_tflite(data) or not has_external_data(data):
        return data
    return OnnxDocument.parse(data, path.parent).to_bytes()
