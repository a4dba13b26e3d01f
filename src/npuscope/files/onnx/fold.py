"""Constant folding: the small chains of shape arithmetic that exporters leave in a model.

One function per op, from (node, inputs) to the output. Only constants with at most one dynamic
source, Shape, are folded; nothing here computes on activations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from npuscope.errors import ModelError
from npuscope.files.onnx.constants import TYPE_NAMES, Const
from npuscope.files.onnx.file import Node
from npuscope.files.onnx.layout import checked_axis
from npuscope.graph.limits import MAX_RANK, Computed
from npuscope.ops.row import broadcast

# --- Ops that make, slice and reshape constants ---

Inputs = Sequence[Const | None]
# Called before memory is allocated: shape, bytes per item.
Sized = Callable[[Sequence[int], int], None]
Folder = Callable[[Node, Inputs, Sized], Const]


def required(inputs: Inputs, index: int) -> Const:
    const = inputs[index]
    if const is None:
        raise ValueError("an input is missing")
    return const


def _optional(inputs: Inputs, index: int) -> Const | None:
    return inputs[index] if index < len(inputs) else None


def _constant(node: Node, inputs: Inputs, sized: Sized) -> Const:
    for name, dtype in (("value_int", "int64"), ("value_float", "float32")):
        if name in node.attributes:
            return Const(np.asarray(node.attributes[name], dtype=dtype), dtype)
    for name, dtype in (("value_ints", "int64"), ("value_floats", "float32")):
        if name in node.attributes:
            return Const(np.asarray(node.attributes[name], dtype=dtype), dtype)
    value = node.attributes.get("value")
    if not isinstance(value, Const):
        raise ModelError("the Constant has no numeric value", where=node.origin)
    return value


def _identity(node: Node, inputs: Inputs, sized: Sized) -> Const:
    return required(inputs, 0)


def _cast(node: Node, inputs: Inputs, sized: Sized) -> Const:
    kind = TYPE_NAMES.get(node.integer("to", 1), "")
    if kind in ("string", "bfloat16", "int4", "uint4", ""):
        raise ModelError(f"a cast of a constant to '{kind}' is not supported", where=node.origin)
    source = required(inputs, 0)
    data = source.real() if source.quant else source.data
    return Const(data.astype(kind), kind)


def _constant_of_shape(node: Node, inputs: Inputs, sized: Sized) -> Const:
    shape = required(inputs, 0).whole()
    _positive(shape)
    value = node.attributes.get("value")
    fill = value if isinstance(value, Const) else Const(np.zeros(1, np.float32), "float32")
    sized(shape, fill.data.itemsize)
    return Const(np.full(shape, fill.data.ravel()[0], fill.data.dtype), fill.type)


def _gather(node: Node, inputs: Inputs, sized: Sized) -> Const:
    source, indices = _movable(inputs, 0), required(inputs, 1).data
    data = source.data
    axis = checked_axis(node.integer("axis", 0), data.ndim)
    sized((*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]), data.itemsize)
    return Const(np.asarray(np.take(data, indices, axis)), source.type, source.quant)


def _concat(node: Node, inputs: Inputs, sized: Sized) -> Const:
    arrays = [_plain(inputs, index) for index in range(len(inputs))]
    first = required(inputs, 0)
    sized([sum(array.size for array in arrays)], max(array.itemsize for array in arrays))
    return Const(np.concatenate(arrays, node.integer("axis", 0)), first.type)


def _slice(node: Node, inputs: Inputs, sized: Sized) -> Const:
    source = _movable(inputs, 0)
    data = source.data
    if len(inputs) == 1:  # attributes before opset 10
        starts, ends = list(node.integers("starts") or ()), list(node.integers("ends") or ())
        axes = list(node.integers("axes") or range(len(starts)))
        steps = [1] * len(starts)
    else:
        starts, ends = (required(inputs, index).whole() for index in (1, 2))
        axes_input, steps_input = _optional(inputs, 3), _optional(inputs, 4)
        axes = axes_input.whole() if axes_input else list(range(len(starts)))
        steps = steps_input.whole() if steps_input else [1] * len(starts)
    cuts = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # ONNX writes the end of a backward slice to the beginning as a very negative number
        stop = None if step < 0 and end < -data.shape[axis] else end
        cuts[axis] = slice(start, stop, step)
    return Const(data[tuple(cuts)], source.type, source.quant)


def _positive(shape: Sequence[int]) -> None:
    if len(shape) > MAX_RANK or min(shape, default=0) < 0:
        raise ValueError("size")


def _expand(node: Node, inputs: Inputs, sized: Sized) -> Const:
    source, target = _movable(inputs, 0), required(inputs, 1).whole()
    data = source.data
    _positive(target)
    shape = broadcast(data.shape, tuple(target)) if data.shape or target else ()
    sized(shape, data.itemsize)
    spread = np.ascontiguousarray(np.broadcast_to(data, shape))
    return Const(spread, source.type, source.quant)


def _tile(node: Node, inputs: Inputs, sized: Sized) -> Const:
    data, repeats = _plain(inputs, 0), required(inputs, 1).whole()
    _positive(repeats)
    sized([*data.shape, *repeats], data.itemsize)
    return Const(np.tile(data, repeats), required(inputs, 0).type)


def _range(node: Node, inputs: Inputs, sized: Sized) -> Const:
    start, limit, step = (_plain(inputs, index).item() for index in range(3))
    dtype = _plain(inputs, 0).dtype
    sized([max(int((limit - start) / step) + 1, 0)], dtype.itemsize)
    return Const(np.arange(start, limit, step, dtype=dtype), required(inputs, 0).type)


def _movable(inputs: Inputs, index: int) -> Const:
    """A constant whose values may change their place: one scale for all goes with them."""
    const = required(inputs, index)
    return const.as_real() if const.quant is not None and const.quant.axis is not None else const


def _plain(inputs: Inputs, index: int) -> np.ndarray:
    const = required(inputs, index)
    if const.quant is not None:
        raise ValueError("quantized")
    return const.data


def _reshape(node: Node, inputs: Inputs, sized: Sized) -> Const:
    data = required(inputs, 0)
    target = required(inputs, 1).whole()
    return data.reshape(resolve_shape(data.data.shape, target, node.integer("allowzero", 0) == 1))


def _transpose(node: Node, inputs: Inputs, sized: Sized) -> Const:
    data = required(inputs, 0)
    order = node.integers("perm") or tuple(reversed(range(data.data.ndim)))
    return data.transpose(order)


def _squeeze(node: Node, inputs: Inputs, sized: Sized) -> Const:
    data = required(inputs, 0)
    return data.reshape(squeezed(data.data.shape, axes_of(node, inputs)))


def _unsqueeze(node: Node, inputs: Inputs, sized: Sized) -> Const:
    data = required(inputs, 0)
    return data.reshape(unsqueezed(data.data.shape, axes_of(node, inputs) or ()))


def axes_of(node: Node, inputs: Inputs) -> tuple[int, ...] | None:
    """Axes are an attribute up to opset 12 (17 for reductions), then an input."""
    axes = _optional(inputs, 1)
    return tuple(axes.whole()) if axes is not None else node.integers("axes")


def squeezed(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Shape without the given axes of size 1, or without all of them."""
    if axes is None:
        return tuple(size for size in shape if size != 1)
    dropped_axes = {checked_axis(axis, len(shape)) for axis in axes}
    if any(shape[axis] != 1 for axis in dropped_axes):
        raise ModelError(f"axes {axes} of shape {shape} cannot be squeezed")
    return tuple(size for axis, size in enumerate(shape) if axis not in dropped_axes)


def unsqueezed(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    rank = len(shape) + len(axes)
    new = {checked_axis(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise ModelError(f"axes {axes} cannot be added to shape {shape}")
    rest = iter(shape)
    return tuple(1 if axis in new else next(rest) for axis in range(rank))


def resolve_shape(
    source: tuple[int, ...], target: Sequence[int], keep_zeros: bool
) -> tuple[int, ...]:
    """A Reshape's target with 0 (copy) and -1 (the rest) resolved."""
    sizes = [
        source[axis] if size == 0 and not keep_zeros and axis < len(source) else int(size)
        for axis, size in enumerate(target)
    ]
    total = int(np.prod(source, dtype=object))
    known_elements = int(np.prod([size for size in sizes if size != -1], dtype=object))
    if sizes.count(-1) > 1 or (-1 in sizes and (known_elements < 1 or total % known_elements)):
        raise ModelError(f"{source} cannot be reshaped to {tuple(target)}")
    result = tuple(total // known_elements if size == -1 else size for size in sizes)
    if int(np.prod(result, dtype=object)) != total or min(result, default=1) < 0:
        raise ModelError(f"{source} cannot be reshaped to {tuple(target)}")
    return result


SHAPE_FOLDERS: dict[str, Folder] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": _identity,
    "Cast": _cast,
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Expand": _expand,
    "Tile": _tile,
    "Range": _range,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}


# --- Arithmetic on constants: sizes, masks and small tables that exporters leave in the file ---

Function = Callable[..., Any]


def _operands(inputs: Inputs, sized: Sized) -> list[np.ndarray]:
    """Raw values, or real ones as soon as one of them has a scale."""
    consts = [required(inputs, index) for index in range(len(inputs))]
    arrays = [const.data for const in consts]
    sized(broadcast(*(array.shape for array in arrays)), max(array.itemsize for array in arrays))
    real = any(const.quant for const in consts)
    return [const.real() if real else const.data for const in consts]


def _arithmetic(function: Function) -> Folder:
    def folder(node: Node, inputs: Inputs, sized: Sized) -> Const:
        values = _operands(inputs, sized)
        kind = "float32" if required(inputs, 0).quant else required(inputs, 0).type
        return Const(np.asarray(function(*values)).astype(values[0].dtype), kind)

    return folder


def _truth(function: Function) -> Folder:
    def folder(node: Node, inputs: Inputs, sized: Sized) -> Const:
        return Const(np.asarray(function(*_operands(inputs, sized))).astype(bool), "bool")

    return folder


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "iu":
        return np.asarray(np.fix(a / b)) if np.all(b) else a * 0
    return np.asarray(a / b)


def _modulo(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.mod(a, b)) if np.all(b) else a * 0


def _where(node: Node, inputs: Inputs, sized: Sized) -> Const:
    condition, a, b = _operands(inputs, sized)
    return Const(np.where(condition, a, b).astype(a.dtype), required(inputs, 1).type)


def _reduction(function: Function) -> Folder:
    def folder(node: Node, inputs: Inputs, sized: Sized) -> Const:
        first = required(inputs, 0)
        data = first.real() if first.quant else first.data
        axes = axes_of(node, inputs) or tuple(range(data.ndim))
        places = tuple({checked_axis(axis, data.ndim) for axis in axes})
        result = function(data, axis=places, keepdims=bool(node.integer("keepdims", 1)))
        kind = "float32" if first.quant else first.type
        return Const(np.asarray(result).astype(data.dtype), kind)

    return folder


def _clip(node: Node, inputs: Inputs, sized: Sized) -> Const:
    first = required(inputs, 0)
    data = first.real() if first.quant else first.data
    limits = [const.data if const is not None else None for const in (*inputs[1:3], None, None)]
    shapes = [limit.shape for limit in limits if limit is not None]
    sized(broadcast(data.shape, *shapes), data.itemsize)
    if limits[0] is not None:
        data = np.maximum(data, limits[0])
    if limits[1] is not None:
        data = np.minimum(data, limits[1])
    return Const(np.asarray(data), "float32" if first.quant else first.type)


VALUE_FOLDERS: dict[str, Folder] = {
    "Clip": _clip,
    "Add": _arithmetic(np.add),
    "Sub": _arithmetic(np.subtract),
    "Mul": _arithmetic(np.multiply),
    "Div": _arithmetic(_divide),
    "Mod": _arithmetic(_modulo),
    "Pow": _arithmetic(np.power),
    "Min": _arithmetic(lambda *values: reduce(np.minimum, values)),
    "Max": _arithmetic(lambda *values: reduce(np.maximum, values)),
    "Neg": _arithmetic(np.negative),
    "Abs": _arithmetic(np.abs),
    "Floor": _arithmetic(np.floor),
    "Ceil": _arithmetic(np.ceil),
    "Sqrt": _arithmetic(np.sqrt),
    "Reciprocal": _arithmetic(lambda x: 1 / x),
    "Exp": _arithmetic(np.exp),
    "Log": _arithmetic(np.log),
    "Sin": _arithmetic(np.sin),
    "Cos": _arithmetic(np.cos),
    "Equal": _truth(np.equal),
    "Greater": _truth(np.greater),
    "GreaterOrEqual": _truth(np.greater_equal),
    "Less": _truth(np.less),
    "LessOrEqual": _truth(np.less_equal),
    "And": _truth(np.logical_and),
    "Or": _truth(np.logical_or),
    "Not": _truth(np.logical_not),
    "Where": _where,
    "ReduceProd": _reduction(np.prod),
    "ReduceSum": _reduction(np.sum),
    "ReduceMax": _reduction(np.max),
    "ReduceMin": _reduction(np.min),
}


FOLDERS: dict[str, Folder] = {**SHAPE_FOLDERS, **VALUE_FOLDERS}

_NUMERIC_ERRORS = (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError)


class Computing:
    """Computes the constants of one model; their memory is checked before it is allocated."""

    def __init__(self, constants: Iterable[Const]) -> None:
        self.computed = Computed(sum(const.data.nbytes for const in constants))

    def fold(self, node: Node, inputs: Inputs) -> Const:
        """The constant that `node` makes."""
        try:
            with np.errstate(all="ignore"):
                result = FOLDERS[node.kind](node, inputs, self.computed.check)
        except _NUMERIC_ERRORS:
            raise ModelError("the constants do not fit this op", where=node.origin) from None
        except ModelError as error:
            error.where = error.where or node.origin
            raise
        self.take(result, inputs)
        return result

    def take(self, result: Const, inputs: Inputs) -> None:
        """Count the memory of a result; a view of an input takes none."""
        arrays = (const.data for const in inputs if const is not None)
        if not any(np.may_share_memory(result.data, data) for data in arrays):
            self.computed.take(result.data.nbytes)
