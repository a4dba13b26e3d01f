"""Batch normalisation: part of the convolution before it, or a product and a sum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from npuscope.compiler.passes.base import Edits
from npuscope.graph.model import Activation, DType, Graph, Op, Quant, Tensor
from npuscope.machine.model import Machine
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.norms import BatchNormAttrs

# Batch normalisation behind a convolution becomes part of its scales and bias.

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class FoldBatchNorm:
    name: str = "fold-batch-norm"

    def run(self, graph: Graph, machine: Machine) -> bool:
        edits = Edits(graph)
        pairs = [(op, norm) for op in graph.ops if (norm := _foldable(edits, op))]
        for op, norm in pairs:
            _fold(edits, op, norm)
        return edits.finish()


def _foldable(edits: Edits, op: Op) -> Op | None:
    """The normalisation that follows a convolution with constant weights directly."""
    graph = edits.graph
    if op.kind not in ("Conv2D", "FullyConnected") or not graph.tensor(op.inputs[1]).is_constant:
        return None
    reader = edits.only_reader(op.outputs[0])
    clamps = getattr(op.attrs, "activation", Activation.NONE) is not Activation.NONE
    if reader is None or reader.kind != "BatchNorm" or clamps:
        return None
    # -128 has no opposite among the bytes: such a kernel cannot change its sign.
    weights, gain = graph.tensor(op.inputs[1]), gain_and_offset(graph, reader)[0]
    turned = np.asarray(weights.data)[gain < 0]
    return None if weights.quant is not None and (turned == -128).any() else reader


def _fold(edits: Edits, op: Op, norm: Op) -> None:
    """y = gain * (conv + b) + offset."""
    graph = edits.graph
    gain, offset = gain_and_offset(graph, norm)
    weights = graph.tensor(op.inputs[1])
    graph.tensors[weights.name] = _scaled(weights, gain)
    bias = graph.add(_bias(graph, op, norm, gain, offset))
    folded = op.replace(
        inputs=(*op.inputs[:2], bias.name),
        outputs=norm.outputs,
        attrs=replace(op.attrs, activation=cast(BatchNormAttrs, norm.attrs).activation),  # type: ignore[call-arg]
        origin=(*op.origin, *norm.origin),
    )
    edits.replace(op, folded)
    edits.remove(norm)


def _scaled(weights: Tensor, gain: Array) -> Tensor:
    """The gain goes into the scales where there are some: nothing is rounded again."""
    assert weights.data is not None
    along = (-1, *[1] * (len(weights.shape) - 1))
    if weights.quant is None:
        return replace(weights, data=weights.data * gain.reshape(along).astype(np.float32))
    scales = np.asarray(np.array(weights.quant.scales) * np.abs(gain), np.float32)
    quant = Quant(tuple(float(s) for s in scales), (0,) * len(scales), 0)
    signs = np.sign(gain).astype(np.int8).reshape(along)
    return replace(weights, data=weights.data * signs, quant=quant)


def gain_and_offset(graph: Graph, norm: Op) -> tuple[Array, Array]:
    """y = gain * x + offset, in real numbers per channel."""
    scale, offset, mean, variance = (_real(graph, name) for name in norm.inputs[1:5])
    gain = scale / np.sqrt(variance + cast(BatchNormAttrs, norm.attrs).epsilon)
    return gain, offset - mean * gain


def _bias(graph: Graph, op: Op, norm: Op, gain: Array, offset: Array) -> Tensor:
    before = _real(graph, op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else 0.0
    data = (before * gain + offset).astype(np.float32)
    return Tensor(graph.fresh_name(f"{norm.name}.bias"), data.shape, DType.FLOAT32, data=data)


def _real(graph: Graph, name: str) -> Array:
    tensor = graph.tensor(name)
    assert tensor.data is not None
    if tensor.quant is None:
        return tensor.data.astype(np.float64)
    return np.asarray(tensor.data * np.array(tensor.quant.scales), np.float64)


# A batch normalisation in float, which no convolution takes up: a product and a sum.


@dataclass(frozen=True, slots=True)
class SplitBatchNorm:
    name: str = "split-batch-norm"

    def run(self, graph: Graph, machine: Machine) -> bool:
        before = graph.ops
        graph.ops = [part for op in before for part in _parts(graph, op)]
        return len(graph.ops) != len(before)


def _parts(graph: Graph, op: Op) -> list[Op]:
    if op.kind != "BatchNorm" or graph.first_input(op).dtype is not DType.FLOAT32:
        return [op]
    gain, offset = gain_and_offset(graph, op)
    output = graph.output_tensor(op)
    product = graph.add(replace(output, name=graph.fresh_name(f"{op.name}.product")))
    factor, term = _constant(graph, op, "gain", gain), _constant(graph, op, "offset", offset)
    activation = BinaryAttrs(op.attrs_as(BatchNormAttrs).activation)
    scaled = Op(
        "Mul",
        f"{op.name}.mul",
        (op.inputs[0], factor.name),
        (product.name,),
        BinaryAttrs(),
        op.origin,
    )
    moved = Op("Add", op.name, (product.name, term.name), op.outputs, activation, op.origin)
    return [scaled, moved]


def _constant(graph: Graph, op: Op, role: str, values: Array) -> Tensor:
    data = values.astype(np.float32)
    name = graph.fresh_name(f"{op.name}.{role}")
    return graph.add(Tensor(name, data.shape, DType.FLOAT32, data=data))
