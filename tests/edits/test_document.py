"""Both formats bring every primitive of the file graph and answer every question of the dialect;
edits are written once on them."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import npuscope
import npuscope.edits
from npuscope.edits import edits
from npuscope.edits.document import Document, FileConstants, FormatDialect
from npuscope.edits.onnx.document import OnnxDocument
from npuscope.edits.tflite.document import TfliteDocument
from npuscope.files.file_graph import FileGraph
from npuscope.files.onnx.file_graph import OnnxFileGraph
from npuscope.files.tflite.file_graph import TfliteFileGraph

MOST_PRIMITIVES = 30
ONLY_ONNX = {"add-behind", "explicit-pad", "multiply-instead"}
ONE_FOR_EACH = {"signed-activations"}  # nothing of it is the same in both formats


def methods(protocol: type, *bases: type) -> set[str]:
    known = {name for base in bases for name, _ in inspect.getmembers(base, inspect.isfunction)}
    found = {name for name, _ in inspect.getmembers(protocol, inspect.isfunction)}
    return {name for name in found - known if not name.startswith("_")}


PRIMITIVES = methods(FileGraph)
QUESTIONS = methods(Document, FileGraph)


def test_the_file_graph_is_small() -> None:
    assert len(PRIMITIVES) <= MOST_PRIMITIVES
    assert {"add_op", "rewire", "values", "set_network_outputs"} <= PRIMITIVES
    assert methods(FormatDialect) | methods(FileConstants, FileGraph) == QUESTIONS


@pytest.mark.parametrize("format", [OnnxFileGraph, TfliteFileGraph])
@pytest.mark.parametrize("primitive", sorted(PRIMITIVES))
def test_a_codec_brings_every_primitive(format: type[FileGraph], primitive: str) -> None:
    assert hasattr(format, primitive)


@pytest.mark.parametrize("format", [OnnxDocument, TfliteDocument])
@pytest.mark.parametrize("question", sorted(QUESTIONS))
def test_a_dialect_answers_every_question(format: type[Document], question: str) -> None:
    assert hasattr(format, question)


def test_edits_are_written_once_for_both_formats() -> None:
    single = {fix for fix, functions in edits().items() if len({*functions.values()}) < 2}
    assert edits().keys() - single == ONE_FOR_EACH
    one_format = {fix for fix, functions in edits().items() if len(functions) < 2}
    modules = {fix: edits()[fix]["onnx"].__module__ for fix in one_format}
    in_file = {fix for fix, module in modules.items() if module.endswith("onnx_file")}
    assert one_format - in_file == ONLY_ONNX
    assert len(edits()) == 45


def test_themes_do_not_look_inside_a_file() -> None:
    """Edits for both formats know neither nodes nor operators."""
    folder = Path(npuscope.edits.__file__).parent
    for fix, functions in edits().items():
        if len(functions) == 2 and fix not in ONE_FOR_EACH:
            name = functions["onnx"].__module__.rpartition(".")[2]
            theme = (folder / f"{name}.py").read_text()
            assert "npuscope.files.onnx" not in theme, fix
            assert "npuscope.files.tflite" not in theme, fix
