"""A Graph as readable text: one op per line, one tensor per line."""

from __future__ import annotations

from enum import Enum

from msgspec.structs import fields

from npuscope.graph.model import Attrs, Graph, Op, Quant, Tensor
from npuscope.text import safe_terminal


def text(graph: Graph) -> str:
    """The whole graph; equal graphs with equal names give equal text."""
    lines = [f"graph {_name(graph.name)} ({graph.numerics.value})"]
    lines += [f"  note {safe_terminal(note)}" for note in graph.notes]
    lines += [f"  input {tensor_text(graph.tensor(name))}" for name in graph.inputs]
    lines += [f"  output {tensor_text(graph.tensor(name))}" for name in graph.outputs]
    lines += [
        f"  constant {tensor_text(tensor)}"
        for tensor in graph.tensors.values()
        if tensor.is_constant
    ]
    lines += [f"  {op_text(graph, op)}" for op in graph.ops]
    return "\n".join(lines) + "\n"


def op_text(graph: Graph, op: Op) -> str:
    """output = Kind(inputs) {attributes} from origin."""
    outputs = ", ".join(tensor_text(graph.tensor(name)) for name in op.outputs)
    inputs = ", ".join(_name(name) if name else "-" for name in op.inputs)
    attrs = attrs_text(op.attrs)
    origin = ", ".join(safe_terminal(source) for source in op.origin)
    return (
        f"{outputs} = {op.kind}({inputs})"
        + (f" {{{attrs}}}" if attrs else "")
        + (f" from {origin}" if origin else "")
    )


def tensor_text(tensor: Tensor) -> str:
    """name type[shape] quantization."""
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    quant = f" {quant_text(tensor.quant)}" if tensor.quant else ""
    return f"{_name(tensor.name)} {tensor.dtype.value}[{shape}]{quant}"


def quant_text(quant: Quant) -> str:
    """q(scale, zero point), or the number of scales and their range along an axis."""
    if quant.axis is None:
        return f"q({quant.scale:.8g}, {quant.zero_point})"
    zeros = sorted(set(quant.zero_points))
    points = str(zeros[0]) if len(zeros) == 1 else f"{zeros[0]}..{zeros[-1]}"
    low, high = min(quant.scales), max(quant.scales)
    return f"q({len(quant.scales)} scales {low:.8g}..{high:.8g}, {points}, axis {quant.axis})"


def attrs_text(attrs: Attrs) -> str:
    """Attributes that differ from the record's defaults."""
    parts = []
    for field in fields(attrs):
        value = getattr(attrs, field.name)
        if value != field.default:
            parts.append(f"{field.name}={_value(value)}")
    return ", ".join(parts)


def _value(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "(" + ",".join(_value(item) for item in value) + ")"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _name(name: str) -> str:
    return f"'{safe_terminal(name)}'"
