"""Ops with weights: Conv, Gemm, MatMul."""

from __future__ import annotations

from npuscope.errors import ModelError
from npuscope.graph.attrs import ConvAttrs, DenseAttrs, MatMulAttrs
from npuscope.graph.model import Tensor
from npuscope.graph.onnx.convert_windows import window_of
from npuscope.graph.onnx.layout import plain
from npuscope.graph.onnx.task import Task


def conv(task: Task) -> None:
    """Weights O, I, kh, kw (or O, I, k) become O, kh, kw, I."""
    x = task.channel_last(0)
    weights = _conv_weights(task, len(task.shape(x)))
    window = window_of(task.node, weights.shape[1:3], task.tensor(x).shape)
    attrs = ConvAttrs(
        window.strides,
        window.pads,
        window.dilations,
        task.node.integer("group", 1),
        task.activation,
    )
    bias = task.bias(2, task.tensor(x), weights)
    task.emit("Conv2D", (x.tensor, weights.name, bias), attrs, x.layout, x.via)


def _conv_weights(task: Task, rank: int) -> Tensor:
    const = task.constant(1)
    if const is None or const.data.ndim != rank:
        raise ModelError("the weights must be a constant of the input's rank")
    if rank == 4:
        return task.parameter(1, "OHWI", (0, 2, 3, 1))
    key = (task.node.input(1), ("O1WI", task.integer))
    shape = (*const.data.shape[:2], 1, const.data.shape[2])
    return task.store(const.reshape(shape).transpose((0, 2, 3, 1)), key)


def gemm(task: Task) -> None:
    node = task.node
    if node.integer("transA", 0) or node.number("alpha", 1.0) != 1.0:
        raise ModelError("Gemm with transA or alpha is not supported")
    if node.input(2) and node.number("beta", 1.0) != 1.0:
        raise ModelError("Gemm with beta is not supported")
    transposed = bool(node.integer("transB", 0))
    if task.constant(1) is not None:
        _dense(task, transposed)
    elif node.input(2):
        raise ModelError("Gemm of two activations with a bias is not supported")
    else:
        _product(task, transposed)


def matmul(task: Task) -> None:
    """With constant weights it is a FullyConnected; tidy.py may have given it a bias."""
    const = task.constant(1)
    if const is not None and const.data.ndim == 2:
        _dense(task, transposed=False)
    else:
        _product(task, transposed=False)


def _dense(task: Task, transposed: bool) -> None:
    x = task.arranged(0, plain(len(task.shape(task.value(0)))))
    order = (0, 1) if transposed else (1, 0)
    weights = task.parameter(1, f"OI{order}", order)
    bias = task.bias(2, task.tensor(x), weights)
    attrs = DenseAttrs(task.activation)
    inputs = (x.tensor, weights.name, bias)
    task.emit("FullyConnected", inputs, attrs, x.layout, x.via)


def _product(task: Task, transposed: bool) -> None:
    ranks = [len(task.shape(task.value(index))) for index in (0, 1)]
    if min(ranks) < 2:
        raise ModelError("a product with a vector is not supported")
    a, b = (task.arranged(index, plain(rank)) for index, rank in enumerate(ranks))
    attrs = MatMulAttrs(transpose_b=transposed)
    task.emit("MatMul", (a.tensor, b.tensor), attrs, plain(max(ranks)), (*a.via, *b.via))
