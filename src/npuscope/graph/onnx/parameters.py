"""Constants that a node takes: weights, biases, broadcast operands, in the form the graph keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npuscope.errors import ModelError
from npuscope.graph.model import DType, Quant, Tensor
from npuscope.graph.onnx.arrange import Value, operand_layout
from npuscope.graph.onnx.constants import INTEGER_TYPES, PLAIN_TYPES, Const
from npuscope.graph.onnx.layout import Layout, plain
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.graph.onnx.nodes import Node
    from npuscope.graph.onnx.reader import OnnxReader

_BIAS_TOLERANCE = 1e-5  # of scales that exporters multiply in float32 or float64


class Parameters:
    """The constants of one node; `integer` says whether it computes on integers."""

    def __init__(self, reader: OnnxReader, node: Node, integer: bool) -> None:
        self.reader = reader
        self.node = node
        self.integer = integer

    def constant(self, index: int) -> Const | None:
        return self.reader.constants.get(self.node.input(index))

    def needed(self, index: int) -> Const:
        const = self.constant(index)
        if const is None:
            raise ModelError(f"input {index} must be a constant")
        return const

    def whole(self, index: int) -> list[int] | None:
        """Whole numbers of an input that must be a constant when it is given."""
        return self.needed(index).whole() if self.node.input(index) else None

    def store(self, const: Const, key: tuple[str, object]) -> Tensor:
        """A constant as the graph keeps it: integers with scales, or float32."""
        if key not in self.reader.stored:
            self.reader.stored[key] = self._stored(const, const.name or key[0]).name
        return self.reader.graph.tensors[self.reader.stored[key]]

    def _stored(self, const: Const, name: str) -> Tensor:
        add = self.reader.builder.constant
        if self.integer and const.quant is not None:
            return add(name, const.data, INTEGER_TYPES[const.type], const.quant)
        if const.quant is None and const.type in PLAIN_TYPES:
            return add(name, const.data, PLAIN_TYPES[const.type])
        if const.quant is None and const.data.dtype.kind not in "f":
            raise ModelError(f"'{safe_terminal(name)}' holds {const.type} without scales")
        return add(name, const.real(), DType.FLOAT32)

    def constant_value(self, name: str) -> Value:
        """A constant where an activation is usual."""
        const = self.reader.constants[name]
        tensor = self.store(const, (name, self.integer))
        return Value(tensor.name, plain(const.data.ndim))

    def parameter(self, index: int, form: str, permutation: tuple[int, ...]) -> Tensor:
        """Constant weights with their axes in the given order."""
        const = self.needed(index)
        if const.data.ndim != len(permutation):
            raise ModelError(f"input {index} has shape {const.data.shape}")
        key = (self.node.input(index), (form, self.integer))
        if key in self.reader.stored:
            return self.reader.graph.tensors[self.reader.stored[key]]
        return self.store(const.transpose(permutation), key)

    def real_parameter(self, index: int) -> Tensor:
        """Constant float32 statistics, whatever they are stored as."""
        key = (self.node.input(index), "float32")
        return self.store(self.needed(index).as_real(), key)

    def bias(self, index: int, x: Tensor, weights: Tensor) -> str:
        """int32 when its scale is the product of its operands' scales, else float32."""
        if not self.node.input(index):
            return ""
        const = self.constant(index)
        if const is None:
            raise ModelError("the bias must be a constant")
        flat = const.reshape((const.data.size,))
        exact = self.integer and _is_product(flat, x.quant, weights.quant)
        key = (self.node.input(index), ("bias", exact))
        return self.store(flat if exact else flat.as_real(), key).name

    def broadcast_constant(self, index: int, layout: Layout) -> str:
        """A constant that broadcasts to the source axes of `layout`."""
        const = self.needed(index)
        missing = len([axis for axis in layout if axis >= 0]) - const.data.ndim
        wanted = operand_layout(layout, missing)
        key = (self.node.input(index), (wanted, self.integer))
        return self.store(_broadcastable(const, wanted), key).name


def _is_product(bias: Const, x: Quant | None, weights: Quant | None) -> bool:
    if bias.type != "int32" or bias.quant is None or x is None or weights is None:
        return False
    if any(bias.quant.zero_points) or len(bias.quant.scales) != len(weights.scales):
        return False
    return all(
        abs(scale - x.scale * factor) <= _BIAS_TOLERANCE * scale
        for scale, factor in zip(bias.quant.scales, weights.scales, strict=True)
    )


def _broadcastable(const: Const, layout: Layout) -> Const:
    """The constant in `layout`, without the leading axes of size 1 that broadcasting adds."""
    held = tuple(axis for axis in layout if axis >= 0)
    turned = const.transpose(held)
    shape = [1 if axis < 0 else const.data.shape[axis] for axis in layout]
    while shape and shape[0] == 1:
        shape = shape[1:]
    return turned.reshape(tuple(shape))
