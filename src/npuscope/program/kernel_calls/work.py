"""A software call as the builders see it, and the plain way to a C call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum
from typing import TypeVar

from npuscope.graph.model import Attrs, Numerics, Op
from npuscope.program.kernel_calls.model import PREFIX, KernelCall, Operand, Rounding

A = TypeVar("A", bound=Attrs)

_ROUNDINGS = {Numerics.LITERT: Rounding.HALF_AWAY, Numerics.QDQ: Rounding.HALF_TO_EVEN}
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Work:
    """An op on placed tensors; optional inputs that are absent are left out."""

    kind: str
    numerics: Numerics
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
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


def plain_call(work: Work, function: str = "", extra: tuple[Operand, ...] = ()) -> KernelCall:
    """All tensors and attributes in order; prepared arrays come behind the inputs."""
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
    for field in fields(attrs):
        yield from _leaves(getattr(attrs, field.name))


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
