"""Stream engine: its record from registers, its registers from a record."""

from __future__ import annotations

from npuscope.errors import TargetError
from npuscope.program.addresses import refuse_packed
from npuscope.program.ec_blob.register_file import FieldBinding, UnitRegisters
from npuscope.program.units import Ref, Streng

_LANE_BITS = 8
_LANES = ("CTRL.SIZE0", "CTRL.SIZE1", "CTRL.SIZE2")
_LOW_BITS = 16  # two offsets are cut: their upper halves sit in other registers
_NO_REF = Ref("")

_BOUNDS = (
    FieldBinding("dir", "CTRL.DIR"),
    FieldBinding("raw", "CTRL.RAW"),
    FieldBinding("raw_out", "CTRL.RAW_OUT"),
    FieldBinding("continuous", "CTRL.CONT"),
    FieldBinding("noblk", "CTRL.NOBLK"),
    FieldBinding("noinc", "CTRL.NOINC"),
    FieldBinding("align_right", "CTRL.LSBMODE"),
    FieldBinding("bus_cid", "CID_CACHE.CID"),
    FieldBinding("cacheable", "CID_CACHE.CACHEABLE"),
    FieldBinding("cache_allocate", "CID_CACHE.ALLOC"),
    FieldBinding("bus_pfetch", "CID_CACHE.PFETCH"),
    FieldBinding("cache_linesize", "CID_CACHE.LINESIZE"),
    FieldBinding("cipher_en", "ENCR_MSB.EN"),
    FieldBinding("key_sel", "ENCR_MSB.KEY_SEL"),
    FieldBinding("frame_offset", "FOFFSET.REG", signed=True),
    FieldBinding("loop_offset", "FRPTOFF.REG", signed=True),
    FieldBinding("frame_loop_cnt", "FRAME_RPT.REG"),
    FieldBinding("frame_tot_cnt", "LIMIT.CNT"),
)
_RASTER = (
    FieldBinding("fwidth", "FSIZE.WIDTH"),
    FieldBinding("fheight", "FSIZE.HEIGHT"),
    FieldBinding("batch_depth", "DEPTH.SIZE"),
)


def address(image: UnitRegisters) -> int:
    return image.get("ADDR.REG")


def lift(number: int, image: UnitRegisters, place: Ref) -> Streng:
    """What the registers hold. `place` is the address; the offsets count from it.

    The width on the link of a right-aligned engine and the sign of one that is not are in no
    register: they do not matter there.
    """
    # Bits in memory and on the link, from the bits that each byte lane carries.
    lanes = [image.get(path) for path in _LANES]
    carried = sum(lanes)
    gap = image.get("STRD.FGAP") + image.get("STRD.BGAP")
    if image.get("CTRL.LSBMODE"):
        memory_bits, link_bits = carried + gap, carried
    else:
        top = max((i for i, bits in enumerate(lanes) if bits), default=0)
        narrow = top == 0 or gap
        memory_bits, link_bits = carried + gap, carried if narrow else (top + 1) * _LANE_BITS
    outwards = bool(image.get("CTRL.DIR"))
    aligned = bool(image.get("CTRL.LSBMODE"))
    frame_trigger = not outwards and bool(image.get("EVENT.FRMTRG_EN"))
    return Streng(
        id=number,
        addr_base=place,
        nbits_in=link_bits if outwards else memory_bits,
        nbits_out=memory_bits if outwards else link_bits,
        mem_lsb=int(image.get("STRD.FGAP") > 0),
        nbits_unsigned=int(aligned and not image.get("CTRL.SIGNEXT")),
        sync_with_other=int(frame_trigger),
        sync_dma=image.get("EVENT.FRMTRG_SRC") if frame_trigger else 0,
        offset_limit=_lift_limit(image),
        **_lift_frame(image),
        **image.lift(_BOUNDS),
    )


def _lift_frame(image: UnitRegisters) -> dict[str, int]:
    if image.get("CTRL.RAW"):
        # A raw engine has one count of 32 bits where a raster has width and height.
        return {"frame_count": image.words["FSIZE"]}
    values = image.lift(_RASTER)
    batch = _joined(image, "LIMITEN.DOFF_MSB", "DEPTH.OFFSET")
    line = _joined(image, "CID_CACHE.LOFF_MSB", "STRD.LOFF")
    usual = line == values["fwidth"] * batch
    return {**values, "batch_offset": batch, "line_offset": 0 if usual else line}


def _joined(image: UnitRegisters, high: str, low: str) -> int:
    return image.get(high, signed=True) << _LOW_BITS | image.get(low)


def _lift_limit(image: UnitRegisters) -> int:
    if not image.get("LIMITEN.ADDRLIMIT"):
        return 0
    return image.get("LIMITADDR.REG") + 1 - address(image)


def lower(engine: Streng, base: int) -> UnitRegisters:
    """The registers of an engine whose buffer starts at `base`."""
    refuse_packed(engine)
    image = UnitRegisters("STRENG")
    image.lower(_BOUNDS, engine)
    image.put("CTRL.SINGLE", int(engine.frame_tot_cnt == 1))
    image.put("CTRL.SIGNEXT", int(bool(engine.align_right and not engine.nbits_unsigned)))
    image.put("ADDR.REG", base + engine.offset_start)
    image.put("LIMITEN.FRAMELIMIT", 1)
    image.put("POS.GAPCYCLES", 0)
    image.put("EVENT.EN_ILLCFG", 1)
    # Lanes carry what memory and link have in common; the rest of a memory word is a gap.
    link = engine.nbits_in if engine.dir else engine.nbits_out
    stored = engine.nbits_memory
    if not 0 < max(link, stored) <= len(_LANES) * _LANE_BITS:
        raise TargetError(f"STRENG {engine.id}: elements of {stored} bits, {link} on the link")
    if stored > link:
        image.put("STRD.FGAP" if engine.mem_lsb else "STRD.BGAP", stored - link)
        stored = link
    pieces = [min(_LANE_BITS, stored - i * _LANE_BITS) for i in range(-(-stored // _LANE_BITS))]
    # Without right alignment the first byte goes to the link's uppermost lane.
    lanes = (
        range(len(_LANES))
        if engine.align_right
        else list(range(-(-link // _LANE_BITS) - 1, -1, -1))
    )
    for lane, bits in zip(lanes, pieces, strict=False):
        image.put(_LANES[lane], bits)
    _lower_frame(engine, image)
    if engine.offset_limit:
        image.put("LIMITEN.ADDRLIMIT", 1)
        image.put("LIMITADDR.REG", base + engine.offset_limit - 1)
    if engine.sync_with_other and not engine.dir:
        image.put("EVENT.FRMTRG_EN", 1)
        image.put("EVENT.FRMTRG_SRC", engine.sync_dma)
    return image


def _lower_frame(engine: Streng, image: UnitRegisters) -> None:
    if engine.raw:
        image.words["FSIZE"] = engine.frame_elements
        return
    image.lower(_RASTER, engine)
    line = engine.line_offset or engine.fwidth * engine.batch_offset
    _put_joined(image, "LIMITEN.DOFF_MSB", "DEPTH.OFFSET", engine.batch_offset)
    _put_joined(image, "CID_CACHE.LOFF_MSB", "STRD.LOFF", line)


def _put_joined(image: UnitRegisters, high: str, low: str, value: int) -> None:
    image.put(high, value >> _LOW_BITS, signed=True)
    image.put(low, value & (1 << _LOW_BITS) - 1)
