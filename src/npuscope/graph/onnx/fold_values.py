"""Arithmetic on constants: sizes, masks and small tables that exporters leave to be computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from npuscope.graph.onnx.constants import Const
from npuscope.graph.onnx.fold_shape import Folder, Inputs, Sized, axes_of, required
from npuscope.graph.onnx.layout import checked_axis
from npuscope.graph.onnx.nodes import Node
from npuscope.graph.shapes import broadcast

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
        chosen = tuple({checked_axis(axis, data.ndim) for axis in axes})
        result = function(data, axis=chosen, keepdims=bool(node.integer("keepdims", 1)))
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
