"""Constant folding: the small chains of shape arithmetic that exporters leave in a model.

One function an op, from (node, inputs) to the output. Only constants with at most one dynamic
source, Shape, are folded; nothing here computes on activations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuscope.errors import FileError, ModelError
from npuscope.graph.onnx.constants import Const
from npuscope.graph.onnx.layout import checked_axis
from npuscope.graph.onnx.nodes import Node
from npuscope.graph.onnx.tensors import TYPE_NAMES

Inputs = Sequence[Const | None]
_MAX_ELEMENTS = 1 << 26
_NUMERIC_ERRORS = (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError)


def fold(node: Node, inputs: Inputs) -> Const:
    """The constant that `node` makes."""
    try:
        with np.errstate(all="ignore"):
            result = FOLDERS[node.kind](node, inputs)
    except _NUMERIC_ERRORS:
        raise ModelError("the constants do not fit this op", where=node.origin) from None
    if result.data.size > _MAX_ELEMENTS:
        raise FileError(f"a folded constant has {result.data.size} elements", where=node.origin)
    return result


def _required(inputs: Inputs, index: int) -> Const:
    found = inputs[index]
    if found is None:
        raise ValueError("missing input")
    return found


def _optional(inputs: Inputs, index: int) -> Const | None:
    return inputs[index] if index < len(inputs) else None


def _constant(node: Node, inputs: Inputs) -> Const:
    for name, dtype in (("value_int", "int64"), ("value_float", "float32")):
        if name in node.attributes:
            return Const(np.asarray(node.attributes[name], dtype=dtype), dtype)
    for name, dtype in (("value_ints", "int64"), ("value_floats", "float32")):
        if name in node.attributes:
            return Const(np.asarray(node.attributes[name], dtype=dtype), dtype)
    value = node.attributes.get("value")
    if not isinstance(value, Const):
        raise ModelError("a Constant without a numeric value", where=node.origin)
    return value


def _identity(node: Node, inputs: Inputs) -> Const:
    return _required(inputs, 0)


def _cast(node: Node, inputs: Inputs) -> Const:
    kind = TYPE_NAMES.get(node.integer("to", 1), "")
    if kind in ("string", "bfloat16", "int4", "uint4", ""):
        raise ModelError(f"a cast of a constant to '{kind}' is not supported", where=node.origin)
    source = _required(inputs, 0)
    data = source.real() if source.quant else source.data
    return Const(data.astype(kind), kind)


def _constant_of_shape(node: Node, inputs: Inputs) -> Const:
    shape = _required(inputs, 0).whole()
    if len(shape) > 8 or any(not 0 <= size <= _MAX_ELEMENTS for size in shape):
        raise ValueError("shape")
    if int(np.prod(shape, dtype=object)) > _MAX_ELEMENTS:
        raise ValueError("shape")
    value = node.attributes.get("value")
    fill = value if isinstance(value, Const) else Const(np.zeros(1, np.float32), "float32")
    return Const(np.full(shape, fill.data.ravel()[0], fill.data.dtype), fill.type)


def _gather(node: Node, inputs: Inputs) -> Const:
    data, indices = _required(inputs, 0), _required(inputs, 1).data
    if data.quant is not None or indices.size > _MAX_ELEMENTS:
        raise ValueError("gather")
    return Const(np.asarray(np.take(data.data, indices, node.integer("axis", 0))), data.type)


def _concat(node: Node, inputs: Inputs) -> Const:
    arrays = [_plain(inputs, index) for index in range(len(inputs))]
    first = _required(inputs, 0)
    return Const(np.concatenate(arrays, node.integer("axis", 0)), first.type)


def _slice(node: Node, inputs: Inputs) -> Const:
    data = _plain(inputs, 0)
    starts, ends = (_required(inputs, index).whole() for index in (1, 2))
    axes_input, steps_input = _optional(inputs, 3), _optional(inputs, 4)
    axes = axes_input.whole() if axes_input else list(range(len(starts)))
    steps = steps_input.whole() if steps_input else [1] * len(starts)
    cuts = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # ONNX writes "to the beginning" of a backward cut as a very negative end
        stop = None if step < 0 and end < -data.shape[axis] else end
        cuts[axis] = slice(start, stop, step)
    return Const(data[tuple(cuts)], _required(inputs, 0).type)


def _plain(inputs: Inputs, index: int) -> np.ndarray:
    const = _required(inputs, index)
    if const.quant is not None:
        raise ValueError("quantized")
    return const.data


def _arithmetic(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Folder:
    def folder(node: Node, inputs: Inputs) -> Const:
        a, b = _required(inputs, 0), _required(inputs, 1)
        if a.quant or b.quant:
            return Const(np.asarray(function(a.real(), b.real())), "float32")
        if np.broadcast(a.data, b.data).size > _MAX_ELEMENTS:
            raise ValueError("size")
        return Const(np.asarray(function(a.data, b.data)).astype(a.data.dtype), a.type)

    return folder


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "iu":
        return np.asarray(np.fix(a / b)) if np.all(b) else a * 0
    return np.asarray(a / b)


def _reshape(node: Node, inputs: Inputs) -> Const:
    data = _required(inputs, 0)
    asked = _required(inputs, 1).whole()
    return data.reshape(resolve_shape(data.data.shape, asked, node.integer("allowzero", 0) == 1))


def _transpose(node: Node, inputs: Inputs) -> Const:
    data = _required(inputs, 0)
    order = node.integers("perm") or tuple(reversed(range(data.data.ndim)))
    return data.transpose(order)


def _squeeze(node: Node, inputs: Inputs) -> Const:
    data = _required(inputs, 0)
    return data.reshape(squeezed(data.data.shape, axes_of(node, inputs)))


def _unsqueeze(node: Node, inputs: Inputs) -> Const:
    data = _required(inputs, 0)
    return data.reshape(unsqueezed(data.data.shape, axes_of(node, inputs) or ()))


def axes_of(node: Node, inputs: Inputs) -> tuple[int, ...] | None:
    """Axes are an attribute up to opset 12 (17 for reductions), then an input."""
    given = _optional(inputs, 1)
    return tuple(given.whole()) if given is not None else node.integers("axes")


def squeezed(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Shape without the given axes of size 1, or without all of them."""
    if axes is None:
        return tuple(size for size in shape if size != 1)
    gone = {checked_axis(axis, len(shape)) for axis in axes}
    if any(shape[axis] != 1 for axis in gone):
        raise ModelError(f"axes {axes} of shape {shape} cannot be squeezed")
    return tuple(size for axis, size in enumerate(shape) if axis not in gone)


def unsqueezed(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    rank = len(shape) + len(axes)
    new = {checked_axis(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise ModelError(f"axes {axes} cannot be added to shape {shape}")
    rest = iter(shape)
    return tuple(1 if axis in new else next(rest) for axis in range(rank))


def resolve_shape(
    source: tuple[int, ...], asked: Sequence[int], keep_zeros: bool
) -> tuple[int, ...]:
    """A Reshape's target with 0 (copy) and -1 (the rest) resolved."""
    sizes = [
        source[axis] if size == 0 and not keep_zeros and axis < len(source) else int(size)
        for axis, size in enumerate(asked)
    ]
    total = int(np.prod(source, dtype=object))
    known = int(np.prod([size for size in sizes if size != -1], dtype=object))
    if sizes.count(-1) > 1 or (-1 in sizes and (known < 1 or total % known)):
        raise ModelError(f"{source} cannot be reshaped to {tuple(asked)}")
    result = tuple(total // known if size == -1 else size for size in sizes)
    if int(np.prod(result, dtype=object)) != total or min(result, default=1) < 0:
        raise ModelError(f"{source} cannot be reshaped to {tuple(asked)}")
    return result


Folder = Callable[[Node, Inputs], Const]

FOLDERS: dict[str, Folder] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": _identity,
    "Cast": _cast,
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Add": _arithmetic(np.add),
    "Sub": _arithmetic(np.subtract),
    "Mul": _arithmetic(np.multiply),
    "Div": _arithmetic(_divide),
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}
