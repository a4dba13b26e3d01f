"""Convolution, activation, pooling and decompression units between records and registers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npuscope.errors import FileError, TargetError
from npuscope.program.ec_blob.register_file import (
    FieldBinding,
    UnitRegisters,
    input_stage,
    output_stage,
)
from npuscope.program.ec_blob.tables import Words, constant, lift_vectors
from npuscope.program.ec_blob.unit_arith import Keep
from npuscope.program.modes import ActivOp, AfiltMode, PoolOp
from npuscope.program.units import NO_CROP, Activ, Convacc, Decun, PoolUnit

# --- Convolution accelerator: record from registers, registers from a record ---

_MOST_PAD = 2  # the sampler itself pads up to this; more padding is made of zero frames

_BOUNDS = (
    FieldBinding("simd", "CTRL.SIMD"),
    FieldBinding("accumulate", "CTRL.NOSUM", invert=True),
    FieldBinding("accumulate_first", "CTRL.NO1SUM", invert=True),
    FieldBinding("accumulate_gen_first", "CTRL.GEN1SUM"),
    FieldBinding("afilt_mode", "CTRL.AFILTMODE"),
    FieldBinding("kt1_mode", "CTRL.KT1"),
    FieldBinding("kseten", "CTRL.KSETEN"),
    FieldBinding("f_unsigned", "CTRL.FUNSIGNED"),
    FieldBinding("k_unsigned", "CTRL.KUNSIGNED"),
    FieldBinding("fstat", "CTRL.FSTAT"),
    FieldBinding("deepmode", "CTRL.DEEPMODE"),
    FieldBinding("dss2mode", "CTRL.DSS2MODE"),
    FieldBinding("fHeight", "FFORMAT.HEIGHT"),
    FieldBinding("kernelWidth", "KFORMAT.WIDTH"),
    FieldBinding("kernelHeight", "KFORMAT.HEIGHT"),
    FieldBinding("batchDepth", "KFORMAT.BTCDEPTH"),
    FieldBinding("nKernels", "KFORMAT.NR"),
    FieldBinding("hstride", "SAMPLE.HSTRD"),
    FieldBinding("vstride", "SAMPLE.VSTRD"),
    FieldBinding("shift_a", "DFORMAT.INSHIFT"),
    FieldBinding("shift_o", "DFORMAT.OUTSHIFT"),
    FieldBinding("raw_o", "DFORMAT.RAW"),
    FieldBinding("top_crop", "FVCROP.TOP"),
    FieldBinding("fsub", "FSUB.FSUB", signed=True),
    FieldBinding("zfbias", "ZFBIAS.ZFBIAS", signed=True),
    *input_stage("DFORMAT"),
    *output_stage("DFORMAT"),
)
_KERNEL_FILTER = tuple(
    FieldBinding(f"kfilt_{n}", f"KFILT.{n.upper()}") for n in ("tot", "first", "last")
)
_SUM_FILTER = tuple(
    FieldBinding(f"afilt_{n}", f"AFILT.{n.upper()}") for n in ("tot", "first", "last")
)


def lift(number: int, image: UnitRegisters) -> Convacc:
    depth = image.get("KFORMAT.BTCDEPTH")
    if not depth or image.get("FFORMAT.WIDTH") % depth:
        raise FileError(
            f"CONVACC {number}: a line of {image.get('FFORMAT.WIDTH')} values does not divide "
            f"into {depth} channels"
        )
    right = image.get("FHCROP.RIGHT")
    values: dict[str, int] = {
        "fWidth": image.get("FFORMAT.WIDTH") // depth,
        "left_crop": image.get("FHCROP.LEFT") // depth,
        "right_crop": NO_CROP if right == NO_CROP else right // depth,
        "bot_crop": image.get("FVCROP.BOTTOM"),
        "left_padding": image.get("SAMPLE.LPAD") + image.get("ZFRAME.LEFT") // depth,
        "right_padding": image.get("SAMPLE.RPAD") + image.get("ZFRAME.RIGHT") // depth,
        "top_padding": image.get("SAMPLE.TPAD") + image.get("ZFRAME.TOP"),
        "bot_padding": image.get("SAMPLE.BPAD") + image.get("ZFRAME.BOTTOM"),
    }
    return Convacc(id=number, **values, **_lift_optional(image), **image.lift(_BOUNDS))


def _lift_optional(image: UnitRegisters) -> dict[str, int]:
    """Settings that count only when their mode is on; a filter of one kernel is none."""
    values: dict[str, int] = {}
    if image.get("KFILT.TOT") > 1:
        values |= image.lift(_KERNEL_FILTER)
    if image.get("CTRL.AFILTMODE") != AfiltMode.NONE:
        values |= image.lift(_SUM_FILTER)
    if image.get("CTRL.FSTAT"):
        values["fstatcnt"] = image.get("SAMPLE.FSTATCNT")
    return values


def lower(unit: Convacc) -> UnitRegisters:
    image = UnitRegisters("CONVACC")
    image.lower(_BOUNDS, unit)
    image.put("FFORMAT.WIDTH", unit.fWidth * unit.batchDepth)
    if unit.kfilt_tot > 0:
        image.lower(_KERNEL_FILTER, unit)
    if unit.afilt_mode != AfiltMode.NONE:
        image.lower(_SUM_FILTER, unit)
    if unit.fstat:
        image.put("SAMPLE.FSTATCNT", unit.fstatcnt)
    # Zero at the right or the bottom crops nothing and leaves the reset value.
    image.put("FHCROP.LEFT", unit.left_crop * unit.batchDepth)
    if unit.right_crop not in (0, NO_CROP):
        image.put("FHCROP.RIGHT", (unit.right_crop + 1) * unit.batchDepth - 1)
    if unit.bot_crop:
        image.put("FVCROP.BOTTOM", unit.bot_crop)
    # The sampler pads up to two and less than the kernel; the rest are zero frames. With deep, DSS2
    # or a padding value of its own all padding is zero frames.
    frames_only = bool(unit.deepmode or unit.dss2mode or unit.zfbias)
    sides = (
        ("LEFT", "LPAD", unit.left_padding, unit.kernelWidth, unit.batchDepth),
        ("RIGHT", "RPAD", unit.right_padding, unit.kernelWidth, unit.batchDepth),
        ("TOP", "TPAD", unit.top_padding, unit.kernelHeight, 1),
        ("BOTTOM", "BPAD", unit.bot_padding, unit.kernelHeight, 1),
    )
    for frame, sample, padding, kernel, step in sides:
        own = 0 if frames_only else min(padding, kernel - 1, _MOST_PAD)
        image.put(f"SAMPLE.{sample}", own)
        image.put(f"ZFRAME.{frame}", (padding - own) * step)
    return image


# --- Activation, pooling and decompression units ---

# Words of an activation unit's tables, counted from the start of its memory.
ROM0_WORD = 0
ROM1_WORD = 0x100
_ROM1_ROW_BYTES = 6  # A, B and C of 16 bits

_ACTIV_OPS = {0: ActivOp.RELU, 1: ActivOp.PRELU, 2: ActivOp.TRELU, 3: ActivOp.FUNC}
_ACTIV_BOUNDS = (
    *input_stage("CTRL"),
    FieldBinding("outbytes_f", "CTRL.FOBYTES"),
    *output_stage("CTRL"),
    FieldBinding("signedop", "FUNC.SIGNEDOP"),
    FieldBinding("shift_o", "FUNC.OUTSHIFT"),
    FieldBinding("fsub", "FSUB.FSUB", signed=True),
)
_PARAMETERS = (("parameter", "ACTIVPARAM.PARAM"), ("parameter_2", "ACTIVPARAM2.PARAM2"))
_FUNC = (
    FieldBinding("shift_b", "FUNC.BSHIFT"),
    FieldBinding("shift_c", "FUNC.CSHIFT"),
    FieldBinding("bwidth", "FUNC.BWIDTH"),
    FieldBinding("shift_norm", "ACTIVPARAM.FUNC"),
)


def lift_activ(number: int, image: UnitRegisters, memory: Words, keep: Keep) -> Activ:
    operation = _ACTIV_OPS[image.get("CTRL.TYPE")]
    values = image.lift(_ACTIV_BOUNDS)
    values |= {name: image.get(path, signed=True) for name, path in _PARAMETERS}
    if operation is ActivOp.FUNC:
        # ROM0 has one byte per segment; its entries give the number of ROM1 rows in use.
        segments = 1 << image.get("FUNC.BWIDTH")
        rom0 = np.array([memory.get(ROM0_WORD + i, 0) & 0xFF for i in range(segments)], np.uint8)
        rows = int(max((entry & 0x3F) + (1 << (entry >> 6)) for entry in rom0.tolist()))
        shifted = {i: memory.get(ROM1_WORD + i, 0) for i in range(2 * rows)}
        entries = lift_vectors(shifted, rows)
        rom1 = np.stack((entries.a, entries.b, entries.c), axis=1)
        values |= image.lift(_FUNC) | {
            "ROM0_vector": keep(f"ACTIV{number}.ROM0", rom0),
            "ROM1_vector": keep(f"ACTIV{number}.ROM1", rom1),
            "ROM0_nbytes": rom0.nbytes,
            "ROM1_nbytes": rom1.nbytes,
        }
    return Activ(id=number, operation=int(operation), nbytes=values["inbytes_f"], **values)


def lower_activ(
    unit: Activ, constants: Mapping[str, np.ndarray]
) -> tuple[UnitRegisters, dict[int, int]]:
    """Registers, and words for the unit's memory."""
    image = UnitRegisters("ACTIV")
    codes = {int(operation): code for code, operation in _ACTIV_OPS.items()}
    if unit.operation not in codes:
        raise TargetError(f"ACTIV {unit.id}: no registers for operation {unit.operation}")
    image.lower(_ACTIV_BOUNDS, unit)
    image.put("CTRL.TYPE", codes[unit.operation])
    for name, path in _PARAMETERS:
        # Sources write 16-bit parameters with or without a sign.
        value = getattr(unit, name)
        image.put(path, value - 0x10000 if 0x7FFF < value <= 0xFFFF else value, signed=True)
    if unit.operation != ActivOp.FUNC:
        return image, {}
    image.lower(_FUNC, unit)
    if unit.ROM0_vector is None or unit.ROM1_vector is None:
        raise TargetError(f"ACTIV {unit.id}: a function needs both tables")
    rom0 = constant(constants, unit.ROM0_vector, unit.ROM0_nbytes)
    raw = constant(constants, unit.ROM1_vector, unit.ROM1_nbytes)
    rows = np.frombuffer(raw[: len(raw) // _ROM1_ROW_BYTES * _ROM1_ROW_BYTES], "<u2").reshape(-1, 3)
    words = {ROM0_WORD + i: value for i, value in enumerate(rom0)}
    for i, (a, b, c) in enumerate(rows.tolist()):
        words[ROM1_WORD + 2 * i] = a | b << 16
        words[ROM1_WORD + 2 * i + 1] = c
    return image, words


_POOL_OPS = {
    0: PoolOp.MAX,
    1: PoolOp.MIN,
    2: PoolOp.AVG,
    8: PoolOp.GMAX,
    9: PoolOp.GMIN,
    10: PoolOp.GAVG,
}
_POOL_BOUNDS = (
    *input_stage("CTRL", "RNDCTRL"),
    *output_stage("CTRL", "RNDCTRL"),
    FieldBinding("outbytes_f", "RNDCTRL.FOBYTES"),
    FieldBinding("shift_o", "CTRL.OUTSHIFT"),
    FieldBinding("dualLine", "CTRL.DUALLINE"),
    FieldBinding("poolWinX", "PDIMS.WINX"),
    FieldBinding("poolWinY", "PDIMS.WINY"),
    FieldBinding("strideX", "PDIMS.STRDX"),
    FieldBinding("strideY", "PDIMS.STRDY"),
    FieldBinding("topPad", "PDIMS.TPAD"),
    FieldBinding("bottomPad", "PDIMS.BPAD"),
    FieldBinding("leftPad", "PDIMS.LPAD"),
    FieldBinding("rightPad", "PDIMS.RPAD"),
    FieldBinding("batchSize", "PDIMS.BSIZE"),
    FieldBinding("inputY", "FDIMS.FEATY"),
    FieldBinding("outputX", "OUTDIMS.FEATX"),
    FieldBinding("outputY", "OUTDIMS.FEATY"),
    FieldBinding("mulval", "MULVAL.MULVAL"),
)


def lift_pool(number: int, image: UnitRegisters) -> PoolUnit:
    operation = _POOL_OPS.get(image.get("CTRL.TYPE"))
    batch = image.get("PDIMS.BSIZE")
    if operation is None or not batch:
        raise FileError(
            f"POOL {number}: unknown type {image.get('CTRL.TYPE')} or no channels in a frame"
        )
    values = image.lift(_POOL_BOUNDS)
    if image.get("CTRL.CROPEN"):
        values["leftCrop"] = image.get("XCROP.LCROP") // batch
        values["rightCrop"] = image.get("XCROP.RCROP") // batch
        values["topCrop"] = image.get("YCROP.TCROP")
        values["bottomCrop"] = image.get("YCROP.BCROP")
    return PoolUnit(
        id=number,
        operation=int(operation),
        inputX=image.get("FDIMS.FEATX") // batch,
        nbytes=values["inbytes_f"],
        **values,
    )


def lower_pool(unit: PoolUnit) -> UnitRegisters:
    codes = {int(operation): code for code, operation in _POOL_OPS.items()}
    if unit.operation not in codes:
        raise TargetError(f"POOL {unit.id}: unknown operation {unit.operation}")
    if unit.pad_val_en or unit.avgnopad:
        raise TargetError(f"POOL {unit.id}: no register for a padding value or avgnopad")
    image = UnitRegisters("POOL")
    image.lower(_POOL_BOUNDS, unit)
    image.put("CTRL.TYPE", codes[unit.operation])
    image.put("CTRL.CROPEN", 1)
    image.put("FDIMS.FEATX", unit.inputX * unit.batchSize)
    # The unit always crops, so a record's zero (crop nothing) becomes the last row or column.
    right, bottom = unit.rightCrop or unit.inputX - 1, unit.bottomCrop or unit.inputY - 1
    image.put("XCROP.LCROP", unit.leftCrop * unit.batchSize)
    image.put("XCROP.RCROP", (right + 1) * unit.batchSize - 1)
    image.put("YCROP.TCROP", unit.topCrop)
    image.put("YCROP.BCROP", bottom)
    return image


def lift_decun(number: int, image: UnitRegisters) -> Decun:
    """Code words; the code book itself stays in the unit's memory."""
    return Decun(
        id=number,
        nCWperCV=image.get("BFORMAT.CWS") + 1,
        nCV=image.get("BFORMAT.CVS") + 1,
        nBatches=image.get("FFORMAT.BN"),
        nFormatBytes=1 if image.get("DFORMAT.CV8") else 2,
    )
