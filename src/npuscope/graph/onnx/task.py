"""What a converter sees: one node, its inputs in the form binding decided, and how to emit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npuscope.errors import ModelError
from npuscope.graph.attrs import Activation, Attrs
from npuscope.graph.model import DType, Quant, Tensor
from npuscope.graph.onnx.arrange import Value, operand_layout
from npuscope.graph.onnx.binding import MOVERS
from npuscope.graph.onnx.constants import INTEGER_TYPES, Const
from npuscope.graph.onnx.layout import CHANNEL_LAST, Layout, Shape, plain, source_shape
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.graph.onnx.nodes import Node
    from npuscope.graph.onnx.reader import OnnxReader

_BIAS_TOLERANCE = 1e-5  # of scales that exporters multiply in float32 or float64


class Task:
    """The conversion of one node."""

    def __init__(self, reader: OnnxReader, node: Node) -> None:
        self.reader = reader
        self.node = node
        self.arranger = reader.arranger
        self.bound = reader.plan.bound.get(node.output)
        self.moved = node.output in reader.plan.moved
        self.origins = self.bound.origins if self.bound else (node.origin,)
        self.opset = reader.source.opset

    @property
    def integer(self) -> bool:
        return self.bound is not None or self.moved

    @property
    def activation(self) -> Activation:
        return self.bound.activation if self.bound else Activation.NONE

    # inputs

    def constant(self, index: int) -> Const | None:
        return self.reader.constants.get(self.node.input(index))

    def whole(self, index: int) -> list[int] | None:
        """Whole numbers of an input that must be a constant when it is given."""
        if not self.node.input(index):
            return None
        const = self.constant(index)
        if const is None:
            raise ModelError(f"input {index} must be a constant")
        return const.whole()

    def value(self, index: int) -> Value:
        """An activation."""
        name = self.node.input(index)
        if not name:
            raise ModelError(f"input {index} is missing")
        if name in self.reader.constants:
            return self._constant_value(name)
        if self.integer and name in self.reader.integers:
            return self.reader.integers[name]
        return self.reader.real(name)

    def shape(self, value: Value) -> Shape:
        """The source shape."""
        return self.arranger.source_shape(value)

    def arranged(self, index: int, layout: Layout) -> Value:
        return self.arranger.arrange(self.value(index), layout, self.node.origin)

    def channel_last(self, index: int) -> Value:
        """An input of a windowed op: N, H, W, C, with H = 1 for one spatial axis."""
        value = self.value(index)
        rank = len(self.shape(value))
        if rank not in CHANNEL_LAST:
            raise ModelError(f"{rank - 2} spatial axes are not supported, expected 1 or 2")
        return self.arranger.arrange(value, CHANNEL_LAST[rank], self.node.origin)

    def tensor(self, value: Value) -> Tensor:
        return self.reader.graph.tensors[value.tensor]

    # constants in the graph

    def store(self, const: Const, key: tuple[str, object]) -> Tensor:
        """A constant as the graph keeps it: integers with scales, or float32."""
        if key not in self.reader.stored:
            self.reader.stored[key] = self._stored(const, const.name or key[0]).name
        return self.reader.graph.tensors[self.reader.stored[key]]

    def _stored(self, const: Const, name: str) -> Tensor:
        add = self.reader.builder.constant
        if self.integer and const.quant is not None:
            return add(name, const.data, INTEGER_TYPES[const.type], const.quant)
        if const.quant is None and const.data.dtype.kind not in "f":
            raise ModelError(f"'{safe_terminal(name)}' holds {const.type} without scales")
        return add(name, const.real(), DType.FLOAT32)

    def parameter(self, index: int, form: str, permutation: tuple[int, ...]) -> Tensor:
        """Constant weights with their axes in the given order."""
        const = self.constant(index)
        if const is None:
            raise ModelError(f"input {index} must be a constant")
        if const.data.ndim != len(permutation):
            raise ModelError(f"input {index} has shape {const.data.shape}")
        key = (self.node.input(index), (form, self.integer))
        if key in self.reader.stored:
            return self.reader.graph.tensors[self.reader.stored[key]]
        return self.store(const.transpose(permutation), key)

    def real_parameter(self, index: int) -> Tensor:
        """Constant float32 statistics, whatever they are stored as."""
        const = self.constant(index)
        if const is None:
            raise ModelError(f"input {index} must be a constant")
        key = (self.node.input(index), "float32")
        return self.store(const.as_real(), key)

    def bias(self, index: int, x: Tensor, weights: Tensor) -> str:
        """int32 when its scale is the product of its operands' scales, else float32."""
        if not self.node.input(index):
            return ""
        const = self.constant(index)
        if const is None:
            raise ModelError("the bias must be a constant")
        flat = const.reshape((const.data.size,))
        exact = self.bound is not None and _is_product(flat, x.quant, weights.quant)
        key = (self.node.input(index), ("bias", exact))
        return self.store(flat if exact else flat.as_real(), key).name

    def _constant_value(self, name: str) -> Value:
        const = self.reader.constants[name]
        tensor = self.store(const, (name, self.integer))
        return Value(tensor.name, plain(const.data.ndim))

    def operand(self, index: int, layout: Layout) -> str:
        """An input that broadcasts to the source axes of `layout`."""
        missing = len([axis for axis in layout if axis >= 0])
        const = self.constant(index)
        if const is None:
            value = self.value(index)
            missing -= len(self.shape(value))
            return self.arranger.arrange(
                value, operand_layout(layout, missing), self.node.origin
            ).tensor
        wanted = operand_layout(layout, missing - const.data.ndim)
        key = (self.node.input(index), (wanted, self.integer))
        return self.store(_broadcastable(const, wanted), key).name

    # output

    def emit(
        self,
        kind: str,
        inputs: tuple[str, ...],
        attrs: Attrs,
        layout: Layout,
        via: tuple[str, ...] = (),
    ) -> None:
        """Append the op; its result is stored as `layout`."""
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        shape = self.reader.builder.infer(kind, inputs, attrs, self.node.origin)
        dtype, quant = self._result_type(inputs)
        source = source_shape(layout, shape)
        shown = source if layout != plain(len(source)) else None
        tensor = Tensor(self.node.output, shape, dtype, quant, None, shown)
        tensor = self.reader.builder.add(tensor)
        self.reader.builder.emit(kind, inputs, attrs, tensor, (*via, *self.origins))
        self.finish(Value(tensor.name, layout))

    def finish(self, value: Value) -> None:
        """Let the readers of the node see `value`."""
        if self.bound is not None:
            for name in self.bound.outputs:
                self.reader.define(name, value)
            self.reader.shapes[self.bound.real] = self.shape(value)
        elif self.moved:
            self.reader.integers[self.node.output] = value
        else:
            self.reader.values[self.node.output] = value
        self.reader.shapes[self.node.output] = self.shape(value)

    def _result_type(self, inputs: tuple[str, ...]) -> tuple[DType, Quant | None]:
        if self.bound is not None:
            return self.bound.type.dtype, self.bound.type.quant
        first = self.reader.graph.tensors[inputs[0]]
        if self.node.kind not in MOVERS and not first.dtype.is_float:
            raise ModelError(
                f"it computes on {first.dtype.value} values that no DequantizeLinear reads"
            )
        return first.dtype, first.quant


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
