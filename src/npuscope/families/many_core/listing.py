"""A program container as text: what every thread group of every core issues, in order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from npuscope.bounded_file import CORE_PROGRAM, read_bytes
from npuscope.errors import FileError
from npuscope.families.interface import CodePart
from npuscope.families.many_core.container import is_own
from npuscope.families.many_core.layout import ThreadGroup
from npuscope.families.many_core.program import CoreOp
from npuscope.families.many_core.qpc import placed, read_qpc
from npuscope.families.many_core.specializations import read_programs
from npuscope.text import safe_terminal

_Groups = tuple[tuple[CoreOp, ...], ...]


def list_program(path: Path) -> dict[str, CodePart]:
    """One part for each core of each device of each specialization."""
    data = read_bytes(path, CORE_PROGRAM)
    try:
        if not is_own(read_qpc(data)):
            raise FileError(
                "a container of the vendor's compiler: its code is that of the cores' own "
                "processor, and is not read",
                hint=f"npuscope inspect {safe_terminal(str(path))}: its segments",
            )
        programs = read_programs(data)
    except FileError as error:
        raise placed(error, path) from None
    parts = {}
    for program in programs:
        for device in program.devices:
            for core, groups in enumerate(device.ops):
                count = sum(map(len, groups))
                parts[f"{device.name} core {core}"] = CodePart(
                    partial(_text, program.layout.groups, groups),
                    partial(_fields, program.layout.groups, groups),
                    count,
                )
    return parts


def _text(names: tuple[ThreadGroup, ...], groups: _Groups) -> str:
    return "\n".join(_lines(names, groups)) + "\n"


def _lines(names: tuple[ThreadGroup, ...], groups: _Groups) -> Iterator[str]:
    for name, ops in zip(names, groups, strict=True):
        yield f"; {safe_terminal(name.name)}"
        for op in ops:
            info = op.info
            shape = "x".join(map(str, info.shape)) or "1"
            words = [f"{info.oc:5}  {info.kind:24} {info.name}  {shape}  {info.out_bytes} B"]
            if op.transfer is not None:
                ends = f"{op.transfer.source.name} to {op.transfer.target.name}"
                words.append(f"{op.transfer.bytes} B {ends}")
            if op.waits_for:
                words.append("waits " + " ".join(f"{core}.{oc}" for core, oc in op.waits_for))
            yield safe_terminal("  ".join(words))


def _fields(names: tuple[ThreadGroup, ...], groups: _Groups) -> dict[str, Any]:
    return {
        "groups": [
            {"name": name.name, "ops": [_op_fields(op) for op in ops]}
            for name, ops in zip(names, groups, strict=True)
        ]
    }


def _op_fields(op: CoreOp) -> dict[str, Any]:
    move, info = op.transfer, op.info
    return {
        "oc": info.oc,
        "kind": info.kind,
        "name": info.name,
        "shape": list(info.shape),
        "out_bytes": info.out_bytes,
        "macs": info.macs,
        "vtcm_offset": op.vtcm_offset,
        "waits_for": [list(key) for key in op.waits_for],
        "transfer": None
        if move is None
        else {"bytes": move.bytes, "source": move.source.name, "target": move.target.name},
        "origin": list(info.origin),
    }
