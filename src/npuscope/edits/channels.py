"""Layers with other channels: pad-channels, split-outputs, split-inputs, dense-groups,
shuffle-conv.

All but split-inputs give the same results bit for bit: new channels hold zeros that never reach an
old one, parts are cut and not changed, products with zero are added, and a weight of exactly 1
copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.kernels import part_reaches, real_bias, real_values
from npuscope.edits.numbers import FREE, int8_quant, parts_of
from npuscope.edits.padding import pad_tensor, repeat_channels, sliced_channels
from npuscope.edits.places import axis_of_channels, image, order_of, place
from npuscope.edits.records import (
    CONVS,
    LAYERS,
    FileLayer,
    Interval,
    LayerPart,
    NotFitting,
    Op,
    QuantSteps,
    Value,
)
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest, network_op
from npuscope.edits.steps import PAIR, dequantizer, same_steps
from npuscope.geometry.streams import DenseLayer
from npuscope.geometry.tiling import ConvShape
from npuscope.machine.model import Machine
from npuscope.program.modes import Simd
from npuscope.rulebook.counts import padded_count
from npuscope.structs import replace
from npuscope.text import safe_terminal

_ONE = 64  # as an integer; its scale is a power of two too, so that nothing is rounded
_SCALE = 1 / _ONE
_SIDES = ("inputs", "outputs")


def _layer_of(document: Document, op: Op) -> FileLayer:
    layer = document.layer(op)
    if layer is None:
        raise NotFitting(f"the weights or the bias of {document.title(op)} are computed")
    return layer


@edit("pad-channels")
def pad_channels(document: Document, request: EditRequest) -> None:
    """Channels of zeros behind a count that cannot be cut well, in all layers that share it."""
    op = place(document, request, *LAYERS)
    side = request.parameters.get("side")
    layer = _layer_of(document, op)
    tensor = document.inputs(op)[0] if side == "inputs" else document.outputs(op)[0]
    name, shape = document.name(tensor), document.shape(tensor)
    axis = layer.channel_axis if document.channels_first else len(shape or ()) - 1
    if shape is None or not 0 <= axis < len(shape):
        raise NotFitting(f"the shape of '{safe_terminal(name)}' is not known")
    before, wanted = (int(str(request.parameters[key])) for key in ("channels", "padded"))
    if shape[axis] == wanted:  # another place of the same region was padded before
        return
    if shape[axis] != before or wanted < before:
        raise NotFitting(f"'{safe_terminal(name)}' has {shape[axis]} channels, not {before}")
    new = wanted - before
    try:
        pad_tensor(document, tensor, axis, new)
    except NotFitting:
        if side != "inputs":
            raise
        repeat_channels(document, tensor, axis, new)


@edit("split-outputs")
def split_outputs(document: Document, request: EditRequest) -> None:
    """A layer as several ones, each with some of the output channels, and their results joined."""
    op = place(document, request, *LAYERS)
    layer, title = _layer_of(document, op), document.title(op)
    if layer.groups != 1:
        raise NotFitting(f"{title} has {layer.groups} groups")
    text = str(request.parameters.get("parts", ""))
    parts = parts_of(layer.outputs, text)
    if parts is None:
        raise NotFitting(f"parts '{text}' do not add up to the {layer.outputs} outputs of {title}")
    document.split_layer(layer, parts)


@edit("split-inputs")
def split_inputs(document: Document, request: EditRequest) -> None:
    """A layer as two, each with some of the input channels, and their results added."""
    op = place(document, request, *LAYERS)
    layer, title = _layer_of(document, op), document.title(op)
    if not layer.is_dense or document.kind(op).startswith("Q"):
        raise NotFitting(f"{title} is not a dense layer of its own Quantize")
    if layer.weights.values.size != layer.inputs * layer.outputs:
        raise NotFitting(f"{title} has a kernel of several positions")
    text = str(request.parameters.get("parts", ""))
    parts = parts_of(layer.inputs, text)
    if parts is None or len(parts) != 2:
        raise NotFitting(f"parts '{text}' are not two of the {layer.inputs} inputs of {title}")
    reaches = _input_reaches(request, parts)
    data = document.inputs(op)[0]
    axis = layer.channel_axis if document.channels_first else len(document.shape(data) or ()) - 1
    slices = sliced_channels(document, data, axis, parts, op)
    document.remove(op)
    sums = []
    for number, (part, some) in enumerate(zip(parts, slices, strict=True)):
        assert layer.in_axis is not None  # it is dense
        weights = layer.weights.picked(part, layer.in_axis)
        steps = QuantSteps(int8_quant(*reaches[number]))
        sums.append(document.summand(layer, LayerPart(some, weights), steps, number))
    document.insert("Add", sums, document.outputs(op)[0], fused=op)


def _input_reaches(request: EditRequest, parts: Sequence[range]) -> list[Interval]:
    graph, op = request.network.graph, network_op(request, "Conv2D", "FullyConnected")
    features, output = request.network.values(op.inputs[0]), graph.output_tensor(op)
    if features is None or output.quant is None:
        raise NotFitting("no values to derive the scales of its parts from")
    weights = real_values(graph.tensor(op.inputs[1])).reshape(-1, features.shape[-1]).T
    sums = [features[..., part] @ weights[part] for part in map(list, parts)]
    sums[0] = sums[0] + real_bias(graph, op)
    return part_reaches(sums, output)


@edit("dense-groups")
def dense_groups(document: Document, request: EditRequest) -> None:
    """A grouped convolution as a dense one: each kernel is zero outside of its group."""
    op = place(document, request, *CONVS)
    layer, title = _layer_of(document, op), document.title(op)
    if layer.groups == 1:
        raise NotFitting(f"{title} has no groups")
    if layer.is_depthwise:
        raise NotFitting(f"{title} is depthwise: the NPU has a mode for it")
    weights, in_axis = layer.weights, layer.in_axis
    if in_axis is None:
        weights, in_axis = weights.turned((3, 1, 2, 0)), 3
    dense = block_diagonal(weights.values, layer.groups, in_axis, weights.zeros)
    kernels = weights.changed(values=dense)
    document.set_layer(replace(layer, weights=kernels, groups=1, out_axis=0, in_axis=in_axis))


def block_diagonal(
    weights: np.ndarray, groups: int, in_axis: int, zero: np.ndarray | int
) -> np.ndarray:
    """Kernels over all input channels, from kernels (outputs first) over those of their group."""
    outputs, depth = weights.shape[0], weights.shape[in_axis]
    shape = list(weights.shape)
    shape[in_axis] = depth * groups
    dense = np.empty(shape, weights.dtype)
    dense[...] = zero
    rows = np.moveaxis(dense, in_axis, 1)
    kernels = np.moveaxis(weights, in_axis, 1)
    for output in range(outputs):
        first = output // (outputs // groups) * depth
        rows[output, first : first + depth] = kernels[output]
    return dense


@edit("shuffle-conv")
def shuffle_conv(document: Document, request: EditRequest) -> None:
    """A channel shuffle (reshape, transpose, reshape) as a 1x1 convolution: each kernel has one
    weight of exactly 1, and the result is quantized as the data are."""
    op = place(document, request, "Transpose")
    title = document.title(op)
    above, below = _to_reshape(document, op, True), _to_reshape(document, op, False)
    if not above or not below:
        word = document.words("Reshape")[0]
        raise NotFitting(f"{title} is not alone between two {word}s")
    around = above[-1], below[-1]
    source, result = document.inputs(around[0])[0], document.outputs(around[1])[0]
    order = _order(document, op, source, result)
    if order is None:
        raise NotFitting(f"{title} moves more than channels")
    steps = _shuffled_steps(document, op, source, result, (*above[:-1], *below[:-1]))
    zero_point = steps.quant.zero_point - steps.unsigned_offset
    layer = document.shuffle_instead(op, around, kernel(order), _SCALE)
    for side in _SIDES:
        _pad_side(document, layer, side, zero_point in FREE, request.network.machine)


def _to_reshape(document: Document, op: Op, up: bool) -> list[Op]:
    """What is passed on the way to a Reshape, which comes last: nothing but steps, and nobody else
    reads there. Empty where there is none."""
    passed: list[Op] = []
    tensor = document.inputs(op)[0] if up else document.outputs(op)[0]
    while tensor not in document.network_outputs and len(document.readers(tensor)) == 1:
        step = document.producer(tensor) if up else document.readers(tensor)[0]
        if step is None:
            return []
        passed.append(step)
        if document.kind(step) == "Reshape":
            return passed
        if not document.steps_are_nodes or document.kind(step) not in PAIR:
            return []
        tensor = document.inputs(step)[0] if up else document.outputs(step)[0]
    return []


def _shuffled_steps(
    document: Document, op: Op, source: Value, result: Value, between: Sequence[Op]
) -> QuantSteps:
    """One quantization from the first Reshape to the last."""
    title = document.title(op)
    if not document.steps_are_nodes:
        if document.type(source) != "int8" or document.quant(source) != document.quant(result):
            raise NotFitting(f"{title} and its Reshapes do not have one int8 quantization")
        return document.steps(source)
    maker = dequantizer(document, source)
    if maker is None:
        raise NotFitting(f"the data of {title} are not quantized")
    if not all(same_steps(document, maker, node) for node in between):
        raise NotFitting(f"the data of {title} are requantized on the way")
    return document.made_steps(maker)


def _order(document: Document, op: Op, source: object, result: object) -> np.ndarray | None:
    shape, middle = document.shape(source), document.shape(document.inputs(op)[0])
    if shape is None or middle is None or len(shape) != 4 or document.shape(result) != shape:
        return None
    axis = axis_of_channels(document, 4)
    return permutation(shape, middle, order_of(document, op), axis)


def permutation(
    shape: tuple[int, ...], middle: tuple[int, ...], axes: tuple[int, ...], channel_axis: int
) -> np.ndarray | None:
    """The channels in their new order; None where more than channels moves."""
    numbers = np.arange(np.prod(shape))
    moved = numbers.reshape(middle).transpose(axes).reshape(shape)
    before, after = (
        np.moveaxis(values, channel_axis, 0).reshape(shape[channel_axis], -1)
        for values in (numbers.reshape(shape), moved)
    )
    order = np.searchsorted(before[:, 0], after[:, 0]).clip(max=len(before) - 1)
    return order if np.array_equal(before[order], after) else None


def kernel(order: np.ndarray) -> np.ndarray:
    """Weights, outputs by inputs."""
    weights = np.zeros((order.size, order.size), np.int8)
    weights[np.arange(order.size), order] = _ONE
    return weights


def _pad_side(document: Document, op: Op, side: str, is_fast: bool, machine: Machine) -> None:
    """Channels of zeros for the new layer, if its count is bad."""
    document.drop_dead()  # the moves that it stands for do not read these channels
    values = document.inputs(op)[0], document.outputs(op)[0]
    images = [image(document, value) for value in values]
    counts = images[0].channels, images[1].channels
    size = images[0].height, images[0].width
    shape = ConvShape(*counts, (1, 1), size, size)
    layer = DenseLayer(shape, Simd.S8X8 if is_fast else Simd.S16X8)
    place = _SIDES.index(side)
    new = padded_count([(layer, side)], machine) - counts[place]
    if new:
        with suppress(NotFitting):
            pad_tensor(document, values[place], axis_of_channels(document, 4), new)
