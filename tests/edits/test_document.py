"""Both formats bring every primitive of the neutral document; edits are written once on it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import npuscope.edits
from npuscope.edits import edits
from npuscope.edits.document import Document
from npuscope.edits.onnx.document import OnnxDocument
from npuscope.edits.tflite.document import TfliteDocument

SHARED = {"found", "place", "axis_of_channels", "image", "image_shape"}
PRIMITIVES = {
    name
    for name, _ in inspect.getmembers(Document, inspect.isfunction)
    if not name.startswith("_") and name not in SHARED
}
ONLY_ONNX = {"add-behind", "explicit-pad", "multiply-instead"}


@pytest.mark.parametrize("format", [OnnxDocument, TfliteDocument])
@pytest.mark.parametrize("primitive", sorted(PRIMITIVES))
def test_a_format_brings_every_primitive(format: type[Document], primitive: str) -> None:
    assert getattr(format, primitive) is not getattr(Document, primitive)


def test_there_are_primitives() -> None:
    assert {"insert", "rewire", "layer", "steps", "network_outputs"} <= PRIMITIVES


def test_edits_are_written_once_for_both_formats() -> None:
    single = {fix for fix, (_, formats) in edits().items() if len(formats) < 2}
    in_file = {fix for fix in single if edits()[fix][0].__module__.endswith("onnx_file")}
    assert single - in_file == ONLY_ONNX
    assert len(edits()) == 43


def test_themes_do_not_look_inside_a_file() -> None:
    """Edits for both formats know neither nodes nor operators."""
    folder = Path(npuscope.edits.__file__).parent
    for fix, (function, formats) in edits().items():
        if len(formats) == 2:
            theme = (folder / f"{function.__module__.rpartition('.')[2]}.py").read_text()
            assert "tflite" not in theme, fix
            assert ".onnx.file" not in theme, fix
