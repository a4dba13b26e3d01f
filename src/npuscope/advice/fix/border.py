"""What an edit changes for the application: inputs and outputs of another type or scale."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.graph.model import Graph, Tensor


def border_notes(before: Graph, after: Graph) -> tuple[str, ...]:
    """A sentence for every input and output that is no longer what it was."""
    same_count = len(before.inputs) == len(after.inputs)
    inputs = list(zip(before.inputs, after.inputs, strict=True)) if same_count else []
    outputs = [(name, name) for name in after.outputs if name in before.outputs]
    return (*_changes("input", before, after, inputs), *_changes("output", before, after, outputs))


def _changes(side: str, before: Graph, after: Graph, names: list[tuple[str, str]]) -> Iterator[str]:
    for old, new in names:
        was, now = before.tensor(old), after.tensor(new)
        if (was.dtype, was.quant) != (now.dtype, now.quant):
            yield f"{side} {new} is {_told(now)} now, was {_told(was)}"


def _told(tensor: Tensor) -> str:
    quant = tensor.quant
    if quant is None or quant.per_channel:
        return tensor.dtype.value
    return f"{tensor.dtype.value} (scale {quant.scale:.6g}, zero point {quant.zero_point})"
