"""A batch normalisation in float, which no convolution takes up: a product and a sum."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npuscope.compiler.passes.fold_batch_norm import gain_and_offset
from npuscope.graph.model import DType, Graph, Op, Tensor
from npuscope.machine.model import Machine
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.norms import BatchNormAttrs

Array = np.ndarray


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
