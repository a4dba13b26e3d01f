"""Are two model files equal in every field? Read by the runtimes' own schema classes, so that
neither our reader nor our writer is asked about itself."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np

_SHOWN = 5
# Where a table says that its data is behind the flatbuffer: offset, size, and what they replace.
_OUTSIDE = {
    "BufferT": ("offset", "size", "data"),
    "OperatorT": ("largeCustomOptionsOffset", "largeCustomOptionsSize", "customOptions"),
}


def differences(before: bytes, after: bytes) -> list[str]:
    """The first fields that differ, as paths; none where the files are equal."""
    if before[4:8] == b"TFL3":
        return (_of_tflite(before, after) + _of_archives(before, after))[:_SHOWN]
    return _of_onnx(before, after)


def _of_tflite(before: bytes, after: bytes) -> list[str]:
    from ai_edge_litert import schema_py_generated as schema

    models = [(schema.ModelT.InitFromPackedBuf(data, 0), data) for data in (before, after)]
    found: list[str] = []
    _compare(*models[0], *models[1], "model", found)
    return found


def _compare(
    one: Any, first: bytes, other: Any, second: bytes, path: str, found: list[str]
) -> None:
    if type(one) is not type(other):
        found.append(f"{path}: {type(one).__name__} and {type(other).__name__}")
    elif isinstance(one, list):
        if len(one) != len(other):
            found.append(f"{path}: {len(one)} and {len(other)} entries")
        for number, (a, b) in enumerate(zip(one, other, strict=False)):
            _compare(a, first, b, second, f"{path}[{number}]", found)
    elif isinstance(one, np.ndarray):
        if one.dtype != other.dtype or one.tobytes() != other.tobytes():
            found.append(f"{path}: other values")
    elif hasattr(one, "__dict__"):
        mine, yours = _fields(one, first), _fields(other, second)
        for name in mine:
            _compare(mine[name], first, yours[name], second, f"{path}.{name}", found)
    elif one != other and not (one != one and other != other):
        found.append(f"{path}: {one!r} and {other!r}")


def _fields(table: Any, data: bytes) -> dict[str, Any]:
    fields = dict(vars(table))
    places = _OUTSIDE.get(type(table).__name__)
    if places and fields[places[0]] > 1:
        start, size = (fields.pop(name) for name in places[:2])
        fields[places[2]] = np.frombuffer(data[start : start + size], np.uint8)
    return fields


def _of_archives(before: bytes, after: bytes) -> list[str]:
    """Labels and other files that converters append."""
    return [] if _archive(before) == _archive(after) else ["attached files"]


def _archive(data: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, KeyError):
        return {}


def _of_onnx(before: bytes, after: bytes) -> list[str]:
    import onnx

    one, other = (onnx.ModelProto.FromString(data) for data in (before, after))
    # As bytes: also fields that this version of onnx does not know.
    if one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True):
        return []
    found: list[str] = []
    _compare_messages(one, other, "model", found)
    return found[:_SHOWN] or ["fields that this version of onnx does not know"]


def _compare_messages(one: Any, other: Any, path: str, found: list[str]) -> None:
    names = {field.name for field, _ in (*one.ListFields(), *other.ListFields())}
    for name in sorted(names):
        mine, yours, here = getattr(one, name), getattr(other, name), f"{path}.{name}"
        if hasattr(mine, "ListFields"):
            _compare_messages(mine, yours, here, found)
        elif not hasattr(mine, "__len__") or isinstance(mine, str | bytes):
            if mine != yours and not (mine != mine and yours != yours):
                found.append(f"{here}: other value")
        elif len(mine) != len(yours):
            found.append(f"{here}: {len(mine)} and {len(yours)} entries")
        elif len(mine) and hasattr(mine[0], "ListFields"):
            for number, (a, b) in enumerate(zip(mine, yours, strict=True)):
                _compare_messages(a, b, f"{here}[{number}]", found)
        elif list(mine) != list(yours):
            found.append(f"{here}: other values")
