"""Files that people take for a model of ours: what each is, and what makes the right one of it."""

from __future__ import annotations

import io
from pathlib import Path

from npuscope.errors import FileError

_TFLITE = (
    "tf.lite.TFLiteConverter.{maker}; set converter.optimizations, "
    "converter.representative_dataset and target_spec.supported_ops = [TFLITE_BUILTINS_INT8]"
)
_KERAS = _TFLITE.format(maker="from_keras_model(tf.keras.models.load_model(FILE))")
_SAVED_MODEL = _TFLITE.format(maker="from_saved_model(FOLDER)")
_TORCH = (
    "torch.onnx.export(model.eval(), example, 'model.onnx'), then "
    "onnxruntime.quantization.quantize_static with format QDQ"
)
# First bytes -> what it is, what to do.
_STARTS = (
    (b"\x89HDF\r\n\x1a\n", "a Keras model in HDF5", f"convert it: {_KERAS}"),
    (b"\x80\x02", "a Python pickle, as torch.save wrote it", f"export it: {_TORCH}"),
    (b"\x7fELF", "an ELF object", "give the model that it was built from"),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"<!DOCTYPE", "an HTML page", "the download went wrong: fetch the file itself"),
    (b"<html", "an HTML page", "the download went wrong: fetch the file itself"),
)
# A name inside of a zip -> the same.
_INSIDE = (
    ("config.json", "a Keras model (.keras)", f"convert it: {_KERAS}"),
    ("data.pkl", "a PyTorch file", f"export it: {_TORCH}"),
    ("Manifest.json", "a Core ML package", "give the model that it was converted from"),
)
_ZIP = b"PK\x03\x04"
_ORT_AT, _ORT = 4, b"ORTM"


def refuse_others(data: bytes) -> None:
    """Raise for a file that is known to be something else."""
    if data[_ORT_AT : _ORT_AT + 4] == _ORT:
        raise _error("onnxruntime's own format (.ort)", "give the .onnx file that it was made from")
    for start, what, hint in _STARTS:
        if data.startswith(start):
            raise _error(what, hint)
    if data.startswith(_ZIP):
        raise _error(*_in_zip(data))


def refuse_folder(path: Path) -> None:
    if (path / "saved_model.pb").is_file():
        raise _error("a TensorFlow SavedModel", f"convert it: {_SAVED_MODEL}")
    raise FileError("this is a folder, expected a .tflite or .onnx file")


def _in_zip(data: bytes) -> tuple[str, str]:
    import zipfile

    try:
        names = zipfile.ZipFile(io.BytesIO(data)).namelist()[:10_000]
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        names = []
    found = (row for row in _INSIDE if any(name.split("/")[-1] == row[0] for name in names))
    _, what, hint = next(found, ("", "a zip archive", "unpack it, and give the model inside"))
    return what, hint


def _error(what: str, hint: str) -> FileError:
    return FileError(f"this is {what}", hint=hint)
