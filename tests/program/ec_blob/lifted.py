"""A program with the groups of its blobs put in place of its own, and what must stay equal."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import fields

from npuscope.program.addresses import AddressMap
from npuscope.program.ec_blob.binary import EcBinary, read_binary, write_binary
from npuscope.program.ec_blob.lift import Lifted, lift
from npuscope.program.ec_blob.lower import lower
from npuscope.program.model import Epoch, Program
from npuscope.program.modes import AfiltMode, Bcast
from npuscope.program.units import NO_CROP, Arith, Convacc, PoolUnit, Ref, Streng, Unit
from npuscope.structs import replace


def blob_indices(program: Program) -> list[int]:
    return sorted({epoch.blob for epoch in program.executed if epoch.blob is not None})


def through_blobs(program: Program) -> tuple[Program, Lifted]:
    """Lower every blob to bytes, read them back, lift them into the program."""
    blobs = [write_binary(EcBinary(lower(program, index))) for index in blob_indices(program)]
    addresses = AddressMap(program.pools, program.buffers)
    lifted = lift([read_binary(blob).instructions for blob in blobs], addresses)
    known = {buffer.name for buffer in program.buffers}
    whole = tuple(buffer for buffer in addresses.whole_pools if buffer.name not in known)
    changed = replace(
        program,
        pools=(*program.pools, lifted.pool),
        buffers=(*program.buffers, *whole, *lifted.buffers),
        epochs=tuple(_with_groups(epoch, lifted) for epoch in program.epochs),
        constants={**program.constants, **lifted.constants},
    )
    return changed, lifted


def _with_groups(epoch: Epoch, lifted: Lifted) -> Epoch:
    return epoch if epoch.blob is None else replace(epoch, groups=lifted.groups[epoch.number])


def physical(program: Program, place: Ref) -> int:
    buffer = program.buffer_map()[place.buffer]
    return program.pool_map()[buffer.pool].address + buffer.offset + place.offset


def held(program: Program, unit: Unit) -> dict[str, Any]:
    """The settings of a unit that its registers hold, in one form for every way to write them."""
    found = {field.name: getattr(unit, field.name) for field in fields(unit)}
    match unit:
        case Streng():
            return found | _held_engine(program, unit)
        case Convacc():
            return found | _held_convolution(unit)
        case Arith():
            return found | _held_arithmetic(program, unit)
        case PoolUnit():
            found["bottomCrop"] = unit.bottomCrop or unit.inputY - 1
            found["rightCrop"] = unit.rightCrop or unit.inputX - 1
    return _with_bytes(program, found)


def _held_engine(program: Program, unit: Streng) -> dict[str, Any]:
    start = unit.offset_start
    raw = {"fwidth": 0, "fheight": 0, "batch_depth": 0, "batch_offset": 0, "line_offset": 0}
    line = {"line_offset": 0} if unit.line_offset == unit.fwidth * unit.batch_offset else {}
    reads_right = bool(unit.align_right)
    return {
        "addr_base": physical(program, unit.addr_base) + start,
        "offset_start": 0,
        "offset_end": 0,
        "offset_limit": unit.offset_limit - start if unit.offset_limit else 0,
        "frame_count": unit.frame_elements if unit.raw else 0,
        "nbits_unsigned": unit.nbits_unsigned if reads_right else 0,
        "nbits_out": unit.nbits_in if reads_right and not unit.dir else unit.nbits_out,
        **(raw if unit.raw else line),
    }


def _held_convolution(unit: Convacc) -> dict[str, Any]:
    found: dict[str, Any] = {
        "right_crop": unit.right_crop or NO_CROP,
        "bot_crop": unit.bot_crop or NO_CROP,
    }
    if unit.kfilt_tot <= 1:
        found |= {"kfilt_tot": 0, "kfilt_first": 0, "kfilt_last": 0}
    if unit.afilt_mode == AfiltMode.NONE:
        found |= {"afilt_tot": 0, "afilt_first": 0, "afilt_last": 0}
    return found


def _held_arithmetic(program: Program, unit: Arith) -> dict[str, Any]:
    pixels = unit.fWidth * unit.fHeight
    scalar = {"fWidth": 0, "fHeight": 0, "fChannels": 0, "batchDepth": 0, "bcast": Bcast.SCALAR}
    return {
        "inbytes_y": unit.inbytes_y or 2,
        "outbytes_y": unit.outbytes_y or 2,
        "clipmin": unit.clipmin if unit.clipout else 0,
        "clipmax": unit.clipmax if unit.clipout else 0,
        **(scalar if unit.scalar else {"fWidth": pixels, "fHeight": 1}),
        **_coefficients(program, unit),
    }


def _coefficients(program: Program, unit: Arith) -> dict[str, Any]:
    """Entries as numbers, whether they came from a vector or from a scalar."""
    if unit.scalar:
        return {}
    names = dict.fromkeys(("A_scalar", "B_scalar", "C_scalar", "vec_precision"))
    entries = {name: _entries(program, unit, i, name) for i, name in enumerate("ABC")}
    if unit.combinebc:
        if unit.C_vector is None:
            pairs = zip(entries["B"], entries["C"], strict=True)
            entries["C"] = [b << 16 | c & 0xFFFF for b, c in pairs]
        entries["B"] = []
    return {**names, **{f"{name}_vector": entry for name, entry in entries.items()}}


def _entries(program: Program, unit: Arith, index: int, name: str) -> list[int]:
    length = unit.fChannels
    place = getattr(unit, f"{name}_vector")
    if place is None:
        return [getattr(unit, f"{name}_scalar")] * length
    raw = program.constants[place.buffer].tobytes()[place.offset :]
    return np.frombuffer(raw, f"<i{unit.vec_precision[index] // 8}")[:length].tolist()


def _with_bytes(program: Program, found: dict[str, Any]) -> dict[str, Any]:
    """Tables by what is in them, not by where they lie."""
    return {
        name: program.constants[value.buffer].tobytes() if isinstance(value, Ref) else value
        for name, value in found.items()
    }
