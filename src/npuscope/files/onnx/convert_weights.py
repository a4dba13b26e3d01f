"""ONNX ops with weights, and the windows that they share with pooling."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.errors import ModelError, NotComputed
from npuscope.files.onnx.constants import Const
from npuscope.files.onnx.file import Node
from npuscope.files.onnx.layout import ADDED, Layout, LayoutValue, Shape, plain
from npuscope.files.onnx.task import NodeTask
from npuscope.ops.layers import ConvAttrs, DenseAttrs, MatMulAttrs, TransposeConvAttrs
from npuscope.structs import replace

# --- Windows ---

Pair = tuple[int, int]


class Window(Struct, frozen=True):
    """A sliding window over H and W; `pads` is (top, left, bottom, right)."""

    strides: Pair
    pads: tuple[int, int, int, int]
    dilations: Pair


def pair(values: tuple[int, ...] | None, axes: int, default: int) -> Pair:
    """Height and width; one spatial axis is the width."""
    numbers = values if values is not None else (default,) * axes
    if len(numbers) != axes:
        raise ModelError(f"{len(numbers)} values do not fit {axes} spatial axes")
    return (default, numbers[0]) if axes == 1 else (numbers[0], numbers[1])


def _axes(node: Node, kernel: Pair) -> int:
    """Number of spatial axes in the source, from its attributes."""
    for name, per_axis in (("kernel_shape", 1), ("strides", 1), ("pads", 2), ("dilations", 1)):
        values = node.integers(name)
        if values is not None:
            return len(values) // per_axis
    return 2 if kernel[0] != 1 else 0


def window_of(node: Node, kernel: Shape, shape: Shape, axes: int | None = None) -> Window:
    """Strides, explicit pads and dilations of a window of size `kernel` over N, H, W, C."""
    size = (kernel[0], kernel[1])
    count = axes or _axes(node, size) or 2
    if count not in (1, 2):
        raise NotComputed(f"{count} spatial axes are not supported, expected 1 or 2")
    strides = pair(node.integers("strides"), count, 1)
    dilations = pair(node.integers("dilations"), count, 1)
    if min(*strides, *dilations, *size) < 1:
        raise ModelError(f"kernel {size}, strides {strides}, dilations {dilations}: must be >= 1")
    return Window(strides, _pads(node, size, strides, dilations, shape, count), dilations)


class TransposedWindow(Window, frozen=True):
    output_pads: Pair


def transposed_window(node: Node, kernel: Shape, shape: Shape, axes: int) -> TransposedWindow:
    """The same for a ConvTranspose; `pads` are cropped from its result."""
    size = (kernel[0], kernel[1])
    strides, dilations = (pair(node.integers(name), axes, 1) for name in ("strides", "dilations"))
    if min(*strides, *dilations, *size) < 1:
        raise ModelError(f"kernel {size}, strides {strides}, dilations {dilations}: must be >= 1")
    more = pair(node.integers("output_padding"), axes, 0)
    if node.integers("output_shape") or node.text("auto_pad", "NOTSET").startswith("SAME"):
        reach = [(size[i] - 1) * dilations[i] + 1 + more[i] for i in (0, 1)]
        more = _missing(node, shape, strides, (reach[0], reach[1]), more, axes)
        pads = _cuts(node, shape, strides, (reach[0], reach[1]), axes)
    else:
        pads = _pads(node, size, strides, dilations, shape, axes)
    return TransposedWindow(strides, pads, dilations, more)


def _missing(node: Node, shape: Shape, strides: Pair, reach: Pair, more: Pair, axes: int) -> Pair:
    """Rows and columns of zeros behind a result that is smaller than what is asked for."""
    output_shape = node.integers("output_shape")
    if not output_shape:
        return more
    target = pair(output_shape[-axes:], axes, 1)
    lacks = [target[i] - (shape[i + 1] - 1) * strides[i] - reach[i] for i in (0, 1)]
    return more[0] + max(lacks[0], 0), more[1] + max(lacks[1], 0)


def _cuts(
    node: Node, shape: Shape, strides: Pair, reach: Pair, axes: int
) -> tuple[int, int, int, int]:
    """What to crop to get the output's size; the odd one is cropped in front unless SAME_UPPER."""
    output_shape = node.integers("output_shape")
    target_shape = pair(output_shape[-axes:], axes, 1) if output_shape else None
    upper = node.text("auto_pad", "NOTSET") == "SAME_UPPER"
    before, after = [], []
    for axis in (0, 1):
        target = target_shape[axis] if target_shape else shape[axis + 1] * strides[axis]
        total = max((shape[axis + 1] - 1) * strides[axis] + reach[axis] - target, 0)
        before.append(total // 2 if upper else total - total // 2)
        after.append(total - before[-1])
    return before[0], before[1], after[0], after[1]


def _pads(
    node: Node, kernel: Pair, strides: Pair, dilations: Pair, shape: Shape, axes: int
) -> tuple[int, int, int, int]:
    mode = node.text("auto_pad", "NOTSET")
    if mode == "VALID":
        return 0, 0, 0, 0
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for axis in (0, 1):
            size, stride = shape[axis + 1], strides[axis]
            reach = (kernel[axis] - 1) * dilations[axis] + 1
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
            small, large = total // 2, total - total // 2
            before.append(small if mode == "SAME_UPPER" else large)
            after.append(large if mode == "SAME_UPPER" else small)
        return before[0], before[1], after[0], after[1]
    if mode != "NOTSET":
        raise NotComputed(f"auto_pad '{mode}' is not supported")
    pads = node.integers("pads") or (0,) * (2 * axes)
    if len(pads) != 2 * axes or min(pads) < 0:
        raise ModelError(f"pads {pads} do not fit {axes} spatial axes")
    return (0, pads[0], 0, pads[1]) if axes == 1 else (pads[0], pads[1], pads[2], pads[3])


# --- Ops with weights: Conv, ConvTranspose, Gemm, MatMul ---


def conv(task: NodeTask) -> None:
    """Weights O, I, kh, kw (or O, I, k) become O, kh, kw, I."""
    x = task.windowed(0)
    rank = len(task.shape(x))
    const = task.constant(1)
    if const is None or const.data.ndim != rank:
        raise NotComputed("the weights must be a constant of the input's rank")
    if rank == 4:
        weights = task.parameter(1, "OHWI", (0, 2, 3, 1))
    else:
        key = (task.node.input(1), ("O1WI", task.integer))
        weights = task.store(_two_axes(const).transpose((0, 2, 3, 1)), key)
    window = window_of(task.node, weights.shape[1:3], task.tensor(x).shape)
    groups = task.node.integer("group", 1)
    attrs = ConvAttrs(window.strides, window.pads, window.dilations, groups)
    bias = task.bias(2, task.tensor(x), weights)
    task.emit("Conv2D", (x.tensor, weights.name, bias), attrs, x.layout, x.via)


def _two_axes(const: Const) -> Const:
    """A kernel of one spatial axis as a row."""
    first, second, *kernel = const.data.shape
    return const.reshape((first, second, 1, *kernel)) if len(kernel) == 1 else const


def conv_transpose(task: NodeTask) -> None:
    """Weights I, O / groups, kh, kw become O, kh, kw, I / groups."""
    x = task.windowed(0)
    const = task.constant(1)
    if const is None or const.data.ndim != len(task.shape(x)):
        raise NotComputed("the weights must be a constant of the input's rank")
    groups = task.node.integer("group", 1)
    if groups < 1 or const.data.shape[0] % groups:
        raise ModelError(f"{const.data.shape[0]} input channels do not divide into {groups} groups")
    key = (task.node.input(1), ("transposed", groups, task.integer))
    weights = task.store(_turned(_two_axes(const), groups), key)
    axes = len(task.shape(x)) - 2
    window = transposed_window(task.node, weights.shape[1:3], task.tensor(x).shape, axes)
    attrs = TransposeConvAttrs(
        window.strides, window.pads, window.output_pads, window.dilations, groups
    )
    bias = task.bias(2, task.tensor(x), weights)
    task.emit("TransposeConv", (x.tensor, weights.name, bias), attrs, x.layout, x.via)


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


def gemm(task: NodeTask) -> None:
    """rewrite.py left an alpha for constant weights only, and no beta."""
    node = task.node
    turned = bool(node.integer("transA", 0))
    if task.constant(1) is not None:
        _dense(task, bool(node.integer("transB", 0)), (1, 0) if turned else (0, 1))
        return
    attrs = MatMulAttrs(turned, bool(node.integer("transB", 0)))
    a, b = task.in_source_order(0), task.in_source_order(1)
    task.emit("MatMul", (a.tensor, b.tensor), attrs, plain(2), (*a.via, *b.via))


def matmul(task: NodeTask) -> None:
    """With constant weights it is a FullyConnected; rewrite.py may have given it a bias.

    Activations have any ranks; a vector is a row on the left, a column on the right, and loses
    that axis.
    """
    const = task.constant(1)
    if const is not None and const.data.ndim == 2 and task.constant(0) is None:
        rank = len(task.shape(task.value(0)))
        _dense(task, False, plain(rank))
        return
    if task.node.input(2):
        raise NotComputed("a product of two activations cannot have a bias")
    a, b = task.value(0), task.value(1)
    ranks = len(task.shape(a)), len(task.shape(b))
    if min(ranks) < 1:
        raise NotComputed("a product with a single number is not supported", hint="use Mul")
    one_row, one_column = ranks[0] == 1, ranks[1] == 1
    a_layout = (ADDED, 0) if one_row else plain(ranks[0])
    b_layout = (0, ADDED) if one_column else plain(ranks[1])
    a = task.arranger.arrange(a, a_layout, task.node.origin)
    b = task.arranger.arrange(b, b_layout, task.node.origin)
    lead = max(*ranks, 2) - 2
    rows = ADDED if one_row else lead
    columns = ADDED if one_column else lead + (not one_row)
    layout = (*range(lead), rows, columns)
    task.emit("MatMul", (a.tensor, b.tensor), MatMulAttrs(), layout, (*a.via, *b.via))


def _dense(task: NodeTask, transposed: bool, layout: Layout) -> None:
    """Weights (O, I), with Gemm's alpha in their scales."""
    x = task.arranged(0, layout)
    order = (0, 1) if transposed else (1, 0)
    alpha = task.node.number("alpha", 1.0)
    if alpha == 1.0:
        weights = task.parameter(1, f"OI{order}", order)
    else:
        const = task.needed(1)
        if const.data.ndim != 2:
            raise ModelError(f"weights have shape {const.data.shape}, expected 2 axes")
        key = (task.node.input(1), (f"OI{order}", alpha, task.integer))
        weights = task.store(_times(const, alpha).transpose(order), key)
    bias = task.bias(2, task.tensor(x), weights)
    inputs = (x.tensor, weights.name, bias)
    task.emit("FullyConnected", inputs, DenseAttrs(), plain(len(layout)), x.via)


def _times(const: Const, factor: float) -> Const:
    if const.quant is None:
        return replace(const, data=const.real() * np.float32(factor), type="float32")
    scales = tuple(float(np.float32(scale * factor)) for scale in const.quant.scales)
    return replace(const, quant=replace(const.quant, scales=scales))


# --- Einsum of two operands that is one matrix product ---

_HINT = "write it as Transpose, MatMul and Reshape; one summed axis and batch axes are supported"


class _Product(Struct, frozen=True):
    """Labels: shared by all three, rows of the first, summed, columns of the second."""

    batch: str
    rows: str
    inner: str
    columns: str


def einsum(task: NodeTask) -> None:
    """The operands are stored as (batch, rows, inner) and (batch, inner, columns)."""
    equation = task.node.text("equation", "")
    operands, arrow, result = equation.replace(" ", "").partition("->")
    parts = operands.split(",")
    wrong = not arrow or len(parts) != 2 or not (operands.replace(",", "") + result).isalpha()
    if wrong or any(len(set(part)) != len(part) for part in (*parts, result)):
        raise NotComputed(f"equation '{equation}' is not supported", hint=_HINT)
    first, second = parts
    product = _einsum_product(first, second, result)
    rows = tuple(product.rows) or ("",)
    a = _stored(task, 0, first, (*product.batch, *rows, product.inner))
    b = _stored(task, 1, second, (*product.batch, product.inner, product.columns))
    order = (*product.batch, *rows, product.columns)
    layout = _places(result, order)
    task.emit("MatMul", (a.tensor, b.tensor), MatMulAttrs(), layout, (*a.via, *b.via))


def _stored(task: NodeTask, index: int, labels: str, order: tuple[str, ...]) -> LayoutValue:
    if len(task.shape(task.value(index))) != len(labels):
        raise NotComputed(f"operand {index} does not have the axes '{labels}'", hint=_HINT)
    return task.arranged(index, _places(labels, order))


def _places(labels: str, order: tuple[str, ...]) -> Layout:
    """Where each stored axis comes from; a label that is absent is an axis of size 1."""
    return tuple(labels.index(label) if label else ADDED for label in order)


def _einsum_product(first: str, second: str, result: str) -> _Product:
    shared = [label for label in first if label in second]
    batch = "".join(label for label in shared if label in result)
    inner = "".join(label for label in shared if label not in result)
    rows = "".join(label for label in first if label not in second)
    columns = "".join(label for label in second if label not in first)
    complete = set(result) == set(batch + rows + columns)
    most_rows = len(first) if not batch else 1  # one matrix for all rows, or one for each batch
    if not complete or len(inner) != 1 or len(rows) > most_rows or len(columns) > 1:
        raise NotComputed(
            f"equation '{first},{second}->{result}' is not a single matrix product", hint=_HINT
        )
    return _Product(batch, rows, inner, columns)
