"""Images moved, padded and resized by what the NPU has: nearest-resize, repeat-by-joining,
plain-nearest, explicit-pad, stride-instead, pad-conv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from npuscope.edits.document import Document
from npuscope.edits.onnx.document import OnnxDocument
from npuscope.edits.places import check_version, image, image_shape, place
from npuscope.edits.records import ImageShape, NotFitting, Op, Pads, Value
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest, attrs_of, network_op
from npuscope.edits.steps import add_steps, is_integer, moved_steps
from npuscope.edits.views import edge, edge_padded, from_pixels, joined, pixels, view_as, viewed
from npuscope.ops.images import Coordinates, ResizeAttrs, ResizeMode
from npuscope.ops.moves import PadAttrs, SliceAttrs
from npuscope.ops.reduce import PoolAttrs
from npuscope.rulebook.layout import repeats_pixels, resize_factor

T = TypeVar("T")
LONGEST_AXIS = 65535  # what the NPU's size registers hold
_LARGEST_FACTOR = 4  # kernels grow with it
# How each format says: the pixel at or before the place.
_PLAIN_NEAREST: dict[str, dict[str, Any]] = {
    "onnx": {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    "tflite": {"align_corners": False, "half_pixel_centers": False},
}
_CENTRED = (Coordinates.HALF_PIXEL, Coordinates.PYTORCH_HALF_PIXEL)


class Smoothing(Struct, frozen=True):
    """Linear interpolation by a whole factor: repeated pixels, then a small kernel over them.

    Along one axis a factor r between pixel centres is r copies and the kernel 1 2 .. 2 1 (r even)
    or 1 1 .. 1 (r odd); from corner to corner it is r copies and r ones. `before` and `after` are
    the edge pixels that are repeated once before the resize, for they count on outside. `steps` is
    the kernel in units of `scale`; it needs no padding.
    """

    factor: int
    before: int
    after: int
    steps: np.ndarray
    scale: float


def smoothing(attrs: ResizeAttrs, height: int, width: int) -> Smoothing | None:
    """None where one pixel is only repeated; NotFitting where the factor is not an integer."""
    if attrs.mode is not ResizeMode.LINEAR:
        raise NotFitting("the Resize does not interpolate")
    if (height, width) == (1, 1):
        return None
    factor = attrs.sizes[0] // height
    if attrs.sizes != (factor * height, factor * width) or not 1 < factor <= _LARGEST_FACTOR:
        rows, columns = attrs.sizes
        raise NotFitting(f"{height}x{width} to {rows}x{columns} is not a factor of 2, 3 or 4")
    if attrs.coordinates in _CENTRED:
        ends = 1 if factor % 2 == 0 else 0
        line = np.ones(factor + ends, np.int8)
        line[ends : len(line) - ends] += ends
        unused = (2 * factor + 1 - len(line)) // 2  # copies of edge pixels that nobody needs
        line = np.pad(line, unused)
        return Smoothing(factor, 1, 1, np.outer(line, line), 1 / float(line.sum()) ** 2)
    if attrs.coordinates is Coordinates.ASYMMETRIC:
        line = np.append(np.ones(factor, np.int8), np.int8(0))
        return Smoothing(factor, 0, 1, np.outer(line, line), 1 / factor**2)
    raise NotFitting(f"coordinates '{attrs.coordinates.value}' have no equivalent kernel")


@edit("nearest-resize")
def nearest_resize(document: Document, request: EditRequest) -> None:
    """Edge pixels repeated, a nearest resize, a depthwise convolution."""
    op = place(document, request, "Resize", "ResizeLinear")
    check_version(document, "Resize")
    source, result = document.inputs(op)[0], document.outputs(op)[0]
    size, attrs = image(document, source), attrs_of(request, "Resize", ResizeAttrs)
    steps = moved_steps(document, source)
    form = smoothing(attrs, size.height, size.width)
    document.remove(op)
    if form is None:
        document.insert("ResizeNearest", (source,), result, factors=attrs.sizes)
        return
    wide = _with_edges(document, source, size, form)
    ends, factor = form.before + form.after, form.factor
    large = size._replace(height=(size.height + ends) * factor, width=(size.width + ends) * factor)
    shape = image_shape(document, large)
    nearest = document.new_tensor(f"{document.name(result)}_nearest", shape, steps)
    document.insert("ResizeNearest", (wide,), nearest, factors=(factor, factor))
    kernels = np.repeat(form.steps[np.newaxis, :, :, np.newaxis], size.channels, axis=0)
    data = document.stepped(nearest, steps)
    document.insert_conv(data, result, kernels, form.scale, group=size.channels)
    document.bind(result, steps)


def _with_edges(document: Document, source: Value, size: ImageShape, form: Smoothing) -> Value:
    """Columns, then rows, joined as channels: that is what the stream engines can do."""
    _, height, width, channels = size
    ends = (form.before, form.after)
    wide, high = width + sum(ends), height + sum(ends)
    if wide * high * channels > LONGEST_AXIS:
        return edge_padded(document, source, ends)  # by the CPU: too long for one row
    data = viewed(document, pixels(document, source), (height, 1, width * channels))
    data = _joined(document, data, width * channels, channels, ends)
    data = viewed(document, data, (1, 1, height * wide * channels))
    data = _joined(document, data, height * wide * channels, wide * channels, ends)
    return from_pixels(document, viewed(document, data, (high, wide, channels)))


def _joined(
    document: Document, source: Value, count: int, size: int, ends: tuple[int, int]
) -> Value:
    """The first and the last `size` of `count` channels once more on their side."""
    front = [edge(document, source, range(size)) for _ in range(ends[0])]
    back = [edge(document, source, range(count - size, count)) for _ in range(ends[1])]
    return joined(document, [*front, source, *back])


@edit("repeat-by-joining")
def repeat_by_joining(document: Document, request: EditRequest) -> None:
    """A nearest resize as a tensor joined with itself along the channels.

    Each pixel twice in a row of channels is two columns; each row twice is two rows. The reshapes
    between move nothing, and joining channels is a copy by the stream engines.
    """
    op = place(document, request, "Resize", "ResizeNearest")
    check_version(document, "Reshape")
    source, result = document.inputs(op)[0], document.outputs(op)[0]
    _, height, width, channels = image(document, source)
    moved_steps(document, source)
    factor = resize_factor(request.network.graph, network_op(request, "Resize"))
    if factor is None:
        raise NotFitting("the Resize does not repeat pixels by a whole factor")
    longest = factor * factor * width * channels
    if longest > LONGEST_AXIS:
        raise NotFitting(f"{longest} elements do not fit an axis of the NPU")
    document.remove(op)
    columns = joined(document, [pixels(document, source)] * factor)
    rows = viewed(document, columns, (height, 1, factor * width * channels))
    rows = joined(document, [rows] * factor)
    view_as(document, rows, (factor * height, factor * width, channels), result)


@edit("plain-nearest")
def plain_nearest(document: Document, request: EditRequest) -> None:
    """A nearest resize stated as asymmetric and floor, where it picks the same."""
    op = place(document, request, "Resize", "ResizeNearest")
    check_version(document, "Resize")
    resize = network_op(request, "Resize")
    if not repeats_pixels(request.network.graph, resize):
        name = resize.attrs_as(ResizeAttrs).coordinates.value
        raise NotFitting(f"'{name}' picks other pixels than 'asymmetric' here")
    for name, value in _PLAIN_NEAREST[document.format].items():
        document.set_attribute(op, name, value)


@edit("explicit-pad", "onnx")
def explicit_pad(document: OnnxDocument, request: EditRequest) -> None:
    """An average pool that counts its padding, which TFLite does not have, reads a padded tensor.

    Where padding does not count, every border has its own divisor: no op has that.
    """
    node = place(document, request, "AveragePool")
    check_version(document, "Pad")
    source = document.inputs(node)[0]
    image(document, source)
    steps = moved_steps(document, source)
    attrs = attrs_of(request, "AveragePool", PoolAttrs)
    if not attrs.count_pads:
        raise NotFitting("the averages at the border do not count the padding")
    top, left, bottom, right = attrs.pads
    sizes = np.array([0, 0, top, left, 0, 0, bottom, right], np.int64)
    pads = document.add_constant(f"{source}_pads", sizes)
    padded = document.new_tensor(f"{source}_padded")
    document.add_op("Pad", (source, pads), padded)
    document.set_input(node, 0, document.stepped(padded, steps))
    document.set_attribute(node, "auto_pad", "NOTSET")
    document.set_attribute(node, "pads", [0, 0, 0, 0])
    document.set_attribute(node, "count_include_pad", 0)


@edit("stride-instead")
def stride_instead(document: Document, request: EditRequest) -> None:
    """Every second pixel is picked by a strided depthwise convolution."""
    op = place(document, request, "Slice", "StridedSlice")
    size = image(document, document.inputs(op)[0])
    moved_steps(document, document.inputs(op)[0])
    if len(document.shape(document.outputs(op)[0]) or (1,) * 4) != 4:
        raise NotFitting("the Slice drops an axis")
    attrs = attrs_of(request, "Slice", SliceAttrs)
    rows = zip(attrs.starts, attrs.sizes, attrs.steps, strict=True)
    places = [range(start, start + size * step, step) for start, size, step in rows]
    picks = _by_axis(document, request, "Slice", places)
    if [*picks[0]] != [*range(size.images)] or [*picks[3]] != [*range(size.channels)]:
        raise NotFitting("the Slice cuts images or channels too")
    down, across = _window(picks[1], size.height), _window(picks[2], size.width)
    one = np.zeros((1, down[0], across[0], 1), np.int8)
    one[0, -1, -1, 0] = 1
    kernels = np.repeat(one, size.channels, axis=0)
    _conv_instead(document, op, kernels, (down[1], across[1]), (0, 0, 0, 0), size.channels)


def _conv_instead(
    document: Document,
    op: Op,
    kernels: np.ndarray,
    strides: tuple[int, int],
    pads: Pads,
    groups: int,
) -> None:
    """In place of an op that moves values; the integers stay what they are."""
    source, result = document.inputs(op)[0], document.outputs(op)[0]
    steps, integers = moved_steps(document, source), is_integer(document, source)
    document.remove(op)
    window: dict[str, Any] = {"strides": [*strides], "pads": [*pads], "group": groups}
    if not integers:
        document.insert_conv(document.stepped(source, steps), result, kernels, **window)
        document.bind(result, steps)
        return
    floats = document.new_tensor(f"{result}_float", (), source)
    constants = add_steps(document, result, steps)
    data = document.new_tensor(f"{source}_dequantized", (), source)
    document.add_op("Dequantize", (source, *constants), data)
    document.add_op("Quantize", (floats, *constants), result)
    document.insert_conv(data, floats, kernels, stem=result, **window)


def _by_axis(document: Document, request: EditRequest, kind: str, rows: Sequence[T]) -> list[T]:
    """What the graph tells by axis, for images, height, width and channels: it leaves a tensor in
    the file's order where no layer wants another."""
    tensor = request.network.graph.first_input(network_op(request, kind))
    as_in_file = document.channels_first and tensor.source_shape is None
    return [rows[axis] for axis in ((0, 2, 3, 1) if as_in_file else (0, 1, 2, 3))]


def _window(picks: range, size: int) -> tuple[int, int]:
    """Kernel size and stride of a window without padding whose last element is the pick."""
    kernel, stride = picks.start + 1, picks.step
    if stride < 1 or picks.start >= max(stride, 2):
        raise NotFitting(f"the Slice starts at {picks.start} with step {stride}")
    if (size - kernel) // stride + 1 != len(picks):
        raise NotFitting(f"the Slice ends before the last of {size} places")
    return kernel, stride


@edit("pad-conv")
def pad_conv(document: Document, request: EditRequest) -> None:
    """Channels of zeros come from a 1x1 convolution that copies the others."""
    op = place(document, request, "Pad")
    if document.attribute(op, "mode", b"constant") != b"constant":
        raise NotFitting("the Pad repeats values of the tensor")
    channels = image(document, document.inputs(op)[0]).channels
    moved_steps(document, document.inputs(op)[0])
    attrs = attrs_of(request, "Pad", PadAttrs)
    pads = _by_axis(document, request, "Pad", attrs.pads)
    if any(pads[0]) or min(size for pair in pads for size in pair) < 0:
        raise NotFitting(f"the Pad {attrs.pads} does more than add channels")
    if not any(pads[3]):
        raise NotFitting("the Pad adds no channels")
    if attrs.value != 0.0:
        raise NotFitting(f"the new channels hold {attrs.value:g}, not 0")
    copies = np.pad(np.eye(channels, dtype=np.int8), (pads[3], (0, 0)))
    around = (pads[1][0], pads[2][0], pads[1][1], pads[2][1])
    _conv_instead(document, op, copies[:, np.newaxis, np.newaxis], (1, 1), around, 1)
