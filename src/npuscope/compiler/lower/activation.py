"""Functions of one tensor on the ACTIV unit: sigmoid, tanh, hard and leaky kinds and the like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuscope.compiler.function_table import fit_function
from npuscope.compiler.lower.context import Context
from npuscope.compiler.stages import ActivStage
from npuscope.graph.model import Graph, Op, Tensor
from npuscope.ops.run import run

Array = np.ndarray


def lower_function(context: Context, op: Op) -> None:
    """One byte in, one byte out: a table made by the reference kernel itself."""
    source = context.operand(op.inputs[0], op.origin)
    output = context.new_value(context.graph.output_tensor(op)).named(
        op.outputs[0], shape=source.shape
    )
    table = fit_function(all_outputs(context.graph, op))
    stage = ActivStage(op.name, op.kind, (source,), output, op.origin, table=table)
    context.define(op.outputs[0], context.emit(stage))


def resized(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return replace(tensor, shape=shape, source_shape=None)


def all_outputs(graph: Graph, op: Op) -> Array:
    """What the op makes of every byte, -128 first."""
    source, target = graph.first_input(op), graph.output_tensor(op)
    shape = (*(1 for _ in source.shape[1:]), 256)
    others = [graph.tensor(name) for name in op.inputs[1:] if name]
    tensors = [resized(source, shape), resized(target, shape), *others]
    alone = Graph(op.name, tensors, [op], (source.name,), (target.name,), graph.numerics)
    values = np.arange(-128, 128, dtype=np.int8).reshape(shape)
    return run(alone, {source.name: values})[target.name].reshape(-1)
