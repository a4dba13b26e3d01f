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
_EXPORTED = _TORCH.replace(
    "the network that it belongs to: torch.onnx.export(network.eval()",
    "it to ONNX: torch.onnx.export(torch.export.load('{name}').module()",
)
_BACK = "give the {given} that it was made from: {kind} files cannot be converted back"
# First bytes -> what it is, what to do.
_STARTS = (
    (b"\x89HDF\r\n\x1a\n", "a Keras model in HDF5", _KERAS),
    (b"\x80\x02", "a Python pickle, as torch.save wrote it", _TORCH),
    (b"\x7fELF", "an ELF object", "give the model that it was built from"),
    (b"\x1f\x8b", "a gzip archive", "unpack it: tar xf '{name}', or gunzip '{name}'"),
    (
        b"VPMN",
        "a network binary (.nb) for VeriSilicon's NPU, which the STM32MP2 has",
        _BACK.format(given="quantized .tflite or .onnx file", kind=".nb"),
    ),
)
# Identifiers of FlatBuffers, at byte 4.
IDENTIFIERS = {
    b"ORTM": (
        "onnxruntime's own format (.ort)",
        _BACK.format(given=".onnx file", kind=".ort"),
    ),
    b"TOSA": (
        "a TOSA graph (.tosa)",
        _BACK.format(given=".tflite or .onnx file", kind=".tosa"),
    ),
}
# Servers put blank lines, a mark of the encoding or any case before and into these.
_PAGES = (b"<!doctype", b"<html")
_MOST_BLANK = 4096
PAGE = ("an HTML page", "the download went wrong: fetch the file itself")
# A name inside of a zip -> the same.
_INSIDE = (
    ("config.json", "a Keras model (.keras)", _KERAS),
    ("archive_format", "a program of torch.export (.pt2)", _EXPORTED),
    ("serialized_exported_program.json", "a program of torch.export (.pt2)", _EXPORTED),
    ("data.pkl", "a PyTorch file", _TORCH),
    ("Manifest.json", "a Core ML package", _CORE_ML),
)
_ZIP = b"PK\x03\x04"


def is_page(data: bytes) -> bool:
    text = data[:_MOST_BLANK].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return text.startswith(_PAGES)


def other_kind(data: bytes, name: str = "FILE", path: Path | None = None) -> tuple[str, str] | None:
    """What a file is that is known to be something else, and what to do. `data` may be its first
    bytes alone if its `path` is given."""
    row = next(((what, hint) for start, what, hint in _STARTS if data.startswith(start)), None)
    row = row or IDENTIFIERS.get(data[4:8])
    if row is None and is_page(data):
        row = PAGE
    if row is None and data.startswith(_ZIP):
        row = _in_zip(path or io.BytesIO(data))
    if row is None and name.lower().endswith(".mlmodel"):
        row = ("a Core ML model", _CORE_ML)
    return row and (row[0], row[1].replace("{name}", name))


def refuse_others(data: bytes, name: str = "FILE") -> None:
    """Raise for a file that is known to be something else."""
    row = other_kind(data, name)
    if row is not None:
        raise FileError(f"this is {row[0]}", hint=row[1])


def refuse_folder(path: Path) -> None:
    if (path / "saved_model.pb").is_file():
        raise FileError("this is a TensorFlow SavedModel", hint=_SAVED_MODEL.format(name=path.name))
    raise FileError("this is a folder, expected a .tflite or .onnx file")


def _in_zip(file: Path | io.BytesIO) -> tuple[str, str]:
    import zipfile

    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()[:10_000]
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        names = []
    rows = (row for row in _INSIDE if any(name.split("/")[-1] == row[0] for name in names))
    _, what, hint = next(
        rows, ("", "a zip archive", "unpack it: unzip '{name}', and give the model inside")
    )
    return what, hint


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
