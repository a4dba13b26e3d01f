"""Shape inference: what an op's inputs and attributes say its outputs must look like.

One function a family of ops, each from (graph, op) to the shapes of the outputs. The readers use
them to make tensors, the verifier to check them.
"""

from __future__ import annotations

from npuscope.errors import ModelError
from npuscope.graph.attrs import (
    ArgAttrs,
    ConcatAttrs,
    ConvAttrs,
    GroupNormAttrs,
    L2NormAttrs,
    LayerNormAttrs,
    MatMulAttrs,
    PadAttrs,
    PoolAttrs,
    ReduceAttrs,
    SoftmaxAttrs,
    TransposeAttrs,
    TransposeConvAttrs,
)
from npuscope.graph.model import Graph, Op

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]


def input_shape(graph: Graph, op: Op, index: int) -> Shape:
    """Shape of a required input."""
    if index >= len(op.inputs) or not op.inputs[index]:
        raise ModelError(f"input {index} is missing")
    return graph.tensors[op.inputs[index]].shape


def window_output(size: int, window: int, stride: int, dilation: int, pads: int) -> int:
    """Positions of a sliding window over `size` elements with `pads` added in all."""
    if min(window, stride, dilation) < 1:
        raise ModelError(f"window {window}, stride {stride}, dilation {dilation}: must be >= 1")
    positions = (size + pads - (window - 1) * dilation - 1) // stride + 1
    if positions < 1:
        raise ModelError(f"a window of {window} does not fit into {size} elements")
    return positions


def rank4(shape: Shape) -> tuple[int, int, int, int]:
    if len(shape) != 4:
        raise ModelError(f"expected 4 axes (N, H, W, C), found shape {shape}")
    return shape[0], shape[1], shape[2], shape[3]


def same(graph: Graph, op: Op) -> Shapes:
    return (input_shape(graph, op, 0),)


def conv2d(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(ConvAttrs)
    n, height, width, channels = rank4(input_shape(graph, op, 0))
    out, kh, kw, per_group = rank4(input_shape(graph, op, 1))
    _check_groups(channels, out, attrs.groups, per_group)
    _check_bias(graph, op, out)
    top, left, bottom, right = attrs.pads
    rows = window_output(height, kh, attrs.strides[0], attrs.dilations[0], top + bottom)
    columns = window_output(width, kw, attrs.strides[1], attrs.dilations[1], left + right)
    return ((n, rows, columns, out),)


def _check_groups(channels: int, out: int, groups: int, per_group: int) -> None:
    if groups < 1 or per_group * groups != channels or out % groups:
        raise ModelError(
            f"{channels} input and {out} output channels do not fit {groups} groups of {per_group}"
        )


def transpose_conv(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(TransposeConvAttrs)
    n, height, width, channels = rank4(input_shape(graph, op, 0))
    out, kh, kw, per_group = rank4(input_shape(graph, op, 1))
    _check_groups(channels, out, attrs.groups, per_group)
    _check_bias(graph, op, out)
    rows = _spread(attrs, 0, height, kh)
    columns = _spread(attrs, 1, width, kw)
    return ((n, rows, columns, out),)


def _spread(attrs: TransposeConvAttrs, axis: int, size: int, kernel: int) -> int:
    """Output size of a transposed convolution along one axis."""
    stride, dilation = attrs.strides[axis], attrs.dilations[axis]
    if min(stride, dilation, kernel) < 1 or attrs.output_pads[axis] < 0:
        raise ModelError(f"kernel {kernel}, stride {stride}, dilation {dilation}: must be >= 1")
    whole = (size - 1) * stride + (kernel - 1) * dilation + 1
    result = whole - attrs.pads[axis] - attrs.pads[axis + 2] + attrs.output_pads[axis]
    if result < 1:
        raise ModelError(f"pads {attrs.pads} leave nothing of {whole} elements")
    return result


def fully_connected(graph: Graph, op: Op) -> Shapes:
    source, weights = input_shape(graph, op, 0), input_shape(graph, op, 1)
    if len(weights) != 2 or not source or source[-1] != weights[1]:
        raise ModelError(f"weights {weights} do not fit an input of shape {source}")
    _check_bias(graph, op, weights[0])
    return ((*source[:-1], weights[0]),)


def _check_bias(graph: Graph, op: Op, channels: int) -> None:
    if len(op.inputs) < 3 or not op.inputs[2]:
        return
    bias = input_shape(graph, op, 2)
    if bias != (channels,):
        raise ModelError(f"bias has shape {bias}, expected ({channels},)")


def broadcast(*shapes: Shape) -> Shape:
    """Numpy's broadcasting rule."""
    result: list[int] = []
    for place in range(1, max(len(shape) for shape in shapes) + 1):
        sizes = {shape[-place] for shape in shapes if place <= len(shape)} - {1}
        if len(sizes) > 1:
            raise ModelError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
        result.append(sizes.pop() if sizes else 1)
    return tuple(reversed(result))


def binary(graph: Graph, op: Op) -> Shapes:
    return (broadcast(input_shape(graph, op, 0), input_shape(graph, op, 1)),)


def select(graph: Graph, op: Op) -> Shapes:
    """Condition and both choices broadcast together."""
    return (broadcast(*(input_shape(graph, op, index) for index in range(3))),)


def slope(graph: Graph, op: Op) -> Shapes:
    """The second operand broadcasts to the first, which keeps its shape."""
    source, factors = input_shape(graph, op, 0), input_shape(graph, op, 1)
    if broadcast(source, factors) != source:
        raise ModelError(f"slopes of shape {factors} do not broadcast to {source}")
    return (source,)


def pool(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(PoolAttrs)
    n, height, width, channels = rank4(input_shape(graph, op, 0))
    top, left, bottom, right = attrs.pads
    rows = window_output(height, attrs.window[0], attrs.strides[0], 1, top + bottom)
    columns = window_output(width, attrs.window[1], attrs.strides[1], 1, left + right)
    return ((n, rows, columns, channels),)


def reduce(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(ReduceAttrs)
    source = input_shape(graph, op, 0)
    for axis in attrs.axes:
        check_axis(axis, source)
    if attrs.keep_dims:
        return (tuple(1 if axis in attrs.axes else dim for axis, dim in enumerate(source)),)
    return (tuple(dim for axis, dim in enumerate(source) if axis not in attrs.axes),)


def arg(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(ArgAttrs)
    source = input_shape(graph, op, 0)
    check_axis(attrs.axis, source)
    kept = (1,) if attrs.keep_dims else ()
    return ((*source[: attrs.axis], *kept, *source[attrs.axis + 1 :]),)


def softmax(graph: Graph, op: Op) -> Shapes:
    source = input_shape(graph, op, 0)
    check_axis(op.attrs_as(SoftmaxAttrs).axis, source)
    return (source,)


def check_axis(axis: int, shape: Shape) -> None:
    if not 0 <= axis < len(shape):
        raise ModelError(f"axis {axis} is outside of shape {shape}")


def reshape(graph: Graph, op: Op) -> Shapes:
    """The wanted shape lives in the output tensor; only the element count is checked."""
    source, target = graph.first_input(op), graph.output_tensor(op)
    if source.elements != target.elements:
        raise ModelError(f"{source.shape} cannot be reshaped to {target.shape}")
    return (target.shape,)


def pad(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(PadAttrs)
    source = input_shape(graph, op, 0)
    if len(attrs.pads) != len(source):
        raise ModelError(f"{len(attrs.pads)} pairs of pads for shape {source}")
    result = tuple(a + dim + b for dim, (a, b) in zip(source, attrs.pads, strict=True))
    if result and min(result) < 1:
        raise ModelError(f"pads {attrs.pads} leave nothing of shape {source}")
    return (result,)


def transpose(graph: Graph, op: Op) -> Shapes:
    permutation = op.attrs_as(TransposeAttrs).permutation
    source = input_shape(graph, op, 0)
    if sorted(permutation) != list(range(len(source))):
        raise ModelError(f"permutation {permutation} does not fit shape {source}")
    return (tuple(source[axis] for axis in permutation),)


def concat(graph: Graph, op: Op) -> Shapes:
    axis = op.attrs_as(ConcatAttrs).axis
    shapes = [input_shape(graph, op, index) for index in range(len(op.inputs))]
    check_axis(axis, shapes[0])
    rests = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
    if len(rests) != 1 or len({len(shape) for shape in shapes}) != 1:
        raise ModelError(f"shapes {shapes} do not match beside axis {axis}")
    first = shapes[0]
    return ((*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :]),)


def batch_norm(graph: Graph, op: Op) -> Shapes:
    source = input_shape(graph, op, 0)
    for index in range(1, 5):
        parameter = input_shape(graph, op, index)
        if not source or parameter != source[-1:]:
            raise ModelError(f"parameter {index} has shape {parameter}, input has {source}")
    return (source,)


def layer_norm(graph: Graph, op: Op) -> Shapes:
    source = input_shape(graph, op, 0)
    axis = op.attrs_as(LayerNormAttrs).axis
    check_axis(axis, source)
    for index in range(1, len(op.inputs)):
        if op.inputs[index] and input_shape(graph, op, index) != source[axis:]:
            found = input_shape(graph, op, index)
            raise ModelError(f"parameter {index} has shape {found}, expected {source[axis:]}")
    return (source,)


def channel_norm(graph: Graph, op: Op) -> Shapes:
    """Instance and group normalization: scale and bias per channel, the last axis."""
    source = input_shape(graph, op, 0)
    groups = op.attrs.groups if isinstance(op.attrs, GroupNormAttrs) else 1
    if len(source) < 3 or groups < 1 or source[-1] % groups:
        raise ModelError(f"shape {source} does not fit {groups} groups of channels")
    for index in (1, 2):
        found = input_shape(graph, op, index)
        if found != source[-1:]:
            raise ModelError(f"parameter {index} has shape {found}, expected {source[-1:]}")
    return (source,)


def l2_norm(graph: Graph, op: Op) -> Shapes:
    source = input_shape(graph, op, 0)
    check_axis(op.attrs_as(L2NormAttrs).axis, source)
    return (source,)


def matmul(graph: Graph, op: Op) -> Shapes:
    attrs = op.attrs_as(MatMulAttrs)
    a, b = input_shape(graph, op, 0), input_shape(graph, op, 1)
    if len(a) < 2 or len(b) < 2:
        raise ModelError(f"operands {a} and {b} need two axes each")
    rows, inner_a = _last_two(a, attrs.transpose_a)
    inner_b, columns = _last_two(b, attrs.transpose_b)
    if inner_a != inner_b:
        raise ModelError(f"operands {a} and {b} do not match")
    return ((*(broadcast(a[:-2], b[:-2]) if len(a) + len(b) > 4 else ()), rows, columns),)


def _last_two(shape: Shape, swapped: bool) -> tuple[int, int]:
    return (shape[-1], shape[-2]) if swapped else (shape[-2], shape[-1])
