"""Windowed ops without weights, and the window attributes that Conv shares with them."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.errors import ModelError
from npuscope.graph.attrs import PoolAttrs
from npuscope.graph.onnx.layout import Shape
from npuscope.graph.onnx.nodes import Node
from npuscope.graph.onnx.task import Task

_Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window over H and W; `pads` is (top, left, bottom, right)."""

    strides: _Pair
    pads: tuple[int, int, int, int]
    dilations: _Pair


def pair(values: tuple[int, ...] | None, axes: int, default: int) -> _Pair:
    """Height and width; one spatial axis is the width."""
    found = values if values is not None else (default,) * axes
    if len(found) != axes:
        raise ModelError(f"{len(found)} values for {axes} spatial axes")
    return (default, found[0]) if axes == 1 else (found[0], found[1])


def _axes(node: Node, kernel: _Pair) -> int:
    """Number of spatial axes in the source, told by its attributes."""
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
        raise ModelError(f"{count} spatial axes are not supported, expected 1 or 2")
    strides = pair(node.integers("strides"), count, 1)
    dilations = pair(node.integers("dilations"), count, 1)
    if min(*strides, *dilations, *size) < 1:
        raise ModelError(f"kernel {size}, strides {strides}, dilations {dilations}: must be >= 1")
    return Window(strides, _pads(node, size, strides, dilations, shape, count), dilations)


@dataclass(frozen=True, slots=True)
class TransposedWindow(Window):
    output_pads: _Pair


def transposed_window(node: Node, kernel: Shape, shape: Shape, axes: int) -> TransposedWindow:
    """The same for a ConvTranspose; `pads` are what is cut off its result."""
    size = (kernel[0], kernel[1])
    strides, dilations = (pair(node.integers(name), axes, 1) for name in ("strides", "dilations"))
    if min(*strides, *dilations, *size) < 1:
        raise ModelError(f"kernel {size}, strides {strides}, dilations {dilations}: must be >= 1")
    more = pair(node.integers("output_padding"), axes, 0)
    if node.integers("output_shape") or node.text("auto_pad", "NOTSET").startswith("SAME"):
        reach = [(size[i] - 1) * dilations[i] + 1 + more[i] for i in (0, 1)]
        pads = _cuts(node, shape, strides, (reach[0], reach[1]), axes)
    else:
        pads = _pads(node, size, strides, dilations, shape, axes)
    return TransposedWindow(strides, pads, dilations, more)


def _cuts(
    node: Node, shape: Shape, strides: _Pair, reach: _Pair, axes: int
) -> tuple[int, int, int, int]:
    """What to cut to get the output's size; the odd one goes in front unless SAME_UPPER."""
    given = node.integers("output_shape")
    wanted = pair(given[-axes:], axes, 1) if given else None
    upper = node.text("auto_pad", "NOTSET") == "SAME_UPPER"
    before, after = [], []
    for axis in (0, 1):
        target = wanted[axis] if wanted else shape[axis + 1] * strides[axis]
        total = max((shape[axis + 1] - 1) * strides[axis] + reach[axis] - target, 0)
        before.append(total // 2 if upper else total - total // 2)
        after.append(total - before[-1])
    return before[0], before[1], after[0], after[1]


def _pads(
    node: Node, kernel: _Pair, strides: _Pair, dilations: _Pair, shape: Shape, axes: int
) -> tuple[int, int, int, int]:
    mode = node.text("auto_pad", "NOTSET")
    if mode == "VALID":
        return 0, 0, 0, 0
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return _same_pads(mode, kernel, strides, dilations, shape)
    if mode != "NOTSET":
        raise ModelError(f"auto_pad '{mode}' is not supported")
    given = node.integers("pads") or (0,) * (2 * axes)
    if len(given) != 2 * axes or min(given) < 0:
        raise ModelError(f"pads {given} do not fit {axes} spatial axes")
    return (0, given[0], 0, given[1]) if axes == 1 else (given[0], given[1], given[2], given[3])


def _same_pads(
    mode: str, kernel: _Pair, strides: _Pair, dilations: _Pair, shape: Shape
) -> tuple[int, int, int, int]:
    before, after = [], []
    for axis in (0, 1):
        size, stride = shape[axis + 1], strides[axis]
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        small, large = total // 2, total - total // 2
        before.append(small if mode == "SAME_UPPER" else large)
        after.append(large if mode == "SAME_UPPER" else small)
    return before[0], before[1], after[0], after[1]


def _pool_attrs(task: Task, shape: Shape, axes: int) -> PoolAttrs:
    node = task.node
    kernel = pair(node.integers("kernel_shape"), axes, 1)
    window = window_of(node, kernel, shape, axes)
    if window.dilations != (1, 1):
        raise ModelError(f"pooling with dilations {window.dilations} is not supported")
    counts = bool(node.integer("count_include_pad", 0))
    pads = window.pads
    if node.integer("ceil_mode", 0):
        pads = _ceil_pads(kernel, window, shape)
        if counts and pads != window.pads:
            raise ModelError("ceil_mode with count_include_pad is not supported")
    counts = counts and any(pads)
    return PoolAttrs(kernel, window.strides, pads, counts)


def _ceil_pads(kernel: _Pair, window: Window, shape: Shape) -> tuple[int, int, int, int]:
    """Ceil mode adds a last window that hangs over the end: the same as more padding there."""
    pads = list(window.pads)
    for axis in (0, 1):
        free = shape[axis + 1] + pads[axis] + pads[axis + 2] - kernel[axis]
        extra = -free % window.strides[axis]
        starts_inside = free + extra < shape[axis + 1] + pads[axis]
        pads[axis + 2] += extra if starts_inside else 0
    return pads[0], pads[1], pads[2], pads[3]


def _pool(task: Task, kind: str) -> None:
    if len([name for name in task.node.outputs if name]) > 1:
        raise ModelError("the second output (indices) is not supported")
    x = task.windowed(0)
    attrs = _pool_attrs(task, task.tensor(x).shape, len(task.shape(x)) - 2)
    task.emit(kind, (x.tensor,), attrs, x.layout, x.via)


def max_pool(task: Task) -> None:
    _pool(task, "MaxPool")


def average_pool(task: Task) -> None:
    _pool(task, "AveragePool")
