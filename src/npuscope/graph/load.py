"""Model file -> verified Graph, whatever the bytes are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from npuscope.bounded_file import MODEL, read_bytes
from npuscope.errors import FileError, InternalError, ModelError, NpuscopeError
from npuscope.graph.model import Graph
from npuscope.graph.pinning import Pins
from npuscope.graph.verify import verify

_TFLITE_MAGIC = b"TFL3"
_HINT = "give the path of a .tflite or .onnx model"


def load_model(path: str | Path, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """Read a .tflite or .onnx file; `shapes` pins open sizes by input name.

    The content decides the format, the file name only helps with the error text.
    """
    return _located(Path(path), None, shapes)


def read_model(path: Path, data: bytes, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """The same for a content that is not, or not yet, in the file."""
    return _located(path, data, shapes)


def is_tflite(data: bytes) -> bool:
    return data[4:8] == _TFLITE_MAGIC


def _located(path: Path, data: bytes | None, shapes: Mapping[str, Sequence[int]] | None) -> Graph:
    """Errors name the file."""
    try:
        graph = _read(path, model_bytes(path) if data is None else data, Pins(shapes))
        verify(graph, ModelError)
    except NpuscopeError as error:
        error.where = f"{path}: {error.where}" if error.where else str(path)
        raise
    except Exception as error:
        raise InternalError(
            f"reading stopped with {type(error).__name__}: {error}",
            where=str(path),
            hint="this is a bug in npuscope: please report it with the file",
        ) from error
    return graph


def _read(path: Path, data: bytes, pins: Pins) -> Graph:
    if is_tflite(data):
        from npuscope.graph.tflite_reader import read_tflite

        return read_tflite(data, path.stem, pins)
    if path.suffix.lower() in (".tflite", ".lite"):
        raise FileError(
            f"not a TFLite file: bytes 4 to 8 are {data[4:8]!r}, expected {_TFLITE_MAGIC!r}",
            hint="the file is damaged or has the wrong extension",
        )
    from npuscope.graph.onnx.reader import read_onnx

    return read_onnx(data, path, pins)


def model_bytes(path: Path) -> bytes:
    """The file's content, after its kind and size were looked at."""
    try:
        if path.is_dir():
            raise FileError("this is a folder, expected a .tflite or .onnx file")
        if not path.exists():
            raise FileError("no such file", hint=_HINT)
        data = read_bytes(path, MODEL, hint=_HINT)
    except ValueError:  # a null character in the path
        raise FileError("this is not a path") from None
    except FileError as error:
        error.where = ""  # whoever loads names the file
        raise
    if not data:
        raise FileError("the file is empty", hint="it may not have been copied whole")
    return data
