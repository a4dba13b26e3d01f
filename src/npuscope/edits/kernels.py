"""Convolutions in forms that the convolution unit takes: narrower-kernel, move-stride."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from npuscope.edits.document import Document
from npuscope.edits.numbers import covered, int8_quant
from npuscope.edits.places import place
from npuscope.edits.records import Interval, LayerPart, NotFitting, Op, Pads, QuantSteps, Value
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest, NetworkFacts, attrs_of, network_op
from npuscope.edits.views import padded
from npuscope.files.file_graph import kinds_having
from npuscope.graph.model import Graph, Tensor
from npuscope.graph.model import Op as GraphOp
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.traits import Trait

_SAME, _VALID = 0, 1  # `padding` in a .tflite file
STRIDE = 2  # at which the unit takes twice the columns
_MARGIN = 1.25  # a half may swing further on other data while the sum does not
_BETWEEN = {"Identity"} | kinds_having(Trait.FUNCTION)


class KernelHalf(Struct, frozen=True):
    """Columns of a kernel from `first` to `end`; the first `silent` ones are zeros here, for
    the other half has them. `reach` is what its sums hold."""

    first: int
    end: int
    silent: int
    pads: Pads
    reach: Interval

    def of(self, weights: np.ndarray, axis: int, zero: np.ndarray | int) -> np.ndarray:
        """The columns along an axis of weights in any layout."""
        part = np.take(weights, range(self.first, self.end), axis).copy()
        silent = [slice(None)] * part.ndim
        silent[axis] = slice(0, self.silent)
        zeros = np.broadcast_to(zero, part.shape)
        part[tuple(silent)] = zeros[tuple(silent)]
        return part


@edit("narrower-kernel")
def narrower_kernel(document: Document, request: EditRequest) -> None:
    """A wide depthwise kernel in forms that the unit takes.

    Where one column results, the stride across does not matter, and at stride 2 the unit takes
    twice the columns: nothing else changes. Elsewhere two halves of the kernel are added.
    """
    op = place(document, request, *document.depthwise)
    limits = request.network.machine.convacc
    conv = network_op(request, "Conv2D")
    strides = _strides_of_one_column(request.network.graph, conv, limits.max_kernel_width_strided)
    if strides is not None:
        _set_strides(document, op, strides)
        return
    layer = document.layer(op)
    if layer is None:
        raise NotFitting("its weights or its bias are computed")
    parts = halves(request.network, conv, limits.max_kernel_width)
    document.remove(op)
    sums = []
    for number, half in enumerate(parts):
        values = half.of(layer.weights.values, layer.image_axes[-1], layer.weights.zeros)
        weights, steps = layer.weights.changed(values=values), QuantSteps(int8_quant(*half.reach))
        part = LayerPart(document.inputs(op)[0], weights, half.pads)
        sums.append(document.summand(layer, part, steps, number))
    document.insert("Add", sums, document.outputs(op)[0], fused=op)


def _strides_of_one_column(graph: Graph, op: GraphOp, limit: int) -> tuple[int, int] | None:
    """Strides that change nothing, for a single column results: the unit takes more columns.

    None where there are more results, or more columns than even then.
    """
    height, width = graph.output_tensor(op).shape[1:3]
    columns = graph.tensor(op.inputs[1]).shape[2]
    if width != 1 or columns > limit:
        return None
    return STRIDE if height == 1 else op.attrs_as(ConvAttrs).strides[0], STRIDE


def halves(network: NetworkFacts, op: GraphOp, limit: int) -> tuple[KernelHalf, KernelHalf]:
    """Two kernels whose sums add up to that of the layer; both lie within the padded map."""
    attrs = op.attrs_as(ConvAttrs)
    top, left, bottom, right = attrs.pads
    columns = network.graph.tensor(op.inputs[1]).shape[2]
    end = max(columns - right, 1)  # the left half may not need what lies beyond the padding
    first = min(left, end)
    if end == columns or first == 0 or max(end, columns - first) > limit:
        raise NotFitting(
            f"{columns} columns with a padding of {left} and {right} cannot be split into two "
            f"halves of at most {limit}"
        )
    pads = (top, left, bottom, 0), (top, 0, bottom, right)
    spans = (0, end, 0), (first, columns, end - first)
    reaches = _reaches(network, op, (spans[0], spans[1]), pads)
    return KernelHalf(*spans[0], pads[0], reaches[0]), KernelHalf(*spans[1], pads[1], reaches[1])


def _reaches(
    network: NetworkFacts,
    op: GraphOp,
    spans: tuple[tuple[int, int, int], tuple[int, int, int]],
    pads: tuple[Pads, Pads],
) -> list[Interval]:
    """Seeded data tell how the parts compare with the whole, whose range the file knows."""
    graph = network.graph
    features, output = network.values(op.inputs[0]), graph.output_tensor(op)
    if features is None or output.quant is None:
        raise NotFitting("no values to derive the scales of its parts from")
    weights = real_values(graph.tensor(op.inputs[1]))
    strides = op.attrs_as(ConvAttrs).strides
    parts = []
    for (first, end, silent), pad in zip(spans, pads, strict=True):
        part = weights[:, :, first:end].copy()
        part[:, :, :silent] = 0
        parts.append(_depthwise(features, part, strides, pad))
    return part_reaches((parts[0] + real_bias(graph, op), parts[1]), output)


def part_reaches(parts: Sequence[np.ndarray], output: Tensor) -> list[Interval]:
    """Ranges of sums that add up to a result, from their values on seeded data."""
    assert output.quant is not None
    limit = max(abs(end) for end in covered(output.quant, *output.dtype.limits))
    largest = float(np.abs(sum(parts)).max()) or 1.0
    factor = _MARGIN * max(1.0, limit / largest)
    return [(float(p.min()) * factor, float(p.max()) * factor) for p in parts]


def real_values(tensor: Tensor) -> np.ndarray:
    """Constants of the graph as real numbers."""
    assert tensor.data is not None
    values, quant = tensor.data.astype(np.float64), tensor.quant
    if quant is None or tensor.dtype.is_float:
        return values
    shape = [1] * values.ndim
    if quant.axis is not None:
        shape[quant.axis] = -1
    zeros, scales = (np.array(v, np.float64) for v in (quant.zero_points, quant.scales))
    return np.asarray((values - zeros.reshape(shape)) * scales.reshape(shape))


def real_bias(graph: Graph, op: GraphOp) -> np.ndarray:
    if len(op.inputs) < 3 or not op.inputs[2]:
        return np.zeros(1)
    tensor, source = graph.tensor(op.inputs[2]), graph.first_input(op)
    weights = graph.tensor(op.inputs[1])
    assert tensor.data is not None
    if tensor.dtype.is_float or source.quant is None or weights.quant is None:
        return tensor.data.astype(np.float64)
    return np.asarray(tensor.data * source.quant.scale * np.array(weights.quant.scales))


def _depthwise(
    features: np.ndarray, weights: np.ndarray, strides: tuple[int, int], pads: Pads
) -> np.ndarray:
    """Real sums; features are (1, H, W, C), weights (C, kh, kw, 1)."""
    top, left, bottom, right = pads
    padded = np.pad(features, ((0, 0), (top, bottom), (left, right), (0, 0)))
    rows, columns = weights.shape[1:3]
    height = (padded.shape[1] - rows) // strides[0] + 1
    width = (padded.shape[2] - columns) // strides[1] + 1
    total = np.zeros((1, height, width, padded.shape[3]))
    for y, x in np.ndindex(rows, columns):
        window = padded[:, y:, x:][:, :: strides[0], :: strides[1]][:, :height, :width]
        total += window * weights[:, y, x, 0]
    return total


@edit("move-stride")
def move_stride(document: Document, request: EditRequest) -> None:
    """A depthwise convolution makes all places, the 1x1 convolutions behind it skip."""
    op = place(document, request, *document.depthwise)
    strides, result = _strides(document, op), document.outputs(op)[0]
    if max(strides, default=1) == 1:
        raise NotFitting("the convolution has no stride")
    between, behind = _pointwise(document, result)
    attrs = attrs_of(request, "Conv2D", ConvAttrs)
    inner = [document.outputs(other)[0] for other in between]
    _without_stride(document, op, attrs, [result, *inner])
    for layer in behind:
        own = _strides(document, layer) or (1,) * len(strides)
        _set_strides(document, layer, [a * b for a, b in zip(own, strides, strict=True)])


def _strides(document: Document, op: Op) -> tuple[int, ...]:
    return tuple(document.attribute(op, "strides", ()))


def _set_strides(document: Document, op: Op, strides: Sequence[int]) -> None:
    document.set_attribute(op, "strides", [*strides])
    if document.attribute(op, "padding") is not None and _is_pointwise(document, op):
        document.set_attribute(op, "padding", _VALID)


def _is_pointwise(document: Document, op: Op) -> bool:
    """A 1x1 convolution."""
    kind = document.kind(op)
    if kind not in ("Conv", "QLinearConv"):
        return False
    weights = document.shape(document.inputs(op)[3 if kind == "QLinearConv" else 1])
    window = () if weights is None else weights[2:] if document.channels_first else weights[1:3]
    return set(window) == {1} and not any(document.attribute(op, "pads", [0]))


def _without_stride(document: Document, op: Op, attrs: ConvAttrs, values: Sequence[Value]) -> None:
    """All places; `values` are what it makes and what is made of that. The padding stays what it
    was: "same" means other padding without the stride."""
    ones = [1] * len(_strides(document, op))
    if document.attribute(op, "padding") is None:
        if document.attribute(op, "auto_pad", b"NOTSET") != b"NOTSET":
            pads = attrs.pads
            document.set_attribute(op, "auto_pad", "NOTSET")
            document.set_attribute(op, "pads", [*pads] if len(ones) == 2 else [pads[1], pads[3]])
        document.set_attribute(op, "strides", ones)
        return
    source, weights = (document.shape(value) or () for value in document.inputs(op)[:2])
    steps = document.attribute(op, "dilations", 1)
    reach = [(size - 1) * step for size, step in zip(weights[1:3], steps, strict=True)]
    same = any(attrs.pads) and _keeps(source[1:3], attrs, reach)
    if not same:  # then a PAD stands in front
        wide = padded(document, document.inputs(op)[0], attrs.pads)
        document.set_input(op, 0, wide)
        source = document.shape(wide) or ()
    document.set_attribute(op, "padding", _SAME if same else _VALID)
    document.set_attribute(op, "strides", ones)
    sizes = source[1:3] if same else [source[1] - reach[0], source[2] - reach[1]]
    for value in values:
        shape = document.shape(value) or ()
        document.state(value, shape=(shape[0], *sizes, shape[3]))


def _keeps(sizes: Sequence[int], attrs: ConvAttrs, reach: list[int]) -> bool:
    """Do the places that the stride keeps lie inside under SAME, as many as before?"""
    if attrs.pads[:2] != (reach[0] // 2, reach[1] // 2):
        return False
    rows = zip(sizes, attrs.strides, attrs.pads[:2], attrs.pads[2:], reach, strict=True)
    return all(
        (size + before + after - over - 1) // stride + 1 == -(-size // stride)
        for size, stride, before, after, over in rows
    )


def _pointwise(document: Document, tensor: Value) -> tuple[list[Op], list[Op]]:
    """Ops between, and the 1x1 convolutions at the end; NotFitting where anything else reads."""
    readers = document.readers(tensor)
    if tensor in document.network_outputs or not readers:
        raise NotFitting(f"'{document.name(tensor)}' is an output of the network")
    between: list[Op] = []
    behind: list[Op] = []
    for op in readers:
        if document.kind(op) in _BETWEEN and document.inputs(op)[0] == tensor:
            more, ends = _pointwise(document, document.outputs(op)[0])
            between += [op, *more]
            behind += ends
        elif _is_pointwise(document, op):
            behind.append(op)
        else:
            word = document.word(op)
            raise NotFitting(f"the result is read by a {word}, not by a 1x1 convolution")
    return between, behind
