"""Arithmetic unit: its record from registers and coefficient memory, and the other way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from npuscope.errors import FileError, TargetError
from npuscope.program.ec_blob.register_file import (
    SHIFT_BIAS,
    FieldBinding,
    UnitRegisters,
    output_stage,
)
from npuscope.program.ec_blob.tables import Vectors, Words, constant, lift_vectors
from npuscope.program.modes import ArithOp, Bcast
from npuscope.program.units import Arith, Ref

Keep = Callable[[str, np.ndarray], Ref]

MAX_ENTRIES = 512
_OFFSET_MASK = 0x1FF  # steps of the entry number wrap around in 9 bits

_CODES = {
    ArithOp.AFFINE: 0x00,
    ArithOp.MIN: 0x01,
    ArithOp.MAX: 0x02,
    ArithOp.MUL: 0x07,
    ArithOp.X_AND_Y: 0x0B,
    ArithOp.X_OR_Y: 0x0F,
    ArithOp.NOT_X: 0x13,
    ArithOp.X_XOR_Y: 0x17,
    ArithOp.X_EQ_Y: 0x1B,
    ArithOp.X_LT_Y: 0x1F,
    ArithOp.X_LE_Y: 0x23,
    ArithOp.X_GT_Y: 0x27,
    ArithOp.X_GE_Y: 0x2B,
    ArithOp.ABS_X: 0x2F,
    ArithOp.SIGN_X: 0x33,
    ArithOp.CLIP: 0x37,
}
_OPERATIONS = {code: operation for operation, code in _CODES.items()}


def _operand(port: str) -> tuple[FieldBinding, ...]:
    upper = port.upper()
    return (
        FieldBinding(f"rounding_{port}", f"INSHIFTER.FROUND{upper}"),
        FieldBinding(f"saturation_{port}", f"INSHIFTER.FSAT{upper}"),
        FieldBinding(f"round_mode_{port}", f"INSHIFTER.FRNDMODE{upper}"),
        FieldBinding(f"shift_{port}", f"INSHIFTER.FSHIFT{upper}", bias=SHIFT_BIAS),
    )


_Y_WIDTHS = (
    FieldBinding("inbytes_y", "INSHIFTER.FBYTESY"),
    FieldBinding("outbytes_y", "INSHIFTER.FOBYTESY"),
)
_BOUNDS = (
    FieldBinding("dualinput", "CTRL.DUALIN"),
    FieldBinding("combinebc", "CTRL.COMBINEBC"),
    FieldBinding("clipout", "CTRL.CLIPOUT"),
    FieldBinding("Ax_shift", "SHIFT.AX"),
    FieldBinding("By_shift", "SHIFT.BY"),
    FieldBinding("C_shift", "SHIFT.C"),
    FieldBinding("shift_o", "SHIFT.RES"),
    FieldBinding("inbytes_x", "INSHIFTER.FBYTESX"),
    FieldBinding("outbytes_x", "INSHIFTER.FOBYTESX"),
    *_operand("x"),
    *_operand("y"),
    *output_stage("CTRL"),
)
_CLIP = (
    FieldBinding("clipmax", "CLIPRANGE.CLIPMAX", signed=True),
    FieldBinding("clipmin", "CLIPRANGE.CLIPMIN", signed=True),
)
_SCALARS = {"A": "COEFFAC.A", "B": "COEFFB.B", "C": "COEFFAC.C"}
_VECTOR_FLAGS = ("CTRL.CNT1", "CTRL.COEFFA", "CTRL.COEFFB", "CTRL.COEFFC")


def lift(number: int, image: UnitRegisters, memory: Words, keep: Keep) -> Arith:
    """Registers hold no geometry for scalars, and only products of it for vectors."""
    operation = _OPERATIONS.get(image.get("CTRL.OP"))
    if operation is None:
        raise FileError(f"ARITH {number}: unknown operation {image.get('CTRL.OP'):#x}")
    values = {**image.lift(_BOUNDS), **image.lift(_Y_WIDTHS)}
    if values["clipout"]:
        values |= image.lift(_CLIP)
    values |= _lift_coefficients(number, image, memory, keep)
    return Arith(id=number, operation=int(operation), **values)


def _lift_coefficients(
    number: int, image: UnitRegisters, memory: Words, keep: Keep
) -> dict[str, Any]:
    flags = {image.get(path) for path in _VECTOR_FLAGS}
    if flags == {0}:
        values = {name: image.get(path, signed=True) for name, path in _SCALARS.items()}
        return _scalar(values)
    if flags != {1}:
        raise FileError(f"ARITH {number}: only some coefficients are vectors")
    if not image.get("CTRL.CNT2") and not image.get("INCOFFSET.VAL"):
        entry = lift_vectors(memory, 1)
        return _scalar({"A": int(entry.a[0]), "B": int(entry.b[0]), "C": int(entry.c[0])})
    geometry = _lift_channels(image) if image.get("CTRL.CNT2") else _lift_steps(image)
    length = geometry["fChannels"] if image.get("CTRL.CNT2") else geometry["fWidth"]
    if not geometry["fWidth"] or not 0 < length <= MAX_ENTRIES:
        raise FileError(f"ARITH {number}: invalid vector length {length}")
    vectors = lift_vectors(memory, length)
    combined = image.get("CTRL.COMBINEBC")
    parts = {"A": vectors.a, "C": vectors.pairs if combined else vectors.c}
    if not combined:
        parts["B"] = vectors.b
    references: dict[str, Any] = {
        f"{name}_vector": keep(f"ARITH{number}.{name}", part) for name, part in parts.items()
    }
    return {**geometry, **references, "vec_precision": (16, 16, 32 if combined else 16)}


def _scalar(values: dict[str, int]) -> dict[str, Any]:
    scalars = {f"{name}_scalar": value for name, value in values.items()}
    return {"scalar": 1, "fWidth": 0, "fHeight": 0, "fChannels": 0, "batchDepth": 0, **scalars}


def _lift_channels(image: UnitRegisters) -> dict[str, int]:
    """Counters of a broadcast over channels: batch, frame, all frames."""
    batch, frame, total = (image.get(f"RSTCNT{i}.RSTCNT") + 1 for i in (1, 2, 3))
    pixels = frame // batch
    return {
        "bcast": int(Bcast.CHAN),
        "fWidth": pixels,
        "fHeight": 1,
        "batchDepth": batch,
        "fChannels": total // max(1, pixels),
    }


def _lift_steps(image: UnitRegisters) -> dict[str, int]:
    """Broadcasts over rows, columns or both are one: every `step` elements the next entry."""
    step = image.get("INCCNT.INCVAL") + 1
    return {
        "bcast": int(Bcast.HEIGHT_WIDTH),
        "fWidth": (image.get("RSTCNT1.RSTCNT") + 1) // step,
        "fHeight": 1,
        "batchDepth": step,
        "fChannels": step,
    }


def lower(unit: Arith, constants: Mapping[str, np.ndarray]) -> tuple[UnitRegisters, Vectors | None]:
    """Registers, and the entries for the unit's memory if it works with vectors."""
    image = UnitRegisters("ARITH")
    image.lower(_BOUNDS, unit)
    image.put("CTRL.OP", _code(unit))
    image.put("CTRL.LOGICALOP", int(unit.operation == ArithOp.NOT_X))
    # Without a second operand its widths are 0 in a record; the unit keeps its reset values.
    image.lower((bound for bound in _Y_WIDTHS if getattr(unit, bound.name)), unit)
    if unit.clipout:
        image.lower(_CLIP, unit)
    for name, path in _SCALARS.items():
        image.put(path, _wrapped(unit, f"{name}_scalar"), signed=True)
    if unit.scalar:
        refuse_stream_vector(unit)
        return image, None
    for path in _VECTOR_FLAGS:
        image.put(path, 1)
    return image, _lower_vectors(unit, _lower_geometry(unit, image), constants)


def _code(unit: Arith) -> int:
    try:
        return _CODES[ArithOp(unit.operation)]
    except ValueError:
        raise TargetError(f"ARITH {unit.id}: unknown operation {unit.operation}") from None


def _wrapped(unit: Arith, name: str) -> int:
    """16 bits; sources write them with or without a sign."""
    value = int(getattr(unit, name))
    if not -0x8000 <= value <= 0xFFFF:
        raise TargetError(f"ARITH {unit.id}: {name} {value} does not fit 16 bits")
    return value - 0x10000 if value > 0x7FFF else value


def refuse_stream_vector(unit: Arith) -> None:
    """Refuse what blobs and the drivers in an image cannot set up: no public register is known."""
    if unit.scalar and unit.dualinput and unit.bcast == Bcast.CHAN:
        raise TargetError(
            f"ARITH {unit.id}: the registers that hold a vector arriving at port 1 are unknown"
        )


def refuse_unheld(unit: Arith) -> None:
    """Refuse what no register or memory of the unit holds; its constants are not looked at."""
    if unit.scalar:
        refuse_stream_vector(unit)
    else:
        _lower_geometry(unit, UnitRegisters("ARITH"))


def _lower_geometry(unit: Arith, image: UnitRegisters) -> int:
    """Counters and steps of the broadcast; gives the number of entries."""
    width, height, batch, channels = unit.fWidth, unit.fHeight, unit.batchDepth, unit.fChannels
    if unit.bcast == Bcast.CHAN:
        image.put("CTRL.CNT2", 1)
        image.put("CTRL.CNT3", 1)
        counters = batch, width * height * batch, width * height * channels
        steps = 1 - batch, 1, 1 - channels
        entries, every = channels, 1
    elif unit.bcast in (Bcast.HEIGHT, Bcast.WIDTH, Bcast.HEIGHT_WIDTH):
        every = width * batch if unit.bcast == Bcast.HEIGHT else batch
        entries = {
            Bcast.HEIGHT: height,
            Bcast.WIDTH: width,
            Bcast.HEIGHT_WIDTH: height * width,
        }[Bcast(unit.bcast)]
        counters, steps = (entries * every, 1, 1), (1 - entries, 0, 0)
    elif unit.bcast == Bcast.SCALAR:
        return 1
    else:
        raise TargetError(f"ARITH {unit.id}: vectors with bcast {unit.bcast}")
    if not 0 < entries <= MAX_ENTRIES:
        raise TargetError(f"ARITH {unit.id}: {entries} entries, but the unit holds {MAX_ENTRIES}")
    image.put("INCCNT.INCVAL", every - 1)
    image.put("INCOFFSET.VAL", 1)
    for i, (counter, step) in enumerate(zip(counters, steps, strict=True), 1):
        image.put(f"RSTCNT{i}.RSTCNT", counter - 1)
        image.put(f"ADDROFFSET.OFFSET{i}", step & _OFFSET_MASK)
    return entries


def _lower_vectors(unit: Arith, length: int, constants: Mapping[str, np.ndarray]) -> Vectors:
    def entries(name: str, bits: int) -> np.ndarray:
        place = getattr(unit, f"{name}_vector")
        if place is None:
            return np.full(length, _wrapped(unit, f"{name}_scalar"), np.int64)
        raw = constant(constants, place, length * bits // 8)
        return np.frombuffer(raw, f"<i{bits // 8}").astype(np.int64)

    if any(bits not in (8, 16, 32) for bits in unit.vec_precision):
        raise TargetError(
            f"ARITH {unit.id}: vectors of {unit.vec_precision} bits are not supported"
        )
    a, b, c = (entries(*pair) for pair in zip("ABC", unit.vec_precision, strict=True))
    if unit.C_vector is not None and unit.C_scalar == -1:
        c = -c  # how a record asks for a negated vector
    if unit.combinebc and unit.C_vector is not None:
        b = c >> 16
    return Vectors(a, b, c)
