"""TFLite operators that move values: the result has the scale of what is moved."""

from __future__ import annotations

import numpy as np

from differential.draft import Draft, Maker, Unsuitable
from differential.network import Value
from differential.shapes import (
    cut_parts,
    replaced,
    reshaped,
    splittable_axis,
)


def reshape(draft: Draft, kind: str) -> Value:
    x = draft.pick(fits=lambda v: len(v.shape) >= 1)
    shape = reshaped(draft, x.shape)
    given = draft.constant(shape, "int32")
    return draft.add(kind, (x, given), draft.like(x, shape), newShape=list(shape))


def squeeze(draft: Draft, kind: str) -> Value:
    x = draft.pick(fits=lambda v: 1 in v.shape and len(v.shape) > 1)
    axis = draft.choose(*(n for n, dim in enumerate(x.shape) if dim == 1))
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return draft.add(kind, x, draft.like(x, shape), squeezeDims=[axis])


def expand_dims(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3)
    axis = draft.rng.randint(0, len(x.shape))
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    return draft.add(kind, (x, draft.constant(axis, "int32")), draft.like(x, shape))


def transpose(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4, 5)
    order = draft.rng.sample(range(len(x.shape)), len(x.shape))
    shape = tuple(x.shape[axis] for axis in order)
    return draft.add(kind, (x, draft.constant(order, "int32")), draft.like(x, shape))


def concat(draft: Draft, kind: str) -> Value:
    """Other parts are brought to the scale of the first; a part may come twice."""
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    parts = [x]
    for _ in range(draft.rng.randint(1, 3)):
        part = draft.pick(
            len(x.shape), fits=lambda v: replaced(v.shape, axis, 1) == replaced(x.shape, axis, 1)
        )
        if (part.scales, part.zero_point) != (x.scales, x.zero_point):
            part = draft.add("QUANTIZE", part, draft.like(x, part.shape))
        parts.append(part)
    shape = replaced(x.shape, axis, sum(part.shape[axis] for part in parts))
    given = axis - len(x.shape) if draft.chance(0.3) else axis
    return draft.add(kind, parts, draft.like(x, shape), axis=given)


def pack(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3)
    count, axis = draft.rng.randint(1, 3), draft.rng.randint(0, len(x.shape))
    shape = (*x.shape[:axis], count, *x.shape[axis:])
    return draft.add(kind, [x] * count, draft.like(x, shape), axis=axis, valuesCount=count)


def split(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = splittable_axis(draft, x)
    counts = [n for n in (2, 3, 4, 5) if x.shape[axis] % n == 0]
    if not counts:
        raise Unsuitable
    count = draft.rng.choice(counts)
    shape = replaced(x.shape, axis, x.shape[axis] // count)
    results = [draft.like(x, shape) for _ in range(count)]
    return draft.add(kind, (draft.constant(axis, "int32"), x), results, numSplits=count)


def split_v(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = splittable_axis(draft, x)
    sizes = cut_parts(draft, x.shape[axis])
    results = [draft.like(x, replaced(x.shape, axis, size)) for size in sizes]
    inputs = (x, draft.constant(sizes, "int32"), draft.constant(axis, "int32"))
    return draft.add(kind, inputs, results, numSplits=len(sizes))


def unpack(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4, fits=lambda v: min(v.shape) <= 4)
    axis = draft.choose(*(n for n, dim in enumerate(x.shape) if dim <= 4))
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    results = [draft.like(x, shape) for _ in range(x.shape[axis])]
    return draft.add(kind, x, results, axis=axis, num=x.shape[axis])


def cut(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    starts = [draft.rng.randrange(dim) for dim in x.shape]
    sizes = [draft.rng.randint(1, dim - at) for dim, at in zip(x.shape, starts, strict=True)]
    rows = zip(x.shape, starts, sizes, strict=True)
    asked = [-1 if at + n == dim and draft.chance(0.5) else n for dim, at, n in rows]
    inputs = (x, draft.constant(starts, "int32"), draft.constant(asked, "int32"))
    return draft.add(kind, inputs, draft.like(x, tuple(sizes)))


def strided_slice(draft: Draft, kind: str) -> Value:
    """Steps of both signs, masks that leave bounds open or drop an axis."""
    x = draft.pick(1, 2, 3, 4)
    begins, ends, steps, shape = [], [], [], []
    masks = {"beginMask": 0, "endMask": 0, "shrinkAxisMask": 0}
    for axis, dim in enumerate(x.shape):
        step = draft.choose(1, 1, 1, 2, 3, -1, -2)
        first, last = draft.rng.randrange(dim), draft.rng.randrange(dim)
        begin, end = (min(first, last), max(first, last) + 1)
        if step < 0:
            begin, end = end - 1, begin - 1 - dim
        mask = draft.choose("", "", "beginMask", "endMask", "shrinkAxisMask")
        if mask == "shrinkAxisMask" and len(x.shape) > 1:
            begin, end, step = first, first + 1, 1
        else:
            mask = mask.replace("shrinkAxisMask", "")
            bounds = (None if mask == "beginMask" else begin, None if mask == "endMask" else end)
            shape.append(len(range(dim)[slice(*bounds, step)]))
        if mask:
            masks[mask] |= 1 << axis
        begins.append(begin), ends.append(end), steps.append(step)
    inputs = (x, *(draft.constant(row, "int32") for row in (begins, ends, steps)))
    return draft.add(kind, inputs, draft.like(x, tuple(shape)), **masks)


def pad(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    pads = [[draft.choose(0, 0, 1, 2, 3), draft.choose(0, 0, 1, 2)] for _ in x.shape]
    if len(x.shape) == 4:
        pads[0] = [0, 0]
    shape = tuple(dim + sum(row) for dim, row in zip(x.shape, pads, strict=True))
    inputs = [x, draft.constant(pads, "int32")]
    if kind == "PADV2":
        inputs.append(draft.with_noise(draft.like(x, (1,))))
    return draft.add(kind, inputs, draft.like(x, shape))


def mirror_pad(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    mode = draft.choose(0, 1)
    pads = [[draft.rng.randint(0, min(2, dim - 1 + mode)) for _ in (0, 1)] for dim in x.shape]
    shape = tuple(dim + sum(row) for dim, row in zip(x.shape, pads, strict=True))
    return draft.add(kind, (x, draft.constant(pads, "int32")), draft.like(x, shape), mode=mode)


def gather(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    axis = draft.rng.randrange(len(x.shape))
    places = tuple(draft.size() for _ in range(draft.choose(0, 1, 1, 2)))
    indices = draft.constant(draft.noise.integers(0, x.shape[axis], places), "int32")
    shape = (*x.shape[:axis], *places, *x.shape[axis + 1 :])
    if not 1 <= len(shape) <= 5:
        raise Unsuitable
    return draft.add(kind, (x, indices), draft.like(x, shape), axis=axis)


def gather_nd(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    depth, count = draft.rng.randint(1, len(x.shape) - 1), draft.size()
    rows = [draft.noise.integers(0, dim, count) for dim in x.shape[:depth]]
    indices = draft.constant(np.stack(rows, axis=-1), "int32")
    return draft.add(kind, (x, indices), draft.like(x, (count, *x.shape[depth:])))


def reverse_sequence(draft: Draft, kind: str) -> Value:
    x = draft.pick(2, 3, 4)
    time, batch = draft.rng.sample(range(len(x.shape)), 2)
    lengths = draft.noise.integers(0, x.shape[time] + 1, x.shape[batch])
    inputs = (x, draft.constant(lengths, "int32"))
    return draft.add(kind, inputs, draft.like(x, x.shape), seqDim=time, batchDim=batch)


def tile(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    repeats = [draft.choose(1, 1, 2, 3) for _ in x.shape]
    shape = tuple(dim * count for dim, count in zip(x.shape, repeats, strict=True))
    return draft.add(kind, (x, draft.constant(repeats, "int32")), draft.like(x, shape))


def broadcast_to(draft: Draft, kind: str) -> Value:
    x = draft.pick(1, 2, 3, 4)
    shape = tuple(draft.size() if dim == 1 else dim for dim in x.shape)
    return draft.add(kind, (x, draft.constant(shape, "int32")), draft.like(x, shape))


def resize(draft: Draft, kind: str) -> Value:
    x = draft.pick(4)
    sizes = draft.size(), draft.size()
    corners, centers = draft.choose((False, False), (True, False), (False, True))
    result = draft.like(x, (x.shape[0], *sizes, x.shape[3]))
    inputs = (x, draft.constant(sizes, "int32"))
    return draft.add(kind, inputs, result, alignCorners=corners, halfPixelCenters=centers)


def depth_to_space(draft: Draft, kind: str) -> Value:
    x = draft.pick(4, fits=lambda v: v.shape[3] % 4 == 0)
    n, height, width, channels = x.shape
    result = draft.like(x, (n, height * 2, width * 2, channels // 4))
    return draft.add(kind, x, result, blockSize=2)


def space_to_depth(draft: Draft, kind: str) -> Value:
    blocks = (2, 3)
    x = draft.pick(4, fits=lambda v: any(v.shape[1] % b == v.shape[2] % b == 0 for b in blocks))
    n, height, width, channels = x.shape
    block = draft.choose(*(b for b in blocks if height % b == width % b == 0))
    result = draft.like(x, (n, height // block, width // block, channels * block**2))
    return draft.add(kind, x, result, blockSize=block)


MAKERS: dict[str, Maker] = {
    "RESHAPE": reshape,
    "SQUEEZE": squeeze,
    "EXPAND_DIMS": expand_dims,
    "TRANSPOSE": transpose,
    "CONCATENATION": concat,
    "PACK": pack,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "UNPACK": unpack,
    "SLICE": cut,
    "STRIDED_SLICE": strided_slice,
    **dict.fromkeys(("PAD", "PADV2"), pad),
    "MIRROR_PAD": mirror_pad,
    "GATHER": gather,
    "GATHER_ND": gather_nd,
    "REVERSE_SEQUENCE": reverse_sequence,
    "TILE": tile,
    "BROADCAST_TO": broadcast_to,
    **dict.fromkeys(("RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"), resize),
    "DEPTH_TO_SPACE": depth_to_space,
    "SPACE_TO_DEPTH": space_to_depth,
}
