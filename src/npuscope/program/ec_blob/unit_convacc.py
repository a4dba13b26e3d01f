"""Convolution accelerator: its record from registers, its registers from a record."""

from __future__ import annotations

from npuscope.errors import FileError
from npuscope.program.ec_blob.bindings import Bound, Image, input_stage, output_stage
from npuscope.program.modes import AfiltMode
from npuscope.program.units import NO_CROP, Convacc

_MOST_PAD = 2  # what the sampler pads by itself; more is made of zero frames

_BOUNDS = (
    Bound("simd", "CTRL.SIMD"),
    Bound("accumulate", "CTRL.NOSUM", invert=True),
    Bound("accumulate_first", "CTRL.NO1SUM", invert=True),
    Bound("accumulate_gen_first", "CTRL.GEN1SUM"),
    Bound("afilt_mode", "CTRL.AFILTMODE"),
    Bound("kt1_mode", "CTRL.KT1"),
    Bound("kseten", "CTRL.KSETEN"),
    Bound("f_unsigned", "CTRL.FUNSIGNED"),
    Bound("k_unsigned", "CTRL.KUNSIGNED"),
    Bound("fstat", "CTRL.FSTAT"),
    Bound("deepmode", "CTRL.DEEPMODE"),
    Bound("dss2mode", "CTRL.DSS2MODE"),
    Bound("fHeight", "FFORMAT.HEIGHT"),
    Bound("kernelWidth", "KFORMAT.WIDTH"),
    Bound("kernelHeight", "KFORMAT.HEIGHT"),
    Bound("batchDepth", "KFORMAT.BTCDEPTH"),
    Bound("nKernels", "KFORMAT.NR"),
    Bound("hstride", "SAMPLE.HSTRD"),
    Bound("vstride", "SAMPLE.VSTRD"),
    Bound("shift_a", "DFORMAT.INSHIFT"),
    Bound("shift_o", "DFORMAT.OUTSHIFT"),
    Bound("raw_o", "DFORMAT.RAW"),
    Bound("top_crop", "FVCROP.TOP"),
    Bound("fsub", "FSUB.FSUB", signed=True),
    Bound("zfbias", "ZFBIAS.ZFBIAS", signed=True),
    *input_stage("DFORMAT"),
    *output_stage("DFORMAT"),
)
_KERNEL_FILTER = tuple(Bound(f"kfilt_{n}", f"KFILT.{n.upper()}") for n in ("tot", "first", "last"))
_SUM_FILTER = tuple(Bound(f"afilt_{n}", f"AFILT.{n.upper()}") for n in ("tot", "first", "last"))


def lift(number: int, image: Image) -> Convacc:
    depth = image.get("KFORMAT.BTCDEPTH")
    if not depth or image.get("FFORMAT.WIDTH") % depth:
        raise FileError(f"CONVACC {number}: a line of {image.get('FFORMAT.WIDTH')} in {depth}s")
    right = image.get("FHCROP.RIGHT")
    found: dict[str, int] = {
        "fWidth": image.get("FFORMAT.WIDTH") // depth,
        "left_crop": image.get("FHCROP.LEFT") // depth,
        "right_crop": NO_CROP if right == NO_CROP else right // depth,
        "bot_crop": image.get("FVCROP.BOTTOM"),
        "left_padding": image.get("SAMPLE.LPAD") + image.get("ZFRAME.LEFT") // depth,
        "right_padding": image.get("SAMPLE.RPAD") + image.get("ZFRAME.RIGHT") // depth,
        "top_padding": image.get("SAMPLE.TPAD") + image.get("ZFRAME.TOP"),
        "bot_padding": image.get("SAMPLE.BPAD") + image.get("ZFRAME.BOTTOM"),
    }
    return Convacc(id=number, **found, **_lift_optional(image), **image.lift(_BOUNDS))


def _lift_optional(image: Image) -> dict[str, int]:
    """Settings that count only when their mode is on; a filter of one kernel is none."""
    found: dict[str, int] = {}
    if image.get("KFILT.TOT") > 1:
        found |= image.lift(_KERNEL_FILTER)
    if image.get("CTRL.AFILTMODE") != AfiltMode.NONE:
        found |= image.lift(_SUM_FILTER)
    if image.get("CTRL.FSTAT"):
        found["fstatcnt"] = image.get("SAMPLE.FSTATCNT")
    return found


def lower(unit: Convacc) -> Image:
    image = Image("CONVACC")
    image.lower(_BOUNDS, unit)
    image.put("FFORMAT.WIDTH", unit.fWidth * unit.batchDepth)
    if unit.kfilt_tot > 0:
        image.lower(_KERNEL_FILTER, unit)
    if unit.afilt_mode != AfiltMode.NONE:
        image.lower(_SUM_FILTER, unit)
    if unit.fstat:
        image.put("SAMPLE.FSTATCNT", unit.fstatcnt)
    _lower_crop(unit, image)
    _lower_padding(unit, image)
    return image


def _lower_crop(unit: Convacc, image: Image) -> None:
    """Zero at the right or the bottom crops nothing and leaves the reset value."""
    image.put("FHCROP.LEFT", unit.left_crop * unit.batchDepth)
    if unit.right_crop not in (0, NO_CROP):
        image.put("FHCROP.RIGHT", (unit.right_crop + 1) * unit.batchDepth - 1)
    if unit.bot_crop:
        image.put("FVCROP.BOTTOM", unit.bot_crop)


def _lower_padding(unit: Convacc, image: Image) -> None:
    """The sampler pads up to two and less than the kernel; the rest are zero frames.

    With deep, DSS2 or a padding value of its own all padding is zero frames.
    """
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
