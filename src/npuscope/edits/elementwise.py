"""Sums and products in forms that the NPU takes: gate-form, negate-by-product, multiply-instead,
mean-times-n, mean-both-axes, expand-operand, slope-instead, add-behind."""

from __future__ import annotations

from contextlib import suppress
from math import prod

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.images import LONGEST_AXIS
from npuscope.edits.numbers import int8_quant
from npuscope.edits.onnx.document import OnnxDocument
from npuscope.edits.places import (
    axes_of,
    axis_of_channels,
    drop_unread,
    has_fused,
    image,
    image_shape,
    order_of,
    place,
)
from npuscope.edits.records import HIGHEST, Constant, NotFitting, Op, QuantSteps, Value
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest
from npuscope.edits.steps import (
    dequantizer,
    int8_constant,
    plain,
    result_steps,
    steps_behind,
    unquantized,
    users,
)
from npuscope.graph.model import Quant
from npuscope.structs import replace

_NO_GATE = "the op is not part of (1 - z) * n + z * h"
_BOTH = "no operand has the full shape"
_LEAST = 1e-3  # how far a quantized one may be from 1


@edit("gate-form")
def gate_form(document: Document, request: EditRequest) -> None:
    """(1 - z) * n + z * h becomes n + z * (h - n), one op less and no constant on the left. The
    new tensors get steps that cover all that their operands can hold."""
    op = place(document, request, "Sub")
    one, z = document.inputs(op)
    constant = document.constant(one)
    if constant is None:
        raise NotFitting("the left operand is computed")
    if np.abs(constant.real - 1).max() > _LEAST:
        raise NotFitting(_NO_GATE)
    first = _next(document, op, "Mul")
    n = _other(document, first, document.outputs(op)[0])
    total = _next(document, first, "Add")
    second = _maker(document, _other(document, total, document.outputs(first)[0]))
    if second is None or document.kind(second) != "Mul":
        raise NotFitting(_NO_GATE)
    if _next(document, second, "Add") is not total:
        raise NotFitting(_NO_GATE)
    h = _other(document, second, plain(document, z))
    of_z, of_n, of_h = (document.steps(value).covered for value in (z, n, h))
    reach = (of_h[0] - of_n[1], of_h[1] - of_n[0])
    corners = [a * b for a in of_z for b in reach]
    difference = QuantSteps(int8_quant(*reach))
    product = QuantSteps(int8_quant(min(corners), max(corners)))
    result = document.outputs(total)[0]
    shape, name = document.shape(result) or (), document.name(result)
    for old in (op, first, second, total):
        document.remove(old)
    apart = document.new_tensor(f"{name}_difference", shape, difference)
    gated = document.new_tensor(f"{name}_gated", shape, product)
    document.insert("Sub", (h, n), apart)
    document.insert("Mul", (z, document.stepped(apart, difference)), gated)
    document.insert("Add", (n, document.stepped(gated, product)), result, fused=total)


def _next(document: Document, op: Op, kind: str) -> Op:
    """The only op that uses a result."""
    result = document.outputs(op)[0]
    readers = users(document, result)
    if len(readers) != 1 or document.kind(readers[0]) != kind or result in document.network_outputs:
        raise NotFitting(_NO_GATE)
    return readers[0]


def _other(document: Document, op: Op, tensor: Value) -> Value:
    """The operand that is not `tensor`."""
    values = [value for value in document.inputs(op) if plain(document, value) != tensor]
    if len(values) != 1 or len(document.inputs(op)) != 2:
        raise NotFitting(_NO_GATE)
    return values[0]


def _maker(document: Document, tensor: Value) -> Op | None:
    return document.producer(plain(document, tensor))


@edit("negate-by-product")
def negate_by_product(document: Document, request: EditRequest) -> None:
    """A product with -1 instead of a Neg or of a constant minus a tensor. The negated bytes are
    -1 - q: all of them fit, so nothing is rounded on the way."""
    op = place(document, request, "Sub", "Neg")
    inputs, result = document.inputs(op), document.outputs(op)[0]
    tensor, name = inputs[-1], document.name(result)
    is_sub, shape = document.kind(op) == "Sub", document.shape(tensor) or ()
    if is_sub and document.constant(inputs[0]) is None:
        raise NotFitting("the left operand is computed")
    steps = _computed_steps(document, tensor)
    document.remove(op)
    factor = int8_constant(document, f"{name}_minus_one", np.array(-1, np.int8))
    if not is_sub:
        document.insert("Mul", (tensor, factor), result)
        return
    zero = sum(steps.limits) - steps.quant.zero_point
    negated = replace(steps, quant=Quant(steps.quant.scales, (zero,)))
    product = document.new_tensor(f"{name}_negated", shape, negated)
    document.insert("Mul", (tensor, factor), product)
    document.insert("Add", (inputs[0], document.stepped(product, negated)), result, fused=op)


def _computed_steps(document: Document, tensor: Value) -> QuantSteps:
    with suppress(NotFitting):
        if document.constant(tensor) is None:
            return document.steps(tensor)
    raise NotFitting(f"'{document.name(tensor)}' is not a quantized tensor")


@edit("multiply-instead", "onnx")
def multiply_instead(document: OnnxDocument, request: EditRequest) -> None:
    """A constant divisor becomes a factor. TFLite has no division of int8 numbers."""
    node = place(document, request, "Div")
    data, divisor = document.inputs(node)[0], document.constant(document.inputs(node)[1])
    if divisor is None:
        raise NotFitting("the divisor is computed")
    values = divisor.real
    if np.unique(values).size != 1 or not values.reshape(-1)[0]:
        raise NotFitting("the divisor is not a single number other than 0")
    factor = 1 / float(values.reshape(-1)[0])
    stem, shape = f"{document.outputs(node)[0]}_factor", values.shape
    if dequantizer(document, data) is not None:
        sign = np.full(shape, np.sign(factor), np.int8)
        name = int8_constant(document, stem, sign, abs(factor))
    else:
        name = document.add_constant(stem, np.full(shape, factor, np.float32))
    document.set_input(node, 1, name)
    document.set_kind(node, "Mul")


_NO_SLOPE = "the Max does not compare a tensor with a multiple of itself"


@edit("slope-instead")
def slope_instead(document: Document, request: EditRequest) -> None:
    """Max(x, a*x) becomes a PReLU of x, whose kernel rounds once where three ops did.

    Channels with a above 1 grow on the positive side: the PReLU has the slope 1/a there, and a
    product brings all channels to their size.
    """
    op = place(document, request, "Max")
    inputs, result = document.inputs(op), document.outputs(op)[0]
    if len(inputs) != 2:
        raise NotFitting(_NO_SLOPE)
    source, factor = _scaled(document, inputs)
    steps, growth = _computed_steps(document, source), np.maximum(factor.real, 1)
    if growth.max() > 1 and factor.real.min() < -1:
        raise NotFitting("slopes above 1 and below -1")
    name, shape = document.name(result), document.shape(result) or ()
    slopes = _as_bytes(document, f"{name}_slopes", np.minimum(factor.real, 1) / growth)
    document.remove(op)
    if growth.max() == 1:
        document.insert("PRelu", (source, slopes), result)
        return
    bent = document.new_tensor(f"{name}_bent", shape, steps)
    document.insert("PRelu", (source, slopes), bent)
    sizes = _as_bytes(document, f"{name}_growth", growth)
    document.insert("Mul", (document.stepped(bent, steps), sizes), result)


def _as_bytes(document: Document, stem: str, numbers: np.ndarray) -> Value:
    step = float(np.float32(np.abs(numbers).max() / HIGHEST)) or 1.0
    return int8_constant(document, stem, np.round(numbers / step).astype(np.int8), step)


def _scaled(document: Document, sides: list[Value]) -> tuple[Value, Constant]:
    """The tensor that stands on both sides, and the constant that it is multiplied by on one."""
    for side, other in (sides, sides[::-1]):
        product = document.producer(unquantized(document, side))
        if product is None or document.kind(product) != "Mul" or has_fused(document, product):
            continue
        factors = document.inputs(product)
        for data, factor in (factors, factors[::-1]):
            constant = document.constant(factor)
            same = unquantized(document, data) == unquantized(document, other)
            if same and constant is not None:
                return data, constant
    raise NotFitting(_NO_SLOPE)


@edit("mean-times-n")
def mean_times_n(document: Document, request: EditRequest) -> None:
    """A sum over whole maps is their mean times the number of pixels. The mean has the steps of
    the sum divided by that number: its bytes are those of the sum."""
    op = place(document, request, "ReduceSum")
    source, result = document.inputs(op)[0], document.outputs(op)[0]
    size, name = image(document, source), document.name(result)
    axes = sorted(axis % 4 for axis in axes_of(document, op) or range(4))
    if axes != ([2, 3] if document.channels_first else [1, 2]):
        raise NotFitting("the sum is not over height and width")
    steps = result_steps(document, result)
    count = size.height * size.width
    scale = float(np.float32(np.float32(steps.quant.scale) / np.float32(count)))
    finer = replace(steps, quant=Quant((scale,), steps.quant.zero_points))
    shape = document.shape(result) or ()
    mean = document.new_tensor(f"{name}_mean", shape, finer)
    document.remove(op)
    document.insert("ReduceMean", (source,), mean, keep=len(shape) == 4)
    factor = int8_constant(document, f"{name}_count", np.array(1, np.int8), float(count))
    document.insert("Mul", (document.stepped(mean, finer), factor), result)


_NO_PAIR = "it is not one of two means in a row, over height and over width"


@edit("mean-both-axes")
def mean_both_axes(document: Document, request: EditRequest) -> None:
    """Two means in a row, one over height and one over width, are one mean over both. Exporters of
    channel-first networks to TFLite have a Transpose in front of them, which goes too."""
    first, second = _means(document, place(document, request, "ReduceMean"))
    source, result = document.inputs(first)[0], document.outputs(second)[0]
    if len(document.shape(source) or ()) != 4:
        raise NotFitting(_NO_PAIR)
    order, turn = _order_in_front(document, source)
    others = [axis for axis in range(4) if axis not in _averaged(document, first, second)]
    # The axes that stay: the batch and, at the place where the format has it, the channels.
    stays = [0, axis_of_channels(document, 4)]
    rank = len(document.shape(result) or ())
    keeps = rank == 4 and turn is None
    if [order[axis] for axis in others] != stays or not (keeps or rank == 2):
        raise NotFitting(_NO_PAIR)
    document.remove(first)
    document.remove(second)
    whole = source if turn is None else document.inputs(turn)[0]
    document.insert("ReduceMean", (whole,), result, keep=keeps)
    if turn is not None:
        drop_unread(document, turn)


def _order_in_front(document: Document, source: Value) -> tuple[tuple[int, ...], Op | None]:
    """The axes of the image as they lie in `source`, and the Transpose that moved them."""
    maker = _maker(document, source)
    if maker is None or document.kind(maker) != "Transpose":
        return (0, 1, 2, 3), None
    return order_of(document, maker), maker


def _averaged(document: Document, first: Op, second: Op) -> set[int]:
    """The axes of what the first mean reads that are gone or 1 behind the second."""
    one = {axis % 4 for axis in axes_of(document, first) or range(4)}
    same_rank = len(document.shape(document.outputs(first)[0]) or ()) == 4
    between = [axis for axis in range(4) if same_rank or axis not in one]
    return one | {between[axis % len(between)] for axis in axes_of(document, second) or ()}


def _means(document: Document, op: Op) -> tuple[Op, Op]:
    """The op with the mean in front of it or behind it; nobody else reads what is between."""
    before = _maker(document, document.inputs(op)[0])
    first = before if before is not None and document.kind(before) == "ReduceMean" else op
    mean = document.outputs(first)[0]
    readers = users(document, mean)
    if mean in document.network_outputs or [document.kind(op) for op in readers] != ["ReduceMean"]:
        raise NotFitting(_NO_PAIR)
    return first, readers[0]


@edit("expand-operand")
def expand_operand(document: Document, request: EditRequest) -> None:
    """The smaller operand is brought to the full shape.

    A constant is stored in full and both operands become one long row of channels, where the NPU
    has a coefficient for each. One computed channel is repeated by a 1x1 convolution of ones.
    """
    op = place(document, request, "Add", "Sub", "Mul")
    inputs = document.inputs(op)
    small = next((n for n in (0, 1) if document.constant(inputs[n]) is not None), None)
    if small is None:
        _repeat_channel(document, op)
        return
    data, result = inputs[1 - small], document.outputs(op)[0]
    shape, constant = document.shape(result), document.constant(inputs[small])
    if shape is None or document.shape(data) != shape:
        raise NotFitting(_BOTH)
    if constant is None or constant.scale is None:
        raise NotFitting("not all operands and results are quantized")
    if constant.scale.size > 1:
        raise NotFitting("the constant has one scale per channel")
    before, after = document.steps(data), result_steps(document, result)
    count = prod(shape)
    if count > LONGEST_AXIS:
        raise NotFitting(f"{count} elements do not fit an axis of the NPU")
    flat = (1, count) if document.channels_first else (1, 1, 1, count)
    values = np.broadcast_to(constant.values, shape).reshape(flat)
    full = document.store(constant.changed(name=f"{constant.name}_full", values=values))
    row = document.new_tensor(f"{document.name(data)}_row", flat, before)
    sum_row = document.new_tensor(f"{document.name(result)}_row", flat, after)
    document.insert("Reshape", (data,), row, sizes=(-1, *flat[1:]))
    row = document.stepped(row, before)
    operands = (full, row) if small == 0 else (row, full)
    if document.steps_are_nodes:
        document.again(op, operands, sum_row)
        document.remove(op)
    else:  # the operator keeps its place in the file
        for number, value in enumerate(operands):
            document.set_input(op, number, value)
        document.set_output(op, result, sum_row)
    back = document.stepped(sum_row, after)
    document.insert("Reshape", (back,), result, sizes=(-1, *shape[1:]))


def _repeat_channel(document: Document, op: Op) -> None:
    """One channel against many."""
    inputs, result = document.inputs(op), document.outputs(op)[0]
    full = document.shape(result)
    small = next((n for n in (0, 1) if document.shape(inputs[n]) != full), 0)
    if full is None or len(full) != 4 or document.shape(inputs[1 - small]) != full:
        raise NotFitting(_BOTH)
    source, size = inputs[small], image(document, result)
    if document.shape(source) != image_shape(document, size._replace(channels=1)):
        raise NotFitting(_BOTH)
    steps = document.steps(source)
    repeats = document.new_tensor(f"{document.name(source)}_full", full, steps)
    ones = np.ones((size.channels, 1, 1, 1), np.int8)
    document.insert_conv(source, repeats, ones)
    document.set_input(op, small, repeats)
    document.bind(repeats, steps)


@edit("add-behind", "onnx")
def add_behind(document: OnnxDocument, request: EditRequest) -> None:
    """A computed bias is added by an op of its own behind the layer."""
    node = place(document, request, "Gemm")
    bias = dict(enumerate(document.inputs(node))).get(2)
    if bias is None or document.constant(bias) is not None:
        raise NotFitting("the bias is constant")
    result, steps = document.outputs(node)[0], None
    behind = steps_behind(document, result)
    if behind is not None and dequantizer(document, bias) is not None:  # else all are floats
        # For the layer's own result: what the sum can hold, less what the bias can.
        total, added = behind.covered, document.steps(bias).covered
        steps = QuantSteps(int8_quant(total[0] - added[1], total[1] - added[0]))
    product = document.new_tensor(f"{result}_product")
    document.set_output(node, result, product)
    document.drop_inputs(node, 2)
    data = product if steps is None else document.stepped(product, steps)
    document.add_op("Add", (data, bias), result)
