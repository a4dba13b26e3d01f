"""Strided copies: what a library call that only moves data does, byte for byte.

A Call carries each as a tuple of numbers under the names copy0, copy1, ...
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from npuscope.errors import TargetError
from npuscope.program.model import Call

_NAME = "copy"
_HEAD = 5


@dataclass(frozen=True, slots=True)
class Copy:
    """Elements of `shape` from one buffer to another; starts and steps are in bytes."""

    source: int  # number of the call's input
    start_in: int
    start_out: int
    element_bytes: int
    shape: tuple[int, ...]
    steps_in: tuple[int, ...]
    steps_out: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def numbers(self) -> tuple[int, ...]:
        head = (self.source, self.start_in, self.start_out, self.element_bytes, len(self.shape))
        return (*head, *self.shape, *self.steps_in, *self.steps_out)


def as_arguments(copies: Iterable[Copy]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((f"{_NAME}{number}", copy.numbers()) for number, copy in enumerate(copies))


def copies_of(call: Call) -> tuple[Copy, ...]:
    """The copies of a call; none where the call is a kernel."""
    return tuple(_copy(call, value) for name, value in call.args if name.startswith(_NAME))


def _copy(call: Call, value: object) -> Copy:
    if not isinstance(value, tuple) or len(value) < _HEAD or len(value) != _HEAD + 3 * value[4]:
        raise TargetError(f"software kernel '{call.kernel}' has a copy that cannot be read")
    source, start_in, start_out, element, rank = value[:_HEAD]
    if not 0 <= source < len(call.inputs) or element not in (1, 2, 4, 8) or min(value) < 0:
        raise TargetError(f"software kernel '{call.kernel}' has a copy that cannot be read")
    parts = [value[_HEAD + rank * n : _HEAD + rank * (n + 1)] for n in range(3)]
    return Copy(source, start_in, start_out, element, *parts)
