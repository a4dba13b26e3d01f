"""What a converter sees: one node, its inputs in the form binding decided, and how to emit."""

from __future__ import annotations

from npuscope.errors import ModelError, NotComputed
from npuscope.files.onnx.binding import QUANTIZE, moves, node_type
from npuscope.files.onnx.constants import INTEGER_TYPES, PLAIN_TYPES, Const, QuantType
from npuscope.files.onnx.file import Node
from npuscope.files.onnx.layout import (
    CHANNEL_LAST,
    Layout,
    LayoutValue,
    Shape,
    channel_last,
    operand_layout,
    plain,
    source_shape,
)
from npuscope.files.onnx.walk import OnnxWalk
from npuscope.graph.model import Activation, Attrs, DType, Quant, Tensor
from npuscope.ops.functions import ClipAttrs
from npuscope.structs import replace
from npuscope.text import safe_terminal

# --- Constants of a node: weights, biases, broadcast operands, in the form the graph keeps ---

_BIAS_TOLERANCE = 1e-5  # relative; exporters multiply scales in float32 or in float64


class Parameters:
    """The constants of one node; `integer` says whether it computes on integers."""

    def __init__(self, reader: OnnxWalk, node: Node, integer: bool) -> None:
        self.reader = reader
        self.node = node
        self.integer = integer

    def constant(self, index: int) -> Const | None:
        return self.reader.constants.get(self.node.input(index))

    def needed(self, index: int) -> Const:
        const = self.constant(index)
        if const is None:
            raise NotComputed(f"input {index} must be a constant")
        return const

    def whole(self, index: int) -> list[int] | None:
        """Integers of an input that must be a constant when it is given."""
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
            raise NotComputed(f"'{safe_terminal(name)}' is {const.type} and has no scale")
        return add(name, const.real(), DType.FLOAT32)

    def constant_value(self, name: str) -> LayoutValue:
        """A constant in place of an activation."""
        const = self.reader.constants[name]
        tensor = self.store(const, (name, self.integer))
        return LayoutValue(tensor.name, plain(const.data.ndim))

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
            raise NotComputed("the bias must be a constant")
        flat = const.reshape((const.data.size,))
        exact = self.integer and _is_product(flat, x.quant, weights.quant)
        key = (self.node.input(index), ("bias", exact))
        return self.store(flat if exact else flat.as_real(), key).name

    def broadcast_constant(self, index: int, layout: Layout) -> str:
        """A constant that broadcasts to the source axes of `layout`."""
        const = self.needed(index)
        missing = len([axis for axis in layout if axis >= 0]) - const.data.ndim
        target = operand_layout(layout, missing)
        key = (self.node.input(index), (target, self.integer))
        # Without the leading axes of size 1 that broadcasting adds.
        stored_axes = tuple(axis for axis in target if axis >= 0)
        turned = const.transpose(stored_axes)
        shape = [1 if axis < 0 else const.data.shape[axis] for axis in target]
        while shape and shape[0] == 1:
            shape = shape[1:]
        return self.store(turned.reshape(tuple(shape)), key).name


def _is_product(bias: Const, x: Quant | None, weights: Quant | None) -> bool:
    if bias.type != "int32" or bias.quant is None or x is None or weights is None:
        return False
    if any(bias.quant.zero_points) or len(bias.quant.scales) != len(weights.scales):
        return False
    return all(
        abs(scale - x.scale * factor) <= _BIAS_TOLERANCE * scale
        for scale, factor in zip(bias.quant.scales, weights.scales, strict=True)
    )


_ACTIVATIONS = {
    (0.0, float("inf")): Activation.RELU,
    (0.0, 6.0): Activation.RELU6,
    (-1.0, 1.0): Activation.RELU_N1_TO_1,
}
_PLAIN = (DType.INT32, DType.INT64, DType.BOOL)  # integers that never had scales


class NodeTask(Parameters):
    """The conversion of one node."""

    def __init__(self, reader: OnnxWalk, node: Node) -> None:
        self.bound = reader.plan.bound.get(node.output)
        self.moved = node.output in reader.plan.moved
        super().__init__(reader, node, self.bound is not None or self.moved)
        self.arranger = reader.arranger
        self.origins = self.bound.origins if self.bound else node.origins
        self.opset = reader.source.opset

    # --- Inputs ---

    def value(self, index: int) -> LayoutValue:
        """An activation."""
        name = self.node.input(index)
        if not name:
            raise ModelError(f"input {index} is missing")
        if name in self.reader.constants:
            return self.constant_value(name)
        if self.integer and name in self.reader.integers:
            return self.reader.integers[name]
        return self.reader.real(name)

    def raw_value(self, index: int) -> LayoutValue:
        """The integers behind a DequantizeLinear, for ops that only compare values."""
        name = self.node.input(index)
        return self.reader.integers[name] if name in self.reader.integers else self.value(index)

    def shape(self, value: LayoutValue) -> Shape:
        """The source shape."""
        return self.arranger.source_shape(value)

    def arranged(self, index: int, layout: Layout) -> LayoutValue:
        return self.arranger.arrange(self.value(index), layout, self.node.origin)

    def in_source_order(self, index: int) -> LayoutValue:
        value = self.value(index)
        return self.arranger.arrange(value, plain(len(self.shape(value))), self.node.origin)

    def windowed(self, index: int) -> LayoutValue:
        """An input of a windowed op: N, H, W, C, with H = 1 for one spatial axis."""
        value = self.value(index)
        rank = len(self.shape(value))
        if rank not in CHANNEL_LAST:
            raise NotComputed(
                f"{rank - 2} spatial axes are not supported, expected 1 or 2",
                hint="fold the other spatial axes into the batch or the channels",
            )
        return self.arranger.arrange(value, CHANNEL_LAST[rank], self.node.origin)

    def channel_last(self, index: int) -> LayoutValue:
        """An input with its channels (source axis 1) stored last, at any rank."""
        value = self.value(index)
        layout = channel_last(len(self.shape(value)))
        return self.arranger.arrange(value, layout, self.node.origin)

    def operand(self, index: int, layout: Layout) -> str:
        """An input that broadcasts to the source axes of `layout`."""
        if self.constant(index) is not None:
            return self.broadcast_constant(index, layout)
        value = self.value(index)
        missing = len([axis for axis in layout if axis >= 0]) - len(self.shape(value))
        target = operand_layout(layout, missing)
        return self.arranger.arrange(value, target, self.node.origin).tensor

    def tensor(self, value: LayoutValue) -> Tensor:
        return self.reader.graph.tensors[value.tensor]

    def following_type(self) -> QuantType | None:
        """The type of a QuantizeLinear that reads the node's output, if there is one."""
        for node in self.reader.readers.get((QUANTIZE, self.node.output), []):
            return node_type(node, self.reader.constants)
        return None

    # --- Output ---

    def emit(
        self,
        kind: str,
        inputs: tuple[str, ...],
        attrs: Attrs,
        layout: Layout,
        via: tuple[str, ...] = (),
        dtype: DType | None = None,
        like: int = 0,
    ) -> None:
        """Append the op; its result is stored as `layout`.

        It has the type that binding found, or `dtype`, or that of the input number `like`.
        """
        fused, rest = self._fuse(attrs)
        if rest is None:
            self.finish(self.make(kind, inputs, fused, layout, via, dtype, like=like))
            return
        origins, self.origins = self.origins, self.node.origins
        value = self.make(kind, inputs, fused, layout, via, dtype, like=like)
        self.origins = origins[len(self.node.origins) :]
        # The same scale on both sides: clamping the quantized values is exact.
        name = self.bound.reals[-1] if self.bound else ""
        self.finish(self.make("Clip", (value.tensor,), rest, value.layout, name=name))

    def make(
        self,
        kind: str,
        inputs: tuple[str, ...],
        attrs: Attrs,
        layout: Layout,
        via: tuple[str, ...] = (),
        dtype: DType | None = None,
        name: str = "",
        like: int = 0,
    ) -> LayoutValue:
        """Append one of possibly several ops that replace the node."""
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        shape = self.reader.builder.infer(kind, inputs, attrs, self.node.origin)
        form = self._type(inputs[like], dtype)
        tensor = self._result(name or self.node.output, shape, layout, form)
        self.reader.builder.emit(kind, inputs, attrs, tensor, (*via, *self.origins))
        return LayoutValue(tensor.name, layout)

    def emit_all(
        self, kind: str, x: LayoutValue, attrs: Attrs, names: tuple[str, ...]
    ) -> tuple[LayoutValue, ...]:
        """Append an op with several outputs, all stored like its input."""
        shapes = self.reader.builder.infer_all(kind, (x.tensor,), attrs, self.node.origin)
        form = self._type(x.tensor, None)
        rows = zip(names, shapes, strict=True)
        results = tuple(self._result(name, shape, x.layout, form) for name, shape in rows)
        origin = (*x.via, *self.origins)
        self.reader.builder.emit_all(kind, (x.tensor,), attrs, results, origin)
        return tuple(LayoutValue(tensor.name, x.layout) for tensor in results)

    def _result(
        self, name: str, shape: Shape, layout: Layout, form: tuple[DType, Quant | None]
    ) -> Tensor:
        if len(shape) != len(layout):
            raise NotComputed(
                "an op whose inputs are all constants is not supported",
                hint="fold constants before export",
            )
        source = source_shape(layout, shape)
        stated = source if layout != plain(len(source)) else None
        return self.reader.builder.add(Tensor(name, shape, *form, None, stated))

    def _fuse(self, attrs: Attrs) -> tuple[Attrs, ClipAttrs | None]:
        """The clamp behind the node goes into its attributes, or stays an op of its own."""
        if self.bound is None or self.bound.clamp is None:
            return attrs, None
        activation = _ACTIVATIONS.get(self.bound.clamp)
        if activation and "activation" in attrs.__struct_fields__:
            return replace(attrs, activation=activation), None  # type: ignore[call-arg]
        return attrs, ClipAttrs(*self.bound.clamp)

    def finish(self, value: LayoutValue) -> None:
        """Make `value` the output of the node."""
        self.reader.shapes[self.node.output] = self.shape(value)
        if self.bound is not None:
            for name in self.bound.outputs:
                self.reader.define(name, value)
            for name in self.bound.reals:
                self.reader.shapes[name] = self.shape(value)
        else:
            self.finish_as(self.node.output, value)

    def pass_on(self, value: LayoutValue) -> None:
        """The node changes nothing, but a QuantizeLinear after it may."""
        if self.bound is None:
            self.finish(value)
        else:
            self.emit("Quantize", (value.tensor,), Attrs(), value.layout, value.via)

    def finish_as(self, name: str, value: LayoutValue) -> None:
        """One output of a node that only moves values, or that stays real."""
        self.reader.shapes[name] = self.shape(value)
        (self.reader.integers if self.moved else self.reader.values)[name] = value

    def _type(self, like: str, dtype: DType | None) -> tuple[DType, Quant | None]:
        if dtype is not None:
            return dtype, None
        if self.bound is not None:
            return self.bound.type.dtype, self.bound.type.quant
        first = self.reader.graph.tensors[like]
        is_plain = first.dtype.is_float or (first.dtype in _PLAIN and first.quant is None)
        if not is_plain and not moves(self.node):
            raise NotComputed(
                f"it computes on {first.dtype.value} values without a DequantizeLinear"
            )
        return first.dtype, first.quant
