"""One row per op: the record, and what shape functions and type checks share.

Kernels and converters are named, "module:function": they are loaded when a network uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from importlib import import_module
from typing import Any, Literal

from msgspec import Struct, field

from npuscope.errors import ModelError
from npuscope.graph.model import Attrs, DType, Graph, Op, Quant
from npuscope.ops.traits import Trait

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]
Form = Literal[
    "function", "values", "whole", "moves", "layer", "comparison", "raw", "plain", "several"
]
Sign = Literal["any", "kept", "positive"]
WHOLE = (DType.INT32, DType.INT64)


class Kernel(Struct, frozen=True):
    """The reference kernels, named in ops/kernels: of a graph without scales, and with them.

    `form` tells how the quantized ones are made where none is named:
    function      a plain function of one array: the kernel is made of it, look-ups too
    values        value by value, any number of operands
    whole         many values at a time
    moves         values pass as they are; `litert` and `qdq` on raw ones, where they differ
    layer         with weights; `qdq` is the shortcut on integers
    comparison    a plain function of two arrays that gives truth
    raw           on raw values for LiteRT, on real ones for onnxruntime
    plain         none but those named
    several       one for all numerics, with several outputs
    """

    form: Form
    real: str = ""
    litert: str = ""
    qdq: str = ""


class Tflite(Struct, frozen=True):
    """How TFLite writes the op. `converter` is named in files/tflite, called with `arguments`.

    `options` is the table of the schema and the fields that are read from it. Inputs from
    `shape_inputs` on only describe a shape: what computes them is dead once shapes are static.
    """

    converter: str
    arguments: tuple[Any, ...] = ()
    options: tuple[str, ...] = ()
    shape_inputs: int | None = None


class Onnx(Struct, frozen=True):
    """How ONNX writes the op. `converter` is named in files/onnx, called with `arguments`.

    `parameters` are inputs that carry weights, biases, statistics, axes or conditions instead of
    activations; without scales on those in `quantized` the op stays real. `windowed` ops want
    their channels last; `any_order` ops do not mind the order of axes.
    """

    converter: str
    arguments: tuple[Any, ...] = ()
    parameters: tuple[int, ...] = ()
    quantized: tuple[int, ...] = ()
    windowed: bool = False
    any_order: bool = False


def _no_macs(graph: Graph, op: Op) -> int:
    return 0


def any_type(graph: Graph, op: Op) -> str:
    return ""


class Row(Struct, frozen=True):
    """One kind of op. It takes at least and at most so many `inputs`, None being any number.

    `traits` are what is true of it for every machine. `data_inputs` is how many of the inputs
    an op moves that only moves values (None: all).
    `sign` tells results that are never below zero from those that are not if no operand is.
    `fixed_range` is what results lie in whatever the data are: quantizers take no other range.
    `types` returns what is wrong with the element types as text, or "".
    """

    kind: str
    attrs: type[Attrs]
    inputs: tuple[int, int | None]
    shape: Callable[[Graph, Op], Shapes]
    kernel: Kernel
    types: Callable[[Graph, Op], str] = any_type
    tflite: Mapping[str, Tflite] = field(default_factory=dict)
    onnx: Mapping[str, Onnx] = field(default_factory=dict)
    macs: Callable[[Graph, Op], int] = _no_macs
    traits: Set[Trait] = frozenset()
    data_inputs: int | None = None
    sign: Sign = "any"
    fixed_range: tuple[float, float] | None = None

    def has(self, trait: Trait) -> bool:
        return trait in self.traits

    @property
    def fixed_quant(self) -> Quant | None:
        """The int8 steps of the fixed range, as LiteRT's converter has them."""
        if self.fixed_range is None:
            return None
        low, high = self.fixed_range
        scale = (high - low) / 256
        return Quant((scale,), (-128 - round(low / scale),))

    @property
    def least(self) -> int:
        return self.inputs[0]

    @property
    def most(self) -> int | None:
        return self.inputs[1]


def named(package: str, name: str) -> Any:
    """What "module:function" in a package stands for."""
    module, _, function = name.partition(":")
    return getattr(import_module(f"{package}.{module}"), function)


def real_type(graph: Graph, op: Op) -> str:
    """Functions of real numbers: floats, or integers with a scale."""
    for name in (op.inputs[0], *op.outputs):
        tensor = graph.tensors[name]
        if not tensor.dtype.is_float and tensor.quant is None:
            return f"it needs real numbers, but its {tensor.dtype.value} input has no scale"
    return ""


def number_type(graph: Graph, op: Op) -> str:
    """Arithmetic: anything but truth, and one type for all that have no scale."""
    tensors = [graph.tensors[name] for name in (*op.inputs, *op.outputs)]
    types = {t.dtype for t in tensors if t.quant is None}
    if DType.BOOL in types:
        return "it cannot compute on bool"
    return "" if len(types) < 2 else f"operands are {' and '.join(sorted(t.value for t in types))}"


def wrong_type(graph: Graph, name: str, allowed: tuple[DType, ...], what: str) -> str:
    dtype = graph.tensors[name].dtype
    if dtype in allowed:
        return ""
    return f"the {what} is {dtype.value}, expected {' or '.join(t.value for t in allowed)}"


def input_shape(graph: Graph, op: Op, index: int) -> Shape:
    """Shape of a required input."""
    if index >= len(op.inputs) or not op.inputs[index]:
        raise ModelError(f"input {index} is missing")
    return graph.tensors[op.inputs[index]].shape


def window_output(size: int, window: int, stride: int, dilation: int, pads: int) -> int:
    """Positions of a sliding window over `size` elements with `pads` added in all."""
    if min(window, stride, dilation) < 1:
        raise ModelError(f"window {window}, stride {stride}, dilation {dilation}: must be >= 1")
    positions = (size + pads - (window - 1) * dilation - 1) // stride + 1
    if positions < 1:
        raise ModelError(f"a window of {window} does not fit into {size} elements")
    return positions


def rank4(shape: Shape) -> tuple[int, int, int, int]:
    if len(shape) != 4:
        raise ModelError(f"expected 4 axes (N, H, W, C), found shape {shape}")
    return shape[0], shape[1], shape[2], shape[3]


def same_shape(graph: Graph, op: Op) -> Shapes:
    return (input_shape(graph, op, 0),)


def broadcast(*shapes: Shape) -> Shape:
    """Numpy's broadcasting rule."""
    result: list[int] = []
    for place in range(1, max(len(shape) for shape in shapes) + 1):
        sizes = {shape[-place] for shape in shapes if place <= len(shape)} - {1}
        if len(sizes) > 1:
            raise ModelError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
        result.append(sizes.pop() if sizes else 1)
    return tuple(reversed(result))


def check_axis(axis: int, shape: Shape) -> None:
    if not 0 <= axis < len(shape):
        raise ModelError(f"axis {axis} is outside shape {shape}")
