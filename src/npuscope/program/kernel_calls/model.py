"""A call of a C kernel: tensors, whole numbers, real numbers. Mirrors npuscope_kernels.h."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from npuscope.errors import TargetError
from npuscope.graph.model import Quant
from npuscope.ops.kernels.step import Array
from npuscope.program.model import Buffer

MAX_RANK = 8
WHOLE = 0xFF  # as axis: one scale for all values
PREFIX = "npuscope_"


class ElementType(IntEnum):
    """npuscope_type, by the numpy name of the type."""

    float32 = 0
    int8 = 1
    uint8 = 2
    int16 = 3
    uint16 = 4
    int32 = 5
    int64 = 6
    bool = 7
    float64 = 8


class Rounding(IntEnum):
    """npuscope_rounding: how a real value becomes a whole one when it is stored."""

    HALF_TO_EVEN = 0
    HALF_AWAY = 1


class NoKernel(TargetError):
    """The C library has no kernel for these arguments."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of a call: a buffer of the program, or values computed when the C was written."""

    shape: tuple[int, ...]
    type: ElementType
    buffer: str = ""
    values: Array | None = None
    quant: Quant | None = None
    constant: bool = False  # a parameter of the network


@dataclass(frozen=True, slots=True)
class KernelCall:
    """What network.c hands to a kernel."""

    function: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    numbers: tuple[int, ...] = ()
    reals: tuple[float, ...] = ()
    rounding: Rounding = Rounding.HALF_TO_EVEN


def operand_of(buffer: Buffer) -> Operand:
    """A buffer as a kernel sees it: dense, last axis fastest."""
    if len(buffer.shape) > MAX_RANK:
        raise NoKernel(f"a software kernel takes {MAX_RANK} axes, not {len(buffer.shape)}")
    if _in_blocks(buffer):
        raise NoKernel(f"buffer '{buffer.name}' holds blocks of channels: no kernel reads those")
    return Operand(
        buffer.shape,
        _type(buffer),
        buffer=buffer.name,
        quant=buffer.quant,
        constant=buffer.is_param,
    )


def _in_blocks(buffer: Buffer) -> bool:
    """Blocks of channels are dense where each holds one pixel; a single value has no channels."""
    if not buffer.shape or not 0 < buffer.batch < buffer.channels:
        return False
    return buffer.shape[1:-1].count(1) != len(buffer.shape) - 2


def _type(buffer: Buffer) -> ElementType:
    kind = "float" if buffer.is_float else "int" if buffer.signed else "uint"
    try:
        return ElementType[f"{kind}{buffer.nbits}"]
    except KeyError:
        raise NoKernel(f"buffer '{buffer.name}' has elements of {buffer.nbits} bits") from None


def prepared(values: Array) -> Operand:
    """An array that was computed from constants."""
    found = np.ascontiguousarray(values)
    return Operand(found.shape, ElementType[found.dtype.name], values=found)
