"""Ops with weights: Conv, ConvTranspose, Gemm, MatMul."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.attrs import ConvAttrs, DenseAttrs, MatMulAttrs, TransposeConvAttrs
from npuscope.graph.model import Tensor
from npuscope.graph.onnx.arrange import Value
from npuscope.graph.onnx.constants import Const
from npuscope.graph.onnx.convert_windows import transposed_window, window_of
from npuscope.graph.onnx.layout import ADDED, Layout, plain
from npuscope.graph.onnx.task import Task


def conv(task: Task) -> None:
    """Weights O, I, kh, kw (or O, I, k) become O, kh, kw, I."""
    x = task.windowed(0)
    weights = _conv_weights(task, len(task.shape(x)))
    window = window_of(task.node, weights.shape[1:3], task.tensor(x).shape)
    groups = task.node.integer("group", 1)
    attrs = ConvAttrs(window.strides, window.pads, window.dilations, groups)
    bias = task.bias(2, task.tensor(x), weights)
    task.emit("Conv2D", (x.tensor, weights.name, bias), attrs, x.layout, x.via)


def _conv_weights(task: Task, rank: int) -> Tensor:
    const = task.constant(1)
    if const is None or const.data.ndim != rank:
        raise ModelError("the weights must be a constant of the input's rank")
    if rank == 4:
        return task.parameter(1, "OHWI", (0, 2, 3, 1))
    key = (task.node.input(1), ("O1WI", task.integer))
    return task.store(_two_axes(const).transpose((0, 2, 3, 1)), key)


def _two_axes(const: Const) -> Const:
    """A kernel of one spatial axis as a row."""
    first, second, *kernel = const.data.shape
    return const.reshape((first, second, 1, *kernel)) if len(kernel) == 1 else const


def conv_transpose(task: Task) -> None:
    """Weights I, O / groups, kh, kw become O, kh, kw, I / groups."""
    x = task.windowed(0)
    const = task.constant(1)
    if const is None or const.data.ndim != len(task.shape(x)):
        raise ModelError("the weights must be a constant of the input's rank")
    groups = task.node.integer("group", 1)
    if groups < 1 or const.data.shape[0] % groups:
        raise ModelError(f"{const.data.shape[0]} input channels in {groups} groups")
    key = (task.node.input(1), ("transposed", groups, task.integer))
    weights = task.store(_turned(_two_axes(const), groups), key)
    attrs = _transposed_attrs(task, weights, x, groups)
    bias = task.bias(2, task.tensor(x), weights)
    task.emit("TransposeConv", (x.tensor, weights.name, bias), attrs, x.layout, x.via)


def _transposed_attrs(task: Task, weights: Tensor, x: Value, groups: int) -> TransposeConvAttrs:
    axes = len(task.shape(x)) - 2
    window = transposed_window(task.node, weights.shape[1:3], task.tensor(x).shape, axes)
    return TransposeConvAttrs(
        window.strides, window.pads, window.output_pads, window.dilations, groups
    )


def _turned(const: Const, groups: int) -> Const:
    """Scales run along O / groups, the same for every group."""
    quant = const.quant
    if quant is not None and quant.axis not in (None, 1):
        return _turned(const.as_real(), groups)
    inputs, outputs, height, width = const.data.shape
    parts = const.data.reshape(groups, inputs // groups, outputs, height, width)
    data = parts.transpose(0, 2, 3, 4, 1).reshape(groups * outputs, height, width, -1)
    if quant is not None and quant.axis == 1:
        quant = replace(
            quant, scales=quant.scales * groups, zero_points=quant.zero_points * groups, axis=0
        )
    return replace(const, data=np.ascontiguousarray(data), quant=quant)


def gemm(task: Task) -> None:
    node = task.node
    if node.input(2) and node.number("beta", 1.0) != 1.0:
        raise ModelError("Gemm with beta is not supported", hint="multiply the bias by beta")
    turned = bool(node.integer("transA", 0))
    if task.constant(1) is not None:
        _dense(task, bool(node.integer("transB", 0)), (1, 0) if turned else (0, 1))
        return
    if node.number("alpha", 1.0) != 1.0 or node.input(2):
        raise ModelError(
            "Gemm of two activations with alpha or a bias is not supported",
            hint="write it as MatMul, Mul, Add",
        )
    attrs = MatMulAttrs(turned, bool(node.integer("transB", 0)))
    a, b = task.in_source_order(0), task.in_source_order(1)
    task.emit("MatMul", (a.tensor, b.tensor), attrs, plain(2), (*a.via, *b.via))


def matmul(task: Task) -> None:
    """With constant weights it is a FullyConnected; tidy.py may have given it a bias."""
    const = task.constant(1)
    if const is not None and const.data.ndim == 2 and task.constant(0) is None:
        rank = len(task.shape(task.value(0)))
        _dense(task, False, plain(rank))
    else:
        _product(task)


def _dense(task: Task, transposed: bool, layout: Layout) -> None:
    x = task.arranged(0, layout)
    weights = _dense_weights(task, transposed)
    bias = task.bias(2, task.tensor(x), weights)
    inputs = (x.tensor, weights.name, bias)
    task.emit("FullyConnected", inputs, DenseAttrs(), plain(len(layout)), x.via)


def _dense_weights(task: Task, transposed: bool) -> Tensor:
    """(O, I), with Gemm's alpha in their scales."""
    order = (0, 1) if transposed else (1, 0)
    alpha = task.node.number("alpha", 1.0)
    if alpha == 1.0:
        return task.parameter(1, f"OI{order}", order)
    const = task.needed(1)
    if const.data.ndim != 2 or not alpha > 0:
        raise ModelError(f"weights {const.data.shape} with alpha {alpha} are not supported")
    key = (task.node.input(1), (f"OI{order}", alpha, task.integer))
    return task.store(_times(const, alpha).transpose(order), key)


def _times(const: Const, factor: float) -> Const:
    if const.quant is None:
        return replace(const, data=const.real() * np.float32(factor), type="float32")
    scales = tuple(float(np.float32(scale * factor)) for scale in const.quant.scales)
    return replace(const, quant=replace(const.quant, scales=scales))


def _product(task: Task) -> None:
    """Any ranks; a vector is a row on the left, a column on the right, and its axis vanishes."""
    if task.node.input(2):
        raise ModelError("a product of two activations takes no bias")
    a, b = task.value(0), task.value(1)
    ranks = len(task.shape(a)), len(task.shape(b))
    if min(ranks) < 1:
        raise ModelError("a product with a single number", hint="use Mul")
    left = (ADDED, 0) if ranks[0] == 1 else plain(ranks[0])
    right = (0, ADDED) if ranks[1] == 1 else plain(ranks[1])
    a = task.arranger.arrange(a, left, task.node.origin)
    b = task.arranger.arrange(b, right, task.node.origin)
    layout = _product_layout(max(*ranks, 2), ranks[0] == 1, ranks[1] == 1)
    task.emit("MatMul", (a.tensor, b.tensor), MatMulAttrs(), layout, (*a.via, *b.via))


def _product_layout(rank: int, no_rows: bool, no_columns: bool) -> Layout:
    lead = rank - 2
    rows = ADDED if no_rows else lead
    columns = ADDED if no_columns else lead + (not no_rows)
    return (*range(lead), rows, columns)
