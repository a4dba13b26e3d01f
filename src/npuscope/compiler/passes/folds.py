"""Batch norms folded into convolutions, ops that move nothing, padding that an op takes over, and
Split as slices."""

from __future__ import annotations

from itertools import accumulate
from typing import cast

import numpy as np
from msgspec import Struct

from npuscope.compiler.passes.base import Edits
from npuscope.graph.model import Activation, DType, Graph, Op, Quant, Tensor
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import LAYERS
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.moves import PadAttrs, SliceAttrs, SplitAttrs, TransposeAttrs
from npuscope.ops.norms import BatchNormAttrs
from npuscope.structs import replace

# --- Batch normalisation: part of the convolution before it, or a product and a sum ---


Array = np.ndarray


class FoldBatchNorm(Struct, frozen=True):
    name: str = "fold-batch-norm"

    def run(self, graph: Graph, machine: Machine) -> bool:
        edits = Edits(graph)
        pairs = [(op, norm) for op in graph.ops if (norm := _foldable(edits, op))]
        for op, norm in pairs:  # y = gain * (conv + b) + offset
            gain, offset = gain_and_offset(graph, norm)
            weights = graph.tensor(op.inputs[1])
            scaled = _scaled(weights, gain)
            if edits.only_reader(weights.name) is None:  # another layer has the same kernel
                scaled = replace(scaled, name=graph.fresh_name(weights.name))
            graph.tensors[scaled.name] = scaled
            before = _real(graph, op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else 0.0
            data = (before * gain + offset).astype(np.float32)
            bias = graph.add(
                Tensor(graph.fresh_name(f"{norm.name}.bias"), data.shape, DType.FLOAT32, data=data)
            )
            folded = op.replace(
                inputs=(op.inputs[0], scaled.name, bias.name),
                outputs=norm.outputs,
                attrs=replace(op.attrs, activation=cast(BatchNormAttrs, norm.attrs).activation),  # type: ignore[call-arg]
                origin=(*op.origin, *norm.origin),
            )
            edits.replace(op, folded)
            edits.remove(norm)
        return edits.finish()


def _foldable(edits: Edits, op: Op) -> Op | None:
    """The normalisation that follows a convolution with constant weights directly."""
    graph = edits.graph
    if op.kind not in LAYERS or not graph.tensor(op.inputs[1]).is_constant:
        return None
    reader = edits.only_reader(op.outputs[0])
    clamps = getattr(op.attrs, "activation", Activation.NONE) is not Activation.NONE
    if reader is None or reader.kind != "BatchNorm" or clamps:
        return None
    # Integers between the two saturate; of one layer nothing would.
    if graph.output_tensor(op).quant is not None:
        return None
    # -(-128) does not fit int8, so such a kernel cannot change its sign, nor one with a zero point.
    weights, gain = graph.tensor(op.inputs[1]), gain_and_offset(graph, reader)[0]
    turned = np.asarray(weights.data)[gain < 0]
    if weights.quant is None or not len(turned):
        return reader
    signed = weights.dtype is not DType.UINT8 and not any(weights.quant.zero_points)
    return reader if signed and not (turned == -128).any() else None


def _scaled(weights: Tensor, gain: Array) -> Tensor:
    """The gain goes into the scales where there are some: nothing is rounded again."""
    assert weights.data is not None
    along = (-1, *[1] * (len(weights.shape) - 1))
    if weights.quant is None:
        return replace(weights, data=weights.data * gain.reshape(along).astype(np.float32))
    scales = np.asarray(np.array(weights.quant.scales) * np.abs(gain), np.float32)
    zeros = np.resize(weights.quant.zero_points, len(scales)).tolist()
    quant = Quant(tuple(float(s) for s in scales), tuple(zeros), 0)
    signs = np.sign(gain).astype(weights.data.dtype).reshape(along)
    return replace(weights, data=weights.data * signs, quant=quant)


def gain_and_offset(graph: Graph, norm: Op) -> tuple[Array, Array]:
    """y = gain * x + offset, in real numbers per channel."""
    scale, offset, mean, variance = (_real(graph, name) for name in norm.inputs[1:5])
    gain = scale / np.sqrt(variance + cast(BatchNormAttrs, norm.attrs).epsilon)
    return gain, offset - mean * gain


def _real(graph: Graph, name: str) -> Array:
    tensor = graph.tensor(name)
    assert tensor.data is not None
    if tensor.quant is None:
        return tensor.data.astype(np.float64)
    steps = tensor.data - np.array(tensor.quant.zero_points, np.float64)
    return np.asarray(steps * np.array(tensor.quant.scales), np.float64)


# A float batch normalisation that no convolution can absorb becomes a product and a sum.


class SplitBatchNorm(Struct, frozen=True):
    name: str = "split-batch-norm"

    def run(self, graph: Graph, machine: Machine) -> bool:
        ops: list[Op] = []
        for op in graph.ops:
            if op.kind != "BatchNorm" or graph.first_input(op).dtype is not DType.FLOAT32:
                ops.append(op)
                continue
            gain, offset = gain_and_offset(graph, op)
            output = graph.output_tensor(op)
            product = graph.add(replace(output, name=graph.fresh_name(f"{op.name}.product")))
            factor = _constant(graph, op, "gain", gain)
            term = _constant(graph, op, "offset", offset)
            clamp = BinaryAttrs(op.attrs_as(BatchNormAttrs).activation)
            sources, result = (op.inputs[0], factor.name), (product.name,)
            ops.append(Op("Mul", f"{op.name}.mul", sources, result, BinaryAttrs(), op.origin))
            ops.append(Op("Add", op.name, (*result, term.name), op.outputs, clamp, op.origin))
        changed = len(ops) != len(graph.ops)
        graph.ops = ops
        return changed


def _constant(graph: Graph, op: Op, role: str, values: Array) -> Tensor:
    data = values.astype(np.float32)
    name = graph.fresh_name(f"{op.name}.{role}")
    return graph.add(Tensor(name, data.shape, DType.FLOAT32, data=data))


# --- Zero padding before a convolution or max pool becomes the op's own padding ---


class AbsorbPad(Struct, frozen=True):
    name: str = "absorb-pad"

    def run(self, graph: Graph, machine: Machine) -> bool:
        edits = Edits(graph)
        pairs = [(op, conv) for op in graph.ops if (conv := _absorber(edits, op))]
        for pad, conv in pairs:
            (top, bottom), (left, right) = cast(PadAttrs, pad.attrs).pads[1:3]
            attrs = cast(ConvAttrs, conv.attrs)
            total = tuple(
                own + extra
                for own, extra in zip(attrs.pads, (top, left, bottom, right), strict=True)
            )
            inputs = (pad.inputs[0], *conv.inputs[1:])
            wider = replace(attrs, pads=cast(tuple[int, int, int, int], total))
            origin = (*pad.origin, *conv.origin)
            edits.replace(conv, conv.replace(inputs=inputs, attrs=wider, origin=origin))
            edits.remove(pad)
        return edits.finish()


def _absorber(edits: Edits, op: Op) -> Op | None:
    """The convolution that is the only reader of a spatial zero padding."""
    if op.kind != "Pad":
        return None
    attrs = cast(PadAttrs, op.attrs)
    spatial = len(attrs.pads) == 4 and attrs.pads[0] == attrs.pads[3] == (0, 0)
    reader = edits.only_reader(op.outputs[0])
    if reader is None or not spatial or attrs.value != 0.0:
        return None
    graph = edits.graph
    same = graph.first_input(op).quant == graph.output_tensor(op).quant
    padded = reader.kind == "Conv2D" and reader.inputs[0] == op.outputs[0]
    return reader if padded and same else None


# --- Ops that move nothing: Identity, reshapes to the same shape, transposes that cancel ---


class RemoveMoves(Struct, frozen=True):
    name: str = "remove-moves"

    def run(self, graph: Graph, machine: Machine) -> bool:
        edits, outputs = Edits(graph), set(graph.outputs)
        makers = {name: edits.place(op) for op in graph.ops for name in op.outputs}
        place = 0
        while place < len(edits.slots):
            op = edits.slots[place]
            if (
                op is not None
                and op.outputs[0] not in outputs
                and any(way(edits, op) for way in (_drop_idle, _merge_reshape, _cancel_transpose))
            ):
                # one removal may bring together a pair that the next removes
                place = min(place, makers.get(op.inputs[0], place))
            else:
                place += 1
        return edits.finish()


def _drop_idle(edits: Edits, op: Op) -> bool:
    graph = edits.graph
    source, target = graph.first_input(op), graph.output_tensor(op)
    idle = op.kind == "Identity" or (op.kind == "Reshape" and source.shape == target.shape)
    same = (source.quant, source.dtype) == (target.quant, target.dtype)
    if idle and same and not source.is_constant:
        edits.bypass(op)
        return True
    return False


def _merge_reshape(edits: Edits, op: Op) -> bool:
    """Of two reshapes in a row only the last one counts."""
    graph, reader = edits.graph, edits.only_reader(op.outputs[0])
    if op.kind != "Reshape" or reader is None or reader.kind != "Reshape":
        return False
    if graph.first_input(op).quant != graph.output_tensor(op).quant:
        return False
    origin = (*op.origin, *reader.origin)
    edits.replace(reader, reader.replace(inputs=op.inputs, origin=origin))
    edits.remove(op)
    return True


def _cancel_transpose(edits: Edits, op: Op) -> bool:
    """A transpose followed by its inverse is removed."""
    graph, reader = edits.graph, edits.only_reader(op.outputs[0])
    if op.kind != "Transpose" or reader is None or reader.kind != "Transpose":
        return False
    if reader.outputs[0] in graph.outputs:
        return False
    first = cast(TransposeAttrs, op.attrs).permutation
    second = cast(TransposeAttrs, reader.attrs).permutation
    if tuple(first[axis] for axis in second) != tuple(range(len(first))):
        return False
    tensors = graph.first_input(op), graph.output_tensor(op), graph.output_tensor(reader)
    if len({tensor.quant for tensor in tensors}) > 1:
        return False
    edits.bypass(reader)
    edits.bypass(op)
    return True


# --- Split becomes one Slice per output, each mapped separately ---


class SplitToSlices(Struct, frozen=True):
    name: str = "split-to-slices"

    def run(self, graph: Graph, machine: Machine) -> bool:
        ops: list[Op] = []
        for op in graph.ops:
            if op.kind != "Split":
                ops.append(op)
                continue
            split = op.attrs_as(SplitAttrs)
            for name, first in zip(op.outputs, accumulate(split.sizes, initial=0), strict=False):
                shape = graph.tensor(name).shape
                starts = tuple(first if axis == split.axis else 0 for axis in range(len(shape)))
                attrs = SliceAttrs(starts, shape, (1,) * len(shape))
                title, sources = f"{op.name}.{name}", op.inputs[:1]
                ops.append(Op("Slice", title, sources, (name,), attrs, op.origin))
        changed = len(ops) != len(graph.ops)
        graph.ops = ops
        return changed
