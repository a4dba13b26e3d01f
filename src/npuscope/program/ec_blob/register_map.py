"""The register map of the STM32N6's NPU as data.

Unit -> (first page, count, {register: (index, fields)}). A field is "NAME:lsb+width=reset";
width 1 and reset 0 are left out. Interface facts, read from the public register header. Where
the driver puts two settings into one field (rounding mode and ReLU of an output stage), the map
has two fields.
"""

from __future__ import annotations

Table = dict[str, tuple[int, str]]

_STRENG: Table = {
    "CTRL": (
        0,
        "EN:0 CLR:1 SINGLE:2 DIR:3 NOINC:4 ISTART:5 SUBSAMPLE:6 CONT:7 RAW:8 RAW_OUT:9 DESCR:10 "
        "NOBLK:11 ROUND:12 BEFORCE:13 LSBMODE:14 SIGNEXT:15 SIZE0:16+4 SIZE1:20+4 SIZE2:24+4 "
        "SERDES:28+2 CONFCLR:30 RUNNING:31",
    ),
    "VERSION": (1, ""),
    "ADDR": (2, "REG:0+32"),
    "FSIZE": (3, "WIDTH:0+16 HEIGHT:16+16"),
    "DEPTH": (4, "SIZE:0+16 OFFSET:16+16"),
    "STRD": (5, "LOFF:0+16 FGAP:16+6 BGAP:24+6"),
    "FOFFSET": (6, "REG:0+32"),
    "FRAME_RPT": (7, "REG:0+32"),
    "FRPTOFF": (8, "REG:0+32"),
    "POS": (
        9,
        "POS0:0+2 POS1:2+2=1 POS2:4+2=2 WSWAP:8 HSWAP:9 BSWAP:10 THROTTLE:12+4 GAPCYCLES:16+16=8",
    ),
    "EVENT": (
        10,
        "LEVEL:0+13 TYPE:13+2 SET:15 EN_BUFBL:16 EN_MRK:17 EN_OFLOW_ADD:18 EN_OFLOW_FRM:19 "
        "EN_ILLCFG:20 EN_FMTMM:21 EN_CLRMSGRCV:22 FRMTRG_EN:23 FRMTRG_SRC:24+5",
    ),
    "STOPTAG": (11, "EN:0 TAG:16+16=0xffd9"),
    "LIMITEN": (
        12,
        "ADDRLIMIT:0 STOPPREFTC:1=1 FRAMELIMIT:2 AUTOCLR:3 CLRMSGSENT:8 DOFF_MSB:16+16",
    ),
    "LIMIT": (13, "CNT:0+32"),
    "LIMITADDR": (14, "REG:0+32"),
    "IRQ": (15, ""),
    "ENCR_LSB": (16, "ID_LSB:0+32"),
    "ENCR_MSB": (17, "ID_MSB:0+11 EN:12 ROUNDS:13 KEY_SEL:14+2 INC:16+16"),
    "CID_CACHE": (18, "CID:0+3 CACHEABLE:3 ALLOC:4 PFETCH:5 LINESIZE:6+2 LOFF_MSB:16+16"),
    "EXTSYNC": (19, "EN:0 SRC:4+4 LINES:16+16"),
    "EXTSYNC2": (20, "LINES:0+16 OFF:16+16"),
    "DESCRADDR": (21, "REG:0+32"),
}

_CONVACC: Table = {
    "CTRL": (
        0,
        "EN:0 CLR:1 NOSUM:2 KT1:3 NO1SUM:4 SIMD:5+2 AFILTMODE:8+2 GEN1SUM:10 FC:11 FC_TSIZE:12+4 "
        "FC_VSIZE:16+4 FUNSIGNED:20 KUNSIGNED:21 KSETEN:22+2 FSTAT:24 FSTATLOADED:25 FSTATCLEAR:26 "
        "FSTATOVERF:27 DEEPMODE:28 DSS2MODE:29 CONFCLR:30 ILL:31",
    ),
    "VERSION": (1, ""),
    "KFORMAT": (2, "WIDTH:0+8=3 HEIGHT:8+8=3 BTCDEPTH:16+8=1 NR:24+8=1"),
    "SAMPLE": (3, "LPAD:0+2 RPAD:2+2 TPAD:4+2 BPAD:6+2 HSTRD:8+3=1 VSTRD:12+3=1 FSTATCNT:16+16"),
    "DFORMAT": (
        4,
        "INSHIFT:0+6=8 FRNDMODE:6+2 OUTSHIFT:8+6=8 ORNDMODE:14 ORELU:15 ROUND:16 SAT:17 RAW:18 "
        "OBYTES:20+2=3 FBYTES:22+2=2 FSHIFT:24+6=16 FROUND:30 FSAT:31",
    ),
    "FFORMAT": (5, "WIDTH:0+16=0xffff HEIGHT:16+16=0xffff"),
    "FHCROP": (6, "LEFT:0+16 RIGHT:16+16=0xffff"),
    "FVCROP": (7, "TOP:0+16 BOTTOM:16+16=0xffff"),
    "KFILT": (8, "TOT:0+8=1 FIRST:8+8 LAST:16+8 IDX:24+8"),
    "AFILT": (9, "TOT:0+8=1 FIRST:8+8 LAST:16+8 IDX:24+8"),
    "ZFRAME": (10, "LEFT:0+8 RIGHT:8+8 TOP:16+8 BOTTOM:24+8"),
    "ITER": (11, "PERIOD:0+16 NUMBER:16+4 OFFSET:20+2 IDX:24+4"),
    "FSUB": (12, "FSUB:0+24"),
    "ZFBIAS": (13, "ZFBIAS:0+16"),
}

_DECUN: Table = {
    "CTRL": (0, "EN:0 CLR:1 DUALIN:2 OW:3 PAGEADDR:4+2 CONFCLR:30"),
    "VERSION": (1, ""),
    "BFORMAT": (2, "CVS:0+8 CWS:8+3 OSAM:12+3"),
    "DFORMAT": (3, "CV8:0 RAWLINE:1"),
    "FFORMAT": (4, "BN:0+10"),
}

_ACTIV: Table = {
    "CTRL": (
        0,
        "EN:0 CLR:1 TYPE:2+2 FBYTES:6+2=2 FSHIFT:8+6=16 FROUND:14 FSAT:15 FRNDMODE:16+2 "
        "FOBYTES:18+2=2 ROUND:20 SAT:21 OBYTES:22+2=2 ORNDMODE:24 ORELU:25 CONFCLR:30",
    ),
    "VERSION": (1, ""),
    "ACTIVPARAM": (2, "PARAM:0+16 FUNC:16+4"),
    "FUNC": (3, "OUTSHIFT:0+6 CSHIFT:6+6 BSHIFT:12+5 SIGNEDOP:20 BWIDTH:23+3"),
    "ACTIVPARAM2": (4, "PARAM2:0+16"),
    "FSUB": (5, "FSUB:0+24"),
}

_ARITH: Table = {
    "CTRL": (
        0,
        "EN:0 CLR:1 CNT1:2 CNT2:3 CNT3:4 ROUND:5 SAT:6 COEFFA:7 DUALIN:8 OP:9+6 COEFFB:21 "
        "COEFFC:22 LOGICALOP:23 ORNDMODE:24 ORELU:25 OBYTES:26+2=2 COMBINEBC:28 CLIPOUT:29 "
        "CONFCLR:30",
    ),
    "VERSION": (1, ""),
    "SHIFT": (2, "AX:0+5 BY:5+5 C:10+5 RES:15+6"),
    "INCCNT": (3, "INCVAL:0+27"),
    "RSTCNT1": (4, "RSTCNT:0+27"),
    "RSTCNT2": (5, "RSTCNT:0+27"),
    "RSTCNT3": (6, "RSTCNT:0+27"),
    "COEFFAC": (7, "A:0+16 C:16+16"),
    "COEFFB": (8, "B:0+16"),
    "ADDROFFSET": (9, "OFFSET1:0+9 OFFSET2:9+9 OFFSET3:18+9"),
    "INCOFFSET": (10, "VAL:0+9"),
    "TRANSLATEADDR": (11, "EN:0"),
    "COEFFADDR": (12, "ADDR:0+9"),
    "INSHIFTER": (
        13,
        "FBYTESX:0+2=2 FSHIFTX:2+6=16 FROUNDX:8 FSATX:9 FRNDMODEX:10+2 FOBYTESX:12+2=2 "
        "FBYTESY:16+2=2 FSHIFTY:18+6=16 FROUNDY:24 FSATY:25 FRNDMODEY:26+2 FOBYTESY:28+2=2",
    ),
    "CLIPRANGE": (14, "CLIPMAX:0+16 CLIPMIN:16+16"),
}

_POOL: Table = {
    "CTRL": (
        0,
        "EN:0 CLR:1 TYPE:2+4 ROUND:6 SAT:7 OUTSHIFT:8+6 DUALLINE:14 CROPEN:15 FBYTES:16+2=2 "
        "FSHIFT:18+6=16 FROUND:24 FSAT:25 CONFCLR:30",
    ),
    "VERSION": (1, ""),
    "PDIMS": (
        2,
        "WINX:0+3 WINY:3+3 STRDX:6+4 STRDY:10+4 TPAD:14+3 BPAD:17+3 LPAD:20+3 RPAD:23+3 BSIZE:26+4",
    ),
    "FDIMS": (3, "FEATX:0+12 FEATY:16+12"),
    "OUTDIMS": (4, "FEATX:0+12 FEATY:16+12"),
    "MULVAL": (5, "MULVAL:0+16"),
    "XCROP": (6, "LCROP:0+12 RCROP:16+12"),
    "YCROP": (7, "TCROP:0+12 BCROP:16+12"),
    "RNDCTRL": (8, "FOBYTES:0+2=2 FRNDMODE:2+2 OBYTES:16+2=2 ORNDMODE:18 ORELU:19"),
}

# Stream-switch ports, in the order of the destination registers and of the source numbers.
DESTINATIONS: tuple[tuple[str, int, int], ...] = (
    ("STRENG", 10, 1),
    ("CONVACC", 4, 3),
    ("DECUN", 2, 2),
    ("ACTIV", 2, 1),
    ("ARITH", 4, 2),
    ("POOL", 2, 1),
    ("RECBUF", 1, 3),
)
SOURCES: tuple[tuple[str, int], ...] = (
    ("STRENG", 10),
    ("CONVACC", 4),
    ("DECUN", 2),
    ("ACTIV", 2),
    ("ARITH", 4),
    ("POOL", 2),
    ("RECBUF", 3),
)
FIRST_DESTINATION = 2
_LINK = "EN0:0 LINK0:1+5 FNR0:8+8 EN1:16 LINK1:17+5 TICKTYPE:23 FNR1:24+8"


def _switch() -> Table:
    names = [
        f"DST{unit}{number}{port if ports > 1 else ''}"
        for unit, count, ports in DESTINATIONS
        for number in range(count)
        for port in range(ports)
    ]
    table: Table = {"CTRL": (0, "EN:0 CLR:1 CONFCLR:30"), "VERSION": (1, "")}
    return table | {name: (FIRST_DESTINATION + i, _LINK) for i, name in enumerate(names)}


_GATES = " ".join(
    f"{unit}{number}:{bit}"
    for bit, (unit, number) in enumerate(
        [(unit, n) for unit, count, _ in DESTINATIONS for n in range(count)]
        + [("EPOCHCTRL", 0), ("DEBUG_TRACE", 0)]
    )
)
_AGATES = "INTCTRL:0 BUSIF0:1 BUSIF1:2 STRSWITCH:3"
_CONTROL: Table = {"CTRL": (0, "EN:0 CLR:1 CONFCLR:30"), "VERSION": (1, "")}

UNITS: dict[str, tuple[int, int, Table]] = {
    "CLKCTRL": (
        0,
        1,
        _CONTROL | {"AGATES0": (2, _AGATES), "AGATES1": (3, _AGATES), "BGATES": (4, _GATES)},
    ),
    "INTCTRL": (1, 1, _CONTROL | {"INTREG": (2, ""), "INTSET": (3, ""), "INTCLR": (4, "")}),
    "BUSIF": (2, 2, _CONTROL),
    "STRSWITCH": (4, 1, _switch()),
    "STRENG": (5, 10, _STRENG),
    "CONVACC": (15, 4, _CONVACC),
    "DECUN": (19, 2, _DECUN),
    "ACTIV": (21, 2, _ACTIV),
    "ARITH": (23, 4, _ARITH),
    "POOL": (27, 2, _POOL),
    "RECBUF": (29, 1, _CONTROL | {"FORMAT0": (2, ""), "FORMAT1": (3, ""), "FORMAT2": (4, "")}),
    "EPOCHCTRL": (30, 1, _CONTROL | {"ADDR": (2, "REG:0+32"), "IRQ": (3, ""), "LABEL": (7, "")}),
    "DEBUG_TRACE": (31, 1, _CONTROL),
}
