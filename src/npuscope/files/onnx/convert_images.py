"""Resize, DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from math import floor, prod

from npuscope.errors import ModelError, NotComputed
from npuscope.files.onnx.layout import ADDED, Layout, Shape, checked_axis, plain
from npuscope.files.onnx.task import NodeTask
from npuscope.ops.images import (
    BlockAttrs,
    Coordinates,
    DepthOrder,
    NearestRounding,
    ResizeAttrs,
    ResizeMode,
)

_MODES = {"nearest": ResizeMode.NEAREST, "linear": ResizeMode.LINEAR}
_PLACES = {mode.value: mode for mode in Coordinates}
_ROUNDINGS = {mode.value: mode for mode in NearestRounding}
_WITH_COORDINATES = 11  # opset from which Resize states its coordinates

# Which source axes may be resized -> how the tensor is stored for it, as N, H, W, C.
_STORAGE: dict[int, tuple[tuple[set[int], Layout], ...]] = {
    3: (({2}, (0, ADDED, 2, 1)), ({1}, (0, ADDED, 1, 2))),
    4: (({2, 3}, (0, 2, 3, 1)), ({1, 2}, (0, 1, 2, 3))),
}


def resize(task: NodeTask) -> None:
    """Resize and Upsample along one or two axes."""
    mode = task.node.text("mode", "nearest")
    if mode not in _MODES:
        raise NotComputed(f"mode '{mode}' is not supported", hint="use nearest or linear")
    if task.node.integer("antialias", 0) or task.node.integer("exclude_outside", 0):
        raise NotComputed("antialias and exclude_outside are not supported")
    shape = task.shape(task.value(0))
    sizes, scales = _target(task, shape)
    if sizes == list(shape):  # a copy in onnxruntime, whatever scales and coordinates say
        task.pass_on(task.value(0))
        return
    changed = [n for n, size in enumerate(shape) if sizes[n] != size or scales[n] != 1.0]
    layout = _storage(len(shape), set(changed))
    if layout is None:
        _resize_each(task, changed, sizes, scales, _MODES[mode])
        return
    x = task.arranged(0, layout)
    height, width = layout[1:3]
    attrs = ResizeAttrs(
        (1 if height == ADDED else sizes[height], sizes[width]),
        (1.0 if height == ADDED else scales[height], scales[width]),
        _MODES[mode],
        *_places(task),
    )
    task.emit("Resize", (x.tensor,), attrs, layout, x.via)


def _resize_each(
    task: NodeTask, changed: list[int], sizes: list[int], scales: list[float], mode: ResizeMode
) -> None:
    """Axes that are no picture's, one after the other, each as the columns of pictures."""
    if mode is ResizeMode.LINEAR and len(changed) > 1:
        raise NotComputed(
            f"linear resizing of the axes {changed} at once is not supported",
            hint="resize one or two spatial axes of a tensor with 3 or 4 axes",
        )
    x = task.in_source_order(0)
    shape, places = list(task.shape(x)), _places(task)
    for axis in changed:
        view = prod(shape[:axis]), 1, shape[axis], prod(shape[axis + 1 :])
        x = task.arranger.reshape(x, view, task.node.origin, f"{task.node.output}_view{axis}")
        attrs = ResizeAttrs((1, sizes[axis]), (1.0, scales[axis]), mode, *places)
        x = task.make("Resize", (x.tensor,), attrs, plain(4), x.via)
        shape[axis] = sizes[axis]
    task.finish(task.arranger.reshape(x, tuple(shape), task.node.origin, task.node.output))


def _places(task: NodeTask) -> tuple[Coordinates, NearestRounding]:
    if task.node.kind == "Upsample" or task.opset < _WITH_COORDINATES:
        return Coordinates.ASYMMETRIC, NearestRounding.FLOOR
    places = task.node.text("coordinate_transformation_mode", "half_pixel")
    rounding = task.node.text("nearest_mode", "round_prefer_floor")
    if places not in _PLACES or rounding not in _ROUNDINGS:
        raise NotComputed(
            f"coordinates '{places}' with rounding '{rounding}' are not supported",
            hint=f"supported coordinates: {', '.join(_PLACES)}",
        )
    return _PLACES[places], _ROUNDINGS[rounding]


def _target(task: NodeTask, shape: Shape) -> tuple[list[int], list[float]]:
    """Output sizes and scales per source axis."""
    if task.node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NotComputed("keep_aspect_ratio_policy is not supported, only 'stretch'")
    first = 2 if task.node.kind == "Resize" and task.opset >= _WITH_COORDINATES else 1
    sizes, scales = task.constant(first + 1), task.constant(first)
    axes = task.node.integers("axes") or tuple(range(len(shape)))
    resized_axes = [checked_axis(axis, len(shape)) for axis in axes]
    result, ratios = list(shape), [1.0] * len(shape)
    if sizes is not None and sizes.data.size:
        rows = _one_each(resized_axes, [float(size) for size in sizes.whole()])
        for axis, size in rows:
            result[axis], ratios[axis] = int(size), size / shape[axis]
    elif scales is not None and scales.data.size:
        rows = _one_each(resized_axes, [float(scale) for scale in scales.real().ravel()])
        for axis, scale in rows:
            result[axis], ratios[axis] = floor(shape[axis] * scale), scale
    else:
        raise NotComputed("sizes or scales must be constants")
    return result, ratios


def _one_each(axes: list[int], values: list[float]) -> list[tuple[int, float]]:
    if len(axes) != len(values) or not all(0 < value < 1 << 24 for value in values):
        raise ModelError(f"{values} does not fit {len(axes)} axes")
    return list(zip(axes, values, strict=True))


def _storage(rank: int, changed: set[int]) -> Layout | None:
    """How a picture or a signal is stored to resize it."""
    rows = _STORAGE.get(rank, ())
    return next((layout for axes, layout in rows if changed <= axes), None)


def depth_to_space(task: NodeTask) -> None:
    order = task.node.text("mode", "DCR").lower()
    if order not in ("dcr", "crd"):
        raise NotComputed(f"mode '{order}' is not supported, expected DCR or CRD")
    x = task.channel_last(0)
    attrs = BlockAttrs(task.node.integer("blocksize", 0), DepthOrder(order))
    task.emit("DepthToSpace", (x.tensor,), attrs, x.layout, x.via)


def space_to_depth(task: NodeTask) -> None:
    if task.node.text("mode", "DCR") != "DCR":
        raise NotComputed("mode CRD is not supported")
    x = task.channel_last(0)
    attrs = BlockAttrs(task.node.integer("blocksize", 0))
    task.emit("SpaceToDepth", (x.tensor,), attrs, x.layout, x.via)
