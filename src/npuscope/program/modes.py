"""Modes and operations of the units, with the driver's own numbers."""

from __future__ import annotations

from enum import IntEnum


class Simd(IntEnum):
    """Operand widths of the convolution accelerator: features x kernels."""

    S16X16 = 0
    S8X8 = 1
    S16X8 = 2


class AfiltMode(IntEnum):
    NONE = 0
    PIXELDROP = 1
    FRAMEDROP = 2
    FRAMEZERO = 3


class ArithOp(IntEnum):
    AFFINE = 1
    MIN = 2
    MAX = 3
    MUL = 4
    X_AND_Y = 5
    X_OR_Y = 6
    NOT_X = 7
    X_XOR_Y = 8
    X_EQ_Y = 9
    X_LT_Y = 10
    X_LE_Y = 11
    X_GT_Y = 12
    X_GE_Y = 13
    ABS_X = 14
    SIGN_X = 15
    CLIP = 16


class Bcast(IntEnum):
    NONE = 0
    CHAN = 1
    HEIGHT = 2
    WIDTH = 3
    HEIGHT_WIDTH = 4
    SCALAR = 5


class PoolOp(IntEnum):
    MAX = 1
    MIN = 2
    AVG = 3
    GMAX = 4
    GMIN = 5
    GAVG = 6


class ActivOp(IntEnum):
    RELU = 1
    PRELU = 2
    TRELU = 3
    FUNC = 4
    LUT = 5
