"""Ops rewritten as ones that the units have: chains of small pools, plain convolutions for
transposed ones, clamps."""

from __future__ import annotations

from math import inf
from typing import cast

import numpy as np
from msgspec import Struct

from npuscope.compiler.passes.base import Edits, replace_each
from npuscope.graph.limits import check_pieces
from npuscope.graph.model import Activation, DType, Graph, Op, Quant, Tensor
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import BINARY, LAYERS
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.images import BlockAttrs, DepthOrder
from npuscope.ops.layers import ConvAttrs, TransposeConvAttrs
from npuscope.ops.moves import PadAttrs
from npuscope.ops.reduce import PoolAttrs
from npuscope.structs import replace

# --- A large max pool at stride 1 becomes a chain of 3x3 ones: the same maximum, in steps ---


class DecomposePool(Struct, frozen=True):
    name: str = "decompose-pool"

    def run(self, graph: Graph, machine: Machine) -> bool:
        limit = machine.pool.max_window
        return replace_each(
            graph, lambda op: _steps(graph, op) if _decomposable(op, limit) else None
        )


def _decomposable(op: Op, limit: int) -> bool:
    """Odd square windows at stride 1, padded to keep the size."""
    if op.kind != "MaxPool":
        return False
    attrs = op.attrs_as(PoolAttrs)
    size = attrs.window[0]
    same = attrs.window == (size, size) and attrs.strides == (1, 1)
    return same and size > limit and size % 2 == 1 and set(attrs.pads) == {size // 2}


def _steps(graph: Graph, op: Op) -> list[Op]:
    attrs = op.attrs_as(PoolAttrs)
    small = replace(attrs, window=(3, 3), pads=(1, 1, 1, 1))
    target = graph.output_tensor(op)
    chain: list[Op] = []
    source = op.inputs[0]
    steps = attrs.window[0] // 2
    check_pieces(steps, op.name)
    for number in range(steps):
        last = number == steps - 1
        name = op.outputs[0] if last else graph.fresh_name(f"{op.outputs[0]}.step{number}")
        if not last:
            graph.add(replace(target, name=name, quant=graph.first_input(op).quant))
        chain.append(Op("MaxPool", f"{op.name}.{number}", (source,), (name,), small, op.origin))
        source = name
    return chain


# --- A transposed convolution becomes a plain one on a map with zeros between the pixels ---
#
# Zero channels after the features, moved into space by depth-to-space (as the vendor's compiler
# does), make that map; the kernel is rotated by 180 degrees.


class ExpandTransposedConv(Struct, frozen=True):
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
    # Padding that gives the output its size: the kernel's reach less what is cut off.
    (rows, columns), out = weights.shape[1:3], graph.output_tensor(op).shape[1:3]
    top, left = rows - 1 - attrs.pads[0], columns - 1 - attrs.pads[1]
    bottom = out[0] - 1 + rows - height - top
    right = out[1] - 1 + columns - width - left
    conv = ConvAttrs(pads=(top, left, bottom, right), activation=attrs.activation)
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


# --- Minimum and maximum with a constant number are clamps ---


class ClampExtremes(Struct, frozen=True):
    name: str = "clamp-extremes"

    def run(self, graph: Graph, machine: Machine) -> bool:
        kinds = ("Max",) if machine.generation.minimum_in_float else ("Min", "Max")
        return replace_each(graph, lambda op: _clamp(graph, op) if op.kind in kinds else None)


def _clamp(graph: Graph, op: Op) -> list[Op] | None:
    constants = [graph.tensor(name) for name in op.inputs if graph.tensor(name).is_constant]
    if len(constants) != 1 or constants[0].elements != 1:
        return None
    limit = _number(constants[0])
    source = next(name for name in op.inputs if not graph.tensor(name).is_constant)
    attrs = ClipAttrs(-inf, limit) if op.kind == "Min" else ClipAttrs(limit, inf)
    return [op.replace(kind="Clip", inputs=(source,), attrs=attrs)]


# A quotient by a constant number is a product, also where a quantizer left it in float between a
# Dequantize and a Quantize (hard-swish as exporters write it).


class DivideByConstant(Struct, frozen=True):
    name: str = "divide-by-constant"

    def run(self, graph: Graph, machine: Machine) -> bool:
        edits = Edits(graph)
        makers = {name: op for op in graph.ops for name in op.outputs}
        quotients = [(op, parts) for op in graph.ops if (parts := _quotient(edits, op, makers))]
        for op, (source, target) in quotients:
            divisor = graph.tensor(op.inputs[1])
            number = 1.0 / _number(divisor)
            # One step of its own scale: nothing is rounded.
            data = np.full(divisor.shape, np.sign(number), np.int8)
            quant = Quant((float(np.float32(abs(number))),), (0,))
            name = graph.fresh_name(f"{op.name}.factor")
            factor = graph.add(Tensor(name, divisor.shape, DType.INT8, quant, data))
            origin = tuple(dict.fromkeys((*source.origin, *op.origin, *target.origin)))
            inputs = (source.inputs[0], factor.name)
            if source is not op:
                edits.remove(target)
                if edits.only_reader(op.inputs[0]) is op:
                    edits.remove(source)
            product = op.replace(kind="Mul", inputs=inputs, outputs=target.outputs, origin=origin)
            edits.replace(op, product)
        edits.finish()
        return bool(quotients)


def _quotient(edits: Edits, op: Op, makers: dict[str, Op]) -> tuple[Op, Op] | None:
    """(first, last) of Dequantize, Div, Quantize; the Div itself twice where it is integer."""
    graph = edits.graph
    if op.kind != "Div" or not _number(graph.tensor(op.inputs[1])):
        return None
    if graph.first_input(op).quant is not None and graph.output_tensor(op).quant is not None:
        return op, op
    source, target = makers.get(op.inputs[0]), edits.only_reader(op.outputs[0])
    if source is None or target is None:
        return None
    between = (source.kind, target.kind) == ("Dequantize", "Quantize")
    return (source, target) if between else None


def _number(tensor: Tensor) -> float:
    """The one number that a constant is; 0 where it is not."""
    if not tensor.is_constant or tensor.elements != 1:
        return 0.0
    value = float(np.asarray(tensor.data).reshape(-1)[0])
    quant = tensor.quant
    return (value - quant.zero_point) * quant.scale if quant else value


# A clamp behind an op of the same scale becomes the op's own activation.

_FUSING = (*LAYERS, *BINARY)
_CLAMPS = {
    (0.0, inf): Activation.RELU,
    (0.0, 6.0): Activation.RELU6,
    (-1.0, 1.0): Activation.RELU_N1_TO_1,
}


class FuseActivation(Struct, frozen=True):
    name: str = "fuse-activation"

    def run(self, graph: Graph, machine: Machine) -> bool:
        edits = Edits(graph)
        pairs = [(op, clip) for op in graph.ops if (clip := _fusable(edits, op))]
        for op, clip in pairs:
            attrs = replace(op.attrs, activation=_fused_clamp(clip))  # type: ignore[call-arg]
            fused = op.replace(attrs=attrs, outputs=clip.outputs, origin=(*op.origin, *clip.origin))
            edits.replace(op, fused)
            edits.remove(clip)
        return edits.finish()


def _fusable(edits: Edits, op: Op) -> Op | None:
    """The clamp that is the only reader and keeps the scale (else it would round twice)."""
    if op.kind not in _FUSING or getattr(op.attrs, "activation", None) is not Activation.NONE:
        return None
    clip = edits.only_reader(op.outputs[0])
    if clip is None or clip.kind != "Clip" or _fused_clamp(clip) is None:
        return None
    before, after = edits.graph.output_tensor(op), edits.graph.output_tensor(clip)
    return clip if (before.quant, before.dtype) == (after.quant, after.dtype) else None


def _fused_clamp(clip: Op) -> Activation | None:
    attrs = cast(ClipAttrs, clip.attrs)
    return _CLAMPS.get((attrs.low, attrs.high))
