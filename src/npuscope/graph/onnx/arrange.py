"""Values of the Graph in the making, and moving them between layouts.

A move that changes no order of elements is a Reshape, and Reshapes start from the tensor that holds
the elements, so there and back costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from npuscope.errors import ModelError
from npuscope.graph.attrs import Attrs, TransposeAttrs
from npuscope.graph.builder import Builder
from npuscope.graph.model import Tensor
from npuscope.graph.onnx.layout import (
    ADDED,
    Layout,
    Shape,
    order_of_values,
    plain,
    reshape_layouts,
    source_shape,
    stored_shape,
    without_added,
)


@dataclass(frozen=True, slots=True)
class Value:
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
        self.roots: dict[str, str] = {}  # tensor behind Reshapes -> tensor before them
        self.made: dict[tuple[str, Layout | Shape, str], str] = {}

    def source_shape(self, value: Value) -> Shape:
        return source_shape(value.layout, self.graph.tensors[value.tensor].shape)

    def arrange(self, value: Value, wanted: Layout, origin: str) -> Value:
        """The value stored as `wanted`."""
        if value.layout == wanted:
            return value
        source = self.source_shape(value)
        if len(without_added(wanted)) != len(source):
            raise ModelError(f"{len(without_added(wanted))} axes expected, found shape {source}")
        tensor = self.graph.tensors[value.tensor]
        origins = value.via or (origin,)
        if order_of_values(value.layout, source) != order_of_values(wanted, source):
            held = without_added(value.layout)
            tensor = self._reshape(tensor, stored_shape(held, source), origins)
            order = without_added(wanted)
            tensor = self._transpose(tensor, tuple(held.index(axis) for axis in order), origins)
        tensor = self._reshape(tensor, stored_shape(wanted, source), origins)
        self._note_source(tensor, wanted, source)
        return Value(tensor.name, wanted)

    def reshape(self, value: Value, target: Shape, origin: str, name: str) -> Value:
        """The value with the source shape `target`."""
        source = self.source_shape(value)
        before, layout = reshape_layouts(value.layout, source, target)
        if order_of_values(value.layout, source) != order_of_values(before, source):
            value = self.arrange(value, before, origin)
        tensor = self.graph.tensors[value.tensor]
        origins = (*value.via, origin)
        tensor = self._reshape(tensor, stored_shape(layout, target), origins, name)
        self._note_source(tensor, layout, target)
        return Value(tensor.name, layout)

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

    def _transpose(
        self, tensor: Tensor, permutation: tuple[int, ...], origins: tuple[str, ...]
    ) -> Tensor:
        key = (tensor.name, permutation, "Transpose")
        if key not in self.made:
            shape = tuple(tensor.shape[axis] for axis in permutation)
            result = Tensor(f"{tensor.name}_transposed", shape, tensor.dtype, tensor.quant)
            result = self.builder.add(result)
            self.builder.emit(
                "Transpose", (tensor.name,), TransposeAttrs(permutation), result, origins
            )
            self.made[key] = result.name
        return self.graph.tensors[self.made[key]]


def operand_layout(layout: Layout, missing: int) -> Layout:
    """How an operand that lacks the first `missing` axes is stored to broadcast with `layout`."""
    if missing < 0:
        raise ModelError(f"an operand has {-missing} more axes than it may broadcast to")
    return tuple(ADDED if axis == ADDED or axis < missing else axis - missing for axis in layout)
