"""Where the axes of an ONNX tensor lie in its channel-last storage.

A Layout names, for every stored axis, the source axis it holds; ADDED marks a size-1 axis that the
source does not have. NCHW stored as NHWC is (0, 2, 3, 1); N, C, L stored as N, 1, L, C is
(0, ADDED, 2, 1).
"""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.errors import ModelError

Layout = tuple[int, ...]
Shape = tuple[int, ...]
ADDED = -1

# What windowed ops work on, by source rank.
CHANNEL_LAST: dict[int, Layout] = {3: (0, ADDED, 2, 1), 4: (0, 2, 3, 1)}


def channel_last(rank: int) -> Layout:
    """N, C, ... stored as N, ..., C."""
    if rank in CHANNEL_LAST:
        return CHANNEL_LAST[rank]
    return (0, *range(2, rank), 1) if rank > 2 else plain(rank)


def checked_axis(axis: int, rank: int) -> int:
    """An axis counted from the front; the file may count from the back."""
    if not -rank <= axis < rank:
        raise ModelError(f"axis {axis} of a tensor with {rank} axes")
    return axis % rank


def plain(rank: int) -> Layout:
    """The source order."""
    return tuple(range(rank))


def source_shape(layout: Layout, stored: Shape) -> Shape:
    sizes = {axis: size for axis, size in zip(layout, stored, strict=True) if axis != ADDED}
    return tuple(sizes[axis] for axis in range(len(sizes)))


def stored_shape(layout: Layout, source: Shape) -> Shape:
    return tuple(1 if axis == ADDED else source[axis] for axis in layout)


def without_added(layout: Layout) -> Layout:
    return tuple(axis for axis in layout if axis != ADDED)


def order_of_values(layout: Layout, source: Shape) -> Layout:
    """The axes that matter for the order of the elements: those longer than 1."""
    return tuple(axis for axis in layout if axis != ADDED and source[axis] > 1)


def relabel(layout: Layout, permutation: tuple[int, ...]) -> Layout:
    """The layout after a source Transpose: nothing moves, the axes get their new numbers."""
    return tuple(axis if axis == ADDED else permutation.index(axis) for axis in layout)


def shifted(layout: Layout, by: int) -> Layout:
    """The layout of a lower-rank operand seen at the rank it broadcasts to."""
    return tuple(axis if axis == ADDED else axis + by for axis in layout)


def dropped(layout: Layout, axes: tuple[int, ...]) -> Layout:
    """The layout after source `axes` were reduced away."""
    kept = [axis for axis in layout if axis not in axes]
    return tuple(
        axis if axis == ADDED else axis - sum(gone < axis for gone in axes) for axis in kept
    )


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring source axes that a Reshape turns into neighbouring target axes."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def reshape_groups(source: Shape, target: Shape) -> list[Group]:
    """Split a Reshape into the smallest independent groups; both shapes hold equally many."""
    groups: list[Group] = []
    i = j = 0
    while i < len(source) or j < len(target):
        first, second = i, j
        left = right = 1
        if i < len(source):
            left, i = source[i], i + 1
        if j < len(target):
            right, j = target[j], j + 1
        while left != right:
            if left < right:
                left, i = left * source[i], i + 1
            else:
                right, j = right * target[j], j + 1
        i, j = _absorb_ones(source, target, i, j)
        groups.append(Group(tuple(range(first, i)), tuple(range(second, j))))
    return groups


def _absorb_ones(source: Shape, target: Shape, i: int, j: int) -> tuple[int, int]:
    """Size-1 axes on one side only belong to the group before them."""
    while i < len(source) and source[i] == 1 and (j == len(target) or target[j] != 1):
        i += 1
    while j < len(target) and target[j] == 1 and (i == len(source) or source[i] != 1):
        j += 1
    return i, j


def reshape_layouts(layout: Layout, source: Shape, target: Shape) -> tuple[Layout, Layout]:
    """How to store the tensor before a Reshape, and what it is stored as behind it.

    Within a group of axes the elements must lie in source order; the groups themselves keep their
    places, so a split of the channels stays channel-last.
    """
    groups = sorted(
        reshape_groups(source, target), key=lambda group: _position(layout, source, group)
    )
    before = tuple(axis for group in groups for axis in group.before)
    return before, tuple(axis for group in groups for axis in group.after)


def _position(layout: Layout, source: Shape, group: Group) -> int:
    """Where the group starts in storage; axes of size 1 count only if there is no other."""
    axes = [axis for axis in group.before if source[axis] > 1] or group.before
    return layout.index(axes[0]) if axes else ADDED
