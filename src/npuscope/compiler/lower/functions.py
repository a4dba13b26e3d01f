"""Functions of one tensor on the ACTIV unit: sigmoid, tanh, hard and leaky variants."""

from __future__ import annotations

import numpy as np

from npuscope.compiler.function_table import FunctionTable, fit_function
from npuscope.compiler.lower.context import Lowering
from npuscope.compiler.lower.software import fall_back
from npuscope.compiler.stages import ActivStage
from npuscope.graph.model import Graph, Op
from npuscope.program.model import Refused, evidence
from npuscope.rulebook.queries import is_npu_tensor

Array = np.ndarray
_BYTES = np.arange(-128, 128, dtype=np.int8)


def lower_function(context: Lowering, op: Op) -> None:
    """One byte in, one byte out: a table made by the reference kernel itself."""
    if op.outputs[0] in context.swished:
        return
    table = fit_function(all_outputs(context.graph, [op]))
    if table is None:
        why = evidence(_TOO_STEEP, op=op.kind)
        fall_back(context, op, (Refused("NPU", "NA-OP-SOFTWARE", found=why),))
    else:
        _function(context, op.kind, [op], table)


_TOO_STEEP = "its values change too fast for the table of the ACTIV unit: it runs on the CPU"


def _function(context: Lowering, kind: str, ops: list[Op], table: FunctionTable) -> None:
    """The table of one op, or of several in a row."""
    last, origin = ops[-1], tuple(name for op in ops for name in op.origin)
    source = context.operand(ops[0].inputs[0], origin)
    output = context.new_value(context.graph.output_tensor(last)).named(
        last.outputs[0], shape=source.shape
    )
    stage = ActivStage(last.name, kind, (source,), output, origin, table=table)
    context.define(last.outputs[0], context.emit(stage))


def lower_swish(context: Lowering, product: Op, sigmoid: Op) -> bool:
    """x * sigmoid(x) depends on x alone; False if the sigmoid had to be computed for itself."""
    table = fit_function(all_outputs(context.graph, [sigmoid, product]))
    if table is not None:
        _function(context, "Swish", [sigmoid, product], table)
        return True
    context.swished.remove(sigmoid.outputs[0])
    lower_function(context, sigmoid)
    return False


def swishes(context: Lowering) -> dict[str, Op]:
    """Products of a tensor and its own sigmoid, by their output, with the sigmoid."""
    graph = context.graph
    if context.machine.generation.fuses_swish not in ("all", graph.numerics.value):
        return {}
    products: dict[str, Op] = {}
    for op in graph.ops:
        after = context.readers.get(op.outputs[0], [])
        if op.kind != "Sigmoid" or len(after) != 1 or op.outputs[0] in graph.outputs:
            continue
        product, both = after[0], {op.inputs[0], op.outputs[0]}
        names = (*product.inputs, *product.outputs)
        in_bytes = all(is_npu_tensor(graph.tensor(name)) for name in names)
        if product.kind == "Mul" and set(product.inputs) == both and in_bytes:
            products[product.outputs[0]] = op
    return products


def all_outputs(graph: Graph, ops: list[Op]) -> Array:
    """What ops in a row make of every byte, -128 first."""
    source = graph.first_input(ops[0])
    values = _BYTES.reshape(*(1 for _ in source.shape[1:]), 256)
    from npuscope.ops.run import run_some

    return run_some(graph, ops, {source.name: values})[ops[-1].outputs[0]].reshape(-1)
