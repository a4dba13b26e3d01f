"""ONNX ops that move values."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.draft import Draft, Maker, Unsuitable
from differential.network import Shape, Value
from differential.shapes import (
    cut_parts,
    replaced,
    reshaped,
    some_axes,
    splittable_axis,
)


def moved(draft: Draft, x: Value, shape: Shape) -> Value:
    """Mostly with the scale of x; a QuantizeLinear behind a move may also have another."""
    if draft.chance(0.8):
        return draft.like(x, shape)
    return draft.value(shape, *x.limits)


def move(draft: Draft, kind: str, x: Value, inputs: Any, shape: Shape, **options: Any) -> Value:
    """Now and then the node moves the integers themselves."""
    result = moved(draft, x, shape)
    same = (x.scales, x.zero_point) == (result.scales, result.zero_point)
    return draft.add(kind, inputs, result, raw=same and draft.chance(0.15), **options)


def reshape(draft: Draft, kind: str) -> Value:
    x = draft.pick(fits=lambda v: len(v.shape) > 0)
    shape = reshaped(draft, x.shape)
    asked = list(shape)
    if draft.chance(0.4):
        asked[draft.rng.randrange(len(asked))] = -1
    return move(draft, kind, x, (x, draft.constant(asked, "int64")), shape)


def flatten(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    axis = draft.rng.randint(0, len(x.shape))
    rows = int(np.prod(x.shape[:axis], dtype=int))
    return move(draft, kind, x, x, (rows, x.elements // rows), axis=axis)


def squeeze(draft: Draft, kind: str) -> Value:
    x = draft.pick(fits=lambda v: 1 in v.shape and len(v.shape) > 1)
    axis = draft.choose(*(n for n, dim in enumerate(x.shape) if dim == 1))
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return move(draft, kind, x, (x, draft.constant([axis], "int64")), shape)


def unsqueeze(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3)
    axis = draft.rng.randint(0, len(x.shape))
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    return move(draft, kind, x, (x, draft.constant([axis], "int64")), shape)


def transpose(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4, 5)
    order = draft.rng.sample(range(len(x.shape)), len(x.shape))
    return move(draft, kind, x, x, tuple(x.shape[axis] for axis in order), perm=order)


def concat(draft: Draft, kind: str) -> Value:
    """Parts of unequal scales."""
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    rest = replaced(x.shape, axis, 1)
    parts = [x]
    for _ in range(draft.rng.randint(1, 3)):
        parts.append(draft.pick(len(x.shape), fits=lambda v: replaced(v.shape, axis, 1) == rest))
    shape = replaced(x.shape, axis, sum(part.shape[axis] for part in parts))
    low, high = zip(*(part.limits for part in parts), strict=True)
    given = axis - len(x.shape) if draft.chance(0.3) else axis
    return draft.add(kind, parts, draft.value(shape, min(low), max(high)), axis=given)


def split(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = splittable_axis(draft, x)
    sizes = cut_parts(draft, x.shape[axis])
    results = [moved(draft, x, replaced(x.shape, axis, size)) for size in sizes]
    return draft.add(kind, (x, draft.constant(sizes, "int64")), results, axis=axis)


def cut(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axes = some_axes(draft, len(x.shape))
    shape, starts, ends, steps = list(x.shape), [], [], []
    for axis in axes:
        dim, step = x.shape[axis], draft.choose(1, 1, 1, 2, 3, -1, -2)
        first, last = sorted((draft.rng.randrange(dim), draft.rng.randrange(dim)))
        start, end = (first, last + 1) if step > 0 else (last, first - 1 - dim)
        shape[axis] = len(range(dim)[start:end:step])
        starts.append(start), ends.append(end), steps.append(step)
    inputs = (x, *(draft.constant(row, "int64") for row in (starts, ends, axes, steps)))
    return move(draft, kind, x, inputs, tuple(shape))


def pad(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    mode = draft.choose("constant", "constant", "reflect", "edge")
    most = [dim - 1 if mode == "reflect" else 3 for dim in x.shape]
    rows = [[min(draft.choose(0, 0, 1, 2), n) for n in most] for _ in (0, 1)]
    shape = tuple(dim + a + b for dim, a, b in zip(x.shape, *rows, strict=True))
    inputs = [x, draft.constant([*rows[0], *rows[1]], "int64")]
    if mode == "constant" and draft.chance(0.5):
        inputs.append(draft.constant(np.float32(draft.rng.uniform(*x.limits))))
    return draft.add(kind, inputs, moved(draft, x, shape), mode=mode)


def gather(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    places = tuple(draft.size() for _ in range(draft.choose(0, 1, 1, 2)))
    dim = x.shape[axis]
    indices = draft.constant(
        draft.noise.integers(-dim if draft.chance(0.3) else 0, dim, places), "int64"
    )
    shape = (*x.shape[:axis], *places, *x.shape[axis + 1 :])
    if not 1 <= len(shape) <= 5:
        raise Unsuitable
    return move(draft, kind, x, (x, indices), shape, axis=axis)


def gather_elements(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    shape = replaced(x.shape, axis, draft.size())
    indices = draft.constant(draft.noise.integers(0, x.shape[axis], shape), "int64")
    return draft.add(kind, (x, indices), draft.like(x, shape), axis=axis)


def _rows_of_places(draft: Draft, x: Value, distinct: bool) -> np.ndarray:
    depth = draft.rng.randint(1, len(x.shape))
    spots = int(np.prod(x.shape[:depth]))
    count = min(draft.size(), spots)
    flat = draft.noise.choice(spots, count, replace=not distinct)
    return np.stack(np.unravel_index(flat, x.shape[:depth]), axis=-1)


def gather_nd(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    rows = _rows_of_places(draft, x, distinct=False)
    shape = (len(rows), *x.shape[rows.shape[1] :])
    return draft.add(kind, (x, draft.constant(rows, "int64")), draft.like(x, shape))


def reverse_sequence(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    time, batch = draft.choose((0, 1), (1, 0))
    lengths = draft.noise.integers(0, x.shape[time] + 1, x.shape[batch])
    inputs = (x, draft.constant(lengths, "int64"))
    return move(draft, kind, x, inputs, x.shape, time_axis=time, batch_axis=batch)


def scatter_nd(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    rows = _rows_of_places(draft, x, distinct=True)
    updates = draft.operand((len(rows), *x.shape[rows.shape[1] :]), *x.limits)
    return draft.add(kind, (x, draft.constant(rows, "int64"), updates), draft.like(x, x.shape))


def scatter(draft: Draft, kind: str) -> Value:
    """Every place along the axis once."""
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    order = np.argsort(draft.noise.random(x.shape), axis=axis)
    count = draft.rng.randint(1, x.shape[axis])
    places = draft.constant(order.take(range(count), axis), "int64")
    updates = draft.operand(places.shape, *x.limits)
    return draft.add(kind, (x, places, updates), draft.like(x, x.shape), axis=axis)


def triangle(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    inputs = (x, draft.constant(draft.rng.randint(-2, 2), "int64"))
    return draft.add(kind, inputs, draft.like(x, x.shape), upper=draft.choose(0, 1))


def tile(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    repeats = [draft.choose(1, 1, 2, 3) for _ in x.shape]
    shape = tuple(dim * count for dim, count in zip(x.shape, repeats, strict=True))
    return move(draft, kind, x, (x, draft.constant(repeats, "int64")), shape)


def expand(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    shape = tuple(draft.size() if dim == 1 else dim for dim in x.shape)
    if draft.chance(0.2):
        shape = (draft.rng.randint(1, 3), *shape)
    return move(draft, kind, x, (x, draft.constant(shape, "int64")), shape)


def identity(draft: Draft, kind: str) -> Value:
    x = draft.pick()
    return draft.add(kind, x, moved(draft, x, x.shape))


_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def resize(draft: Draft, kind: str) -> Value:
    """To sizes, or by factors that need not be whole; nearest along any axes."""
    x = draft.pick(2, 3, 4, 4, 5)
    mode = draft.choose("nearest", "linear")
    options = {"mode": mode, "coordinate_transformation_mode": draft.choose(*_COORDINATES)}
    if mode == "nearest":
        options["nearest_mode"] = draft.choose(*_ROUNDINGS)
    rank = len(x.shape)
    axes = set(
        some_axes(draft, rank) if mode == "nearest" and draft.chance(0.3) else range(2, rank)
    )
    if rank in (2, 5) and mode == "linear":
        axes = {rank - 1}
    if draft.chance(0.5):
        sizes = [draft.size() if axis in axes else dim for axis, dim in enumerate(x.shape)]
        inputs = (x, None, None, draft.constant(sizes, "int64"))
    else:
        choices = (0.5, 1.0, 1.5, 2.0, 2.0, 3.0)
        factors = [draft.choose(*choices) if axis in axes else 1.0 for axis in range(rank)]
        sizes = [int(np.floor(dim * f)) for dim, f in zip(x.shape, factors, strict=True)]
        inputs = (x, None, draft.constant(factors, "float32"))
    return draft.add(kind, inputs, moved(draft, x, tuple(sizes)), **options)


def depth_to_space(draft: Draft, kind: str) -> Value:
    x = draft.pick(4, fits=lambda v: v.shape[1] % 4 == 0)
    n, channels, height, width = x.shape
    shape = (n, channels // 4, height * 2, width * 2)
    return move(draft, kind, x, x, shape, blocksize=2, mode=draft.choose("DCR", "CRD"))


def space_to_depth(draft: Draft, kind: str) -> Value:
    x = draft.pick(4, fits=lambda v: v.shape[2] % 2 == v.shape[3] % 2 == 0)
    n, channels, height, width = x.shape
    return draft.add(
        kind, x, moved(draft, x, (n, channels * 4, height // 2, width // 2)), blocksize=2
    )


MAKERS: dict[str, Maker] = {
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Concat": concat,
    "Split": split,
    "Slice": cut,
    "Pad": pad,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ReverseSequence": reverse_sequence,
    "ScatterElements": scatter,
    "ScatterND": scatter_nd,
    "Trilu": triangle,
    "Tile": tile,
    "Expand": expand,
    "Identity": identity,
    "Resize": resize,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
}
