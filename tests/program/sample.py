"""A small Program with one of everything, for tests of formats and rules."""

from __future__ import annotations

import math

import numpy as np

from npuscope.graph.model import Quant
from npuscope.program.model import (
    Access,
    Buffer,
    Call,
    Claims,
    Epoch,
    EpochKind,
    Group,
    Pool,
    Program,
    Refused,
    evidence,
)
from npuscope.program.modes import ArithOp, PoolOp, Simd
from npuscope.program.units import Activ, Arith, Convacc, Decun, Link, PoolUnit, Port, Ref, Streng

_FRAME = {"fwidth": 4, "fheight": 4, "batch_depth": 8, "batch_offset": 8}
QUANT = Quant((0.1,), (-3,))


def reader(id=0, **more) -> Streng:
    """All of buffer "x": 4 x 4 pixels of 8 channels."""
    settings = {"addr_base": Ref("x"), "frame_tot_cnt": 1, **_FRAME, **more}
    return Streng(id=id, dir=0, **settings)


def writer(id=1, **more) -> Streng:
    """All of buffer "y", of the same size."""
    settings = {"addr_base": Ref("y"), "frame_tot_cnt": 1, **_FRAME, **more}
    return Streng(id=id, dir=1, **settings)


def copy_group() -> Group:
    return Group((reader(), writer()), (Link(Port("STRENG", 0), Port("STRENG", 1)),))


def all_units() -> Group:
    weights = Streng(
        id=2, dir=0, addr_base=Ref("w", 2), raw=1, frame_count=64, continuous=1, frame_tot_cnt=1
    )
    conv = Convacc(
        id=0,
        fWidth=4,
        fHeight=4,
        kernelWidth=1,
        kernelHeight=1,
        nKernels=8,
        batchDepth=8,
        simd=Simd.S16X8,
        fsub=-3,
        shift_o=4,
    )
    arith = Arith(
        id=3,
        operation=ArithOp.AFFINE,
        fWidth=4,
        fHeight=4,
        fChannels=8,
        batchDepth=8,
        A_vector=Ref("w", 66),
        vec_precision=(16, 16, 32),
    )
    pool = PoolUnit(
        id=1, operation=PoolOp.MAX, inputX=4, inputY=4, outputX=4, outputY=4, batchSize=8
    )
    units = (reader(), weights, conv, arith, Activ(id=0, operation=1), pool, Decun(id=1), writer())
    links = (
        Link(Port("STRENG", 0), Port("CONVACC", 0)),
        Link(Port("STRENG", 2), Port("CONVACC", 0, 1)),
        Link(Port("CONVACC", 0), Port("ARITH", 3), False, 2, True, 1),
        Link(Port("ARITH", 3), Port("ACTIV", 0)),
        Link(Port("ACTIV", 0), Port("POOL", 1)),
        Link(Port("POOL", 1), Port("STRENG", 1)),
    )
    return Group(units, links)


def sample() -> Program:
    buffers = (
        Buffer("x", 128, (1, 4, 4, 8), 8, 8, "ram", 0, 1, 2, quant=QUANT, tensor="input"),
        Buffer("y", 128, (1, 4, 4, 8), 8, 8, "ram", 128, 1, 3, signed=False),
        Buffer("flat", 128, (1, 128), 8, 128, "ram", 128, 3, 3, view_of="y"),
        Buffer("w", 82, (82,), 8, 82, "flash", 32, is_param=True),
        Buffer("z", 512, (1, 128), 32, 128, "ram", 256, 3, 5, is_float=True),
    )
    call = Call(
        "Softmax",
        ("flat",),
        ("z",),
        (("axis", 1), ("beta", math.inf), ("keep", True), ("pads", ((0, 1), (2, 3))), ("a", "b")),
    )
    claims = Claims(100, 20, 30, (Access("ram", 128, 128, 16.5, 16.0),))
    epochs = (
        Epoch(
            1,
            2,
            EpochKind.HW,
            ("Conv",),
            ("CONV_2D:0",),
            0,
            (all_units(),),
            None,
            claims,
            (Refused("deep", "NA-DEEP", "It is deep.", evidence("$mode", mode="fsub"), 3),),
        ),
        Epoch(3, 3, EpochKind.SW, call=call),
        Epoch(4, 4, EpochKind.EMPTY),
        Epoch(5, 5, EpochKind.HW, groups=None),
    )
    pools = (
        Pool("ram", 0x34200000, 4096, 8, 1.0, score=5, used_bytes=768),
        Pool("flash", 0x70000000, 1 << 26, 1, 6.0, writable=False, cacheable=True),
    )
    constants = {"w": np.arange(82, dtype=np.int8)}
    return Program(
        "sample",
        "stm32n6",
        "4.0",
        True,
        pools,
        buffers,
        epochs,
        ("x",),
        ("z",),
        constants,
        "model.tflite",
        "0123",
        notes=("one",),
    )
