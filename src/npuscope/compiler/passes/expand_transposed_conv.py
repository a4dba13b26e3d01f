"""A transposed convolution becomes a plain one on a map with zeros between the pixels.

Zero channels behind the features, moved into space (as the vendor's compiler does it), make that
map; the kernel is turned by half a turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npuscope.compiler.passes.base import replace_each
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.ops.images import BlockAttrs, DepthOrder
from npuscope.ops.layers import ConvAttrs, TransposeConvAttrs
from npuscope.ops.moves import PadAttrs


@dataclass(frozen=True, slots=True)
class ExpandTransposedConv:
    name: str = "expand-transposed-conv"

    def run(self, graph: Graph, machine: Machine) -> bool:
        return replace_each(
            graph, lambda op: _expanded(graph, op) if _expandable(graph, op) else None
        )


def _expandable(graph: Graph, op: Op) -> bool:
    """Square strides, one group, constant integer weights."""
    if op.kind != "TransposeConv":
        return False
    attrs = op.attrs_as(TransposeConvAttrs)
    weights = graph.tensor(op.inputs[1])
    square = attrs.strides[0] == attrs.strides[1] and attrs.dilations == (1, 1)
    integer = weights.is_constant and weights.quant is not None
    return square and integer and attrs.groups == 1 and graph.first_input(op).shape[0] == 1


def _expanded(graph: Graph, op: Op) -> list[Op]:
    attrs, stride = op.attrs_as(TransposeConvAttrs), op.attrs_as(TransposeConvAttrs).strides[0]
    source = graph.first_input(op)
    steps: list[Op] = []
    if stride > 1:
        source_name = _spread(graph, op, stride, steps)
        height, width, _ = graph.tensor(source_name).shape[1:]
    else:
        source_name, (height, width) = source.name, source.shape[1:3]
    weights = graph.tensor(op.inputs[1])
    turned = np.ascontiguousarray(np.asarray(weights.data)[:, ::-1, ::-1])
    kernel = graph.add(
        replace(weights, name=graph.fresh_name(f"{weights.name}.turned"), data=turned)
    )
    conv = ConvAttrs(pads=_pads(graph, op, (height, width)), activation=attrs.activation)
    inputs = (source_name, kernel.name, *op.inputs[2:])
    steps.append(op.replace(kind="Conv2D", inputs=inputs, attrs=conv))
    return steps


def _spread(graph: Graph, op: Op, stride: int, steps: list[Op]) -> str:
    """Pixels `stride` apart, zeros between them."""
    source = graph.first_input(op)
    n, height, width, channels = source.shape
    more = channels * (stride * stride - 1)
    deep = graph.add(
        replace(
            source,
            name=graph.fresh_name(f"{op.name}.deep"),
            shape=(n, height, width, channels + more),
        )
    )
    wide = graph.add(
        replace(
            source,
            name=graph.fresh_name(f"{op.name}.spread"),
            shape=(n, height * stride, width * stride, channels),
        )
    )
    pads = ((0, 0), (0, 0), (0, 0), (0, more))
    steps.append(Op("Pad", deep.name, (source.name,), (deep.name,), PadAttrs(pads), op.origin))
    block = BlockAttrs(stride, DepthOrder.DCR)
    steps.append(Op("DepthToSpace", wide.name, (deep.name,), (wide.name,), block, op.origin))
    return wide.name


def _pads(graph: Graph, op: Op, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Padding that gives the output its size: the kernel's reach less what is cut off."""
    attrs = op.attrs_as(TransposeConvAttrs)
    kernel, out = graph.tensor(op.inputs[1]).shape[1:3], graph.output_tensor(op).shape[1:3]
    top, left = kernel[0] - 1 - attrs.pads[0], kernel[1] - 1 - attrs.pads[1]
    bottom = out[0] - 1 + kernel[0] - size[0] - top
    right = out[1] - 1 + kernel[1] - size[1] - left
    return top, left, bottom, right
