"""How a depthwise kernel with too many columns can be computed by narrower ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuscope.advice.fix.parts.steps import Interval, covered
from npuscope.advice.fix.request import Network, Request
from npuscope.advice.fix.seeded import real
from npuscope.graph.edit.document import NotFitting
from npuscope.graph.model import Graph, Op
from npuscope.ops.layers import ConvAttrs

Pads = tuple[int, int, int, int]
STRIDE = 2  # at which the unit takes twice the columns
_MARGIN = 1.25  # a half may swing further on other data while the sum does not


@dataclass(frozen=True, slots=True)
class Half:
    """Columns of a kernel from `first` to `end`; the first `silent` ones are zeros here, for
    the other half has them. `reach` is what its sums hold."""

    first: int
    end: int
    silent: int
    pads: Pads  # top, left, bottom, right
    reach: Interval

    def of(self, weights: np.ndarray, axis: int, zero: np.ndarray | int) -> np.ndarray:
        """The columns along an axis of weights in any layout."""
        part = np.take(weights, range(self.first, self.end), axis).copy()
        silent = [slice(None)] * part.ndim
        silent[axis] = slice(0, self.silent)
        zeros = np.broadcast_to(zero, part.shape)
        part[tuple(silent)] = zeros[tuple(silent)]
        return part


def layer_of(request: Request) -> Op:
    """The convolution of the finding, as the graph has it."""
    graph = request.network.graph
    for op in graph.ops:
        if op.kind == "Conv2D" and set(op.origin) & set(request.ops):
            return op
    raise NotFitting("there is no convolution here")


def strides_of_one_column(graph: Graph, op: Op, limit: int) -> tuple[int, int] | None:
    """Strides that change nothing, for a single column results: the unit takes more columns.

    None where there are more results, or more columns than even then.
    """
    height, width = graph.output_tensor(op).shape[1:3]
    columns = graph.tensor(op.inputs[1]).shape[2]
    if width != 1 or columns > limit:
        return None
    return STRIDE if height == 1 else op.attrs_as(ConvAttrs).strides[0], STRIDE


def halves(network: Network, op: Op, limit: int) -> tuple[Half, Half]:
    """Two kernels whose sums add up to that of the layer; both lie within the padded map."""
    attrs = op.attrs_as(ConvAttrs)
    top, left, bottom, right = attrs.pads
    columns = network.graph.tensor(op.inputs[1]).shape[2]
    end = max(columns - right, 1)  # the left half may not need what lies beyond the padding
    first = min(left, end)
    if end == columns or first == 0 or max(end, columns - first) > limit:
        raise NotFitting(
            f"{columns} columns with a padding of {left} and {right} do not fall into two "
            f"halves of at most {limit}"
        )
    pads = (top, left, bottom, 0), (top, 0, bottom, right)
    spans = (0, end, 0), (first, columns, end - first)
    reaches = _reaches(network, op, (spans[0], spans[1]), pads)
    return Half(*spans[0], pads[0], reaches[0]), Half(*spans[1], pads[1], reaches[1])


def _reaches(
    network: Network,
    op: Op,
    spans: tuple[tuple[int, int, int], tuple[int, int, int]],
    pads: tuple[Pads, Pads],
) -> list[Interval]:
    """Seeded data tell how the parts compare with the whole, whose range the file knows."""
    graph = network.graph
    features, output = network.values(op.inputs[0]), graph.output_tensor(op)
    if features is None or output.quant is None:
        raise NotFitting("there are no values to find the scales of its parts with")
    tensor = graph.tensor(op.inputs[1])
    assert tensor.data is not None
    weights = real(tensor, tensor.data)
    strides = op.attrs_as(ConvAttrs).strides
    parts = []
    for (first, end, silent), pad in zip(spans, pads, strict=True):
        part = weights[:, :, first:end].copy()
        part[:, :, :silent] = 0
        parts.append(_depthwise(features, part, strides, pad))
    bias = _bias(graph, op)
    parts[0] = parts[0] + bias
    known = max(abs(end) for end in covered(output.quant, *output.dtype.limits))
    made = float(np.abs(parts[0] + parts[1]).max()) or 1.0
    factor = _MARGIN * max(1.0, known / made)
    return [(float(p.min()) * factor, float(p.max()) * factor) for p in parts]


def _bias(graph: Graph, op: Op) -> np.ndarray:
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
