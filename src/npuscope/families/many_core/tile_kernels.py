"""Arithmetic of one tile: an op of the network on the parts of its inputs that its core holds.

Float values are half floats in memory; an op works in single precision and rounds what it stores
to the nearest half, ties to even. Parts of a sum are stored and rounded one by one. Quantized ops
are those of the reference executor: integer sums are exact, so that only their end is rounded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.compiler.boxes import Bounds, Box, full, shape_of, with_axis
from npuscope.families.many_core.compiler.kinds import KERNELS, device_dtype, is_splat
from npuscope.families.many_core.compiler.needs import needs
from npuscope.families.many_core.program import Code, Made
from npuscope.graph.model import Activation, Graph, Op, Tensor
from npuscope.ops.kernels.table import make_step
from npuscope.ops.layers import ConvAttrs, DenseAttrs, MatMulAttrs
from npuscope.ops.reduce import PoolAttrs
from npuscope.structs import replace

Parts = Mapping[str, np.ndarray]  # by tensor, of the box that is needed


class TilePart(Struct, frozen=True):
    """What a step makes of an op: boxes of its inputs, and the op that works on such parts."""

    op: Op
    needs: tuple[Box | None, ...]
    box: Box
    cropped: bool


def part_of(graph: Graph, op: Op, product: Made) -> TilePart:
    boxes = list(needs(graph, op, product.box))
    whole = tuple(boxes)
    if product.channels is not None:
        boxes[0], boxes[1] = _channels(op, whole, product.channels)
        if not product.first and len(boxes) > 2:
            boxes = boxes[:2]
            op = op.replace(inputs=op.inputs[:2])
    if not KERNELS[op.kind].cropped:
        return TilePart(op, tuple(boxes), product.box, False)
    if isinstance(op.attrs, ConvAttrs):
        return _conv_part(graph, op, tuple(boxes), product)
    if isinstance(op.attrs, PoolAttrs):
        return _pool_part(op, op.attrs, tuple(boxes), product)
    return TilePart(op, tuple(boxes), product.box, True)


def _channels(op: Op, whole: tuple[Box | None, ...], channels: Bounds) -> tuple[Box, Box]:
    """The axis that is summed up, in both operands."""
    left, right = whole[0], whole[1]
    assert left is not None and right is not None
    attrs = op.attrs if isinstance(op.attrs, MatMulAttrs) else None
    first = len(left) - (2 if attrs and attrs.transpose_a else 1)
    second = len(right) - (2 if attrs and not attrs.transpose_b else 1)
    return with_axis(left, first, *channels), with_axis(right, second, *channels)


def _conv_part(graph: Graph, op: Op, boxes: tuple[Box | None, ...], product: Made) -> TilePart:
    attrs = op.attrs_as(ConvAttrs)
    source, weights = boxes[0], graph.tensors[op.inputs[1]].shape
    assert source is not None
    each = weights[0] // attrs.groups
    low, high = product.box[3]
    if attrs.groups > 1 and (low % each or high % each):
        return TilePart(op, boxes, product.box, False)
    reach = [(weights[1 + axis] - 1) * attrs.dilations[axis] + 1 for axis in (0, 1)]
    pads = _pads(product.box, source, reach, attrs)
    groups = (high - low) // each if attrs.groups > 1 else 1
    local = op.replace(attrs=replace(attrs, pads=pads, groups=groups))
    return TilePart(local, boxes, product.box, True)


def _pool_part(op: Op, attrs: PoolAttrs, boxes: tuple[Box | None, ...], product: Made) -> TilePart:
    source = boxes[0]
    assert source is not None
    pads = _pads(product.box, source, list(attrs.window), attrs)
    return TilePart(op.replace(attrs=replace(attrs, pads=pads)), boxes, product.box, True)


def _pads(
    out: Box, source: Box, reach: list[int], attrs: ConvAttrs | PoolAttrs
) -> tuple[int, int, int, int]:
    """Padding before and behind the rows and columns that are there."""
    pads = []
    for axis in (0, 1):
        (low, high), (first, last) = out[1 + axis], source[1 + axis]
        start = low * attrs.strides[axis] - attrs.pads[axis]
        stop = (high - 1) * attrs.strides[axis] - attrs.pads[axis] + reach[axis]
        pads.append((first - start, stop - last))
    (top, bottom), (left, right) = pads
    return top, left, bottom, right


def compute(code: Code, product: Made, parts: Parts, before: np.ndarray | None) -> np.ndarray:
    """The values that a step stores; `before` is the sum so far, where it adds to one."""
    assert product.op is not None
    op = code.graph.ops[product.op]
    part = part_of(code.graph, op, product)
    ends = code.ends.get(op.outputs[0], ())
    chain = [part.op.replace(outputs=(ends[0].inputs[0],)) if ends else part.op, *ends]
    adds = product.channels is not None
    attrs = part.op.attrs
    if adds and isinstance(attrs, ConvAttrs | DenseAttrs):
        chain[0] = chain[0].replace(attrs=replace(attrs, activation=Activation.NONE))
    value = _run(code, part, chain[0], parts)
    if before is not None:
        value = value + before.astype(np.float32)
    if not product.last:
        return value
    if adds:
        kind = getattr(op.attrs, "activation", Activation.NONE)
        if kind is not Activation.NONE:
            value = np.clip(value, *_LIMITS[kind])
    for end in ends:
        value = _end(code, end, value)
    return value


def _run(code: Code, part: TilePart, op: Op, parts: Parts) -> np.ndarray:
    """One op as a network of its own, on parts or on whole tensors with holes."""
    graph = code.graph
    tensors: list[Tensor] = []
    values: list[np.ndarray] = []
    for name, need in zip(op.inputs, part.needs, strict=True):
        if not name:
            continue
        tensor, data = _operand(graph.tensors[name], need, parts, part.cropped)
        values.append(data)
        if all(tensor.name != other.name for other in tensors):
            tensors.append(tensor)
    out = code.between.get(op.outputs[0]) or graph.tensors[op.outputs[0]]
    tensors.append(_cropped(out, part.box) if part.cropped else out)
    small = Graph("tile", tensors, [op], [], op.outputs, graph.numerics)
    with np.errstate(all="ignore"):
        (result,) = make_step(small, op)(values)
    return result if part.cropped else result[_index(part.box)]


def _operand(
    tensor: Tensor, need: Box | None, parts: Parts, cropped: bool
) -> tuple[Tensor, np.ndarray]:
    if is_splat(tensor):
        data = _stored(tensor)
        return replace(tensor, data=data), data
    values = parts[tensor.name] if need is not None else None
    if cropped and values is not None and need is not None:
        data = _wide(tensor, values)
        small = _cropped(tensor, need)
        return (replace(small, data=data) if tensor.is_constant else small), data
    # The rest are values that no core may use.
    hole = np.nan if tensor.dtype.is_float else 0
    whole = np.full(tensor.shape, hole, tensor.dtype.numpy)
    if values is not None and need is not None:
        whole[_index(need)] = _wide(tensor, values)
    return (replace(tensor, data=whole) if tensor.is_constant else tensor), whole


def _stored(tensor: Tensor) -> np.ndarray:
    """A constant as the device has it."""
    assert tensor.data is not None
    data = tensor.data
    return data.astype(np.float16).astype(data.dtype) if device_dtype(tensor) == "float16" else data


def _wide(tensor: Tensor, data: np.ndarray) -> np.ndarray:
    return data.astype(tensor.dtype.numpy) if data.dtype != tensor.dtype.numpy else data


def _cropped(tensor: Tensor, box: Box) -> Tensor:
    quant = tensor.quant
    if quant is not None and quant.axis is not None and len(quant.scales) > 1:
        low, high = box[quant.axis]
        points = quant.zero_points[low:high] if len(quant.zero_points) > 1 else quant.zero_points
        quant = replace(quant, scales=quant.scales[low:high], zero_points=points)
    return replace(tensor, shape=shape_of(box), quant=quant)


def _index(box: Box) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in box)


_LIMITS = {
    Activation.RELU: (0.0, np.inf),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def _end(code: Code, op: Op, value: np.ndarray) -> np.ndarray:
    """A clamp or a factor on what is about to be stored."""
    box = full(value.shape)
    tensors, values = [], []
    for name in op.inputs:
        tensor = code.between.get(name) or code.graph.tensors.get(name)
        if tensor is not None and tensor.is_constant:
            data = _stored(tensor)
            tensors.append(replace(tensor, data=data))
        else:
            data = value
            tensors.append(_cropped(code.between[name], box))
        values.append(data)
    out = code.between.get(op.outputs[0]) or code.graph.tensors[op.outputs[0]]
    tensors.append(_cropped(out, box))
    small = Graph("end", tensors, [op], [], op.outputs, code.graph.numerics)
    (result,) = make_step(small, op)(values)
    return result
