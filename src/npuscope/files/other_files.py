"""Files that people take for a model of ours: what each is, and what makes the right one of it."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

from npuscope.errors import FileError, ModelError

# Commands that make the right file: they can be pasted, with the names changed.
_TFLITE = (
    "convert it: converter = tf.lite.TFLiteConverter.{maker}; "
    "converter.optimizations = [tf.lite.Optimize.DEFAULT]; "
    "converter.representative_dataset = lambda: ([x[None]] for x in samples); "
    "converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]; "
    "open('model.tflite', 'wb').write(converter.convert())"
)
_KERAS = _TFLITE.format(maker="from_keras_model(tf.keras.models.load_model('{name}'))")
_SAVED_MODEL = _TFLITE.format(maker="from_saved_model('{name}')")
_TORCH = (
    "export the network that it belongs to: torch.onnx.export(network.eval(), (example,), "
    "'model.onnx'), then onnxruntime.quantization.quantize_static('model.onnx', 'int8.onnx', "
    "reader, quant_format=QuantFormat.QDQ)"
)
_CORE_ML = "give the network that it was converted from: Core ML files cannot be converted back"
# First bytes -> what it is, what to do.
_STARTS = (
    (b"\x89HDF\r\n\x1a\n", "a Keras model in HDF5", _KERAS),
    (b"\x80\x02", "a Python pickle, as torch.save wrote it", _TORCH),
    (b"\x7fELF", "an ELF object", "give the model that it was built from"),
    (b"\x1f\x8b", "a gzip archive", "unpack it: tar xf '{name}', or gunzip '{name}'"),
)
# Servers put blank lines, a mark of the encoding or any case before and into these.
_PAGES = (b"<!doctype", b"<html")
_MOST_BLANK = 4096
PAGE = ("an HTML page", "the download went wrong: fetch the file itself")
# A name inside of a zip -> the same.
_INSIDE = (
    ("config.json", "a Keras model (.keras)", _KERAS),
    ("data.pkl", "a PyTorch file", _TORCH),
    ("Manifest.json", "a Core ML package", _CORE_ML),
)
_ZIP = b"PK\x03\x04"
_ORT_AT, _ORT = 4, b"ORTM"


def is_page(data: bytes) -> bool:
    text = data[:_MOST_BLANK].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return text.startswith(_PAGES)


def refuse_others(data: bytes, name: str = "FILE") -> None:
    """Raise for a file that is known to be something else."""
    try:
        if data[_ORT_AT : _ORT_AT + 4] == _ORT:
            raise _error(
                "onnxruntime's own format (.ort)",
                "give the .onnx file that it was made from: .ort files cannot be converted back",
            )
        for start, what, hint in _STARTS:
            if data.startswith(start):
                raise _error(what, hint)
        if is_page(data):
            raise _error(*PAGE)
        if data.startswith(_ZIP):
            raise _error(*_in_zip(data))
        if name.lower().endswith(".mlmodel"):
            raise _error("a Core ML model", _CORE_ML)
    except FileError as error:
        error.hint = error.hint.replace("{name}", name)
        raise


def refuse_folder(path: Path) -> None:
    if (path / "saved_model.pb").is_file():
        raise _error("a TensorFlow SavedModel", _SAVED_MODEL.format(name=path.name))
    raise FileError("this is a folder, expected a .tflite or .onnx file")


def _in_zip(data: bytes) -> tuple[str, str]:
    import zipfile

    try:
        names = zipfile.ZipFile(io.BytesIO(data)).namelist()[:10_000]
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        names = []
    rows = (row for row in _INSIDE if any(name.split("/")[-1] == row[0] for name in names))
    _, what, hint = next(
        rows, ("", "a zip archive", "unpack it: unzip '{name}', and give the model inside")
    )
    return what, hint


def _error(what: str, hint: str) -> FileError:
    return FileError(f"this is {what}", hint=hint)


# --- Models that were compiled for other NPUs ---

# Custom ops in which compilers for other NPUs hide the layers that they took.
_OTHER_NPUS = {
    "edgetpu-custom-op": (
        "the Coral Edge TPU",
        "the .tflite file that edgetpu_compiler was given; inspect tells what this one holds",
    ),
    "ethos-u": ("an Arm Ethos-U", "the .tflite file that Vela was given"),
    "DISPATCH_OP": ("a phone's NPU", "the .tflite file before LiteRT's ahead-of-time compiler"),
}


def refuse_other_npus(ops: Iterable[tuple[str, str]]) -> None:
    """A file whose layers are inside of another compiler's op says nothing about them."""
    for kind, origin in ops:
        if kind in _OTHER_NPUS:
            npu, original = _OTHER_NPUS[kind]
            raise ModelError(
                f"the model was compiled for {npu}: its layers are hidden in '{kind}'",
                where=origin,
                hint=f"give {original}",
            )
