"""Ops that stay on the host CPU: one kernel call, with the reasons why."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum

from npuscope.compiler.lower.context import Context
from npuscope.compiler.stages import CallStage
from npuscope.graph.attrs import Attrs
from npuscope.graph.model import Numerics, Op
from npuscope.program.model import Call, Refused

# Names under which the vendor's reports list the same kernels.
_OPERATORS = {
    "Quantize": "QuantizeLinear",
    "Dequantize": "DequantizeLinear",
    "Mean": "GlobalAveragePool",
    "Conv2D": "Conv",
    "FullyConnected": "Gemm",
}


def fall_back(context: Context, op: Op, trail: tuple[Refused, ...]) -> None:
    """Run the op as a software kernel and keep why it is not on the NPU."""
    sources = [context.operand(name, op.origin) for name in op.inputs if name in context.values]
    output = context.new_value(context.graph.output_tensor(op))
    stage = CallStage(
        op.name,
        _OPERATORS.get(op.kind, op.kind),
        tuple(sources),
        output,
        op.origin,
        trail,
        call=Call(op.kind, op.inputs, op.outputs, _arguments(context.graph.numerics, op.attrs)),
    )
    context.emit(stage)
    context.define(op.outputs[0], output)


def _arguments(
    numerics: Numerics, attrs: Attrs
) -> tuple[tuple[str, float | int | str | tuple[int, ...]], ...]:
    """The attribute record as named arguments, enums by value; and whose rounding to follow."""
    pairs = ((f.name, getattr(attrs, f.name)) for f in fields(attrs))
    named = tuple((name, v.value if isinstance(v, Enum) else v) for name, v in pairs)
    return (*named, ("numerics", numerics.value))


def lower_software(context: Context, op: Op) -> None:
    """Ops that no unit of the NPU computes."""
    why = Refused("NPU", "NA-OP-SOFTWARE", f"{op.kind} has no NPU lowering: it runs on the CPU")
    fall_back(context, op, (why,))
