"""The columns of a sweep's rows: type and range of each, in one place."""

from __future__ import annotations

from typing import Annotated, Any

from npuscope.errors import FileError
from npuscope.machine.marks import Mhz, Range, Room
from npuscope.program.records import decode
from npuscope.text import safe_terminal

_Ms = Annotated[float, Range(0, 1e15)]
_Level = Annotated[int, Range(0, 3)]
_Whole = Annotated[int, Range(0, 1 << 62)]
_Text = str | None
_HEAD: dict[str, Any] = {
    "key": str,
    "model": str,
    "model_sha256": str,
    "model_md5": str,
    "shapes": dict[str, tuple[_Whole, ...]],
    "machine": str,
    "generation": str,
    "epoch_controller": bool,
    "pools": str,
    "clocks": str,
    "set": str,
    "mcu_mhz": Mhz,
    "npu_mhz": Mhz,
    "optimization": _Level | None,
    "input_data_type": _Text,
    "output_data_type": _Text,
    "status": str,
    "seconds": Annotated[float, Range(0, 1e9)],
    "version": str,
}
# What a run has that was done, and what one has that was not.
_ENDINGS: dict[str, dict[str, Any]] = {
    "ok": {
        "total_ms": _Ms,
        "low_ms": _Ms,
        "high_ms": _Ms,
        "internal_ram_bytes": Room,
        "external_ram_bytes": Room,
        "weights_bytes": Room,
    },
    "failed": {"error": dict[str, str]},
}
_OPTIONAL: dict[str, Any] = {"notes": tuple[str, ...]}
_ERROR = ("kind", "message", "where", "hint")


def check_row(row: dict[str, Any]) -> None:
    """Raise a FileError that names the column which is missing or not what it should be."""
    ending = _ENDINGS.get(str(row.get("status")))
    if ending is None:
        raise FileError(f"expected one of {', '.join(_ENDINGS)}", where="status")
    columns = _HEAD | ending
    for name, kind in columns.items():
        if name not in row:
            raise FileError("this column is missing", where=name)
        decode(row[name], kind, name)
    for name, value in row.items():
        if name in _OPTIONAL:
            decode(value, _OPTIONAL[name], name)
        elif name not in columns and not _is_cell(value):
            raise FileError("expected a single value", where=safe_terminal(name))
    missing = [part for part in _ERROR if "error" in ending and part not in row["error"]]
    if missing:
        raise FileError("this column is missing", where=f"error.{missing[0]}")


def _is_cell(value: object) -> bool:
    """Figures that later versions add are numbers or text, too."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return -(1 << 63) <= value < 1 << 63
    return value is None or isinstance(value, str | bool)
