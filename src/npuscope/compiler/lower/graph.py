"""Lowering of a whole graph: ops in order, each by its row in machine/npu_ops."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from npuscope.compiler.lower.context import Lowering, tensor_value
from npuscope.compiler.lower.functions import swishes
from npuscope.compiler.lower.software import fall_back, lower_software
from npuscope.compiler.stages import CopyStage, Lowered, Value
from npuscope.graph.model import Graph, Numerics, Op
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import support
from npuscope.ops.row import named
from npuscope.rulebook import refusals
from npuscope.structs import replace

# Ops that these refuse may still run partly on the NPU: their lowering decides.
_DECIDED_BY_LOWERING = (
    "NA-RESIZE-MODE",
    "NA-RESIZE-HYBRID",
    "NA-CONCAT-AXIS",
    "NA-CONV-COLUMNS",
    "NA-CONV-DILATED",
    "NA-PAD-CHANNEL",
)


def lower_graph(graph: Graph, machine: Machine, optimization: int) -> Lowered:
    """Stages for every op; an op without a row runs as a software kernel."""
    context = Lowering(graph, machine, optimization, graph.consumers())
    context.swishes = swishes(context)
    context.swished.update(op.outputs[0] for op in context.swishes.values())
    for name in graph.inputs:
        context.define(name, tensor_value(graph.tensor(name)))
    for op in graph.ops:
        # By the op's row if no rule refuses it, else as software with the reasons.
        trail = refusals(context.graph, op, context.machine)
        if any(refused.rule not in _DECIDED_BY_LOWERING for refused in trail):
            fall_back(context, op, trail)
        else:
            _lowering(op.kind)(context, op)
    products = [op for op in graph.ops if _is_bare_product(graph, op)]
    held = sum(graph.tensor(op.inputs[1]).elements for op in products)
    if held > _MANY_WEIGHTS * sum(t.elements for t in graph.tensors.values() if t.is_constant):
        count = len(products)
        graph.notes.append(_BARE_PRODUCTS.format(count, "" if count == 1 else "s"))
    context.result.inputs = [context.value(name) for name in graph.inputs]
    context.result.outputs = [_output(context, name) for name in graph.outputs]
    return context.result


# A speech enhancer of eight of them, two GRUs among them: 22.94 ms at 4.0.1 instead of about 8, 44
# epochs instead of 25, and 1.5 MB of activations for vectors of 1,200 values [board].
_MANY_WEIGHTS = 0.25  # of the network: the head of a classifier is not concerned
_BARE_PRODUCTS = (
    "{} MatMul{} with constant weights and no bias of its own: the one network of such layers that "
    "a board ran took three times as long as predicted here, half of it on the CPU; a Gemm with a "
    "bias is not concerned"
)


def _is_bare_product(graph: Graph, op: Op) -> bool:
    """A layer that an ONNX file states as a MatMul of one vector."""
    if op.kind != "FullyConnected" or graph.numerics is not Numerics.QDQ:
        return False
    bias = op.inputs[2] if len(op.inputs) > 2 else ""
    return not bias and graph.output_tensor(op).elements == graph.output_tensor(op).shape[-1]


def _output(context: Lowering, name: str) -> Value:
    """A graph output lies by itself, under its own name."""
    if context.graph.tensor(name).is_constant:
        # A constant is copied to where outputs lie [code: two detectors whose anchors are an
        # output, 2.0 to 2.2]. Engines move words of 16 bits at most.
        tensor = context.graph.tensor(name)
        output, value = tensor_value(tensor), context.constant(f"{name}.constant", tensor)
        height, width, channels = value.shape
        words = max(1, value.nbits // 16)
        nbits = value.nbits // words
        source = replace(
            value, shape=(height, width, words * channels), nbits=nbits, is_float=False
        )
        moved = source.named(f"{name}.words", tensor="", quant=None)
        stage = CopyStage(f"{name}.copy", "Identity", (source,), moved)
        context.result.views[output.name] = context.emit(stage)
        return output
    context.define(name, context.gathered(context.value(name), ()))
    return context.operand(name)


@cache
def _lowering(kind: str) -> Callable[[Lowering, Op], None]:
    name = support(kind).lowering
    return named(__package__, name) if name else lower_software
