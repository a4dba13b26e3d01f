"""Files that are not models of ours are named for what they are, with what makes the right one."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest

import npuscope
from npuscope.errors import FileError
from npuscope.files.load import load_model


def zipped(*names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name in names:
            file.writestr(name, "x")
    return made.getvalue()


CASES = {
    "pointer.tflite": (b"version https://git-lfs.github.com/spec/v1\noid", "a Git LFS pointer"),
    "model.h5": (b"\x89HDF\r\n\x1a\n" + bytes(64), "a Keras model in HDF5"),
    "model.keras": (zipped("config.json", "model.weights.h5"), "a Keras model (.keras)"),
    "model.pt": (zipped("archive/data.pkl", "archive/version"), "a PyTorch file"),
    "old.pt": (b"\x80\x02\x8a\nl", "a Python pickle"),
    "model.ort": (b"\x28\0\0\0ORTM" + bytes(40), "onnxruntime's own format (.ort)"),
    "model.pt2": (zipped("net/archive_format", "net/models/model.json"), "a program of torch.exp"),
    "model.tosa": (b"\x10\0\0\0TOSA" + bytes(40), "a TOSA graph"),
    "model.nb": (b"VPMN" + bytes(range(1, 200)), "a network binary (.nb) for VeriSilicon's NPU"),
    "models.zip": (zipped("a.tflite"), "a zip archive"),
    "broken.zip": (b"PK\x03\x04" + bytes(8), "a zip archive"),
    "model.mlmodel": (b"\x08\x04\x12\x10", "a Core ML model"),
    "package.zip": (zipped("m.mlpackage/Manifest.json"), "a Core ML package"),
    "model.tar.gz": (b"\x1f\x8b\x08", "a gzip archive"),
    "page.onnx": (b"<!DOCTYPE html><html>", "an HTML page"),
    "late_page.tflite": (b"\n\r\n  \n<html><body>", "an HTML page"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_file_of_another_kind_is_named(name: str, tmp_path: Path) -> None:
    data, what = CASES[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FileError) as caught:
        load_model(tmp_path / name)
    assert caught.value.message.startswith(f"this is {what}")
    assert caught.value.hint
    if name in ("old.pt", "model.mlmodel"):  # two bytes could begin any image of a memory
        return
    with pytest.raises(FileError, match=re.escape(f"is {what}")):
        npuscope.inspect(tmp_path / name)


def test_inspect_names_a_page_after_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "page.tflite"
    path.write_bytes(b"\n" * 40 + b"<!DOCTYPE html><html></html>")
    with pytest.raises(FileError) as caught:
        npuscope.inspect(path)
    assert caught.value.message == "is an HTML page"


# What can be pasted into a shell or into Python, by file.
HINTS = {
    "model.h5": "from_keras_model(tf.keras.models.load_model('model.h5'))",
    "model.keras": "from_keras_model(tf.keras.models.load_model('model.keras'))",
    "model.pt": "torch.onnx.export(network.eval(), (example,), 'model.onnx')",
    "models.zip": "unzip 'models.zip'",
    "model.tar.gz": "tar xf 'model.tar.gz'",
    "pointer.tflite": "git lfs pull",
}


@pytest.mark.parametrize("name", HINTS)
def test_the_hint_can_be_pasted(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(CASES[name][0])
    with pytest.raises(FileError) as caught:
        load_model(tmp_path / name)
    assert HINTS[name] in caught.value.hint
    assert "{" not in caught.value.hint


def test_a_saved_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"x")
    with pytest.raises(FileError, match="a TensorFlow SavedModel") as caught:
        load_model(tmp_path)
    assert f"from_saved_model('{tmp_path.name}')" in caught.value.hint
