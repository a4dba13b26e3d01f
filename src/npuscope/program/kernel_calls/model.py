"""A call of a C kernel, as npuscope_kernels.h has it; the software call it is made from; functions
of one byte as tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from npuscope.errors import ModelError, TargetError
from npuscope.graph.model import Attrs, DType, Graph, Numerics, Op, Quant, Tensor
from npuscope.machine.npu_ops import support
from npuscope.ops.kernels.step import Array
from npuscope.ops.table import OPS
from npuscope.ops.traits import Trait
from npuscope.program.model import Buffer
from npuscope.structs import replace

# --- A call of a C kernel: tensors, integers, real numbers. Mirrors npuscope_kernels.h ---

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


class KernelOperand(Struct, frozen=True):
    """A tensor of a call: a buffer of the program, or values computed when the C was written."""

    shape: tuple[int, ...]
    type: ElementType
    buffer: str = ""
    values: Array | None = None
    quant: Quant | None = None
    constant: bool = False  # a parameter of the network


class KernelCall(Struct, frozen=True):
    """What network.c hands to a kernel."""

    function: str
    inputs: tuple[KernelOperand, ...]
    outputs: tuple[KernelOperand, ...]
    numbers: tuple[int, ...] = ()
    reals: tuple[float, ...] = ()
    rounding: Rounding = Rounding.HALF_TO_EVEN


def operand_of(buffer: Buffer) -> KernelOperand:
    """A buffer as a kernel sees it: dense, last axis fastest."""
    if len(buffer.shape) > MAX_RANK:
        raise NoKernel(f"a software kernel takes at most {MAX_RANK} axes, not {len(buffer.shape)}")
    if _in_blocks(buffer):
        raise NoKernel(f"buffer '{buffer.name}' holds blocks of channels, which no kernel reads")
    return KernelOperand(
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
        raise NoKernel(
            f"buffer '{buffer.name}' has elements of {buffer.nbits} bits, which no kernel reads"
        ) from None


def prepared(values: Array) -> KernelOperand:
    """An array that was computed from constants."""
    array = np.ascontiguousarray(values)
    return KernelOperand(array.shape, ElementType[array.dtype.name], values=array)


# --- A software call as the builders see it, and the default C call ---

A = TypeVar("A", bound=Attrs)

_ROUNDINGS = {Numerics.LITERT: Rounding.HALF_AWAY, Numerics.QDQ: Rounding.HALF_TO_EVEN}
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class KernelTask(Struct, frozen=True):
    """An op on placed tensors; optional inputs that are absent are left out."""

    kind: str
    numerics: Numerics
    inputs: tuple[KernelOperand, ...]
    outputs: tuple[KernelOperand, ...]
    attrs: Attrs

    @property
    def quantized(self) -> bool:
        return any(operand.quant is not None for operand in (*self.inputs, *self.outputs))

    @property
    def rounding(self) -> Rounding:
        return _ROUNDINGS[self.numerics]

    def attrs_as(self, record: type[A]) -> A:
        """The attributes as the record that the builder expects for this kind of op."""
        return Op(self.kind, self.kind, (), (), self.attrs).attrs_as(record)


def plain_call(
    work: KernelTask, function: str = "", extra: tuple[KernelOperand, ...] = ()
) -> KernelCall:
    """All tensors and attributes in order; prepared arrays come behind the inputs."""
    if support(work.kind).kernel is None:
        raise NoKernel("the library has no such kernel")
    return KernelCall(
        PREFIX + (function or snake(work.kind)),
        (*work.inputs, *extra),
        work.outputs,
        whole_numbers(work.attrs),
        real_numbers(work.attrs),
        work.rounding,
    )


def snake(kind: str) -> str:
    """BatchNorm -> batch_norm; Conv2D and L2Normalization -> conv2d, l2_normalization."""
    return _WORD.sub("_", kind.replace("2D", "2d")).lower()


def whole_numbers(attrs: Attrs) -> tuple[int, ...]:
    return tuple(int(value) for value in _flat(attrs) if not isinstance(value, float))


def real_numbers(attrs: Attrs) -> tuple[float, ...]:
    return tuple(value for value in _flat(attrs) if isinstance(value, float))


def _flat(attrs: Attrs) -> Iterator[int | float]:
    for value in astuple(attrs):
        yield from _leaves(value)


def _leaves(value: object) -> Iterator[int | float]:
    """Tuples flat, enums by position, booleans as 0 or 1."""
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, Enum):
        yield list(type(value)).index(value)
    elif isinstance(value, bool | int):
        yield int(value)
    elif isinstance(value, float):
        yield value


# --- Functions of one 8-bit value as tables: the reference kernel, run on all 256 values ---

_BYTES = (ElementType.int8, ElementType.uint8)
_TABLE = f"{PREFIX}table"


def table_call(work: KernelTask) -> KernelCall | None:
    """One look-up per value, where the op is element-wise on 8 bits with one scale."""
    if work.kind not in OPS or not OPS[work.kind].has(Trait.FUNCTION):
        return None
    source, target = work.inputs[0], work.outputs[0]
    if source.type not in _BYTES or _per_channel(source, target) or not _stores(target):
        return None
    table = one_op_table(work.kind, work.attrs, work.numerics, source, target)
    if table is None:
        return None
    return KernelCall(_TABLE, (source, prepared(table)), work.outputs)


def _stores(target: KernelOperand) -> bool:
    """Conversion to wider integers, or without a scale, depends on the CPU at the limits."""
    return target.type is ElementType.float32 or (
        target.quant is not None and target.type.name.endswith(("8", "16"))
    )


def _per_channel(*operands: KernelOperand) -> bool:
    return any(operand.quant is not None and operand.quant.per_channel for operand in operands)


def one_op_table(
    kind: str, attrs: Attrs, numerics: Numerics, source: KernelOperand, target: KernelOperand
) -> Array | None:
    """The op's results on every raw value, in the order of the values as unsigned bytes."""
    values = np.arange(256, dtype=np.uint8).view(source.type.name)
    line = [
        tensor_of("x", replace(source, shape=(256,))),
        tensor_of("y", replace(target, shape=(256,))),
    ]
    from npuscope.ops.run import run

    graph = Graph(kind, line, [Op(kind, kind, ("x",), ("y",), attrs)], ("x",), ("y",), numerics)
    try:
        return run(graph, {"x": values})["y"]
    except ModelError:
        return None


def tensor_of(name: str, operand: KernelOperand) -> Tensor:
    return Tensor(name, operand.shape, DType(operand.type.name), operand.quant)
