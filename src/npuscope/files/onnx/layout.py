"""Where the axes of an ONNX tensor lie in its channel-last storage, and moving between layouts."""

from __future__ import annotations

from msgspec import Struct

from npuscope.errors import ModelError
from npuscope.files.builder import Builder
from npuscope.graph.model import Attrs, Tensor
from npuscope.ops.moves import TransposeAttrs
from npuscope.structs import replace

# --- Where the axes of an ONNX tensor are in its channel-last storage ---
#
# A Layout names, for every stored axis, the source axis it holds; ADDED marks a size-1 axis that
# the source does not have. NCHW stored as NHWC is (0, 2, 3, 1); N, C, L stored as N, 1, L, C is
# (0, ADDED, 2, 1).

Layout = tuple[int, ...]
Shape = tuple[int, ...]
ADDED = -1
_IMAGE_AXES = 4

# Storage that windowed ops work on, by source rank.
CHANNEL_LAST: dict[int, Layout] = {3: (0, ADDED, 2, 1), 4: (0, 2, 3, 1)}


def channel_last(rank: int) -> Layout:
    """N, C, ... stored as N, ..., C."""
    if rank in CHANNEL_LAST:
        return CHANNEL_LAST[rank]
    return (0, *range(2, rank), 1) if rank > 2 else plain(rank)


def checked_axis(axis: int, rank: int) -> int:
    """An axis counted from the front; the file may count from the back."""
    if not -rank <= axis < rank:
        raise ModelError(f"axis {axis} does not exist in a tensor with {rank} axes")
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
    remaining = [axis for axis in layout if axis not in axes]
    return tuple(
        axis if axis == ADDED else axis - sum(dropped_axis < axis for dropped_axis in axes)
        for axis in remaining
    )


class AxisGroup(Struct, frozen=True):
    """Neighbouring source axes that a Reshape turns into neighbouring target axes."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def reshape_groups(source: Shape, target: Shape) -> list[AxisGroup]:
    """Split a Reshape into the smallest independent groups of axes with equal element counts."""
    groups: list[AxisGroup] = []
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
        # Size-1 axes on one side only belong to the group before them.
        while i < len(source) and source[i] == 1 and (j == len(target) or target[j] != 1):
            i += 1
        while j < len(target) and target[j] == 1 and (i == len(source) or source[i] != 1):
            j += 1
        groups.append(AxisGroup(tuple(range(first, i)), tuple(range(second, j))))
    return groups


def reshape_layouts(layout: Layout, source: Shape, target: Shape) -> tuple[Layout, Layout]:
    """How to store the tensor before a Reshape, and how it is stored after it.

    Within a group of axes the elements must lie in source order; the groups themselves keep their
    places, so a split of the channels stays channel-last.
    """
    groups = sorted(
        reshape_groups(source, target), key=lambda group: _position(layout, source, group)
    )
    before = tuple(axis for group in groups for axis in group.before)
    after = tuple(axis for group in groups for axis in group.after)
    if len(target) <= _IMAGE_AXES:
        return before, after
    # Axes of size 1 behind all others would hide which one is the last, the channels.
    count = max((place for place, axis in enumerate(after, 1) if target[axis] > 1), default=0)
    return before, (*after[count:], *after[:count])


def _position(layout: Layout, source: Shape, group: AxisGroup) -> int:
    """Where the group starts in storage; axes of size 1 matter only if there is no other."""
    axes = [axis for axis in group.before if source[axis] > 1] or group.before
    return layout.index(axes[0]) if axes else ADDED


# --- Values of the Graph under construction, and moving them between layouts ---
#
# A move that changes no order of elements is a Reshape, and Reshapes start from the tensor that
# holds the elements, so there and back costs nothing.


class LayoutValue(Struct, frozen=True):
    """An ONNX tensor: the graph tensor that stores it, and how.

    `via` lists source ops that changed the layout only; the next op made from it names them.
    """

    tensor: str
    layout: Layout
    via: tuple[str, ...] = ()


class Arranger:
    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.graph = builder.graph
        self.roots: dict[str, str] = {}  # tensor after Reshapes -> tensor before them
        self.made: dict[tuple[str, Layout | Shape, str], str] = {}

    def source_shape(self, value: LayoutValue) -> Shape:
        return source_shape(value.layout, self.graph.tensors[value.tensor].shape)

    def arrange(self, value: LayoutValue, layout: Layout, origin: str) -> LayoutValue:
        """The value stored as `layout`."""
        if value.layout == layout:
            return value
        source = self.source_shape(value)
        if len(without_added(layout)) != len(source):
            raise ModelError(f"expected {len(without_added(layout))} axes, found shape {source}")
        tensor = self.graph.tensors[value.tensor]
        origins = value.via or (origin,)
        if order_of_values(value.layout, source) != order_of_values(layout, source):
            stored_axes = without_added(value.layout)
            tensor = self._reshape(tensor, stored_shape(stored_axes, source), origins)
            order = without_added(layout)
            permutation = tuple(stored_axes.index(axis) for axis in order)
            key = (tensor.name, permutation, "Transpose")
            if key not in self.made:
                shape = tuple(tensor.shape[axis] for axis in permutation)
                result = Tensor(f"{tensor.name}_transposed", shape, tensor.dtype, tensor.quant)
                result = self.builder.add(result)
                self.builder.emit(
                    "Transpose", (tensor.name,), TransposeAttrs(permutation), result, origins
                )
                self.made[key] = result.name
            tensor = self.graph.tensors[self.made[key]]
        tensor = self._reshape(tensor, stored_shape(layout, source), origins)
        self._note_source(tensor, layout, source)
        return LayoutValue(tensor.name, layout)

    def reshape(self, value: LayoutValue, target: Shape, origin: str, name: str) -> LayoutValue:
        """The value with the source shape `target`."""
        source = self.source_shape(value)
        before, layout = reshape_layouts(value.layout, source, target)
        if order_of_values(value.layout, source) != order_of_values(before, source):
            value = self.arrange(value, before, origin)
        tensor = self.graph.tensors[value.tensor]
        origins = (*value.via, origin)
        tensor = self._reshape(tensor, stored_shape(layout, target), origins, name)
        self._note_source(tensor, layout, target)
        return LayoutValue(tensor.name, layout)

    def without_axis(self, value: LayoutValue, axis: int, origin: str, name: str) -> LayoutValue:
        """The value without a source axis of size 1; the others keep their places."""
        source, layout = self.source_shape(value), dropped(value.layout, (axis,))
        target = (*source[:axis], *source[axis + 1 :])
        tensor, origins = self.graph.tensors[value.tensor], (*value.via, origin)
        tensor = self._reshape(tensor, stored_shape(layout, target), origins, name)
        self._note_source(tensor, layout, target)
        return LayoutValue(tensor.name, layout)

    def _note_source(self, tensor: Tensor, layout: Layout, source: Shape) -> None:
        if layout != plain(len(source)) and tensor.source_shape is None:
            self.graph.tensors[tensor.name] = replace(tensor, source_shape=source)

    def _reshape(
        self, tensor: Tensor, shape: Shape, origins: tuple[str, ...], name: str = ""
    ) -> Tensor:
        if tensor.shape == shape:
            return tensor
        root = self.graph.tensors[self.roots.get(tensor.name, tensor.name)]
        if root.shape == shape:
            return root
        key = (root.name, shape, "Reshape")
        if key not in self.made:
            result = Tensor(name or f"{root.name}_reshaped", shape, root.dtype, root.quant)
            result = self.builder.add(result)
            self.builder.emit("Reshape", (root.name,), Attrs(), result, origins)
            self.roots[result.name] = root.name
            self.made[key] = result.name
        return self.graph.tensors[self.made[key]]


def operand_layout(layout: Layout, missing: int) -> Layout:
    """How an operand that lacks the first `missing` axes is stored to broadcast with `layout`."""
    if missing < 0:
        raise ModelError(f"an operand has {-missing} more axes than it may broadcast to")
    return tuple(ADDED if axis == ADDED or axis < missing else axis - missing for axis in layout)
