"""Shapes that makers of both formats share."""

from __future__ import annotations

from math import prod

from differential.draft import Draft, Unsuitable
from differential.network import Shape, Value


def some_axes(draft: Draft, rank: int) -> list[int]:
    axes = [axis for axis in range(rank) if draft.chance(0.5)]
    return axes or [draft.rng.randrange(rank)]


def reshaped(draft: Draft, shape: Shape) -> Shape:
    """The same elements: axes joined, cut in two, or of size one."""
    sizes = list(shape)
    for _ in range(draft.rng.randint(1, 3)):
        place = draft.rng.randrange(len(sizes))
        factors = [n for n in range(2, sizes[place]) if sizes[place] % n == 0]
        if factors and draft.chance(0.4) and len(sizes) < 5:
            factor = draft.rng.choice(factors)
            sizes[place : place + 1] = [factor, sizes[place] // factor]
        elif len(sizes) > 1 and draft.chance(0.6):
            place = draft.rng.randrange(len(sizes) - 1)
            sizes[place : place + 2] = [sizes[place] * sizes[place + 1]]
        elif len(sizes) < 5:
            sizes.insert(place, 1)
    assert prod(sizes) == prod(shape)
    return tuple(sizes)


def broadcast_part(draft: Draft, shape: Shape) -> Shape:
    """A shape that broadcasts to this one: all of it, a channel, a number, some axes of one."""
    kind = draft.rng.randrange(4)
    if kind == 0:
        return shape
    if kind == 1:
        return shape[-1:]
    if kind == 2:
        return (1,)
    return tuple(dim if draft.chance(0.5) else 1 for dim in shape)


def cut_parts(draft: Draft, size: int) -> list[int]:
    """Sizes of two to four parts that are as large as the whole."""
    count = min(draft.rng.randint(2, 4), size)
    cuts = sorted(draft.rng.sample(range(1, size), count - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]


def splittable_axis(draft: Draft, x: Value) -> int:
    axes = [axis for axis, dim in enumerate(x.shape) if dim > 1]
    if not axes:
        raise Unsuitable
    return draft.rng.choice(axes)


def reduced(shape: Shape, axes: list[int], keep: bool) -> Shape:
    if keep:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def replaced(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def broadcasts(x: Value, y: Value) -> bool:
    rows = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return max(len(x.shape), len(y.shape)) <= 4 and all(
        1 in row or row[0] == row[1] for row in rows
    )
