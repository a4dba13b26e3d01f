"""c_info.json as a document: read, told apart by flavour, written again without loss."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

from npuscope.program.c_info.check import check
from npuscope.program.c_info.layout import encode, read_record
from npuscope.program.c_info.records import CInfo


class Flavour(Enum):
    """Who wrote the file last."""

    RAW = "compiler"  # the NPU compiler's workspace
    FRONT_END = "front end"  # the same with the memory footprint
    VALIDATED = "validated"  # measurements of a board, alone or merged into the others


def read_c_info(path: str | Path) -> CInfo:
    """The file, with every id in it checked."""
    info = read_record(path, CInfo)
    check(info, str(path))
    return info


def c_info_json(info: CInfo) -> dict[str, Any]:
    """The file's JSON value; equal to what was read."""
    result: dict[str, Any] = encode(info)
    return result


def flavour(info: CInfo) -> Flavour:
    if info.validation is not None or info.aton_execution_time is not None:
        return Flavour.VALIDATED
    return Flavour.RAW if info.memory_footprint is None else Flavour.FRONT_END
