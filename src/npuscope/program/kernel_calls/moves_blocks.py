"""Blocks of values with steps of their own on either side, with as few axes as do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Axis:
    """So many values, so far apart where they are read and where they are written."""

    size: int
    read: int
    written: int


@dataclass(frozen=True, slots=True)
class Block:
    """Places count values, not bytes."""

    first_read: int
    first_written: int
    axes: tuple[Axis, ...]

    def numbers(self) -> tuple[int, ...]:
        """As npuscope_move reads them."""
        return (
            self.first_read,
            self.first_written,
            len(self.axes),
            *(axis.size for axis in self.axes),
            *(axis.read for axis in self.axes),
            *(axis.written for axis in self.axes),
        )


def dense_steps(shape: Sequence[int]) -> list[int]:
    """Distances of neighbours along each axis, last axis fastest."""
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return steps[::-1]


def merged(block: Block) -> Block:
    """The same with axes of one left out and axes that follow on from each other made one."""
    axes: list[Axis] = []
    for axis in (axis for axis in block.axes if axis.size != 1):
        if axes and _follows(axes[-1], axis):
            axes[-1] = replace(axis, size=axes[-1].size * axis.size)
        else:
            axes.append(axis)
    return replace(block, axes=tuple(axes) or (Axis(1, 1, 1),))


def _follows(outer: Axis, inner: Axis) -> bool:
    return (outer.read, outer.written) == (inner.size * inner.read, inner.size * inner.written)
