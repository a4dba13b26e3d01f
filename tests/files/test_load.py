"""Whatever the bytes: a verified graph or one of our errors."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import models_onnx_moves  # noqa: F401  adds its cases to the table
from models import OnnxWriter, mobilenet_like, save, to_onnx, to_tflite
from models_onnx_ops import CASES as OP_CASES
from npuscope.bounded_file import FileKind
from npuscope.errors import FileError, InternalError, NpuscopeError
from npuscope.files.load import load_model
from npuscope.graph import limits

NET = mobilenet_like(size=6, width=4)
FILES = {".tflite": to_tflite(NET), ".onnx": to_onnx(NET)}


def outcome(path: Path) -> str:
    """'ok' or the family of the error; a bug of ours fails the test."""
    try:
        load_model(path)
    except InternalError as error:
        raise AssertionError("the reader stumbled") from error
    except NpuscopeError as error:
        assert str(path) in error.where
        return error.kind
    return "ok"


def message(path: Path) -> str:
    with pytest.raises(FileError) as caught:
        load_model(path)
    return caught.value.message


def test_paths_that_are_no_model(tmp_path: Path) -> None:
    assert message(tmp_path / "missing.tflite") == "no such file"
    assert message(tmp_path) == "this is a folder, expected a .tflite or .onnx file"
    assert message(save(tmp_path, "a.tflite", b"")) == "the file is empty"


def test_the_content_decides_the_format(tmp_path: Path) -> None:
    graph = load_model(save(tmp_path, "renamed.bin", FILES[".tflite"]))
    assert graph.numerics.value == "litert" and graph.name == "renamed"


def test_files_that_are_something_else(tmp_path: Path) -> None:
    assert message(save(tmp_path, "a.tflite", b"hello world")) == (
        "not a TFLite file: bytes 4 to 8 are b'o wo', expected b'TFL3'"
    )
    noise = random.Random(1).randbytes(1000)
    assert message(save(tmp_path, "a.onnx", noise)) == (
        "not an ONNX file, or a damaged one: the protobuf cannot be decoded"
    )
    assert message(save(tmp_path, "b.onnx", b"\x08\x07")) == (
        "not an ONNX model: the file holds no graph with nodes"
    )


def test_a_file_over_the_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuscope.files.load.MODEL", FileKind("a model", 100))
    data = FILES[".tflite"]
    wanted = f"has {len(data):,} bytes, but a model has at most 100"
    assert message(save(tmp_path, "m.tflite", data)) == wanted


@pytest.mark.parametrize("extension", FILES)
def test_more_ops_than_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    for module in ("tflite.file", "onnx.file"):
        monkeypatch.setattr(f"npuscope.files.{module}.MAX_OPS", 10)
    assert "the limit is 10" in message(save(tmp_path, f"m{extension}", FILES[extension]))


def test_values_that_unfold_beyond_the_file() -> None:
    budget = limits.Budget(1 << 30)
    budget.take(1 << 31)
    with pytest.raises(FileError, match="expand to more than"):
        budget.take(1 << 32)


@pytest.mark.parametrize("extension", FILES)
def test_truncation_is_a_file_error(tmp_path: Path, extension: str) -> None:
    data = FILES[extension]
    for end in range(1, len(data), 37):
        assert outcome(save(tmp_path, f"m{extension}", data[:end])) == "file"


@pytest.mark.parametrize("extension", FILES)
def test_random_damage_is_survived(tmp_path: Path, extension: str) -> None:
    data = FILES[extension]
    chance = random.Random(2024)
    outcomes = set()
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 4, 16))):
            damaged[chance.randrange(len(data))] = chance.choice(
                (0, 127, 255, chance.randrange(256))
            )
        outcomes.add(outcome(save(tmp_path, f"m{extension}", bytes(damaged))))
    assert outcomes >= {"ok", "file", "model"}


def damaged(data: bytes, chance: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        result[chance.randrange(len(data))] = chance.choice((0, 1, 127, 255))
    return bytes(result)


@pytest.mark.parametrize("name", OP_CASES)
def test_damage_to_every_kind_of_op_is_survived(tmp_path: Path, name: str) -> None:
    case = OP_CASES[name]
    w = OnnxWriter(case.opset)
    y = case.build(w, w.input("x", case.shape), np.random.default_rng(1))
    w.node("Identity", y, output="y")
    data, chance = w.finish({"y": None}), random.Random(name)
    for _ in range(8):
        outcome(save(tmp_path, "m.onnx", damaged(data, chance)))
